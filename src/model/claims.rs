//! Claims on volumes: what an executor of a profile is to have, and what a cluster shows of them (spec K-10, A-60).

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::ids::{ExecutorId, PodUid};

/// A claim that each executor of a profile has, under a name of its own or one that an earlier executor left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimTemplate {
    /// The volume's name in the pod; the claim's name ends with it.
    pub volume: Arc<str>,
    /// What is claimed.
    pub shape: ClaimShape,
    /// Whose it is.
    pub owner: ClaimOwner,
}

/// What a claim asks for, as far as one can stand in for another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimShape {
    /// The storage class; `None`: whatever is the cluster's default.
    pub storage_class: Option<Arc<str>>,
    /// Such as `ReadWriteOnce`.
    pub access_modes: BTreeSet<Arc<str>>,
    /// How large, in bytes; the last field, so that of claims that are otherwise alike the smallest comes first.
    pub bytes: u64,
}

impl ClaimShape {
    /// Whether a claim of this shape does for one that wants that.
    pub fn does_for(&self, wanted: &ClaimShape) -> bool {
        self.storage_class == wanted.storage_class
            && self.access_modes.is_superset(&wanted.access_modes)
            && self.bytes >= wanted.bytes
    }
}

/// With whom a claim goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOwner {
    /// With the application record: another executor can have it meanwhile.
    Application,
    /// With its executor's pod.
    Executor,
}

/// A claim as the cluster shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: Arc<str>,
    /// What Kubernetes calls it and nothing else.
    pub uid: Arc<str>,
    /// Whether it bears this application's label.
    pub ours: bool,
    /// The application record that owns it, where one does.
    pub record: Option<PodUid>,
    /// Whether a pod owns it.
    pub of_a_pod: bool,
    /// When it was made, by the server's clock.
    pub created: Option<Timestamp>,
    /// Whether nobody can begin to use it: it is being deleted, or its volume is lost.
    pub spent: bool,
    /// What it has.
    pub shape: ClaimShape,
}

/// A claim that a pod mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodClaim {
    /// The volume's name in the pod.
    pub volume: Arc<str>,
    /// The claim's.
    pub name: Arc<str>,
}

/// The name of the claim that is an executor's own.
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
        }
    }

    // spec: A-60
    #[test]
    fn a_claim_does_for_another_of_its_class_that_is_no_larger_and_is_mounted_no_other_way() {
        let wanted = shape(Some("fast"), &["ReadWriteOnce"], 10);
        let cases = [
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
