//! Reads the API's tokens and checks the tokens of requests (spec O-50).

use std::path::{Path, PathBuf};
use std::time::Duration;

use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::secret::{self, SecretError};
use boatswain_agent::file;
use boatswain_agent::file_state::{FileState, file_state};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    Read,
    Full,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<(String, Right)>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Prints only their number, because tokens are secrets.
        f.debug_tuple("Tokens").field(&self.0.len()).finish()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "{path}:{line}: each line must be a token of printable ASCII, followed by \" read\" if it may only read"
    )]
    Line {
        path: String,
        /// Starts at 1.
        line: usize,
    },
    #[error("{path} has no token: remove the file, and a new one is created with a token")]
    None { path: String },
}

/// Where a driver that is its own CA writes that for this machine's clients, which know the token file (spec O-62).
pub fn ca_beside(token_file: &Path) -> PathBuf {
    let mut path = token_file.as_os_str().to_owned();
    path.push(".ca.crt");
    path.into()
}

impl Tokens {
    /// Reads the tokens from a file. If the file does not exist, it is created with a new token
    /// that has the full right.
    ///
    /// # Errors
    ///
    /// The file cannot be used, or has a line that is not a token.
    pub fn of_file(path: &Path) -> Result<Self, TokensError> {
        let text = secret::read_or_make(path)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads the tokens from an existing file.
    ///
    /// # Errors
    ///
    /// As [`Tokens::of_file`], and if the file does not exist.
    pub fn read(path: &Path) -> Result<Self, TokensError> {
        let text = secret::read(path)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses tokens. `path` is the file's name in error messages.
    ///
    /// # Errors
    ///
    /// A line is not a token.
    pub fn parse(text: &str, path: &str) -> Result<Self, TokensError> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        });
        let tokens = lines.map(|(at, line)| {
            let mut words = line.split_whitespace();
            let token = words.next().unwrap_or_default();
            let right = match (words.next(), words.next()) {
                (None, _) => Some(Right::Full),
                (Some("full"), None) => Some(Right::Full),
                (Some("read"), None) => Some(Right::Read),
                _ => None,
            };
            match right.filter(|_| token.bytes().all(|b| b.is_ascii_graphic())) {
                Some(right) => Ok((token.to_owned(), right)),
                None => Err(TokensError::Line {
                    path: path.to_owned(),
                    line: at + 1,
                }),
            }
        });
        let tokens: Vec<_> = tokens.collect::<Result<_, _>>()?;
        if tokens.is_empty() {
            return Err(TokensError::None {
                path: path.to_owned(),
            });
        }
        Ok(Self(tokens))
    }

    /// The first token, for a client.
    pub fn first(&self) -> &str {
        let first = self.0.first();
        first.map(|(token, _)| token.as_str()).unwrap_or_default()
    }

    /// The tokens with the full right, in the order of the file.
    pub fn full(&self) -> impl Iterator<Item = &str> {
        let full = self.0.iter().filter(|(_, right)| *right == Right::Full);
        full.map(|(token, _)| token.as_str())
    }

    /// The right of this token; `None` if it is unknown. All tokens are compared, so that the time
    /// does not reveal which one matched.
    pub fn right(&self, given: &[u8]) -> Option<Right> {
        let mut found = None;
        for (token, right) in &self.0 {
            if given.ct_eq(token.as_bytes()).into() {
                found = found.max(Some(*right));
            }
        }
        found
    }
}

/// The tokens that were read last. All copies have the same.
#[derive(Debug, Clone)]
pub struct Current(watch::Receiver<Tokens>);

impl Current {
    /// As [`Tokens::right`].
    pub fn right(&self, given: &[u8]) -> Option<Right> {
        self.0.borrow().right(given)
    }
}

impl From<Tokens> for Current {
    /// Tokens that do not change.
    fn from(tokens: Tokens) -> Self {
        Self(watch::Sender::new(tokens).subscribe())
    }
}

/// Reads a token file again when it has changed.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// The file's state before it was read last.
    read: FileState,
    tokens: watch::Sender<Tokens>,
}

impl Follower {
    /// Reads the tokens, as [`Tokens::of_file`] does, within a time limit.
    ///
    /// # Errors
    ///
    /// The file cannot be used, or has a line that is not a token.
    pub async fn of_file(path: &Path) -> Result<Self, TokensError> {
        let tokens = secret::aside(path, Tokens::of_file).await?;
        Ok(Self {
            path: path.to_owned(),
            // If the file was created just now, it is read once more.
            read: None,
            tokens: watch::Sender::new(tokens),
        })
    }

