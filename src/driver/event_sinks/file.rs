//! Appends the application's events to a file (spec B-70).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boatswain_agent::file;
use tokio::task::spawn_blocking;

use super::Sink;
use crate::actors::event_history::reader::Told;

/// The longest part of a line that a machine without power may have left, in bytes.
const LONGEST_PART: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub(in crate::driver) struct EventsFile {
    pub(in crate::driver) path: Arc<Path>,
    /// How many bytes it and the one before it may have together.
    pub(in crate::driver) most: u64,
}

impl Sink for EventsFile {
    type Batch = Arc<[u8]>;

    const KEY: &'static str = "history.file";

    fn batch(&mut self, events: &[Told]) -> Option<Arc<[u8]>> {
        let lines = events.iter().map(|told| format!("{}\n", told.event));
        Some(Arc::from(lines.collect::<String>().into_bytes()))
    }

    /// On a thread of its own: the file may be on a mount that hangs.
    async fn put(&mut self, lines: &Arc<[u8]>) -> Result<(), String> {
        let (path, most, lines) = (Arc::clone(&self.path), self.most, Arc::clone(lines));
        let appended = spawn_blocking(move || append(&path, most, &lines)).await;
        let appended = appended.map_err(io::Error::other).flatten();
        appended.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// Appends whole lines or nothing. Before it has more than half of `most` bytes, the file gets another name, by which it
/// replaces the one before it. It is opened each time, so that whoever removes or renames it does no harm.
fn append(path: &Path, most: u64, lines: &[u8]) -> io::Result<()> {
    let mut file = file::open_to_append(path)?;
    let whole = whole_lines(&file)?;
    let mut length = whole.unwrap_or(0);
    // What has no line is no file of events: it is kept as it is.
    if whole.is_none() || length > 0 && length + lines.len() as u64 > most / 2 {
        fs::rename(path, before(path))?;
        (file, length) = (file::open_to_append(path)?, 0);
    }
    file.write_all(lines).inspect_err(|_| {
        // If it cannot be cut either, the next try does.
        let _ = file.set_len(length);
    })
}

fn before(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    PathBuf::from(name)
}

/// The length of its whole lines. What is after them is cut: a machine that lost its power leaves a part of a line. `None`
/// if there is no line where one should end.
fn whole_lines(file: &File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let begin = length.saturating_sub(LONGEST_PART);
    let is_end = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).map(|()| byte == *b"\n")
    };
    let mut whole = length;
    while whole > begin && !is_end(whole - 1)? {
        whole -= 1;
    }
    if whole == begin && length > 0 {
        return Ok(None);
    }
    if whole < length {
        file.set_len(whole)?;
    }
    Ok(Some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("events.jsonl")
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    // spec: B-70
    #[test]
    fn the_file_and_the_one_before_it_have_no_more_than_they_may_and_together_the_latest_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = of(&directory);
        for n in 0..50 {
            append(&path, 40, format!("line {n:02}\n").as_bytes()).unwrap();
        }
        let all = text(&before(&path)) + &text(&path);
        assert!(all.len() <= 40, "{all}");
        let expected = ["line 46", "line 47", "line 48", "line 49"];
        assert!(
            all.lines()
                .rev()
                .zip(expected.iter().rev())
                .all(|(a, b)| a == *b),
            "{all}"
        );
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    }

    // spec: B-70
    #[test]
    fn a_part_of_a_line_is_cut_before_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = of(&directory);
        for (left, expected) in [
            ("one\ntw", "one\nnext\n"),
            ("tw", "next\n"),
            ("one\n", "one\nnext\n"),
        ] {
            fs::write(&path, left).unwrap();
            append(&path, 1_000, b"next\n").unwrap();
            assert_eq!(text(&path), expected);
        }
    }

    // spec: B-70
    #[test]
    fn a_file_of_something_else_is_renamed_and_nothing_of_it_is_cut() {
        for other in ["no line".to_owned(), "x".repeat(3 << 20)] {
            let directory = tempfile::tempdir().unwrap();
            let path = of(&directory);
            fs::write(&path, &other).unwrap();
            append(&path, 1_000, b"next\n").unwrap();
            assert_eq!(text(&path), "next\n");
            assert!(text(&before(&path)) == other);
        }
    }

    // spec: B-70
    #[test]
    fn a_file_that_was_removed_is_made_again_for_its_owner_alone_and_a_directory_is_an_error() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = of(&directory);
        append(&path, 1_000, b"one\n").unwrap();
        fs::remove_file(&path).unwrap();
        append(&path, 1_000, b"two\n").unwrap();
        assert_eq!(text(&path), "two\n");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let error = append(directory.path(), 1_000, b"x\n").unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
