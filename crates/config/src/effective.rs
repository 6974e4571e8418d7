//! The effective configuration: every key with its value and the value's origin (spec C-4).

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::error::Origin;
use super::secrets::HIDDEN;

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
        value.is_some_and(|value| value.contains(HIDDEN))
    }

    pub(super) fn is_default(&self) -> bool {
        matches!(self.origin, Origin::Default | Origin::Follows { .. })
    }
}

impl Effective {
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
