//! What applies in the end, and where each value came from (spec C-4).

use std::fmt;

use super::error::Origin;

/// Every key with the value that applies, in the order in which they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effective {
    /// The file, as it was named.
    pub file: String,
    /// The keys.
    pub settings: Vec<Setting>,
}

/// A key with the value that applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The section's path, as `profiles.default`.
    pub section: String,
    /// The key in it; an entry of a table is a dotted one, as `env.LANG`.
    pub key: String,
    /// The value as TOML; `None`: not set, and there is no default.
    pub value: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

impl Setting {
    fn is_default(&self) -> bool {
        matches!(self.origin, Origin::Default | Origin::Follows { .. })
    }
}

impl Effective {
    /// Stands for a value that is a secret.
    pub(super) const HIDDEN: &'static str = "\"(hidden)\"";

    /// Puts a value that follows from other keys in the place of a default.
    pub(super) fn follow(&mut self, section: &str, key: &str, value: String, from: &'static str) {
        let setting = |s: &&mut Setting| s.section == section && s.key == key;
        if let Some(setting) = self.settings.iter_mut().find(setting) {
            setting.value = Some(value);
            setting.origin = Origin::Follows { from };
        }
    }

    fn origin(&self, origin: &Origin) -> String {
        match origin {
            Origin::File { line, .. } => format!("{}:{line}", self.file),
            Origin::Override { name, .. } => name.clone(),
            Origin::Follows { from } => format!("default, raised for {from}"),
            Origin::Default => "default".to_owned(),
        }
    }
}

impl fmt::Display for Effective {
    /// As a TOML file that says the same, with each value's origin in a comment beside it. As in the annotated files, a
    /// key that begins with `#` and no blank is left out and shows its default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sections: Vec<&str> = Vec::new();
        for setting in &self.settings {
            if !sections.contains(&&*setting.section) {
                sections.push(&setting.section);
            }
        }
        for (n, section) in sections.into_iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            match section.split_once('[') {
                Some((list, _)) => writeln!(f, "[[{list}]]")?,
                None => writeln!(f, "[{section}]")?,
            }
            let lines: Vec<(String, &Setting)> = (self.settings.iter())
                .filter(|setting| setting.section == section)
                .map(|setting| (line(setting), setting))
                .collect();
            let width = lines.iter().map(|(line, _)| line.chars().count());
            let width = width.max().unwrap_or(0).min(WIDEST);
            for (line, setting) in lines {
                // What is not set has no origin worth a word.
                if setting.value.is_none() {
                    writeln!(f, "{line}")?;
                } else {
                    writeln!(f, "{line:width$}  # {}", self.origin(&setting.origin))?;
                }
            }
        }
        Ok(())
    }
}

/// Beyond this a long value does not push the others' origins aside.
const WIDEST: usize = 48;

fn line(setting: &Setting) -> String {
    match &setting.value {
        Some(value) => {
            let mark = if setting.is_default() { "#" } else { "" };
            format!("{mark}{} = {value}", setting.key)
        }
        None => format!("# {} is not set", setting.key),
    }
}

/// Whether what a key holds looks like a secret: then it is not shown, and not taken from the command line, which everyone
/// on the machine can read (spec C-3, C-4). Only environment variables and properties have names of the user's own
/// choosing; boatswain's own keys hold no secrets, but at most the names of such.
pub(crate) fn is_secret(path: &str) -> bool {
    let tables = ["env", "properties"];
    // All of them at once, where they are not written as they have to be.
    if tables
        .iter()
        .any(|table| path.ends_with(&format!(".{table}")))
    {
        return true;
    }
    let name = |table: &&str| {
        let after = |at: usize| &path[at + table.len() + 2..];
        let inner = path.find(&format!(".{table}.")).map(after);
        inner.or_else(|| path.strip_prefix(table)?.strip_prefix('.'))
    };
    let Some(name) = tables.iter().find_map(name) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    let words = [
        "secret",
        "password",
        "passwd",
        "passphrase",
        "token",
        "credential",
    ];
    let keys = ["api", "access", "private", "account"];
    let key_of = |of: &&str| {
        ["_", "-", ".", ""]
            .iter()
            .any(|sep| name.contains(&format!("{of}{sep}key")))
    };
    words.iter().any(|word| name.contains(word)) || keys.iter().any(key_of)
}
