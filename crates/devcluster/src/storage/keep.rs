//! Persists the cluster's state in a file. Each write is in the file before it is answered.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::data::{self, Unusable};
use super::server::Published;
use super::store::{Forgotten, State};
use crate::access::signing::Keys;

/// A file shorter than this, in bytes, is not rewritten, however much of it is history.
const SHORT: u64 = 16 * 1024 * 1024;

/// Why the state cannot be persisted.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the cluster's state in {path}", path = .path.display())]
pub struct KeepError {
    path: PathBuf,
    source: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("another cluster uses this file")]
    InUse,
    #[error(transparent)]
    Unusable(#[from] Unusable),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a task of this program was cancelled")]
    Cancelled,
}

/// The open data file.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    /// Locked while it is open.
    file: File,
    /// The version up to which the file is complete, and the count of resets at that time.
    kept: (u64, u64),
    bytes: u64,
    /// The file's length when it was last rewritten, in bytes.
    whole: u64,
    /// A file shorter than this, in bytes, is not rewritten because of its length.
    short: u64,
    keys: Keys,
}

impl Keeper {
    /// Opens a data file and decodes its state, or creates the file. Only its owner can access it, because it contains
    /// all secrets of the cluster.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, is in use by another cluster, or was not written by this program.
    pub fn open(path: &Path, log_limit: usize) -> Result<(Self, Option<State>), KeepError> {
        let failed = |source| KeepError {
            path: path.to_owned(),
            source,
        };
        let opened = open(path, log_limit).map_err(failed)?;
        let (file, state, bytes, keys) = opened;
        let keeper = Self {
            path: path.to_owned(),
            file,
            kept: (state.as_ref().map_or(0, State::resource_version), 0),
            bytes,
            whole: bytes,
            short: SHORT,
            keys,
        };
        Ok((keeper, state))
    }

    /// The key that signs the tokens of service accounts. It is stored in the file.
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Appends the writes that are not in the file yet.
    pub(crate) async fn keep(self, now: &Published) -> Result<Self, KeepError> {
        let now = (now.state.clone(), now.resets);
        if self.kept == (now.0.resource_version(), now.1) && self.bytes > 0 {
            return Ok(self);
        }
        let path = self.path.clone();
        let kept = tokio::task::spawn_blocking(move || self.write(&now.0, now.1)).await;
        kept.unwrap_or(Err(Why::Cancelled))
            .map_err(|source| KeepError { path, source })
    }

    fn write(mut self, state: &State, life: u64) -> Result<Self, Why> {
        let mut news = Vec::new();
        let (version, known) = self.kept;
        let appended = if known == life && self.bytes > 0 {
            data::append_since(&mut news, state, version)
        } else {
            Err(Forgotten)
        };
        let grown = self.bytes + news.len() as u64;
        if appended.is_err() || (grown > self.short && grown > 2 * self.whole) {
            self.replace(state)?;
        } else if !news.is_empty() {
            self.file.write_all(&news)?;
            self.bytes = grown;
        }
        self.kept = (state.resource_version(), life);
        Ok(self)
    }

    /// Rewrites the file: writes the whole state to a new file and renames that over the old one.
    fn replace(&mut self, state: &State) -> Result<(), Why> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let mut file = options().truncate(true).open(&beside)?;
        lock(&file)?;
        // The log holds everything since the compacted version.
        let whole = data::whole(state, self.keys.to_keep().as_deref())
            .map_err(|Forgotten| io::Error::other("history is missing"))?;
        file.write_all(&whole)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        self.file = file;
        self.bytes = whole.len() as u64;
        self.whole = self.bytes;
        Ok(())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

fn lock(file: &File) -> Result<(), Why> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Why::InUse,
        TryLockError::Error(error) => Why::Io(error),
    })
}

/// Opens and locks the file. Returns it, its state, the length of that, and the signing key.
fn open(path: &Path, log_limit: usize) -> Result<(File, Option<State>, u64, Keys), Why> {
    let mut file = options().open(path)?;
    lock(&file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok((file, None, 0, Keys::generate()));
    }
    let loaded = data::load(&bytes, log_limit)?;
    let length = loaded.length as u64;
    if loaded.length < bytes.len() {
        tracing::warn!(
            path = %path.display(),
            "dropped an incomplete last line: its write was never answered"
        );
        file.set_len(length)?;
    }
    file.seek(SeekFrom::End(0))?;
    Ok(match loaded.key.as_deref().and_then(Keys::kept) {
        Some(keys) => (file, Some(loaded.state), length, keys),
        // Length 0 makes the file be rewritten, with the key.
        None => (file, Some(loaded.state), 0, Keys::generate()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::object::Key;
    use crate::objects::resource::Resource;

    // spec: O-71
    #[test]
    fn the_file_size_is_bounded_by_the_state_and_not_by_history() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let (mut keeper, state) = Keeper::open(&path, 10).unwrap();
        keeper.short = 0;
        assert!(state.is_none());
        let mut state = State::new(10);
        let mut longest = 0;
        for n in 0..1_000 {
            let key = Key::new(Resource::ConfigMaps, "default", "a");
            let map = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "default", "uid": "u"},
                "data": {"n": n.to_string()},
            });
            state.put(key, map).unwrap();
            keeper = keeper.write(&state, 0).unwrap();
            longest = longest.max(std::fs::metadata(&path).unwrap().len());
        }
        assert!(
            longest < 50 * 200,
            "{longest} bytes for one object and ten writes of it"
        );
        let keys = keeper.keys().clone();
        drop(keeper);
        let key = keys.to_keep();
        let (keeper, kept) = Keeper::open(&path, 10).unwrap();
        assert_eq!((keeper.keys().to_keep(), key.is_some()), (key, true));
        let kept = kept.unwrap();
        assert_eq!(kept.resource_version(), state.resource_version());
        assert_eq!(kept.compacted(), state.compacted());
    }
}
