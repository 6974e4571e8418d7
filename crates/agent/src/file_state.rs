//! Whether a file was changed, by what its metadata show.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

/// The state of a file: modification time, length in bytes and inode. `None` if the file cannot be read.
pub type FileState = Option<(SystemTime, u64, u64)>;

/// The state differs when the file was changed. Follows links: a mounted Secret's files are replaced by changing a link.
pub fn file_state(path: &Path) -> FileState {
    let metadata = path.metadata().ok()?;
    let modified = metadata.modified().ok()?;
    Some((modified, metadata.len(), metadata.ino()))
}
