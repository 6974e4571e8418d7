//! What DriverBackend is told and asked.

use std::collections::BTreeMap;

use actix::Message;
use tokio::sync::watch;

use super::event_history::event::EventId;
use super::event_history::{ExecutorHistory, Reading};
use super::views::{ExecutorView, StatusView};
use crate::model::{ExecutorId, ProfileName};

/// How many executors of each profile are wanted from now on; profiles that are not named keep their target. Answered
/// with what will be, of all profiles (spec B-25).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedTargets>")]
pub struct SetTargets(pub BTreeMap<ProfileName, u32>);

/// Why targets were refused: nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedTargets {
    /// A target for a profile that does not exist.
    #[error("there is no profile {profile}; there are: {known}")]
    UnknownProfile {
        /// The name.
        profile: ProfileName,
        /// Those that exist.
        known: String,
    },
    /// A target that nobody can mean.
    #[error("{target} executors of profile {profile} are too many: at most {most}")]
    TooMany {
        /// The profile.
        profile: ProfileName,
        /// What was asked for.
        target: u32,
        /// What can be.
        most: u32,
    },
}

impl RefusedTargets {
    /// The profile that it is about.
    pub fn profile(&self) -> &ProfileName {
        match self {
            Self::UnknownProfile { profile, .. } | Self::TooMany { profile, .. } => profile,
        }
    }
}

/// How is it going?
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "StatusView")]
pub struct GetStatus;

/// Who lives?
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Vec<ExecutorView>")]
pub struct GetExecutors;

/// What happened to this executor (spec B-51)? Nothing is known of one that ended long ago.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<Explanation>")]
pub struct Explain(pub ExecutorId);

/// What is known of one executor.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// How it is, if it lives.
    pub now: Option<ExecutorView>,
    /// What happened to it.
    pub history: ExecutorHistory,
}

/// What happened since (spec B-50)?
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "EventsRead")]
pub struct ReadEvents {
    /// The last event that the reader has.
    pub after: Option<EventId>,
    /// At most so many.
    pub most: usize,
}

/// What a reader of events gets, and with it the living where it has to begin anew.
#[derive(Debug, Clone)]
pub struct EventsRead {
    /// The events, or where to begin.
    pub reading: Reading,
    /// All executors that live, for one that begins anew.
    pub living: Vec<ExecutorView>,
}

/// Where the number of the last event can be seen as it grows.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Growth")]
pub struct FollowEvents;

/// The number of the last event, as it grows.
#[derive(Debug, Clone)]
pub struct Growth(pub watch::Receiver<u64>);