    /// As [`Follower::of_file`], if there is a file.
    ///
    /// # Errors
    ///
    /// As [`Follower::of_file`].
    pub async fn of_any(path: Option<&Path>) -> Result<Option<Self>, TokensError> {
        match path {
            Some(path) => Self::of_file(path).await.map(Some),
            None => Ok(None),
        }
    }

    pub fn current(&self) -> Current {
        Current(self.tokens.subscribe())
    }

    /// Returns when the process ends. Tokens of a file that can no longer be used stay valid: a mistake in it must not lock out everyone.
    pub async fn run(mut self) {
        loop {
            sleep(LOOK_EVERY).await;
            let (path, before) = (self.path.clone(), self.read);
            let look = move || {
                let state = file_state(&path);
                (state != before).then(|| (state, Tokens::read(&path)))
            };
            let Some(looked) = file::patiently(&self.path, look).await else {
                return;
            };
            let Some((state, read)) = looked else {
                continue;
            };
            self.read = state;
            match read {
                Ok(tokens) => {
                    let changed = tokens != *self.tokens.borrow();
                    if changed {
                        tracing::info!(tokens = tokens.0.len(), "the API's tokens were read again");
                        self.tokens.send_replace(tokens);
                    }
                }
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the API's changed tokens cannot be used: the earlier ones stay valid"
                ),
            }
        }
    }
}

/// The first token in the file, for a client.
///
/// # Errors
///
/// The file cannot be read, is readable by other users, or has no token.
pub fn first(path: &Path) -> Result<String, TokensError> {
    Tokens::read(path).map(|tokens| tokens.first().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-50
    #[test]
    fn a_token_has_its_right_and_an_unknown_one_has_none() {
        let tokens = Tokens::parse("# people\nabc\ndef read\n\nghi full\n", "t").expect("tokens");
        assert_eq!(tokens.right(b"abc"), Some(Right::Full));
        assert_eq!(tokens.right(b"def"), Some(Right::Read));
        assert_eq!(tokens.right(b"ghi"), Some(Right::Full));
        for unknown in ["", "ab", "abcd", "read", "# people"] {
            assert_eq!(tokens.right(unknown.as_bytes()), None, "{unknown}");
        }
    }

    // spec: O-50
    #[test]
    fn an_invalid_line_is_reported_by_number_and_not_shown() {
        for (text, line) in [
            ("abc\nsecret write\n", 2),
            ("a\u{e4}\n", 1),
            ("a read b\n", 1),
        ] {
            let error = Tokens::parse(text, "t").expect_err("refused").to_string();
            assert!(error.starts_with(&format!("t:{line}:")), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(matches!(
            Tokens::parse("# none\n", "t"),
            Err(TokensError::None { .. })
        ));
    }

    // spec: O-50
    #[tokio::test(start_paused = true)]
    async fn tokens_are_read_again_when_their_file_has_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tokens");
        let follower = Follower::of_file(&path).await.expect("tokens");
        let current = follower.current();
        let first = super::first(&path).expect("a token");
        tokio::spawn(follower.run());
        let pause = || sleep(Duration::from_secs(3));
        pause().await;
        assert_eq!(current.right(first.as_bytes()), Some(Right::Full));

        std::fs::write(&path, "second\nlooks read\n").expect("written");
        pause().await;
        assert_eq!(current.right(first.as_bytes()), None, "revoked");
        assert_eq!(current.right(b"second"), Some(Right::Full));
        assert_eq!(current.right(b"looks"), Some(Right::Read));

        // A file that cannot be used changes nothing, and is not replaced by a new one.
        for bad in ["", "two words here\n"] {
            std::fs::write(&path, bad).expect("written");
            pause().await;
            assert_eq!(current.right(b"second"), Some(Right::Full), "{bad:?}");
        }
        std::fs::remove_file(&path).expect("removed");
        pause().await;
        assert_eq!(current.right(b"second"), Some(Right::Full));
        assert!(!path.exists());

        let new = dir.path().join("new");
        crate::secret::read_or_make(&new).expect("a token");
        std::fs::rename(&new, &path).expect("renamed");
        pause().await;
        let third = super::first(&path).expect("a token");
        assert_eq!(current.right(third.as_bytes()), Some(Right::Full));
        assert_eq!(current.right(b"second"), None);
    }
}
