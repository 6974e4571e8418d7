//! What lets a client into an embedded cluster: its token, and the kubeconfig that bears it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rand::TryRng as _;
use rand::rngs::SysRng;

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The token's file cannot be read or written.
    #[error("cannot use the token file {path}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than its owner may read the token.
    #[error("the token file {path} has mode {mode:o}, so others may read it: run `chmod 600 {path}`", path = .path.display())]
    TokenReadable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file has no token that can be sent in a header.
    #[error("the token file {path} has no token of printable ASCII characters: remove it, and one is made", path = .path.display())]
    TokenUnusable {
        /// The file.
        path: PathBuf,
    },
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {path}", path = .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no randomness to be had.
    #[error("the operating system refuses what is needed to start")]
    System(#[source] io::Error),
}

/// The token in the file, or a new one put there.
///
/// # Errors
///
/// Where the file cannot be used, others may read it, or it holds no token.
pub fn token(path: &Path) -> Result<String, CredentialsError> {
    let failed = |source| CredentialsError::TokenFile {
        path: path.to_owned(),
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CredentialsError::TokenReadable {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed)?;
    let token = String::from_utf8(text).unwrap_or_default();
    let token = token.trim();
    if !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(token.to_owned());
    }
    if file.metadata().map_err(failed)?.len() > 0 {
        return Err(CredentialsError::TokenUnusable {
            path: path.to_owned(),
        });
    }
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|e| CredentialsError::System(io::Error::other(e)))?;
    let token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    writeln!(file, "{token}").map_err(failed)?;
    Ok(token)
}

/// Writes a kubeconfig for the cluster at this address, for its owner only. The authority is a certificate in PEM.
///
/// # Errors
///
/// Where it cannot be written.
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

/// Writes a file for its owner only, whole or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // What is half written helps nobody; that it cannot be removed either adds nothing.
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
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    // spec: O-72
    #[test]
    fn a_token_is_made_for_its_owner_only_and_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let made = token(&path).expect("a token");
        assert_eq!((made.len(), mode(&path)), (64, 0o600));
        assert_eq!(token(&path).expect("a token"), made);
        fs::write(&path, " mine\n").expect("written");
        assert_eq!(token(&path).expect("a token"), "mine");
    }

    // spec: O-72
    #[test]
    fn a_token_that_others_may_read_or_that_is_none_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        token(&path).expect("a token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let error = token(&path).expect_err("readable by the group");
        assert!(error.to_string().contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        for bad in ["two words", "\u{e4}"] {
            fs::write(&path, bad).expect("written");
            assert!(
                matches!(token(&path), Err(CredentialsError::TokenUnusable { .. })),
                "{bad}"
            );
        }
        assert!(matches!(
            token(dir.path()),
            Err(CredentialsError::TokenFile { .. })
        ));
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
