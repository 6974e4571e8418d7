//! PersistentVolumeClaims: the template in a profile, and the claim that the cluster reports (spec K-10, A-60).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::ids::{ExecutorId, PodUid};

/// The claim that each executor of a profile gets: a new one, or one that an earlier executor used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimTemplate {
    /// The volume's name in the pod; the claim's name ends with it.
    pub volume: Arc<str>,
    pub shape: ClaimShape,
    pub owner: ClaimOwner,
    /// In addition to boatswain's own.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// The properties that decide whether one claim can replace another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimShape {
    /// `None`: the cluster's default storage class.
    pub storage_class: Option<Arc<str>>,
    /// The VolumeAttributesClass; `None`: the storage class's own attributes.
    pub attributes_class: Option<Arc<str>>,
    /// What the volume contains at first; `None`: nothing.
    pub data_source: Option<DataSource>,
    /// Such as `ReadWriteOnce`.
    pub access_modes: BTreeSet<Arc<str>>,
    /// In bytes. The last field, so that among otherwise equal claims the smallest sorts first.
    pub bytes: u64,
}

/// The object that a new volume is copied from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataSource {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
}

impl ClaimShape {
    /// Whether a claim of this shape can be used where `wanted` is requested.
    pub fn does_for(&self, wanted: &ClaimShape) -> bool {
        self.storage_class == wanted.storage_class
            && self.attributes_class == wanted.attributes_class
            && self.data_source == wanted.data_source
            && self.access_modes.is_superset(&wanted.access_modes)
            && self.bytes >= wanted.bytes
    }
}

/// Which object owns a claim in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOwner {
    /// The application record: another executor can reuse the claim.
    Application,
    /// The executor's pod: the claim is deleted with it.
    Executor,
}

/// A claim as the cluster reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: Arc<str>,
    pub uid: Arc<str>,
    /// Whether it has this application's label.
    pub ours: bool,
    /// The application record that owns it, if any.
    pub record: Option<PodUid>,
    /// Whether a pod owns it.
    pub of_a_pod: bool,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// Whether no pod can start to use it: it is being deleted, or its volume is lost.
    pub spent: bool,
    pub shape: ClaimShape,
}

/// A claim that a pod refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodClaim {
    /// The volume's name in the pod.
    pub volume: Arc<str>,
    pub name: Arc<str>,
}

/// The name of a claim that is created for one executor.
pub fn claim_name(prefix: &str, id: ExecutorId, volume: &str) -> String {
    format!("{}-{volume}", super::ids::pod_name(prefix, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(class: Option<&str>, modes: &[&str], bytes: u64) -> ClaimShape {
        ClaimShape {
            storage_class: class.map(Arc::from),
            access_modes: modes.iter().map(|mode| Arc::from(*mode)).collect(),
            bytes,
            ..ClaimShape::default()
        }
    }

    // spec: A-60
    #[test]
    fn a_claim_does_for_another_of_its_classes_and_content_that_is_no_larger_and_is_mounted_no_other_way()
     {
        let wanted = shape(Some("fast"), &["ReadWriteOnce"], 10);
        let of_snapshot = ClaimShape {
            data_source: Some(DataSource {
                group: "snapshot.storage.k8s.io".into(),
                kind: "VolumeSnapshot".into(),
                name: "base".into(),
            }),
            ..wanted.clone()
        };
        let of_attributes = ClaimShape {
            attributes_class: Some("gold".into()),
            ..wanted.clone()
        };
        let cases = [
            (of_snapshot, false),
            (of_attributes, false),
            (shape(Some("fast"), &["ReadWriteOnce"], 10), true),
            (
                shape(Some("fast"), &["ReadWriteOnce", "ReadWriteMany"], 11),
                true,
            ),
            (shape(Some("fast"), &["ReadWriteOnce"], 9), false),
            (shape(Some("slow"), &["ReadWriteOnce"], 10), false),
            (shape(None, &["ReadWriteOnce"], 10), false),
            (shape(Some("fast"), &["ReadOnlyMany"], 10), false),
        ];
        for (there, does) in cases {
            assert_eq!(there.does_for(&wanted), does, "{there:?}");
        }
    }
}
