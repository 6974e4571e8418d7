//! The volumes that are mounted in an executor's container (spec K-5).

use std::collections::BTreeSet;

use super::OBJECT;
use crate::declare::choice;
use crate::kinds::{Amount, Flag, Text, one_of};
use crate::names::{is_dns_label, is_dns_subdomain};
use crate::reader::Section;
use boatswain_model::quantity::Quantity;

/// The prefix of the names of boatswain's own volumes.
pub(crate) const OWN_VOLUMES: &str = "boatswain-";

/// `[[profiles.NAME.volumes]]`: a volume and its mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Unique in the pod.
    pub name: String,
    pub mount_path: String,
    /// The path within the volume that is mounted. `None`: the whole volume.
    pub sub_path: Option<String>,
    pub read_only: bool,
    pub source: VolumeSource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A directory that is created and deleted with the pod.
    EmptyDir {
        /// The pod is evicted when the directory becomes larger.
        size_limit: Option<Quantity>,
        medium: Medium,
    },
    /// A directory or file of the node.
    HostPath {
        path: String,
        /// What must exist at the path, by its name in Kubernetes (`DirectoryOrCreate`). `None`:
        /// nothing is checked.
        kind: Option<String>,
    },
    /// The name of an existing PersistentVolumeClaim.
    Claim(String),
    /// The keys of a ConfigMap, as files.
    ConfigMap {
        name: String,
        /// Whether the ConfigMap may be missing.
        optional: bool,
    },
    /// The keys of a Secret, as files.
    Secret {
        name: String,
        /// Whether the Secret may be missing.
        optional: bool,
    },
}

choice! {
    /// What stores an empty directory.
    #[derive(Default)]
    pub enum Medium {
        /// The node's disk.
        #[default]
        Disk = "Disk",
        /// Memory, which counts towards the executor's limit.
        Memory = "Memory",
    }
}

impl Volume {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let name = Text {
            rule: |name| is_dns_label(name, 63) && !name.starts_with(OWN_VOLUMES),
            allowed: "lowercase letters, digits and inner dashes; names that begin with boatswain- are boatswain's own",
        };
        let mount_path = Text {
            rule: is_absolute,
            allowed: "a path in the container that begins with a slash and has no colon",
        };
        let sub_path = Text {
            rule: |path| {
                !path.is_empty()
                    && !path.starts_with('/')
                    && path.split('/').all(|part| part != "..")
            },
            allowed: "a path within the volume, without a slash first and without ..",
        };
        let host_path = Text {
            rule: |path| is_absolute(path) && path.split('/').all(|part| part != ".."),
            allowed: "a path on the node that begins with a slash, without ..",
        };
        let host_path_type = Text {
            rule: |kind| HOST_PATH_TYPES.contains(&kind),
            allowed: "DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice or BlockDevice",
        };
        let (name, mount_path) = (s.option("name", name), s.option("mount_path", mount_path));
        let sub_path = s.option("sub_path", sub_path);
        let read_only = s.value("read_only", Flag, false);
        let empty_dir = s.value("empty_dir", Flag, false);
        let size_limit = s.option("size_limit", Amount::DISK);
        let medium = s.value("medium", one_of(), Medium::default());
        let host_path = s.option("host_path", host_path);
        let kind = s.option("host_path_type", host_path_type);
        let claim = s.option("claim", CLAIM);
        let config_map = s.option("config_map", OBJECT);
        let secret = s.option("secret", OBJECT);
        let optional = s.value("optional", Flag, false);
        for key in ["name", "mount_path"] {
            if !s.is_set(key) {
                s.refuse_whole(format!("no {key}"), format!("say {key} = \"…\""));
                return None;
            }
        }
        let sources: Vec<VolumeSource> = [
            empty_dir.then_some(VolumeSource::EmptyDir { size_limit, medium }),
            host_path.map(|path| VolumeSource::HostPath { path, kind }),
            claim.map(VolumeSource::Claim),
            config_map.map(|name| VolumeSource::ConfigMap { name, optional }),
            secret.map(|name| VolumeSource::Secret { name, optional }),
        ]
        .into_iter()
        .flatten()
        .collect();
        let kinds = ["empty_dir", "host_path", "claim", "config_map", "secret"];
        let said = kinds.into_iter().filter(|kind| s.is_set(kind)).count();
        // The one source that was given is invalid, and the mistake is already noted.
        if said == 1 && sources.is_empty() && !s.is_set("empty_dir") {
            return None;
        }
        if sources.len() != 1 || said != 1 {
            let fix =
                "set exactly one of empty_dir = true, host_path, claim, config_map and secret";
            s.refuse_whole("a volume without a source, or with more than one", fix);
            return None;
        }
        let source = sources.into_iter().next()?;
        if refuses_keys_of_others(s, &source) {
            return None;
        }
        Some(Self {
            name: name?,
            mount_path: mount_path?,
            sub_path,
            read_only,
            source,
        })
    }
}

/// Refuses a key that is only for another kind of volume.
fn refuses_keys_of_others(s: &mut Section<'_>, source: &VolumeSource) -> bool {
    let of_empty_dir = matches!(source, VolumeSource::EmptyDir { .. });
    let of_host = matches!(source, VolumeSource::HostPath { .. });
    let of_objects = matches!(
        source,
        VolumeSource::ConfigMap { .. } | VolumeSource::Secret { .. }
    );
    let keys = [
        ("size_limit", of_empty_dir, "empty_dir"),
        ("medium", of_empty_dir, "empty_dir"),
        ("host_path_type", of_host, "host_path"),
        ("optional", of_objects, "config_map and secret"),
    ];
    let other = keys.iter().find(|(key, fits, _)| s.is_set(key) && !fits);
    if let Some((key, _, only)) = other {
        let what = format!("found, but it is only for {only}");
        let fix = match s.is_set("claim") {
            true => {
                "remove it; claims that each executor gets anew, with a size, are [[profiles.NAME.claims]]"
            }
            false => "remove it",
        };
        s.refuse(key, what, fix);
    }
    other.is_some()
}

const CLAIM: Text = Text {
    rule: is_dns_subdomain,
    allowed: "the name of a claim that exists; claims that each executor gets anew are [[profiles.NAME.claims]]",
};

const HOST_PATH_TYPES: [&str; 7] = [
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
];

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains([':', '\0'])
}

/// Refuses entries of a list that have the name or the mount path of an earlier one.
pub(crate) fn refuse_doubles<'m>(
    s: &mut Section<'_>,
    key: &str,
    mounts: impl Iterator<Item = (&'m str, &'m str)>,
) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (name, path) in mounts {
        if !names.insert(name) {
            let found = format!("two have the name {name:?}");
            s.refuse(key, found, "give each a unique name");
        }
        if !paths.insert(path) {
            let found = format!("two are mounted at {path:?}");
            s.refuse(key, found, "mount each at a different path");
        }
    }
}
