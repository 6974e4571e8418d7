//! Creates the credentials for an embedded cluster: its token, and a kubeconfig.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rand::TryRng as _;
use rand::rngs::SysRng;

use super::private_file::{self, PrivateFileError};

/// Why the credentials cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("cannot use the token file {path}: {source}", path = .path.display())]
    Token {
        path: PathBuf,
        #[source]
        source: PrivateFileError,
    },
    #[error("the operating system provides no random numbers for a token")]
    NoRandomness(#[source] io::Error),
    /// The file has no token that can be sent in a header.
    #[error("the token file {path} has no token of printable ASCII characters: remove it, and a new one is created", path = .path.display())]
    TokenUnusable { path: PathBuf },
    #[error("cannot write the kubeconfig {path}", path = .path.display())]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The token in the file. If the file does not exist, it is created with a new token.
///
/// # Errors
///
/// The file cannot be used, is readable by other users, or has no token.
pub fn token(path: &Path) -> Result<String, CredentialsError> {
    let failed = |source| CredentialsError::Token {
        path: path.to_owned(),
        source,
    };
    let text = match private_file::read(path) {
        Err(PrivateFileError::File(error)) if error.kind() == io::ErrorKind::NotFound => {
            let made = make()?;
            private_file::create(path, format!("{made}\n").as_bytes())
                .map_err(|error| failed(error.into()))?;
            made
        }
        read => read.map_err(failed)?,
    };
    let token = text.trim();
    if !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(token.to_owned());
    }
    Err(CredentialsError::TokenUnusable {
        path: path.to_owned(),
    })
}

/// A new token of 256 bits, in hexadecimal digits.
fn make() -> Result<String, CredentialsError> {
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| CredentialsError::NoRandomness(io::Error::other(error)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a kubeconfig for the cluster at this address, readable by its owner only. `authority` is
/// a certificate in PEM.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_kubeconfig(
    path: &Path,
    address: SocketAddr,
    authority: &str,
    token: &str,
) -> Result<(), CredentialsError> {
    let text = kubeconfig(address, authority, token);
    write_private(path, text.as_bytes()).map_err(|source| CredentialsError::Kubeconfig {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file atomically, readable by its owner only.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = private_file::create(&temporary, content);
    let written = written.and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Best effort: a failure to remove the partial file adds nothing to the error.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn kubeconfig(address: SocketAddr, authority: &str, token: &str) -> String {
    let authority = BASE64.encode(authority);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: boatswain
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
users:
- name: boatswain
  user:
    token: {token:?}
contexts:
- name: boatswain
  context:
    cluster: boatswain
    user: boatswain
    namespace: default
current-context: boatswain
"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    // spec: O-72
    #[test]
    fn a_token_is_what_can_be_sent_in_a_header_and_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let made = token(&path).expect("a token");
        assert_eq!((made.len(), mode(&path)), (64, 0o600));
        assert_eq!(token(&path).expect("a token"), made);
        fs::write(&path, " mine\n").expect("written");
        assert_eq!(token(&path).expect("a token"), "mine");
        for bad in ["two words", "\u{e4}", " \n"] {
            fs::write(&path, bad).expect("written");
            assert!(
                matches!(token(&path), Err(CredentialsError::TokenUnusable { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_kubeconfig_is_for_its_owner_only_and_replaces_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kubeconfig");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        let address = "127.0.0.1:1".parse().expect("an address");
        write_kubeconfig(&path, address, "PEM", "a+b").expect("written");
        assert_eq!(mode(&path), 0o600);
        let text = fs::read_to_string(&path).expect("a file");
        assert!(
            text.contains("server: https://127.0.0.1:1\n    certificate-authority-data: UEVN\n")
                && text.contains("token: \"a+b\"\n"),
            "{text}"
        );
        assert_eq!(
            fs::read_dir(dir.path()).expect("a directory").count(),
            1,
            "nothing is left beside it"
        );
    }
}
