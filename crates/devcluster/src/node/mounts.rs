//! Writes the files of a container's volumes, as far as their content comes from the cluster.
//!
//! A process sees the files of this machine instead of an image's, and nothing can be mounted for it. Therefore the
//! container's working directory serves as its root: a volume mounted at `/var/run/x` is at `var/run/x` below it. The
//! variable `DEVCLUSTER_ROOT` contains the directory: `cat $(DEVCLUSTER_ROOT)/var/run/x/token` reads the file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::spawn::field_value;
use super::volumes;
use crate::access::account;
use crate::access::signing::Keys;
use crate::objects::object::{Key, entries, is_true, list, text, text_or};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The environment variable with a container's root directory.
pub(super) const ROOT: &str = "DEVCLUSTER_ROOT";

#[derive(Debug, PartialEq, Eq)]
struct File {
    path: PathBuf,
    content: Vec<u8>,
}

/// Where the content of the files comes from.
pub(super) struct Source<'a> {
    pub(super) state: &'a State,
    pub(super) keys: &'a Keys,
    pub(super) pod: &'a Value,
    pub(super) now: Timestamp,
}

/// Writes the files of a container below its root. Returns after what time its tokens must be renewed, if it has any.
pub(super) fn write(
    source: &Source<'_>,
    container: &Value,
    root: &Path,
) -> Result<Option<Duration>, String> {
    let mut renew: Option<Duration> = None;
    for mount in list(container, &["volumeMounts"]) {
        let name = text(mount, &["name"]);
        let volume = list(source.pod, &["spec", "volumes"])
            .iter()
            .find(|v| text(v, &["name"]) == name);
        let Some(volume) = volume else {
            continue;
        };
        let below = relative(text(mount, &["mountPath"]))?;
        let directory = root.join(below);
        if volume.get("emptyDir").is_some() {
            make_directory(&directory).map_err(|e| failed(&directory, &e))?;
        }
        if let Some(claim) = volume.get("persistentVolumeClaim") {
            let kept = source.claim_directory(text(claim, &["claimName"]), root)?;
            link(&kept, &directory).map_err(|e| failed(&directory, &e))?;
        }
        for file in source.files(volume, &mut renew)? {
            let path = directory.join(&file.path);
            write_file(&path, &file.content).map_err(|e| failed(&path, &e))?;
        }
    }
    Ok(renew)
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// Maps a path of the container to one below its root, which it must not leave.
fn relative(path: &str) -> Result<PathBuf, String> {
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

fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

/// Links a mount path to the directory of its volume.
fn link(kept: &Path, mounted: &Path) -> io::Result<()> {
    make_directory(kept)?;
    if let Some(parent) = mounted.parent() {
        make_directory(parent)?;
    }
    match symlink(kept, mounted) {
        // The link exists already if the container is restarted.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Writes a file atomically, accessible to its owner only. Concurrent readers see the old content or the new.
fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    fs::rename(&temporary, path)
}

impl Source<'_> {
    fn namespace(&self) -> &str {
        text(self.pod, &["metadata", "namespace"])
    }

    /// The directory of a claimed volume. It is outside the pods' directories, because volumes outlive pods.
    fn claim_directory(&self, name: &str, root: &Path) -> Result<PathBuf, String> {
        let key = Key::new(Resource::PersistentVolumeClaims, self.namespace(), name);
        let claim = self.state.get(&key);
        let claim = claim.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
        let base = root.ancestors().nth(3).unwrap_or(root);
        Ok(base
            .join("volumes")
            .join(volumes::directory_of(claim.value())))
    }

    fn files(&self, volume: &Value, renew: &mut Option<Duration>) -> Result<Vec<File>, String> {
        if let Some(map) = volume.get("configMap") {
            return self.data(Resource::ConfigMaps, map, text(map, &["name"]));
        }
        if let Some(secret) = volume.get("secret") {
            return self.data(Resource::Secrets, secret, text(secret, &["secretName"]));
        }
        if let Some(fields) = volume.get("downwardAPI") {
            return self.fields(fields);
        }
        let mut files = Vec::new();
        for part in list(volume, &["projected", "sources"]) {
            if let Some(map) = part.get("configMap") {
                files.extend(self.data(Resource::ConfigMaps, map, text(map, &["name"]))?);
            } else if let Some(secret) = part.get("secret") {
                files.extend(self.data(Resource::Secrets, secret, text(secret, &["name"]))?);
            } else if let Some(fields) = part.get("downwardAPI") {
                files.extend(self.fields(fields)?);
            } else if let Some(wanted) = part.get("serviceAccountToken") {
                files.push(self.token(wanted, renew)?);
            }
        }
        Ok(files)
    }

    fn data(&self, resource: Resource, source: &Value, name: &str) -> Result<Vec<File>, String> {
        let found = self.state.get(&Key::new(resource, self.namespace(), name));
        let Some(found) = found else {
            if is_true(source, &["optional"]) {
                return Ok(Vec::new());
            }
            let kind = resource.traits().kind.to_lowercase();
            return Err(format!("{kind} \"{name}\" not found"));
        };
        let items = list(source, &["items"]);
        let mut files = Vec::new();
        for field in ["data", "binaryData"] {
            let is_plain = field == "data" && resource == Resource::ConfigMaps;
            for (key, value) in entries(found.value(), &[field]) {
                let item = items.iter().find(|item| text(item, &["key"]) == key);
                let path = match item {
                    Some(item) => text(item, &["path"]),
                    None if items.is_empty() => key,
                    None => continue,
                };
                let value = value.as_str().unwrap_or_default();
                let content = if is_plain {
                    value.as_bytes().to_vec()
                } else {
                    BASE64.decode(value).unwrap_or_default()
                };
                let path = relative(path)?;
                files.push(File { path, content });
            }
        }
        Ok(files)
    }

    fn fields(&self, source: &Value) -> Result<Vec<File>, String> {
        list(source, &["items"])
            .iter()
            .map(|item| {
                let content = field_value(self.pod, text(item, &["fieldRef", "fieldPath"]))?;
                Ok(File {
                    path: relative(text(item, &["path"]))?,
                    content: content.into_bytes(),
                })
            })
            .collect()
    }

    /// A service account token that is bound to the pod.
    fn token(&self, wanted: &Value, renew: &mut Option<Duration>) -> Result<File, String> {
        let account = text_or(self.pod, &["spec", "serviceAccountName"], "default");
        let mut request = json!({"spec": {"boundObjectRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": text(self.pod, &["metadata", "name"]),
            "uid": text(self.pod, &["metadata", "uid"]),
        }}});
        let audience = text(wanted, &["audience"]);
        if !audience.is_empty() {
            request["spec"]["audiences"] = json!([audience]);
        }
        if let Some(lasts) = wanted.get("expirationSeconds") {
            request["spec"]["expirationSeconds"] = lasts.clone();
        }
        let key = Key::new(Resource::ServiceAccounts, self.namespace(), account);
        let answer = account::request(self.keys, self.state, &key, &request, self.now)
            .map_err(|e| format!("failed to fetch token: {}", e.message))?;
        let lasts = answer
            .pointer("/spec/expirationSeconds")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        // As the kubelet does, the token is renewed well before it expires.
        let after = Duration::from_secs(lasts / 5 * 4);
        *renew = Some(renew.map_or(after, |before| before.min(after)));
        Ok(File {
            path: relative(text(wanted, &["path"]))?,
            content: text(&answer, &["status", "token"]).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::account::Account;

    fn world() -> (State, Value) {
        let mut state = State::new(10);
        for (resource, object) in [
            (
                Resource::ServiceAccounts,
                json!({"metadata": {"name": "default", "uid": "u-a"}}),
            ),
            (
                Resource::ConfigMaps,
                json!({"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}}),
            ),
            (
                Resource::Secrets,
                json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}}),
            ),
        ] {
            let key = Key::new(resource, "ns", text(&object, &["metadata", "name"]));
            state.put(key, object).expect("stored");
        }
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u-p"},
            "spec": {"volumes": [
                {"name": "token", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token", "audience": "driver", "expirationSeconds": 1000}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]}},
                {"name": "map", "configMap": {"name": "m", "items": [{"key": "b", "path": "x/b"}]}},
                {"name": "secret", "secret": {"secretName": "s"}},
                {"name": "up", "configMap": {"name": "m", "items": [{"key": "a", "path": "../a"}]}},
            ]},
        });
        let key = Key::new(Resource::Pods, "ns", "p");
        state.put(key, pod.clone()).expect("stored");
        (state, pod)
    }

    fn written(
        mounts: Value,
    ) -> Result<(tempfile::TempDir, Option<Duration>, State, Keys), String> {
        let (state, pod) = world();
        let keys = Keys::generate();
        let root = tempfile::tempdir().expect("a directory");
        let source = Source {
            state: &state,
            keys: &keys,
            pod: &pod,
            now: Timestamp::UNIX_EPOCH,
        };
        let renew = write(&source, &json!({"volumeMounts": mounts}), root.path())?;
        Ok((root, renew, state, keys))
    }

    // spec: O-50
    #[test]
    fn a_projected_token_is_below_the_root_and_bound_to_the_pod() {
        let mounts = json!([{"name": "token", "mountPath": "/var/run/x"}]);
        let (root, renew, state, keys) = written(mounts).expect("written");
        let read = |name: &str| {
            fs::read_to_string(root.path().join("var/run/x").join(name)).expect("a file")
        };
        let account = Account::read(&keys, &read("token"), &state, Timestamp::UNIX_EPOCH)
            .expect("an account");
        assert!(account.is_for(&["driver"]));
        assert_eq!(
            account.user().extra["authentication.kubernetes.io/pod-uid"],
            json!(["u-p"])
        );
        assert_eq!(renew, Some(Duration::from_secs(800)));
        assert_eq!(read("name"), "p");
    }

    #[test]
    fn config_maps_and_secrets_are_written_to_their_mount_paths() {
        let mounts =
            json!([{"name": "map", "mountPath": "/m"}, {"name": "secret", "mountPath": "/s"}]);
        let (root, renew, ..) = written(mounts).expect("written");
        let read = |name: &str| fs::read_to_string(root.path().join(name)).ok();
        assert_eq!(read("m/x/b").as_deref(), Some("2"));
        assert_eq!(read("m/a"), None);
        assert_eq!(read("s/k").as_deref(), Some("v"));
        assert_eq!(renew, None);
    }

    #[test]
    fn nothing_is_written_outside_the_root() {
        for mounts in [
            json!([{"name": "map", "mountPath": "/../m"}]),
            json!([{"name": "up", "mountPath": "/m"}]),
        ] {
            let error = written(mounts).map(|_| ()).expect_err("refused");
            assert!(error.contains("must not lead upwards"), "{error}");
        }
    }
}
