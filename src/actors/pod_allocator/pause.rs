//! That executors of a profile are wanted and not asked for, and why: what status and events say of it (spec A-31).

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;

use crate::model::{ProfileName, Tick};

use super::refusal::Kind;

/// Why executors of a profile are not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// They end early, again and again (spec A-30).
    CrashLoop,
    /// Too few of them came to be of use (spec B-20).
    GangMissed,
    /// The API server refuses them (spec ).
    Refused(Kind),
}

impl Cause {
    /// In one word, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CrashLoop => "crash-loop",
            Self::GangMissed => "gang-missed",
            Self::Refused(Kind::Quota) => "quota-exceeded",
            Self::Refused(Kind::Blocked) => "template-refused",
            Self::Refused(Kind::Rights) => "right-missing",
            Self::Refused(Kind::Credentials) => "credentials-refused",
            Self::Refused(Kind::Namespace) => "namespace-unusable",
        }
    }
}

/// A profile of which nothing is asked for, or one executor at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Why, as a kind.
    pub cause: Cause,
    /// Why, for people; a refusal in the server's words.
    pub why: Arc<str>,
    /// Since when.
    pub since: Tick,
    /// Until when; `None` while one executor is tried, and what becomes of it decides.
    pub until: Option<Tick>,
}

/// All profiles that are paused now; sent whenever that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Paused(pub BTreeMap<ProfileName, Pause>);
