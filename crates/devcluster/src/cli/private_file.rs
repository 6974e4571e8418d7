//! Files with tokens, which nobody but their owner may use.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The longest such file, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// Why a file cannot be used. The path is not part of the message.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    #[error(transparent)]
    File(#[from] io::Error),
    /// Users other than the owner may read or write the file.
    #[error("it has mode {0:o}, so others may read or change its tokens: run `chmod 600` on it")]
    Shared(u32),
    /// The file's owner can replace the tokens, and knows them.
    #[error("it belongs to user {0}: it has to belong to the user of this process, or to root")]
    Foreign(u32),
}

/// The content of an existing file.
///
/// # Errors
/// The file cannot be read, belongs to another user than this process's or root, or can be used by other users.
pub fn read(path: &Path) -> Result<String, PrivateFileError> {
    let file = File::open(path)?;
    // Of the open file: its path may lead to another one meanwhile.
    let metadata = file.metadata()?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(PrivateFileError::Foreign(owner));
    }
    if mode & 0o077 != 0 {
        return Err(PrivateFileError::Shared(mode));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Creates a file that does not exist yet.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    // spec: O-72
    #[test]
    fn a_file_is_created_for_its_owner_only_and_refused_if_others_may_use_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tokens");
        create(&path, b"mine").expect("created");
        assert_eq!(read(&path).expect("its content"), "mine");
        let again = create(&path, b"other").expect_err("it exists");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        for mode in [0o604, 0o640, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            let error = read(&path).expect_err("others may use it");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
    }
}
