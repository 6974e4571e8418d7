//! The message that a container leaves in the file of its `terminationMessagePath` for its status.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::Value;

use super::mount_points::{make_directory, relative};
use crate::objects::object::text;

/// The longest message, in bytes, as in the kubelet.
const LONGEST: u64 = 4096;

/// The longest part of a log that stands for a message, in bytes, as in the kubelet.
const LONGEST_OF_LOG: u64 = 2048;

/// Makes the empty file of a container below its root.
pub(super) fn make(container: &Value, root: &Path) -> Result<PathBuf, String> {
    let path = root.join(relative(text(container, &["terminationMessagePath"]))?);
    let failed = |e: io::Error| format!("cannot make {}: {e}", path.display());
    // A container that is started again has left its last one.
    let _ = fs::remove_file(&path);
    let directory = path.parent().unwrap_or(root);
    make_directory(directory).map_err(failed)?;
    File::create_new(&path).map_err(failed)?;
    Ok(path)
}

/// What the container has written; `None` if that is nothing. What is not a file any more is not read.
pub(super) fn read(path: &Path) -> Option<String> {
    // The container may have made a pipe of it, which nothing ever fills.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.is_empty()).then_some(text)
}

/// What the container wrote to its log last, which stands for the message of one that failed without any
/// (`terminationMessagePolicy: FallbackToLogsOnError`).
pub(super) fn of_log(path: &Path) -> Option<String> {
    let mut log = File::open(path).ok()?;
    let from = log.metadata().ok()?.len().saturating_sub(LONGEST_OF_LOG);
    log.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    log.take(LONGEST_OF_LOG).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.is_empty()).then_some(text)
}
