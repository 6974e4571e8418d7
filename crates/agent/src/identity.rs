//! The executor's identity, and the driver's URL (spec K-4).

use std::io;
use std::path::{Path, PathBuf};

use http::Uri;

use crate::file;
use crate::protocol::Register;

/// The executor's identity, and how it reaches the driver.
#[derive(Debug, Clone)]
pub struct Identity {
    pub driver: Uri,
    /// The message with which the executor registers.
    pub registration: Register,
    /// Proves the identity.
    pub token: Token,
    /// The file with the CA that the driver's certificate has to lead to; `None`: one of this
    /// machine's CAs.
    pub ca_file: Option<PathBuf>,
}

/// Where the token is stored.
#[derive(Clone)]
pub enum Token {
    /// The token itself.
    Text(String),
    /// A file, which is rewritten from time to time.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Tokens must not appear in logs.
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The variable that names the root directory of a container that is only a local process.
pub const ROOT: &str = "DEVCLUSTER_ROOT";

impl Token {
    /// The current token.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) async fn read(&self) -> io::Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                let path = path.clone();
                let text = file::aside(move || file::read_text(&of_container(&path))).await??;
                Ok(text.trim().to_owned())
            }
        }
    }

    /// Where the token is, for messages.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Text(_) => "BOATSWAIN_TOKEN".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// The path by which this process reads a file of its container.
pub(super) fn of_container(path: &Path) -> PathBuf {
    match path.exists() {
        true => path.to_owned(),
        false => of_node(path),
    }
}

/// The path by which this process writes a file that its node reads, also if this machine has such a file.
pub(super) fn of_node(path: &Path) -> PathBuf {
    let root = std::env::var_os(ROOT).map(PathBuf::from);
    below(root.as_deref(), path)
}

/// Translates a path in the container to one below its root directory, if the container is only a
/// process.
fn below(root: Option<&Path>, path: &Path) -> PathBuf {
    match (root, path.strip_prefix("/")) {
        (Some(root), Ok(relative)) => root.join(relative),
        _ => path.to_owned(),
    }
}

/// Parses an attribute, `NAME=VALUE`.
///
/// # Errors
///
/// The text has another form.
pub fn attribute(text: &str) -> Result<(String, String), String> {
    let parted = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parted.ok_or_else(|| "expected NAME=VALUE, such as zone=a".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses the driver's URL, `http://host:port` or `https://host:port`.
///
/// # Errors
///
/// The text is not such a URL.
pub fn driver(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err("expected a URL such as https://driver.jobs:7078".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-60
    #[test]
    fn an_address_of_a_driver_is_http_or_https() {
        assert!(driver("http://driver.jobs:7078").is_ok());
        assert!(driver("https://driver.jobs:7078").is_ok());
        for none in ["driver:7078", "ws://driver", "/v1", "", "http://"] {
            assert!(driver(none).is_err(), "{none}");
        }
    }

    #[test]
    fn an_attribute_has_a_name() {
        assert_eq!(
            attribute("zone=a=b"),
            Ok(("zone".to_owned(), "a=b".to_owned()))
        );
        assert!(attribute("zone").is_err() && attribute("=a").is_err());
    }

    // spec: O-73
    #[test]
    fn a_file_of_the_container_is_below_its_root_where_that_is_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let token = Path::new("/var/run/secrets/boatswain.test/token");
        let inside = root.path().join("var/run/secrets/boatswain.test/token");
        assert_eq!(below(Some(root.path()), token), inside);
        assert_eq!(below(None, token), token);
        let there = Path::new("/proc/self/stat");
        assert_eq!(of_container(there), there);
        assert!(!format!("{:?}", Token::Text("secret".to_owned())).contains("secret"));
    }
}
