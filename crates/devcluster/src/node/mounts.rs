//! Writes the files of a container's volumes, as far as their content comes from the cluster.
//!
//! A process sees the files of this machine instead of an image's, and nothing can be mounted for it. Therefore the
//! container's working directory serves as its root: a volume mounted at `/var/run/x` is at `var/run/x` below it. The
//! variable `DEVCLUSTER_ROOT` contains the directory: `cat $(DEVCLUSTER_ROOT)/var/run/x/token` reads the file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::mount_points::{self, MountError, MountPoint, failed, make_directory, relative};
use super::spawn::{self, field_value, resource_value};
use super::volumes;
use crate::access::account;
use crate::access::signing::Keys;
use crate::objects::object::{Key, entries, is_true, list, text, text_or};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The environment variable with a container's root directory.
pub(super) const ROOT: &str = "DEVCLUSTER_ROOT";

/// The directory of a pod's emptyDir volumes, beside those of its containers, whose names have no dots.
const EMPTY_DIRS: &str = ".volumes";

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

/// Mounts the volumes of a container below its root and writes their files. Returns after what time its tokens must be
/// renewed, if it has any.
pub(super) fn write(
    source: &Source<'_>,
    container: &Value,
    root: &Path,
) -> Result<Option<Duration>, MountError> {
    let mut renew: Option<Duration> = None;
    let mut claims: Vec<PathBuf> = Vec::new();
    for point in source.mount_points(container, root)? {
        let Some(volume) = source.volume(point.volume) else {
            continue;
        };
        if let Some(above) = claims.iter().find(|claim| point.path.starts_with(claim)) {
            return Err(MountError::Refused(format!(
                "the volume {} cannot be mounted at /{}: the embedded cluster mounts nothing below the \
                 PersistentVolumeClaim at /{}",
                point.volume,
                point.path.display(),
                above.display()
            )));
        }
        let place = root.join(&point.path);
        if let Some(directory) = source.directory(volume, root)? {
            let part = mount_points::part_of(&directory, &point.sub_path)?;
            mount_points::link(&part, &place)?;
            if volume.get("persistentVolumeClaim").is_some() {
                claims.push(point.path);
            }
            continue;
        }
        let mut is_empty = true;
        for file in source.files(volume, &mut renew)? {
            let Ok(below) = file.path.strip_prefix(&point.sub_path) else {
                continue;
            };
            // The subPath of a single file is mounted as that file.
            let path: PathBuf = place.components().chain(below.components()).collect();
            write_file(&path, &file.content).map_err(|e| failed(&path, &e))?;
            is_empty = false;
        }
        if is_empty && !point.sub_path.as_os_str().is_empty() {
            return Err(MountError::Refused(format!(
                "the volume {} has no subPath {:?}",
                point.volume,
                point.sub_path.display().to_string()
            )));
        }
    }
    Ok(renew)
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

    fn volume(&self, name: &str) -> Option<&Value> {
        let volumes = list(self.pod, &["spec", "volumes"]);
        volumes.iter().find(|v| text(v, &["name"]) == name)
    }

    fn mount_points<'c>(
        &self,
        container: &'c Value,
        root: &Path,
    ) -> Result<Vec<MountPoint<'c>>, MountError> {
        MountPoint::all(container, |expression| {
            let env = spawn::environment(self.state, self.pod, container, root)?;
            let expanded = spawn::expand(expression, &env);
            match expanded.contains("$(") {
                true => Err(format!(
                    "the subPathExpr {expression:?} names an unknown variable"
                )),
                false => Ok(expanded),
            }
        })
    }

    /// The directory of a volume that containers share and write to; `None` for other volumes.
    fn directory(&self, volume: &Value, root: &Path) -> Result<Option<PathBuf>, String> {
        if let Some(claim) = volume.get("persistentVolumeClaim") {
            let directory = self.claim_directory(text(claim, &["claimName"]), root)?;
            return Ok(Some(directory));
        }
        let pod = root.parent().unwrap_or(root);
        let is_empty_dir = volume.get("emptyDir").is_some();
        Ok(is_empty_dir.then(|| pod.join(EMPTY_DIRS).join(text(volume, &["name"]))))
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
            // No controller publishes the cluster's CA here; tokens are mounted nevertheless.
            if is_true(source, &["optional"]) || name == "kube-root-ca.crt" {
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
                let content = match item.get("resourceFieldRef") {
                    Some(resource) => resource_value(self.pod, None, resource)?,
                    None => field_value(self.pod, text(item, &["fieldRef", "fieldPath"]))?,
                };
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
mod tests;
