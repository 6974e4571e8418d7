//! What executors get beside their pods: claims on volumes (spec K-10, A-60), and the ConfigMap that all of them mount
//! (spec K-8).

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::kinds::{Amount, Choice, Flag, Path, Text, one_of};
use super::names::{is_dns_label, is_dns_subdomain};
use super::reader::Section;
use crate::model::quantity::Quantity;

/// So many claims a profile may have: as many can be told apart when the cluster lists pods.
pub const MOST_CLAIMS: usize = 16;

/// `[claims]`: what becomes of claims that no executor has any more (spec A-60).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whether a new executor gets one of them rather than a new one.
    pub reuse: bool,
    /// Whether it waits for one that is about to be free.
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

/// With whom a claim goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimOwner {
    /// With the application.
    #[default]
    Application,
    /// With its executor.
    Executor,
}

impl Choice for ClaimOwner {
    const ALL: &'static [(&'static str, Self)] = &[
        ("application", Self::Application),
        ("executor", Self::Executor),
    ];
}

/// How a volume may be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessMode {
    /// By the pods of one node.
    ReadWriteOnce,
    /// By one pod.
    ReadWriteOncePod,
    /// By all, to read.
    ReadOnlyMany,
    /// By all.
    ReadWriteMany,
}

impl AccessMode {
    /// The word that Kubernetes has for it.
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

/// `[[profiles.NAME.claims]]`: a claim that each executor of the profile has (spec K-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The volume's name; the claim's is the executor's and this.
    pub name: String,
    /// Where it is mounted.
    pub mount_path: String,
    /// How large it is.
    pub size: Quantity,
    /// Its storage class; `None`: the cluster's default.
    pub storage_class: Option<String>,
    /// How it may be mounted.
    pub access_modes: BTreeSet<AccessMode>,
    /// With whom it goes.
    pub owner: ClaimOwner,
}

/// A path in a container.
pub(super) const MOUNT_PATH: Text = Text {
    rule: |path| {
        path.len() > 1
            && path.starts_with('/')
            && !path.contains([':', '\0'])
            && path.split('/').all(|part| part != "..")
    },
    allowed: "a path in the container, as \"/data\"",
};

impl Claim {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let name = Text {
            rule: |name| is_dns_label(name, 63),
            allowed: "lowercase letters, digits and inner dashes, as \"data\"",
        };
        let class = Text {
            rule: is_dns_subdomain,
            allowed: "a storage class's name, as \"fast\"",
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
                "name the volume, as name = \"data\"",
            ),
            (
                "mount_path",
                mount_path.is_none(),
                "say where it is mounted, as mount_path = \"/data\"",
            ),
            (
                "size",
                size.is_none(),
                "say how large it is, as size = \"10Gi\"",
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

    /// Refuses what two of one profile cannot have in common, and too many.
    pub(super) fn check(s: &mut Section<'_>, claims: &[Self]) {
        if claims.len() > MOST_CLAIMS {
            let found = format!("found {}", claims.len());
            s.refuse("claims", found, format!("allowed: at most {MOST_CLAIMS}"));
        }
        for (n, claim) in claims.iter().enumerate() {
            let earlier = claims.get(..n).unwrap_or_default();
            if earlier.iter().any(|other| other.name == claim.name) {
                let found = format!("two have the name {:?}", claim.name);
                s.refuse("claims", found, "give each a name of its own");
            }
            if earlier
                .iter()
                .any(|other| other.mount_path == claim.mount_path)
            {
                let found = format!("two are mounted at {:?}", claim.mount_path);
                s.refuse("claims", found, "mount each at a path of its own");
            }
        }
    }
}

/// `[config_map]`: the ConfigMap that every executor mounts (spec K-8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// Whether there is one, where there is anything to be in it.
    pub enabled: bool,
    /// Where it is mounted.
    pub mount_path: String,
    /// The files that are in it, under their names.
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
