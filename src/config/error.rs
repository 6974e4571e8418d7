//! What is wrong with a configuration, said so that it can be put right (spec C-2).

use std::fmt;

/// Where a value, or a mistake, comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The file, at a line and a column; both begin at 1, columns count characters.
    File {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// An override: the environment variable's name, or `--set KEY`.
    Override {
        /// How the override is called where it was given.
        name: String,
        /// What was given, as it was written.
        raw: String,
    },
    /// Nowhere: the default applies, or a key is missing.
    Default,
    /// The default was too small beside what another key says.
    Follows {
        /// The other key.
        from: &'static str,
    },
}

impl Origin {
    /// Whether it is `--set KEY=VALUE`.
    pub(super) fn is_command_line(&self) -> bool {
        matches!(self, Self::Override { name, .. } if name.starts_with("--set "))
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub origin: Origin,
    /// The key's full path, as `allocation.batch_size`; empty where the file is not even TOML.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What is allowed, or what to do.
    pub fix: String,
}

/// Why a configuration was refused: every mistake that was found, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, as it was named.
    pub file: String,
    /// What is wrong with it; never empty.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, mistake) in self.mistakes.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            match &mistake.origin {
                Origin::File { line, column } => write!(f, "{}:{line}:{column}: ", self.file)?,
                Origin::Override { name, .. } => write!(f, "{name}: ")?,
                Origin::Default | Origin::Follows { .. } => write!(f, "{}: ", self.file)?,
            }
            if !mistake.key.is_empty() {
                write!(f, "{}: ", mistake.key)?;
            }
            write!(f, "{}\n  {}", mistake.found, mistake.fix)?;
        }
        Ok(())
    }
}
