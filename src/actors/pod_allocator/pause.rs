//! Paused profiles, as shown in the status and in events (spec A-31).

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;

use crate::model::{ProfileName, Tick};

use super::refusal::RefusalKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its executors end early.
    CrashLoop,
    /// Too few of its executors ran in time.
    GangMissed,
    /// The API server refuses its requests.
    Refused(RefusalKind),
    /// It waits for its queue.
    Queued,
    /// Requests fail, whatever they request.
    Failing,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CrashLoop => "crash-loop",
            Self::GangMissed => "gang-missed",
            Self::Queued => "queued",
            Self::Failing => "requests-fail",
            Self::Refused(RefusalKind::Quota) => "quota-exceeded",
            Self::Refused(RefusalKind::Blocked) => "template-refused",
            Self::Refused(RefusalKind::Rights) => "right-missing",
            Self::Refused(RefusalKind::Credentials) => "credentials-refused",
            Self::Refused(RefusalKind::Namespace) => "namespace-unusable",
        }
    }
}

/// A profile for which nothing, or one executor at a time, is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub cause: Cause,
    /// A description; for a refusal the server's message.
    pub why: Arc<str>,
    pub since: Tick,
    /// `None` while one executor is tried and decides, and while nobody knows.
    pub until: Option<Tick>,
}

/// All paused profiles; sent when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Paused(pub BTreeMap<ProfileName, Pause>);
