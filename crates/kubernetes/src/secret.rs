//! Reads and creates secret files, and compares secrets in constant time.

pub mod seal;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use boatswain_agent::file;
use rand::TryRng as _;
use rand::rngs::SysRng;

/// Why a secret file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("cannot use the secret file {path}", path = .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Users other than the owner may read or write the file.
    #[error("the secret file {path} has mode {mode:o}, so others may read or change it: run `chmod 600 {path}`, or mount the Secret with defaultMode 0440", path = .path.display())]
    Readable { path: PathBuf, mode: u32 },
    /// The file's owner can replace the secret, and knows it.
    #[error("the secret file {path} belongs to user {owner}: it has to belong to the user of this process, or to root", path = .path.display())]
    Owner { path: PathBuf, owner: u32 },
    #[error("the secret file {path} is blank: write a secret to it, or remove it, and a new one is created where the driver may", path = .path.display())]
    Blank { path: PathBuf },
    #[error("the operating system provides no random numbers for a token")]
    NoRandomness(#[source] io::Error),
}

/// The content of the file. If the file does not exist, it is created with a new token.
///
/// # Errors
/// As [`read`], and if a new file cannot be written.
pub fn read_or_make(path: &Path) -> Result<String, SecretError> {
    let failed = |source| SecretError::File {
        path: path.to_owned(),
        source,
    };
    match file::open(path) {
        // A mounted Secret is read-only.
        Ok(opened) => private(opened, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let token = make()?;
            let mut created = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(failed)?;
            writeln!(created, "{token}").map_err(failed)?;
            Ok(token)
        }
        Err(error) => Err(failed(error)),
    }
}

/// The content of an existing file.
///
/// # Errors
/// The file does not exist, is blank, belongs to another user than this process's or root, or can be used by other
/// users.
pub fn read(path: &Path) -> Result<String, SecretError> {
    let opened = file::open(path).map_err(|source| SecretError::File {
        path: path.to_owned(),
        source,
    })?;
    private(opened, path)
}

/// Reads a secret on a thread of its own and within a time limit, because the file may be on a mount that hangs (spec
/// O-129).
///
/// # Errors
/// As `read` says, and if it takes too long.
pub async fn aside<T, E>(
    path: &Path,
    read: impl FnOnce(&Path) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<SecretError> + Send + 'static,
{
    let of = path.to_owned();
    let read = file::aside(move || read(&of)).await;
    read.unwrap_or_else(|source| {
        let path = path.to_owned();
        Err(SecretError::File { path, source }.into())
    })
}

fn private(opened: File, path: &Path) -> Result<String, SecretError> {
    let path = || path.to_owned();
    let failed = |source| SecretError::File {
        path: path(),
        source,
    };
    // Of the open file: its path may lead to another one meanwhile.
    let metadata = opened.metadata().map_err(failed)?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    match use_of(owner, mode, rustix::process::geteuid().as_raw()) {
        Use::Private => {}
        Use::Shared => return Err(SecretError::Readable { path: path(), mode }),
        Use::Foreign => {
            return Err(SecretError::Owner {
                path: path(),
                owner,
            });
        }
    }
    let mut text = String::new();
    opened
        .take(file::LONGEST)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.trim().is_empty() {
        return Err(SecretError::Blank { path: path() });
    }
    Ok(text)
}

/// Who can use a file.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    Private,
    /// Users whom the file's mode should keep out.
    Shared,
    /// A user who is neither ours nor root owns it.
    Foreign,
}

/// Root may let a group read its file: so a mounted Secret becomes readable for a driver that is not root.
fn use_of(owner: u32, mode: u32, ours: u32) -> Use {
    let kept_out = match owner {
        0 => 0o027,
        owner if owner == ours => 0o077,
        _ => return Use::Foreign,
    };
    match mode & kept_out {
        0 => Use::Private,
        _ => Use::Shared,
    }
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
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    // spec: O-127
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

    // spec: O-127
    #[test]
    fn a_file_that_others_may_read_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        read_or_make(&path).expect("a token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        for error in [read_or_make(&path), read(&path)] {
            let error = error.expect_err("readable by all");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        assert!(matches!(
            read(dir.path()),
            Err(SecretError::Readable { .. } | SecretError::File { .. })
        ));
        assert!(matches!(
            read(&dir.path().join("none")),
            Err(SecretError::File { .. })
        ));
    }

    // spec: O-127
    #[test]
    fn a_file_is_the_users_own_or_roots_and_only_root_may_let_a_group_read_it() {
        let (ours, root, other) = (1_000, 0, 1_001);
        for (owner, mode, expected) in [
            (ours, 0o600, Use::Private),
            (ours, 0o400, Use::Private),
            (ours, 0o640, Use::Shared),
            (ours, 0o604, Use::Shared),
            (ours, 0o620, Use::Shared),
            (root, 0o400, Use::Private),
            (root, 0o440, Use::Private),
            (root, 0o640, Use::Private),
            (root, 0o660, Use::Shared),
            (root, 0o644, Use::Shared),
            (other, 0o600, Use::Foreign),
            (other, 0o444, Use::Foreign),
        ] {
            assert_eq!(use_of(owner, mode, ours), expected, "{owner} {mode:o}");
        }
        assert_eq!(use_of(other, 0o600, root), Use::Foreign, "root's process");
    }

    // spec: O-127
    #[test]
    fn a_blank_file_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        read_or_make(&path).expect("a token");
        for blank in ["", "\n", " \t\n\n"] {
            fs::write(&path, blank).expect("written");
            for error in [read_or_make(&path), read(&path)] {
                let error = error.expect_err("blank").to_string();
                assert!(error.contains("is blank"), "{error}");
            }
            assert_eq!(fs::read_to_string(&path).expect("a file"), blank);
        }
    }

    // spec: O-129
    #[tokio::test]
    async fn a_secret_on_a_mount_that_hangs_is_given_up_and_its_file_is_named() {
        let (written, reading) = std::sync::mpsc::channel::<()>();
        tokio::time::pause();
        let read = tokio::spawn(aside(Path::new("/mnt/token"), move |_: &Path| {
            let _ = reading.recv();
            make()
        }));
        // A thread that blocks keeps the paused clock from going on by itself.
        tokio::task::yield_now().await;
        tokio::time::advance(2 * file::TIME_LIMIT).await;
        let error = read.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("/mnt/token"), "{error}");
        let is_late = |source: &io::Error| source.kind() == io::ErrorKind::TimedOut;
        assert!(matches!(&error, SecretError::File { source, .. } if is_late(source)));
        drop(written);
    }

    // spec: O-127
    #[test]
    fn a_read_only_file_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("token"), dir.path().join("link"));
        let made = read_or_make(&path).expect("a token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("changed");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert_eq!(read_or_make(&link).expect("a token").trim(), made);
    }
}
