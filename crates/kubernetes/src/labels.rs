//! The keys of the labels and annotations that boatswain writes, reads and selects by (spec K-3).

use boatswain_model::AppId;

/// The annotation with a pod's deletion cost; executors with a lower cost are chosen to terminate first (spec A-40).
pub const DELETION_COST: &str = "boatswain.dev/deletion-cost";

/// The annotation of a pod whose executor drains: it finishes its work, then terminates (spec L-12).
pub const DRAINING: &str = "boatswain.dev/draining";

/// The annotations by which autoscalers leave the node of a pod alone, and the values that say so (spec L-42).
pub const PROTECTION: [(&str, &str); 2] = [
    ("karpenter.sh/do-not-disrupt", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];

/// The annotation of a kept pod with the time since when it is kept (spec O-77).
pub const KEPT_SINCE: &str = "boatswain.dev/kept-since";

/// The annotation by which Kubernetes chooses the pods of a Deployment to delete (spec A-81).
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The label with the number of an executor's block, on its pod and on the block's Workload (spec A-90).
pub const BLOCK: &str = "boatswain.dev/block";

/// Kueue's label on a pod that it has queued by itself.
pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// The annotation of a set or Workload with the hash of its template (spec ).
pub const TEMPLATE_HASH: &str = "boatswain.dev/template-hash";

/// The value of the role label of a set that makes executors (spec A-80).
pub const SET_ROLE: &str = "executor-set";

/// The label with the start of the driver that requested the pod. Spark has no such key, so both schemes use this one.
pub const INCARNATION: &str = "boatswain.dev/incarnation";

pub const EXECUTOR_ROLE: &str = "executor";

/// The value of the inactive label of a kept pod whose executor has ended (spec L-2).
pub const INACTIVE: &str = "true";

pub const MAX_LABEL_VALUE: usize = 63;

/// Which label keys to write and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelScheme {
    #[default]
    Boatswain,
    /// Spark's own keys, so that tools made for Spark keep working.
    Spark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub app_id: &'static str,
    pub role: &'static str,
    pub executor_id: &'static str,
    pub profile: &'static str,
    /// [`INCARNATION`].
    pub incarnation: &'static str,
    /// On kept pods whose executor has ended.
    pub inactive: &'static str,
}

impl LabelScheme {
    pub const fn keys(self) -> Keys {
        match self {
            LabelScheme::Boatswain => Keys {
                app_id: "boatswain.dev/app-id",
                role: "boatswain.dev/role",
                executor_id: "boatswain.dev/executor-id",
                profile: "boatswain.dev/profile",
                incarnation: INCARNATION,
                inactive: "boatswain.dev/inactive",
            },
            LabelScheme::Spark => Keys {
                app_id: "spark-app-selector",
                role: "spark-role",
                executor_id: "spark-exec-id",
                profile: "spark-exec-resourceprofile-id",
                incarnation: INCARNATION,
                inactive: "spark-exec-inactive",
            },
        }
    }

    /// The label selector of an application's executors, without kept pods whose executor has ended (spec W-1).
    ///
    /// It uses `!=true` rather than the label's absence: a pod labelled `inactive=false` is still an executor, as it is
    /// when its labels are decoded.
    pub fn selector(self, app_id: &AppId) -> String {
        let keys = self.keys();
        format!(
            "{}={app_id},{}={EXECUTOR_ROLE},{}!={INACTIVE}",
            keys.app_id, keys.role, keys.inactive
        )
    }

    /// The label selector of an application's kept pods (spec O-77).
    pub fn kept_selector(self, app_id: &AppId) -> String {
        let keys = self.keys();
        format!(
            "{}={app_id},{}={EXECUTOR_ROLE},{}={INACTIVE}",
            keys.app_id, keys.role, keys.inactive
        )
    }
}

/// Whether Kubernetes accepts this text as a label's value.
pub fn is_label_value(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            bytes.len() <= MAX_LABEL_VALUE
                && first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().copied().all(inner)
        }
        _ => true,
    }
}

/// Converts a text to a valid label value: replaces invalid characters with `-` and truncates it.
pub fn to_label_value(text: &str) -> String {
    let fit: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
            _ => '-',
        })
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(MAX_LABEL_VALUE)
        .collect();
    fit.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}
