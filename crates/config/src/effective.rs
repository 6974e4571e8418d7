//! The effective configuration: every key with its value and the value's origin (spec C-4).

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::error::Origin;

/// All keys with their effective values, in the order in which they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effective {
    /// The path of the file, as the user gave it.
    pub file: String,
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The section's path, such as `profiles.default`.
    pub section: String,
    /// The key in the section; for an entry of a table a dotted key, such as `env.LANG`.
    pub key: String,
    /// The value as TOML. `None`: not set, and there is no default.
    pub value: Option<String>,
    pub origin: Origin,
    /// Of the value, also if it is not shown: shows that it has changed.
    pub(super) fingerprint: u64,
}

pub(super) fn fingerprint(value: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Setting {
    /// Whether the value, or an item of it, is a secret and so is not shown.
    pub fn is_hidden(&self) -> bool {
        let value = self.value.as_deref();
        value.is_some_and(|value| value.contains(Effective::HIDDEN))
    }

    pub(super) fn is_default(&self) -> bool {
        matches!(self.origin, Origin::Default | Origin::Follows { .. })
    }
}

impl Effective {
    /// Printed in place of a secret value.
    pub(super) const HIDDEN: &'static str = "\"(hidden)\"";

    /// Replaces a default by a value that is derived from another key.
    pub(super) fn follow(&mut self, section: &str, key: &str, value: String, from: &'static str) {
        let setting = |s: &&mut Setting| s.section == section && s.key == key;
        if let Some(setting) = self.settings.iter_mut().find(setting) {
            setting.fingerprint = fingerprint(Some(&value));
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
    /// Prints a TOML file with the same settings, with each value's origin in a comment. As in the
    /// annotated files, a key commented out with `#` and no space is not set and shows its default.
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
                // An unset key has no origin.
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

/// The width up to which the comments are aligned, so that one long value does not push all of them
/// to the right.
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

/// Whether the key may hold a secret, by its name. Such a value is not printed, and not accepted on the command
/// line, which every user of the machine can read (spec C-10, C-4). Only entries of `env` and
/// `properties` have names of the user's choosing; boatswain's own keys hold at most the names of
/// secrets.
pub fn is_secret(path: &str) -> bool {
    let tables = ["env", "properties"];
    // The table itself counts too, in case it was not written as a table.
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
    is_secret_name(name)
}

/// Whether something with this name is usually a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "secret",
        "password",
        "passwd",
        "passphrase",
        "token",
        "credential",
    ];
    // These are parts of other words, so they have to stand alone, as in DB_PASS.
    let whole_words = ["pass", "pwd", "pat", "dsn"];
    let keys = ["api", "access", "private", "account"];
    let key_of = |of: &&str| {
        ["_", "-", ".", ""]
            .iter()
            .any(|sep| name.contains(&format!("{of}{sep}key")))
    };
    let mut parts = name.split(['_', '-', '.']);
    words.iter().any(|word| name.contains(word))
        || keys.iter().any(key_of)
        || parts.any(|part| whole_words.contains(&part))
}

/// Whether a text contains a secret, whatever its key: a URL with a password, or an option or assignment with the name
/// of a secret, such as `--password=…`. A reference to an environment variable is none.
pub fn holds_secret(text: &str) -> bool {
    let mut option = false;
    let text = text.trim_matches(['"', '\'']);
    text.split_ascii_whitespace().any(|word| {
        let after_option = std::mem::replace(&mut option, names_secret(word));
        after_option && is_value(word) || is_secret_assignment(word) || has_password(word)
    })
}

/// Whether this is an option whose next argument is a secret, such as `--password`.
pub(crate) fn names_secret(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    name != word && !name.contains('=') && is_secret_option(name)
}

/// Whether this may be the value of the option before it, and is no reference to a variable.
pub(crate) fn is_value(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'']);
    !word.is_empty() && !word.starts_with(['-', '$'])
}

fn is_secret_assignment(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else {
        return false;
    };
    let name = name.trim_start_matches(['-', '"', '\'']);
    is_secret_option(name) && is_value(value)
}

/// A name such as `--token-file` says where the secret is.
fn is_secret_option(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let lower = name.to_ascii_lowercase();
    let is_place = ["file", "path", "dir", "name"]
        .iter()
        .any(|place| lower.ends_with(place));
    name.chars().all(is_name) && is_secret_name(name) && !is_place
}

/// Whether a word contains a URL with a password: `scheme://user:password@host`.
fn has_password(word: &str) -> bool {
    word.split("://").skip(1).any(|rest| {
        let authority = rest
            .split(['/', '?', '#', '"', '\''])
            .next()
            .unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let password = user.and_then(|user| user.split_once(':'));
        password.is_some_and(|(_, password)| is_value(password))
    })
}
