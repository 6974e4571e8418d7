//! Removes what pods leave on disk: the files of Secrets and tokens when its containers have ended, and the rest of its
//! directory, with the logs, when the pod is gone.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::mount_points::{MountPoint, make_directory};
use crate::objects::object::{list, text};

/// How the names of temporary directories begin; the process' id follows.
pub(super) const TEMPORARY: &str = "devcluster-";

/// Claims a state directory for one cluster, as long as the file is open. Returns `None` if another cluster uses it.
pub(super) fn lock(state_dir: &Path) -> Option<File> {
    let opened = make_directory(state_dir).and_then(|()| File::create(state_dir.join("lock")));
    // A process that is just being started has a copy of all open files, also of one that was closed since.
    let is_locked = |file: &File| {
        (0..20).any(|attempt| {
            sleep(Duration::from_millis(if attempt == 0 { 0 } else { 5 }));
            file.try_lock().is_ok()
        })
    };
    opened.ok().filter(is_locked)
}

/// Removes the temporary directories of this user's clusters that were killed.
pub(super) fn remove_killed_clusters(base: &Path) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str());
        let process = name
            .and_then(|name| name.strip_prefix(TEMPORARY)?.split_once('-'))
            .and_then(|(process, _)| process.parse::<u32>().ok());
        let lives = |process| Path::new(&format!("/proc/{process}")).exists();
        let is_own = fs::symlink_metadata(&path).is_ok_and(|metadata| {
            metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw()
        });
        // The lock shows a cluster whose processes cannot be seen from here.
        if process.is_some_and(|process| !lives(process)) && is_own && lock(&path).is_some() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Removes the files that came from Secrets and service accounts from the directories of a pod's containers.
pub(super) fn remove_secrets(pod: &Value, directory: &Path) {
    let is_secret = |name: &str| {
        let volumes = list(pod, &["spec", "volumes"]);
        volumes.iter().any(|volume| {
            text(volume, &["name"]) == name
                && (volume.get("secret").is_some() || volume.get("projected").is_some())
        })
    };
    for kind in ["initContainers", "containers"] {
        for container in list(pod, &["spec", kind]) {
            // Which part of the volume was mounted makes no difference.
            let Ok(points) = MountPoint::all(container, |_| Ok(String::new())) else {
                continue;
            };
            let root = directory.join(text(container, &["name"]));
            for point in points.iter().filter(|point| is_secret(point.volume)) {
                let place = root.join(&point.path);
                if let Err(error) = remove_inside(directory, &place) {
                    tracing::warn!(target: "cluster.node", place = %place.display(), %error, "cannot remove a Secret of a pod that has ended");
                }
            }
        }
    }
}

/// Removes a file or directory, if it is in this directory: a process may have put a link above it.
fn remove_inside(directory: &Path, place: &Path) -> io::Result<()> {
    let removed = || {
        let parent = place.parent().unwrap_or(place).canonicalize()?;
        if !parent.starts_with(directory.canonicalize()?) {
            return Err(io::Error::other("it is outside of the pod's directory"));
        }
        match fs::symlink_metadata(place)?.is_dir() {
            true => fs::remove_dir_all(place),
            false => fs::remove_file(place),
        }
    };
    match removed() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the directory of a pod that is gone. Its claims are not in it, but links to them, which are not followed.
pub(super) async fn remove_directory(directory: PathBuf) {
    match tokio::fs::remove_dir_all(&directory).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(target: "cluster.node", directory = %directory.display(), %error, "cannot remove the directory of a pod that is gone");
        }
        _ => {}
    }
}

/// Removes the directories of all pods but these, which are named by their uids.
pub(super) async fn remove_leftovers(pods: PathBuf, stay: BTreeSet<String>) {
    let Ok(mut entries) = tokio::fs::read_dir(&pods).await else {
        // There was no pod yet.
        return;
    };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let is_directory = entry.file_type().await.is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let uid = name.to_str().and_then(uid_of);
        if is_directory && uid.is_some_and(|uid| !stay.contains(uid)) {
            remove_directory(entry.path()).await;
        }
    }
}

/// The uid in the name of a pod's directory; `None` for a name that no pod's directory has.
fn uid_of(name: &str) -> Option<&str> {
    let mut parts = name.split('_');
    let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let is_a_pods = !namespace.is_empty() && !name.is_empty() && parts.next().is_none();
    let is_uid = Uuid::parse_str(uid).is_ok_and(|parsed| parsed.to_string() == uid);
    (is_a_pods && is_uid).then_some(uid)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    // spec: O-73
    #[test]
    fn directories_of_killed_clusters_are_removed_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (ended, own) = (ended.id(), std::process::id());
        let path = |name: &str| base.path().join(name);
        let killed = path(&format!("devcluster-{ended}-0"));
        let locked = path(&format!("devcluster-{ended}-1"));
        let stay = [
            locked.clone(),
            path(&format!("devcluster-{own}-0")),
            path("devcluster-x-0"),
            path("other"),
        ];
        for directory in stay.iter().chain([&killed]) {
            fs::create_dir_all(directory.join("pods/p")).unwrap();
        }
        let link = path(&format!("devcluster-{ended}-2"));
        std::os::unix::fs::symlink(path("other"), &link).unwrap();
        let _lock = lock(&locked).unwrap();
        remove_killed_clusters(base.path());
        assert!(!killed.exists());
        assert!(stay.iter().all(|path| path.join("pods/p").exists()));
        assert!(link.exists());
    }
}
