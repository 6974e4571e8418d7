//! Reads and creates secret files, and compares secrets in constant time.

pub mod seal;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rand::TryRng as _;
use rand::rngs::SysRng;

/// Why a secret file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("cannot use the token file {path}", path = .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Users other than the owner may read the file.
    #[error("the token file {path} has mode {mode:o}, so others may read it: run `chmod 600 {path}`", path = .path.display())]
    Readable { path: PathBuf, mode: u32 },
    #[error("the operating system provides no random numbers for a token")]
    NoRandomness(#[source] io::Error),
}

/// The content of the file. If the file is empty or does not exist, it is written with a new token.
///
/// # Errors
/// The file cannot be used, or is readable by other users.
pub fn read_or_make(path: &Path) -> Result<String, SecretError> {
    let failed = |source| SecretError::File {
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
    let text = private(&mut file, path)?;
    if !text.is_empty() {
        return Ok(text);
    }
    let token = make()?;
    writeln!(file, "{token}").map_err(failed)?;
    Ok(token)
}

/// The content of an existing file.
///
/// # Errors
/// Like [`read_or_make`], and if the file does not exist.
pub fn read(path: &Path) -> Result<String, SecretError> {
    let mut file = File::open(path).map_err(|source| SecretError::File {
        path: path.to_owned(),
        source,
    })?;
    private(&mut file, path)
}

fn private(file: &mut File, path: &Path) -> Result<String, SecretError> {
    let failed = |source| SecretError::File {
        path: path.to_owned(),
        source,
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretError::Readable {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// A new secret of 256 bits, in hexadecimal digits.
///
/// # Errors
/// The operating system provides no randomness.
pub fn make() -> Result<String, SecretError> {
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|e| SecretError::NoRandomness(io::Error::other(e)))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    // spec: O-50, O-72
    #[test]
    fn a_token_is_made_for_its_owner_only_and_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let made = read_or_make(&path).expect("a token");
        let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((made.len(), mode), (64, 0o600));
        assert_eq!(read_or_make(&path).expect("a token").trim(), made);
        assert_eq!(read(&path).expect("a token").trim(), made);
    }

    // spec: O-50, O-72
    #[test]
    fn a_file_that_others_may_read_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        read_or_make(&path).expect("a token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let error = read_or_make(&path).expect_err("readable by the group");
        assert!(error.to_string().contains("chmod 600"), "{error}");
        assert!(matches!(
            read(dir.path()),
            Err(SecretError::Readable { .. } | SecretError::File { .. })
        ));
        assert!(matches!(
            read(&dir.path().join("none")),
            Err(SecretError::File { .. })
        ));
    }
}
