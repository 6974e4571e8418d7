//! What an application may leave behind, and which objects are an application's own (spec O-102).

use std::collections::BTreeMap;
use std::fmt;

use super::calls::SCHEDULING;
use super::labels::{EXECUTOR_ROLE, INCARNATION, LabelScheme, SET_ROLE};
use super::workloads;
use boatswain_model::{AppId, PodUid};

/// A kind of object that a driver makes, or that its sets make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftoverKind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub resource: &'static str,
    /// Whether clusters exist that do not serve it.
    pub optional: bool,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    resource: &'static str,
) -> LeftoverKind {
    LeftoverKind {
        group,
        version,
        kind,
        resource,
        optional: false,
    }
}

/// The kinds that are listed by label, in the order of deletion: what makes pods comes before the pods.
pub const LISTED: [LeftoverKind; 12] = [
    kind("apps", "v1", "StatefulSet", "statefulsets"),
    kind("apps", "v1", "Deployment", "deployments"),
    kind("apps", "v1", "ReplicaSet", "replicasets"),
    LeftoverKind {
        optional: true,
        ..kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
    },
    LeftoverKind {
        optional: true,
        ..kind(SCHEDULING, "v1alpha2", "PodGroup", "podgroups")
    },
    kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
    ),
    kind("", "v1", "Pod", "pods"),
    WORKLOADS,
    kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    kind("", "v1", "Service", "services"),
    kind("", "v1", "Secret", "secrets"),
    CONFIG_MAPS,
];

/// The record is one of them.
pub const CONFIG_MAPS: LeftoverKind = kind("", "v1", "ConfigMap", "configmaps");

/// Kueue's. They hold the executors' quota, so they are deleted after the pods.
pub const WORKLOADS: LeftoverKind = LeftoverKind {
    optional: true,
    ..kind(
        workloads::GROUP,
        workloads::VERSION,
        "Workload",
        "workloads",
    )
};

/// The Lease has no label; it is known by its name.
pub const LEASE: LeftoverKind = kind("coordination.k8s.io", "v1", "Lease", "leases");

/// An object of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub kind: LeftoverKind,
    pub name: String,
    /// The uid. `PodUid` is used for any object's uid.
    pub uid: PodUid,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
    /// The kinds and names of its owners.
    pub owners: Vec<(String, String)>,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.name)
    }
}

impl Leftover {
    /// Whether it is one of boatswain's objects of this application. Spark's own objects bear Spark's label too, and what
    /// runs a driver may bear any label: of pods and sets, only executors' are meant.
    pub fn is_of(&self, app_id: &AppId, scheme: LabelScheme) -> bool {
        let label = |key: &str| self.labels.get(key).map(String::as_str);
        let keys = scheme.keys();
        let role = label(keys.role);
        let runs = self.kind.group == "apps" || self.kind.resource == "pods";
        label(keys.app_id) == Some(app_id.as_str())
            && (!runs || matches!(role, Some(EXECUTOR_ROLE | SET_ROLE)))
            && (scheme == LabelScheme::Boatswain || role == Some(SET_ROLE) || self.is_marked())
    }

    /// Whether something that only boatswain writes is on it.
    fn is_marked(&self) -> bool {
        self.labels.contains_key(INCARNATION)
            || self
                .labels
                .get("app.kubernetes.io/managed-by")
                .is_some_and(|by| by == "boatswain")
            || self
                .owners
                .iter()
                .any(|(kind, name)| kind == "ConfigMap" && name.ends_with(RECORD_SUFFIX))
    }

    pub fn is_record(&self) -> bool {
        self.kind.resource == "configmaps"
            && self.name.ends_with(RECORD_SUFFIX)
            && (self.labels.get("app.kubernetes.io/component")).is_some_and(|part| part == "record")
    }
}

const RECORD_SUFFIX: &str = "-app";

/// The application's prefix, from its record's name.
pub fn prefix_of_record(name: &str) -> Option<&str> {
    name.strip_suffix(RECORD_SUFFIX)
}

