//! What a heartbeat says: the busy slots and metrics that the child reports in the status file, and what the container
//! uses (spec B-10, B-21, O-142).
//!
//! Only the child knows how busy it is. Until it reports, all its slots count as busy, because an
//! idle executor may be removed.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::Instant;

use crate::file;
use crate::protocol::{FromExecutor, Heartbeat, MESSAGE_LIMIT, read};
use crate::usage::UsageReader;

/// The environment variable of the child that has the status file's path.
pub const STATUS_FILE: &str = "BOATSWAIN_STATUS_FILE";

/// A private temporary directory for the status file, which is removed on drop.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> io::Result<Self> {
        let number: u64 = rand::make_rng::<StdRng>().random();
        let path = std::env::temp_dir().join(format!("boatswain-agent-{number:016x}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("status.json")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            let directory = self.0.display();
            tracing::debug!(%directory, %error, "a temporary directory could not be removed");
        }
    }
}

/// The latest report of the child, and its container's use.
#[derive(Debug)]
pub(super) struct Status {
    file: Option<PathBuf>,
    said: Option<Heartbeat>,
    usage: UsageReader,
    /// The latest error about the file, so that each error is logged only once.
    wrong: Option<String>,
}

impl Status {
    /// Reports from this file; without one all slots count as busy.
    pub(super) fn of(file: Option<PathBuf>) -> Self {
        Self {
            file,
            said: None,
            usage: UsageReader::of_this_container(),
            wrong: None,
        }
    }

    /// The next heartbeat of an executor with `slots` slots.
    pub(super) fn heartbeat(&mut self, session: u64, slots: u32) -> Heartbeat {
        self.look();
        let said = self.said.clone().unwrap_or(Heartbeat {
            busy_slots: slots,
            ..Heartbeat::default()
        });
        Heartbeat {
            session: Some(session),
            busy_slots: said.busy_slots.min(slots),
            usage: self.usage.read(Instant::now()).or(said.usage),
            ..said
        }
    }

    fn look(&mut self) {
        let Some(file) = &self.file else {
            return;
        };
        let wrong = match contents(file) {
            Ok(None) => {
                self.said = None;
                None
            }
            // The child is just writing the file; the previous report still applies.
            Ok(Some(bytes)) if bytes.is_empty() => return,
            Ok(Some(bytes)) => match understood(&bytes) {
                Ok(said) => {
                    self.said = Some(said);
                    None
                }
                Err(wrong) => Some(wrong),
            },
            Err(error) => Some(error.to_string()),
        };
        if let Some(wrong) = wrong
            .as_ref()
            .filter(|wrong| self.wrong.as_ref() != Some(wrong))
        {
            let file = file.display();
            tracing::warn!(%file, wrong, "the status file could not be read; the previous status still applies");
        }
        self.wrong = wrong;
    }
}

/// The file's content, up to the limit of messages; `None` if the file does not exist.
fn contents(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = match file::open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let most = u64::try_from(MESSAGE_LIMIT).unwrap_or(u64::MAX);
    opened.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Parses a heartbeat without the fields that only the agent knows, with the limits that the driver
/// applies.
fn understood(bytes: &[u8]) -> Result<Heartbeat, String> {
    if bytes.len() > MESSAGE_LIMIT {
        return Err(format!("it has more than {MESSAGE_LIMIT} bytes"));
    }
    let said: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let Value::Object(mut said) = said else {
        return Err("it is not a JSON object".to_owned());
    };
    said.remove("session");
    said.insert("type".to_owned(), "heartbeat".into());
    match read(Value::Object(said).to_string().as_bytes()) {
        Ok(FromExecutor::Heartbeat(heartbeat)) => Ok(heartbeat),
        Ok(_) => Err("it is no heartbeat".to_owned()),
        Err(misread) => Err(misread.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The busy slots out of four after each of these file contents.
    fn busy_after(says: &[&str]) -> Vec<u32> {
        let scratch = Scratch::new().unwrap();
        let mut status = Status::of(Some(scratch.file()));
        let mut busy = vec![status.heartbeat(7, 4).busy_slots];
        for text in says {
            fs::write(scratch.file(), text).unwrap();
            busy.push(status.heartbeat(7, 4).busy_slots);
        }
        busy
    }

    // spec: B-21, O-60
    #[test]
    fn a_child_that_says_nothing_is_busy_and_one_that_says_so_is_idle() {
        let says = [r#"{"busy_slots": 0}"#, r#"{"busy_slots": 3}"#];
        assert_eq!(busy_after(&says), [4, 0, 3]);
        assert_eq!(Status::of(None).heartbeat(7, 4).busy_slots, 4);
    }

    // spec: I-11, O-60
    #[test]
    fn what_is_not_understood_changes_nothing_and_more_than_there_is_is_all() {
        let long = format!(
            r#"{{"busy_slots": 1, "x": "{}"}}"#,
            "x".repeat(MESSAGE_LIMIT)
        );
        let says = [
            r#"{"busy_slots": 1}"#,
            "",
            r#"{"busy_sl"#,
            "[]",
            r#"{"busy_slots": -1}"#,
            "{}",
            &long,
            r#"{"busy_slots": 9, "session": 1, "type": "exiting"}"#,
        ];
        assert_eq!(busy_after(&says), [4, 1, 1, 1, 1, 1, 1, 1, 4]);
    }

    // spec: B-10, B-32
    #[test]
    fn figures_go_along_with_the_session_of_the_agent() {
        let scratch = Scratch::new().unwrap();
        let says = r#"{"busy_slots": 1, "metrics": {"gc_ms": 2.5}, "session": 1}"#;
        fs::write(scratch.file(), says).unwrap();
        let heartbeat = Status::of(Some(scratch.file())).heartbeat(7, 4);
        assert_eq!(heartbeat.session, Some(7));
        assert_eq!(heartbeat.metrics["gc_ms"], 2.5);
        let directory = scratch.file();
        drop(scratch);
        assert!(!directory.exists());
    }
}
