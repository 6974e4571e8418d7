//! Notices files that change while the executor runs, such as a token in a mounted Secret (spec O-87).
//!
//! The kubelet brings a changed Secret into a pod up to two minutes later, so only the pod itself knows when its files
//! are new.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::file_state::{FileState, file_state};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Files {
    files: Vec<(PathBuf, FileState)>,
    looks: Interval,
}

impl Files {
    /// Files as they are now. They need not exist yet.
    pub(super) fn of(paths: Vec<PathBuf>) -> Self {
        let files = paths.into_iter().map(|path| {
            let now = file_state(&path);
            (path, now)
        });
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            files: files.collect(),
            looks,
        }
    }

    /// Waits until a file has changed, or has come, and returns its path. May be cancelled.
    pub(super) async fn changed(&mut self) -> PathBuf {
        if self.files.is_empty() {
            return std::future::pending().await;
        }
        loop {
            self.looks.tick().await;
            if let Some(path) = self.look() {
                return path;
            }
        }
    }

    /// The next file that has changed since it was looked at last. A file that is gone is about to be replaced.
    fn look(&mut self) -> Option<PathBuf> {
        self.files.iter_mut().find_map(|(path, before)| {
            let now = Some(file_state(path)?);
            let changes = *before != now;
            *before = now;
            changes.then(|| path.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::status::Scratch;

    // spec: O-87
    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_noticed_once_and_a_replaced_directory_too() {
        let scratch = Scratch::new().unwrap();
        let place = scratch.file().with_file_name("volume");
        for version in ["1", "2"] {
            let directory = place.with_file_name(version);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("token"), version).unwrap();
        }
        let to = |version: &str| {
            let new = place.with_file_name("new");
            symlink(version, &new).unwrap();
            fs::rename(&new, &place).unwrap();
        };
        to("1");
        let (token, later) = (place.join("token"), scratch.file());
        let mut files = Files::of(vec![token.clone(), later.clone()]);
        assert_eq!(files.look(), None);
        to("2");
        assert_eq!(files.changed().await, token);
        assert_eq!(files.look(), None);
        fs::write(&later, "").unwrap();
        assert_eq!(files.changed().await, later);
        fs::write(&later, "longer").unwrap();
        assert_eq!(files.changed().await, later);
        fs::remove_file(&later).unwrap();
        assert_eq!(files.look(), None);
    }
}
