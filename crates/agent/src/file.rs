//! Reads small files such as tokens, keys and CAs, which may be on a mount that hangs (spec O-129).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// The longest such file, in bytes: as long as a Secret can be.
pub const LONGEST: u64 = 1024 * 1024;

/// How long reading may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Opens a regular file. Whatever else is there is not waited for, such as a pipe that nobody writes to.
///
/// # Errors
/// The file cannot be opened, or is a directory, a pipe or a device.
pub fn open(path: &Path) -> io::Result<File> {
    open_as(path, OFlags::RDONLY)
}

/// As [`open`], to append to it and to read it. A file that is not there is made, for its owner alone.
///
/// # Errors
/// As [`open`], and if it cannot be made.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    open_as(path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
}

fn open_as(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(Irregular)),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it is no regular file: put a file there, not a directory, a pipe or a device")]
struct Irregular;

/// Whether this is why [`open`] refused what is there.
pub fn is_irregular(error: &io::Error) -> bool {
    (error.get_ref()).is_some_and(|why| why.is::<Irregular>())
}

/// The content of a file, up to [`LONGEST`].
///
/// # Errors
/// As [`open`], and if the file is longer or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LONGEST {
        true => Err(io::Error::other("it is longer than 1 MiB")),
        false => Ok(bytes),
    }
}

/// As [`read`], for text.
///
/// # Errors
/// As [`read`], and if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(io::Error::other)
}

/// Does this on a thread of its own, and gives it up after [`TIME_LIMIT`]. It blocks that thread for as long as it hangs;
/// tokio bounds their number.
///
/// # Errors
/// It takes longer.
pub async fn aside<T: Send + 'static>(
    reading: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let done = timeout(TIME_LIMIT, spawn_blocking(reading)).await;
    done.map_err(|_| too_long())?.map_err(io::Error::other)
}

/// Like [`aside`], for what is read again and again: if it takes too long, this logs it once and waits on, because every
/// other try would hang too. `None` if the runtime ends.
pub async fn patiently<T: Send + 'static>(
    path: &Path,
    reading: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let mut reading: JoinHandle<T> = spawn_blocking(reading);
    match timeout(TIME_LIMIT, &mut reading).await {
        Ok(done) => done.ok(),
        Err(_) => {
            let (file, error) = (path.display(), too_long());
            tracing::warn!(%file, %error, "a file cannot be read again: what was read of it last stays in use");
            reading.await.ok()
        }
    }
}

fn too_long() -> io::Error {
    let limit = TIME_LIMIT.as_secs();
    let text = format!("it was not read within {limit} s: look at the mount that it is on");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use super::*;

    /// A pipe that nobody writes to.
    fn pipe(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    }

    // spec: O-129
    #[test]
    fn a_pipe_a_directory_and_a_device_are_refused_at_once_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        pipe(&path);
        for refused in [&path, directory.path(), Path::new("/dev/zero")] {
            let error = read(refused).unwrap_err();
            assert!(is_irregular(&error));
            let error = error.to_string();
            assert!(error.contains("put a file there"), "{error}");
        }
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link).is_err());
    }

    // spec: O-129
    #[test]
    fn a_file_is_read_up_to_1_mib() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "a token\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "a token\n");
        let mut longest = vec![b'a'; usize::try_from(LONGEST).unwrap()];
        fs::write(&path, &longest).unwrap();
        assert_eq!(read(&path).unwrap(), longest);
        longest.push(b'a');
        fs::write(&path, &longest).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("1 MiB"), "{error}");
    }

    // spec: O-129
    #[tokio::test]
    async fn what_hangs_is_given_up_and_named() {
        let (written, reading) = mpsc::channel::<()>();
        tokio::time::pause();
        let read = tokio::spawn(aside(move || reading.recv()));
        // A thread that blocks keeps the paused clock from going on by itself.
        tokio::task::yield_now().await;
        tokio::time::advance(2 * TIME_LIMIT).await;
        let error = read.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(written);
    }
}
