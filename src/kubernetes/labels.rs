//! Labels and annotations: the keys that boatswain writes, reads and selects by (spec K-3).

use crate::model::AppId;

/// The annotation that says how dear a pod is; the cheaper ones go first (spec A-40).
pub const DELETION_COST: &str = "boatswain.dev/deletion-cost";

/// The annotation of a pod whose executor is to finish what it does and go (spec L-12).
pub const DRAINING: &str = "boatswain.dev/draining";

/// The annotation by which Kubernetes chooses which pod of a Deployment goes (spec A-81).
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The annotation of a set that says what its template was made of (spec A-80).
pub const TEMPLATE_HASH: &str = "boatswain.dev/template-hash";

/// What the role label of a set that makes executors says (spec A-80).
pub const SET_ROLE: &str = "executor-set";

/// What every executor's role label says.
pub const EXECUTOR_ROLE: &str = "executor";

/// What the inactive label of a kept, dead executor says (spec L-2).
pub const INACTIVE: &str = "true";

/// A label's value has at most this many characters.
pub const MAX_LABEL_VALUE: usize = 63;

/// Whose keys are written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LabelScheme {
    /// `boatswain.dev/…`.
    #[default]
    Boatswain,
    /// Spark's own keys, so that tools made for Spark go on working.
    Spark,
}

/// The keys of one scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// Which application.
    pub app_id: &'static str,
    /// Which role in it.
    pub role: &'static str,
    /// Which executor.
    pub executor_id: &'static str,
    /// Of which profile.
    pub profile: &'static str,
    /// Asked for by which start of the driver; Spark has no such key, so it is boatswain's in both schemes.
    pub incarnation: &'static str,
    /// Whether it is dead and kept.
    pub inactive: &'static str,
}

impl LabelScheme {
    /// The keys.
    pub const fn keys(self) -> Keys {
        match self {
            LabelScheme::Boatswain => Keys {
                app_id: "boatswain.dev/app-id",
                role: "boatswain.dev/role",
                executor_id: "boatswain.dev/executor-id",
                profile: "boatswain.dev/profile",
                incarnation: "boatswain.dev/incarnation",
                inactive: "boatswain.dev/inactive",
            },
            LabelScheme::Spark => Keys {
                app_id: "spark-app-selector",
                role: "spark-role",
                executor_id: "spark-exec-id",
                profile: "spark-exec-resourceprofile-id",
                incarnation: "boatswain.dev/incarnation",
                inactive: "spark-exec-inactive",
            },
        }
    }

    /// The selector of an application's executors without the dead ones that are kept (spec W-1).
    ///
    /// `!=true` rather than "has no such label": a pod that somebody labelled `inactive=false` stays an executor,
    /// here and in what its labels are read as.
    pub fn selector(self, app_id: &AppId) -> String {
        let keys = self.keys();
        format!(
            "{}={app_id},{}={EXECUTOR_ROLE},{}!={INACTIVE}",
            keys.app_id, keys.role, keys.inactive
        )
    }
}

/// Whether Kubernetes takes this text for a label's value.
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

/// A text made fit for a label's value: other characters become `-`, what is too long is cut.
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
