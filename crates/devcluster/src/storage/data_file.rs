//! Persists the cluster's state in a file. Each write is on the disk before it is answered.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

use super::format::{self, Unusable};
use super::server::Published;
use super::store::{Compacted, State};
use crate::access::signing::Keys;

/// A file shorter than this, in bytes, is not rewritten, however much of it is history.
const MIN_REWRITE_SIZE: u64 = 16 * 1024 * 1024;

/// A process that is being started has the lock, too, until it runs its program.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Why the state cannot be persisted.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the cluster's state in {path}", path = .path.display())]
pub struct DataFileError {
    path: PathBuf,
    source: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("another cluster uses this file")]
    InUse,
    #[error("{} is in the way: remove it", .0.display())]
    InTheWay(PathBuf),
    #[error(transparent)]
    Unusable(#[from] Unusable),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a task of this program was cancelled")]
    Cancelled,
}

#[derive(Debug)]
pub struct DataFile {
    path: PathBuf,
    /// Locked while it is open.
    file: File,
    /// The version up to which the file is complete, and the count of resets at that time.
    kept: (u64, u64),
    bytes: u64,
    /// The file's length when it was last rewritten, in bytes.
    whole: u64,
    /// A file shorter than this, in bytes, is not rewritten because of its length.
    min_rewrite_size: u64,
    keys: Keys,
}

impl DataFile {
    /// Opens a data file and decodes its state, or creates the file. Only its owner can access it, because it contains
    /// all secrets of the cluster.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, is in use by another cluster, or was not written by this program.
    pub fn open(path: &Path, log_limit: usize) -> Result<(Self, Option<State>), DataFileError> {
        let failed = |source| DataFileError {
            path: path.to_owned(),
            source,
        };
        let opened = open(path, log_limit).map_err(failed)?;
        let (file, state, bytes, keys) = opened;
        let data_file = Self {
            path: path.to_owned(),
            file,
            kept: (state.as_ref().map_or(0, State::resource_version), 0),
            bytes,
            whole: bytes,
            min_rewrite_size: MIN_REWRITE_SIZE,
            keys,
        };
        Ok((data_file, state))
    }

    /// The key that signs the tokens of service accounts. It is stored in the file.
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Appends the writes that are not in the file yet, and waits until they are on the disk.
    pub(crate) async fn save(self, now: &Published) -> Result<Self, DataFileError> {
        let now = (now.state.clone(), now.resets);
        if self.kept == (now.0.resource_version(), now.1) && self.bytes > 0 {
            return Ok(self);
        }
        let path = self.path.clone();
        let kept = tokio::task::spawn_blocking(move || self.write(&now.0, now.1)).await;
        kept.unwrap_or(Err(Reason::Cancelled))
            .map_err(|source| DataFileError { path, source })
    }

    fn write(mut self, state: &State, resets: u64) -> Result<Self, Reason> {
        let mut news = Vec::new();
        let (version, known) = self.kept;
        let appended = if known == resets && self.bytes > 0 {
            format::append_since(&mut news, state, version)
        } else {
            Err(Compacted)
        };
        let grown = self.bytes + news.len() as u64;
        if appended.is_err() || (grown > self.min_rewrite_size && grown > 2 * self.whole) {
            self.replace(state)?;
        } else if !news.is_empty() {
            self.file.write_all(&news)?;
            self.file.sync_data()?;
            self.bytes = grown;
        }
        self.kept = (state.resource_version(), resets);
        Ok(self)
    }

    /// Rewrites the file: writes the whole state to a new file and renames that over the old one.
    fn replace(&mut self, state: &State) -> Result<(), Reason> {
        let beside = beside(&self.path, ".new");
        remove_own(&beside)?;
        let mut file = create(&beside)?;
        lock(&file)?;
        // The log holds everything since the compacted version.
        let whole = format::whole(state, self.keys.to_text().as_deref())
            .map_err(|Compacted| io::Error::other("history is missing"))?;
        file.write_all(&whole)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        sync_directory(&self.path)?;
        self.file = file;
        self.bytes = whole.len() as u64;
        self.whole = self.bytes;
        Ok(())
    }
}

/// What was lost of a damaged data file.
#[derive(Debug)]
pub struct Rescued {
    /// The damaged lines, which were skipped: the line number and the reason.
    pub damage: Vec<String>,
    /// The number of objects that are left.
    pub objects: usize,
    /// The file as it was.
    pub original: PathBuf,
}

/// Rewrites a damaged data file without the damaged lines, and keeps the original as `FILE.damaged`. The history is
/// lost: watches and lists of earlier resource versions are answered with 410 `Expired`. Returns `None` for a file that
/// is not damaged or does not exist.
///
/// # Errors
///
/// If the file is in use, cannot be read or written, or is not a file of this program, or `FILE.damaged` exists.
pub fn rescue(path: &Path) -> Result<Option<Rescued>, DataFileError> {
    rescue_lines(path).map_err(|source| DataFileError {
        path: path.to_owned(),
        source,
    })
}

