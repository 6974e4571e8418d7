//! The sections `[claims]` and `[[profiles.NAME.claims]]` for PersistentVolumeClaims (spec K-10,
//! A-60), and `[config_map]` for the ConfigMap that every executor mounts (spec K-8).

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::kinds::{Amount, Choice, Flag, Path, Text, one_of};
use super::names::{is_dns_label, is_dns_subdomain};
use super::reader::Section;
use crate::model::quantity::Quantity;

/// The most claims of one profile; limited by how many can be told apart in a pod list.
pub const MOST_CLAIMS: usize = 16;

/// `[claims]`: what happens to claims whose executor has ended (spec A-60).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whether a new executor reuses a free claim instead of creating one.
    pub reuse: bool,
    /// Whether a new executor waits for a claim that is about to become free.
    pub wait: bool,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            reuse: true,
            wait: false,
        }
    }
}

impl Claims {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            reuse: s.value("reuse", Flag, d.reuse),
            wait: s.value("wait", Flag, d.wait),
        }
    }
}

/// What owns a claim, and so when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimOwner {
    /// The claim is kept until the application ends.
    #[default]
    Application,
    /// The claim is deleted with its executor.
    Executor,
}

impl Choice for ClaimOwner {
    const ALL: &'static [(&'static str, Self)] = &[
        ("application", Self::Application),
        ("executor", Self::Executor),
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessMode {
    ReadWriteOnce,
    ReadWriteOncePod,
    ReadOnlyMany,
    ReadWriteMany,
}

impl AccessMode {
    /// The name of the access mode in Kubernetes.
    pub fn as_str(self) -> &'static str {
        super::kinds::word_of(self)
    }
}

impl Choice for AccessMode {
    const ALL: &'static [(&'static str, Self)] = &[
        ("ReadWriteOnce", Self::ReadWriteOnce),
        ("ReadWriteOncePod", Self::ReadWriteOncePod),
        ("ReadOnlyMany", Self::ReadOnlyMany),
        ("ReadWriteMany", Self::ReadWriteMany),
    ];
}

/// `[[profiles.NAME.claims]]`: a claim that each executor of the profile gets (spec K-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The volume's name. The claim's name is the executor's name with this as its suffix.
    pub name: String,
    pub mount_path: String,
    pub size: Quantity,
    /// `None`: the cluster's default.
    pub storage_class: Option<String>,
    pub access_modes: BTreeSet<AccessMode>,
    pub owner: ClaimOwner,
}

/// A mount path in a container.
pub(super) const MOUNT_PATH: Text = Text {
    rule: |path| {
        path.len() > 1
            && path.starts_with('/')
            && !path.contains([':', '\0'])
            && path.split('/').all(|part| part != "..")
    },
    allowed: "a path in the container, such as \"/data\"",
};

impl Claim {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let name = Text {
            rule: |name| is_dns_label(name, 63),
            allowed: "lowercase letters, digits and inner dashes, such as \"data\"",
        };
        let class = Text {
            rule: is_dns_subdomain,
            allowed: "a storage class's name, such as \"fast\"",
        };
        let (name, mount_path) = (s.option("name", name), s.option("mount_path", MOUNT_PATH));
        let size = s.option("size", Amount::STORAGE);
        let storage_class = s.option("storage_class", class);
        let modes = s.list("access_modes", one_of());
        let owner = s.value("owner", one_of(), ClaimOwner::default());
        for (key, is_missing, fix) in [
            (
                "name",
                name.is_none(),
                "name the volume, such as name = \"data\"",
            ),
            (
                "mount_path",
                mount_path.is_none(),
                "set where it is mounted, such as mount_path = \"/data\"",
            ),
            (
                "size",
                size.is_none(),
                "set its size, such as size = \"10Gi\"",
            ),
        ] {
            if is_missing && !s.is_set(key) {
                s.refuse(key, "missing", fix);
            }
        }
        let access_modes = match modes.is_empty() {
            true => BTreeSet::from([AccessMode::ReadWriteOnce]),
            false => modes.into_iter().collect(),
        };
        Some(Self {
            name: name?,
            mount_path: mount_path?,
            size: size?,
            storage_class,
            access_modes,
            owner,
        })
    }

    /// Refuses duplicate names and mount paths within one profile, and too many claims.
    pub(super) fn check(s: &mut Section<'_>, claims: &[Self]) {
        if claims.len() > MOST_CLAIMS {
            let found = format!("found {}", claims.len());
            s.refuse("claims", found, format!("allowed: at most {MOST_CLAIMS}"));
        }
        for (n, claim) in claims.iter().enumerate() {
            let earlier = claims.get(..n).unwrap_or_default();
            if earlier.iter().any(|other| other.name == claim.name) {
                let found = format!("two have the name {:?}", claim.name);
                s.refuse("claims", found, "give each a unique name");
            }
            if earlier
                .iter()
                .any(|other| other.mount_path == claim.mount_path)
            {
                let found = format!("two are mounted at {:?}", claim.mount_path);
                s.refuse("claims", found, "mount each at a different path");
            }
        }
    }
}

/// `[config_map]`: the ConfigMap that every executor mounts (spec K-8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// Whether the ConfigMap is created when there is content for it.
    pub enabled: bool,
    pub mount_path: String,
    /// The files whose content it gets; each key is the file's name.
    pub files: Vec<PathBuf>,
}

impl Default for ConfigMap {
    fn default() -> Self {
        Self {
            enabled: true,
            mount_path: "/etc/boatswain".to_owned(),
            files: Vec::new(),
        }
    }
}

impl ConfigMap {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            enabled: s.value("enabled", Flag, d.enabled),
            mount_path: s.value("mount_path", MOUNT_PATH, d.mount_path),
            files: s.list("files", Path),
        }
    }
}
