//! The words of the HTTP API that stand for one of several things.
//!
//! Made from the driver's OpenAPI document. Do not edit: see CONTRIBUTING.md.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PauseCause {
    #[serde(rename = "crash-loop")]
    CrashLoop,
    #[serde(rename = "gang-missed")]
    GangMissed,
    #[serde(rename = "quota-exceeded")]
    QuotaExceeded,
    #[serde(rename = "template-refused")]
    TemplateRefused,
    #[serde(rename = "right-missing")]
    RightMissing,
    #[serde(rename = "credentials-refused")]
    CredentialsRefused,
    #[serde(rename = "namespace-unusable")]
    NamespaceUnusable,
    #[serde(rename = "queued")]
    Queued,
    #[serde(rename = "requests-fail")]
    RequestsFail,
    /// One that this client does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    Exited,
    OomKilled,
    ProbeFailed,
    StartFailed,
    Rejected,
    Evicted,
    Preempted,
    Disrupted,
    NodeLost,
    Deleted,
    Mislabelled,
    Killed,
    Decommissioned,
    NodeLeaving,
    ScaledDown,
    HeartbeatTimeout,
    Disconnected,
    Unreachable,
    Abandoned,
    RegistrationTimeout,
    PendingTimeout,
    TemplateRefused,
    Missing,
    Lost,
    Stuck,
    NotCreated,
    /// One that this client does not know.
    #[default]
    #[serde(other)]
    Unknown,
}
