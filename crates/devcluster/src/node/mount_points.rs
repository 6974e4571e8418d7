//! Where a container's volumes are mounted below its root, by symbolic links.
//!
//! A link cannot do everything that a mount can: a mount below a claim's would leave a link among the claim's files,
//! where other pods would follow it. Such mounts are refused.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::objects::object::{list, text};

/// Why the volumes of a container are not mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MountError {
    /// The specification asks for something that is not possible here.
    Refused(String),
    /// The mount failed, or the content of a volume is missing.
    Failed(String),
}

impl From<String> for MountError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// A mount of a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountPoint<'a> {
    /// The name of the volume.
    pub(super) volume: &'a str,
    /// The place below the container's root.
    pub(super) path: PathBuf,
    /// The part of the volume that is mounted; empty for all of it.
    pub(super) sub_path: PathBuf,
}

impl<'a> MountPoint<'a> {
    /// The mounts of a container, each after those that it is below. `expand` replaces variables in `subPathExpr`.
    pub(super) fn all(
        container: &'a Value,
        expand: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Vec<Self>, MountError> {
        let mut all = Vec::new();
        for mount in list(container, &["volumeMounts"]) {
            let expression = text(mount, &["subPathExpr"]);
            let sub_path = match expression {
                "" => text(mount, &["subPath"]).to_owned(),
                expression => expand(expression).map_err(MountError::Refused)?,
            };
            if sub_path.starts_with('/') {
                return Err(MountError::Refused(format!(
                    "the subPath {sub_path:?} must be a relative path"
                )));
            }
            let path = text(mount, &["mountPath"]);
            let point = Self {
                volume: text(mount, &["name"]),
                path: relative(path).map_err(MountError::Refused)?,
                sub_path: relative(&sub_path).map_err(MountError::Refused)?,
            };
            if point.path.as_os_str().is_empty() {
                return Err(MountError::Refused(format!(
                    "a volume cannot be mounted at {path:?}, the root of the container"
                )));
            }
            all.push(point);
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }
}

/// Maps a path of the container to one below its root, which it must not leave.
pub(super) fn relative(path: &str) -> Result<PathBuf, String> {
    let mut below = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => below.push(part),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("the path {path} must not lead upwards"));
            }
        }
    }
    Ok(below)
}

pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

pub(super) fn failed(path: &Path, error: &io::Error) -> MountError {
    MountError::Failed(format!("cannot write {}: {error}", path.display()))
}

/// The part of a volume at a path below it. Directories that do not exist are made. Links in the volume are followed as
/// long as they stay in it.
pub(super) fn part_of(volume: &Path, sub_path: &Path) -> Result<PathBuf, MountError> {
    let base = make_directory(volume).and_then(|()| volume.canonicalize());
    let base = base.map_err(|e| failed(volume, &e))?;
    let mut part = base.clone();
    for component in sub_path {
        let next = part.join(component);
        // Without an error if a link leads nowhere.
        if fs::symlink_metadata(&next).is_err() {
            make_directory(&next).map_err(|e| failed(&next, &e))?;
        }
        part = next.canonicalize().map_err(|e| failed(&next, &e))?;
        if !part.starts_with(&base) {
            return Err(MountError::Refused(format!(
                "the subPath {:?} leads out of its volume",
                sub_path.display().to_string()
            )));
        }
    }
    Ok(part)
}

/// Mounts a directory or file by a link. A link that exists already is left: the container is restarted.
pub(super) fn link(target: &Path, mounted: &Path) -> Result<(), MountError> {
    if let Some(parent) = mounted.parent() {
        make_directory(parent).map_err(|e| failed(parent, &e))?;
    }
    // An empty directory is what a mount would hide.
    let _ = fs::remove_dir(mounted);
    match symlink(target, mounted) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::read_link(mounted).is_ok_and(|there| there == target) {
                return Ok(());
            }
            Err(MountError::Refused(format!(
                "cannot mount a volume at {}: there is something else",
                mounted.display()
            )))
        }
        linked => linked.map_err(|e| failed(mounted, &e)),
    }
}
