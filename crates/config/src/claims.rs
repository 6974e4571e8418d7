//! The sections `[claims]` and `[[profiles.NAME.claims]]` for PersistentVolumeClaims (spec K-10,
//! A-60), and `[config_map]` for the ConfigMap that every executor mounts (spec K-8).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::declare::{choice, section};
use super::kinds::{Amount, Flag, PATH, Text, one_of};
use super::names::{is_dns_label, is_dns_subdomain};
use super::profile::{LABEL_KEY, LABEL_VALUE, OBJECT, refuse_doubles};
use super::reader::Section;
use boatswain_model::quantity::Quantity;

/// The most claims of one profile; limited by how many can be told apart in a pod list.
pub const MOST_CLAIMS: usize = 16;

section! {
    /// `[claims]`: what happens to claims whose executor has ended (spec A-60).
    pub struct Claims {
        /// Whether a new executor reuses a free claim instead of creating one.
        pub reuse: bool = value(Flag) or true;
        /// Whether a new executor waits for a claim that is about to become free.
        pub wait: bool = value(Flag) or false;
    }
}

choice! {
    /// What owns a claim, and so when it is deleted.
    #[derive(Default)]
    pub enum ClaimOwner {
        /// The claim is kept until the application ends.
        #[default]
        Application = "application",
        /// The claim is deleted with its executor.
        Executor = "executor",
    }
}

choice! {
    #[derive(PartialOrd, Ord)]
    pub enum AccessMode {
        ReadWriteOnce = "ReadWriteOnce",
        ReadWriteOncePod = "ReadWriteOncePod",
        ReadOnlyMany = "ReadOnlyMany",
        ReadWriteMany = "ReadWriteMany",
    }
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
    /// `None`: the storage class's own attributes.
    pub volume_attributes_class: Option<String>,
    /// `None`: the volume is empty at first.
    pub data_source: Option<DataSource>,
    pub access_modes: BTreeSet<AccessMode>,
    pub owner: ClaimOwner,
    /// Labels of the claims, in addition to boatswain's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the claims, in addition to boatswain's own.
    pub annotations: BTreeMap<String, String>,
}

choice! {
    /// The kinds of objects that a volume can be copied from.
    pub enum DataSourceKind {
        VolumeSnapshot = "VolumeSnapshot",
        PersistentVolumeClaim = "PersistentVolumeClaim",
    }
}

impl DataSourceKind {
    /// The API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::VolumeSnapshot => "snapshot.storage.k8s.io",
            Self::PersistentVolumeClaim => "",
        }
    }
}

/// `data_source`: the object in the same namespace that a claim's volume is copied from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSource {
    pub kind: DataSourceKind,
    pub name: String,
}

impl DataSource {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let (kind, name) = (s.option("kind", one_of()), s.option("name", OBJECT));
        if !s.is_set("kind") && !s.is_set("name") {
            return None;
        }
        for (key, fix) in [
            (
                "kind",
                "set kind = \"VolumeSnapshot\" or \"PersistentVolumeClaim\"",
            ),
            ("name", "name the object, such as name = \"base\""),
        ] {
            if !s.is_set(key) {
                s.refuse(key, "missing", fix);
            }
        }
        Some(Self {
            kind: kind?,
            name: name?,
        })
    }
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
        let volume_attributes_class = s.option("volume_attributes_class", OBJECT);
        let data_source = s.section("data_source", DataSource::read);
        let modes = s.list("access_modes", one_of());
        let owner = s.value("owner", one_of(), ClaimOwner::default());
        let labels = s.table("labels", LABEL_KEY, LABEL_VALUE);
        let annotations = s.table("annotations", LABEL_KEY, Text::ANY);
        for (key, fix) in [
            ("name", "name the volume, such as name = \"data\""),
            (
                "mount_path",
                "set where it is mounted, such as mount_path = \"/data\"",
            ),
            ("size", "set its size, such as size = \"10Gi\""),
        ] {
            if !s.is_set(key) {
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
            volume_attributes_class,
            data_source,
            access_modes,
            owner,
            labels,
            annotations,
        })
    }

    /// Refuses duplicate names and mount paths within one profile, and too many claims.
    pub(super) fn check(s: &mut Section<'_>, claims: &[Self]) {
        if claims.len() > MOST_CLAIMS {
            let found = format!("found {}", claims.len());
            s.refuse("claims", found, format!("allowed: at most {MOST_CLAIMS}"));
        }
        let mounts = claims.iter().map(|c| (&*c.name, &*c.mount_path));
        refuse_doubles(s, "claims", mounts);
    }
}

section! {
    /// `[config_map]`: the ConfigMap that every executor mounts (spec K-8).
    pub struct ConfigMap {
        /// Whether the ConfigMap is created when there is content for it.
        pub enabled: bool = value(Flag) or true;
        pub mount_path: String = value(MOUNT_PATH) or "/etc/boatswain".to_owned();
        /// The files whose content it gets; each key is the file's name.
        pub files: Vec<PathBuf> = list(PATH);
    }
}