fn rescue_lines(path: &Path) -> Result<Option<Rescued>, Reason> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    lock(&file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let first = match format::load(&bytes, 1) {
        _ if bytes.is_empty() => return Ok(None),
        Ok(_) => return Ok(None),
        Err(Unusable::Damaged(damage)) => damage,
        Err(error) => return Err(error.into()),
    };
    let (loaded, damage) = format::rescue(&bytes)?;
    let original = beside(path, ".damaged");
    let mut copy = create(&original)?;
    copy.write_all(&bytes)?;
    copy.sync_all()?;
    sync_directory(&original)?;
    let mut damage: Vec<String> = damage.iter().map(ToString::to_string).collect();
    if damage.is_empty() {
        damage.push(first.to_string());
    }
    let keys = loaded.key.as_deref().and_then(Keys::from_text);
    let mut data_file = DataFile {
        path: path.to_owned(),
        file,
        kept: (0, 0),
        bytes: 0,
        whole: 0,
        min_rewrite_size: MIN_REWRITE_SIZE,
        keys: keys.unwrap_or_else(Keys::generate),
    };
    data_file.replace(&loaded.state)?;
    Ok(Some(Rescued {
        damage,
        objects: loaded.state.objects().len(),
        original,
    }))
}

/// The path with a suffix.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.to_owned().into_os_string();
    beside.push(suffix);
    beside.into()
}

/// Creates a file that only its owner can access. An existing file or symbolic link is not used: another user could
/// have made it, and would read the cluster's secrets.
fn create(path: &Path) -> Result<File, Reason> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Reason::InTheWay(path.to_owned()),
        _ => error.into(),
    })
}

/// Removes a file that an earlier process of this user left behind.
fn remove_own(path: &Path) -> Result<(), Reason> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.uid() == geteuid().as_raw() => {
            Ok(std::fs::remove_file(path)?)
        }
        Ok(_) => Err(Reason::InTheWay(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a rename in the file's directory survive a crash of the machine.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

fn lock(file: &File) -> Result<(), Reason> {
    let mut tries = LOCK_TRIES;
    loop {
        tries -= 1;
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries > 0 => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(Reason::InUse),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// Opens and locks the file. Returns it, its state, the length of that, and the signing key.
fn open(path: &Path, log_limit: usize) -> Result<(File, Option<State>, u64, Keys), Reason> {
    let mut file = options().open(path)?;
    lock(&file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok((file, None, 0, Keys::generate()));
    }
    let loaded = format::load(&bytes, log_limit)?;
    let length = loaded.length as u64;
    if loaded.length < bytes.len() {
        tracing::warn!(
            path = %path.display(),
            "dropped an incomplete last line: its write was never answered"
        );
        file.set_len(length)?;
    }
    file.seek(SeekFrom::End(0))?;
    Ok(match loaded.key.as_deref().and_then(Keys::from_text) {
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
        let (mut data_file, state) = DataFile::open(&path, 10).unwrap();
        data_file.min_rewrite_size = 0;
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
            data_file = data_file.write(&state, 0).unwrap();
            longest = longest.max(std::fs::metadata(&path).unwrap().len());
        }
        assert!(
            longest < 50 * 200,
            "{longest} bytes for one object and ten writes of it"
        );
        let keys = data_file.keys().clone();
        drop(data_file);
        let key = keys.to_text();
        let (data_file, kept) = DataFile::open(&path, 10).unwrap();
        assert_eq!((data_file.keys().to_text(), key.is_some()), (key, true));
        let kept = kept.unwrap();
        assert_eq!(kept.resource_version(), state.resource_version());
        assert_eq!(kept.compacted(), state.compacted());
    }

    fn state() -> State {
        let mut state = State::new(10);
        let key = Key::new(Resource::ConfigMaps, "default", "a");
        let metadata = json!({"name": "a", "namespace": "default", "uid": "u"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        state.put(key, map).unwrap();
        state
    }

    // spec: O-72
    #[test]
    fn a_left_over_new_file_is_replaced_and_not_reused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let left = beside(&path, ".new");
        std::fs::write(&left, "left by a process that died").unwrap();
        let reader = File::open(&left).unwrap();
        let (data_file, _) = DataFile::open(&path, 10).unwrap();
        data_file.write(&state(), 0).unwrap();
        assert_ne!(
            reader.metadata().unwrap().ino(),
            std::fs::metadata(&path).unwrap().ino(),
            "it may be open elsewhere"
        );
        assert!(!left.exists());
    }

    // spec: O-72
    #[test]
    fn a_symbolic_link_is_not_followed_to_write_the_state() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "other content").unwrap();
        std::os::unix::fs::symlink(&victim, beside(&path, ".new")).unwrap();
        let (data_file, _) = DataFile::open(&path, 10).unwrap();
        let refused = data_file.write(&state(), 0).map(|_| ()).unwrap_err();
        assert!(
            refused
                .to_string()
                .ends_with("data.new is in the way: remove it")
        );
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "other content");
    }
}
