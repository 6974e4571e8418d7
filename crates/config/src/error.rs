//! Configuration errors, with what to do about each (spec C-2).

use std::fmt;

/// The origin of a value or of a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A position in the file. Lines and columns start at 1; columns count characters.
    File { line: usize, column: usize },
    /// An override: an environment variable, or `--set`.
    Override {
        /// The variable's name, or `--set KEY`.
        name: String,
        /// The value as it was written.
        raw: String,
    },
    /// No position: the default applies, or a key is missing.
    Default,
    /// The default was raised to fit the value of another key.
    Follows {
        /// The other key.
        from: &'static str,
    },
}

impl Origin {
    /// Whether the override is `--set KEY=VALUE`.
    pub(super) fn is_command_line(&self) -> bool {
        matches!(self, Self::Override { name, .. } if name.starts_with("--set "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub origin: Origin,
    /// The key's full path, such as `allocation.batch_size`; empty where the file is not valid
    /// TOML.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What is allowed, or how to fix it.
    pub fix: String,
}

impl Mistake {
    /// A mistake that is about no key.
    pub(super) fn of_file(
        origin: Origin,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            origin,
            key: String::new(),
            found: found.into(),
            fix: fix.into(),
        }
    }
}

/// Why a configuration was refused: all mistakes, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The path of the file, as the user gave it.
    pub file: String,
    /// Never empty.
    pub mistakes: Vec<Mistake>,
}

impl ConfigError {
    /// A mistake with its place.
    pub fn shown(&self, mistake: &Mistake) -> String {
        let place = match &mistake.origin {
            Origin::File { line, column } => format!("{}:{line}:{column}", self.file),
            Origin::Override { name, .. } => name.clone(),
            Origin::Default | Origin::Follows { .. } => self.file.clone(),
        };
        let Mistake {
            key, found, fix, ..
        } = mistake;
        match key.is_empty() {
            true => format!("{place}: {found}\n  {fix}"),
            false => format!("{place}: {key}: {found}\n  {fix}"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self
            .mistakes
            .iter()
            .map(|mistake| self.shown(mistake))
            .collect();
        f.write_str(&shown.join("\n"))
    }
}
