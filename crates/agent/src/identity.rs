//! Who this executor is, and where its driver is (spec K-4).

use std::path::{Path, PathBuf};

use http::Uri;

use crate::protocol::Register;

/// Who an executor is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Where the driver is.
    pub driver: Uri,
    /// What it registers with.
    pub registration: Register,
    /// What it proves with who it is.
    pub token: Token,
}

/// Where the token is.
#[derive(Clone)]
pub enum Token {
    /// This is it.
    Text(String),
    /// In a file, which is written anew from time to time.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Tokens are not for logs.
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Where a process stands for a container, its root is a directory, which this names.
pub const ROOT: &str = "DEVCLUSTER_ROOT";

impl Token {
    /// The token as it is now.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read.
    pub(super) fn read(&self) -> std::io::Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                let root = std::env::var_os(ROOT).map(PathBuf::from);
                let path = below(root.as_deref(), path);
                Ok(std::fs::read_to_string(path)?.trim().to_owned())
            }
        }
    }
}

/// A path of the container, below its root where that is a directory.
fn below(root: Option<&Path>, path: &Path) -> PathBuf {
    match (root, path.strip_prefix("/")) {
        (Some(root), Ok(relative)) if !path.exists() => root.join(relative),
        _ => path.to_owned(),
    }
}

/// An attribute as it is written: `NAME=VALUE`.
///
/// # Errors
///
/// Where it is none.
pub fn attribute(text: &str) -> Result<(String, String), String> {
    let parted = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parted.ok_or_else(|| "an attribute, as zone=a".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The address of a driver: `http://host:port`.
///
/// # Errors
///
/// Where it is none, or asks for TLS.
pub fn driver(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => Ok(uri),
        (Some("https"), _) => Err("the agent speaks plain HTTP only".to_owned()),
        _ => Err("an address as http://driver.jobs:7078".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-60
    #[test]
    fn an_address_of_a_driver_is_plain_http() {
        assert!(driver("http://driver.jobs:7078").is_ok());
        for none in ["driver:7078", "https://driver", "/v1", "", "http://"] {
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
        assert_eq!(below(Some(root.path()), there), there);
        assert!(!format!("{:?}", Token::Text("secret".to_owned())).contains("secret"));
    }
}