/// What is to be deleted now: all that is not being deleted yet, and the record only when it is the last, because
/// it tells a later look what there was.
pub fn due(leftovers: &[Leftover]) -> Vec<&Leftover> {
    let living = || leftovers.iter().filter(|leftover| !leftover.deleting);
    let others: Vec<_> = living().filter(|leftover| !leftover.is_record()).collect();
    if others.is_empty() {
        return living().collect();
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leftover(resource: &str, name: &str, labels: &[(&str, &str)]) -> Leftover {
        let mut kinds = LISTED.into_iter().chain([LEASE]);
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Leftover {
            kind: kinds.find(|kind| kind.resource == resource).unwrap(),
            name: name.to_owned(),
            uid: "u".into(),
            deleting: false,
            labels: labels.collect(),
            owners: Vec::new(),
        }
    }

    const ID: (&str, &str) = ("boatswain.dev/app-id", "etl-1");
    const SPARK_ID: (&str, &str) = ("spark-app-selector", "etl-1");

    // spec: O-102
    #[test]
    fn an_object_is_the_applications_by_its_label_and_what_runs_pods_only_as_an_executor() {
        let is = |leftover: &Leftover| leftover.is_of(&"etl-1".into(), LabelScheme::Boatswain);
        assert!(is(&leftover("services", "etl-driver", &[ID])));
        assert!(!is(&leftover(
            "services",
            "etl-driver",
            &[("boatswain.dev/app-id", "etl-2")]
        )));
        assert!(!is(&leftover("pods", "etl-driver-0", &[ID])));
        let role = ("boatswain.dev/role", "executor");
        assert!(is(&leftover("pods", "etl-exec-1", &[ID, role])));
        assert!(!is(&leftover("deployments", "etl-driver", &[ID])));
        let of_sets = ("boatswain.dev/role", SET_ROLE);
        assert!(is(&leftover("deployments", "etl-default", &[ID, of_sets])));
        assert!(is(&leftover("replicasets", "etl-default-5f", &[ID, role])));
    }

    // spec: O-102
    #[test]
    fn an_object_that_spark_made_is_never_the_applications() {
        let is = |leftover: &Leftover| leftover.is_of(&"etl-1".into(), LabelScheme::Spark);
        let executor = ("spark-role", "executor");
        assert!(!is(&leftover("pods", "etl-exec-1", &[SPARK_ID, executor])));
        let incarnation = (INCARNATION, "1");
        assert!(is(&leftover(
            "pods",
            "etl-exec-1",
            &[SPARK_ID, executor, incarnation]
        )));
        let driver = [SPARK_ID, ("spark-role", "driver"), incarnation];
        assert!(!is(&leftover("pods", "etl-driver", &driver)));
        assert!(!is(&leftover(
            "configmaps",
            "spark-drv-1-conf-map",
            &[SPARK_ID]
        )));
        assert!(is(&leftover(
            "statefulsets",
            "etl-default",
            &[SPARK_ID, ("spark-role", SET_ROLE)]
        )));
        let mut budget = leftover("poddisruptionbudgets", "etl-default", &[SPARK_ID]);
        assert!(!is(&budget));
        budget
            .owners
            .push(("ConfigMap".to_owned(), "etl-app".to_owned()));
        assert!(is(&budget));
    }

    // spec: O-33
    #[test]
    fn the_record_is_deleted_when_all_else_is_gone_or_terminates() {
        let record = leftover(
            "configmaps",
            "etl-app",
            &[ID, ("app.kubernetes.io/component", "record")],
        );
        let mut pod = leftover("pods", "etl-exec-1", &[ID]);
        let names = |all: &[Leftover]| -> Vec<String> {
            due(all).iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(&[record.clone(), pod.clone()]), ["Pod etl-exec-1"]);
        pod.deleting = true;
        assert_eq!(names(&[record, pod.clone()]), ["ConfigMap etl-app"]);
        assert_eq!(names(&[pod]), [""; 0]);
    }

    #[test]
    fn a_prefix_is_read_from_the_records_name() {
        assert_eq!(prefix_of_record("etl-app"), Some("etl"));
        assert_eq!(prefix_of_record("etl-executor"), None);
    }
}
