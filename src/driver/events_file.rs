//! Appends the application's events to a file (spec B-70).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use boatswain_agent::backoff::Backoff;
use boatswain_agent::file;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::actors::event_history::EventHistory;
use crate::actors::event_history::event::EventId;
use crate::actors::event_history::reader::{Reader, Told};
use crate::model::Incarnation;

/// How long to wait before the file is tried again.
const TRY_AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// At the end events that come within this time of the ones before are written too.
const LAST: Duration = Duration::from_millis(100);

/// The longest part of a line that a machine without power may have left, in bytes.
const LONGEST_PART: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub(super) struct EventsFile {
    pub(super) path: Arc<Path>,
    /// How many bytes it and the one before it may have together.
    pub(super) most: u64,
}

/// The task that writes the file.
pub(super) struct Writer {
    finish: watch::Sender<bool>,
    /// Closed when the task has ended.
    done: watch::Receiver<()>,
}

impl Writer {
    /// Writes the events of this incarnation from the first one on.
    pub(super) fn start(
        file: EventsFile,
        history: Addr<EventHistory>,
        incarnation: Incarnation,
    ) -> Self {
        let (finish, to_finish) = watch::channel(false);
        let (running, done) = watch::channel(());
        let first = EventId {
            incarnation,
            number: 0,
        };
        actix::spawn(async move {
            let _running = running;
            if let Some(reader) = Reader::new(history, Some(first)).await {
                file.write(reader, to_finish).await;
            }
        });
        Self { finish, done }
    }

    /// Writes what is there, and ends.
    pub(super) async fn finish(&self) {
        self.finish.send_replace(true);
        // An error says that the task has ended.
        let _ = self.done.clone().changed().await;
    }
}

impl EventsFile {
    /// Writes what is read until the driver ends, or until it is to finish: then what is there is written, and no failed
    /// write is tried again.
    async fn write(self, mut reader: Reader, mut finish: watch::Receiver<bool>) {
        loop {
            let told = tokio::select! {
                biased;
                told = reader.next() => told,
                _ = finish.wait_for(|finish| *finish) => break,
            };
            let Some(told) = told else { return };
            tokio::select! {
                biased;
                () = self.write_all(lines(&told)) => {}
                _ = finish.wait_for(|finish| *finish) => break,
            }
        }
        while let Ok(Some(told)) = timeout(LAST, reader.next()).await {
            if let Err(error) = self.append(lines(&told)).await {
                return self.warn(&error);
            }
        }
    }

    /// Tries until it succeeds. Meanwhile the events that follow stay in the history.
    async fn write_all(&self, lines: Arc<[u8]>) {
        let mut failures = 0;
        while let Err(error) = self.append(Arc::clone(&lines)).await {
            failures += 1;
            if failures == 1 {
                self.warn(&error);
            }
            sleep(TRY_AGAIN.delay(failures)).await;
        }
        if failures > 0 {
            tracing::info!(file = %self.path.display(), "events are written again");
        }
    }

    fn warn(&self, error: &io::Error) {
        tracing::warn!(
            file = %self.path.display(), %error,
            "events cannot be written to history.file: the driver keeps the last 10,000, and tries again"
        );
    }

    /// On a thread of its own: the file may be on a mount that hangs.
    async fn append(&self, lines: Arc<[u8]>) -> io::Result<()> {
        let (path, most) = (Arc::clone(&self.path), self.most);
        let appended = spawn_blocking(move || append(&path, most, &lines)).await;
        appended.map_err(io::Error::other)?
    }
}

fn lines(told: &[Told]) -> Arc<[u8]> {
    let lines: String = told
        .iter()
        .map(|told| format!("{}\n", told.event))
        .collect();
    Arc::from(lines.into_bytes())
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
