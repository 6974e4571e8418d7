//! An executor's entry in the ledger: everything that is known about it, and its class for counting
//! (spec E-5, E-6).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::planted::{self, Planted};

use super::clock::Tick;
use super::ids::{Epoch, ExecutorId, Incarnation, PodUid, ProfileName};
use super::pod::{PendingStage, Pod, PodState};
use super::reason::LossReason;
use super::version::ResourceVersion;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: ExecutorId,
    pub profile: ProfileName,
    /// The incarnation of the driver that requested it.
    pub incarnation: Incarnation,
    /// When it was requested or adopted.
    pub since: Tick,
    /// Whether it was found at the start instead of requested by this incarnation.
    pub adopted: bool,
    pub state: State,
    /// Who chose it to terminate, and how; the mark is never removed (spec A-43).
    pub leaving: Option<Leaving>,
    /// Why it ended, once that was reported (spec E-9, L-1). A reason that becomes known later does
    /// not replace it.
    pub end: Option<Arc<LossReason>>,
    pub session: Session,
}

/// How far an executor has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The first request is in flight.
    Sent(Request),
    /// The request's outcome is unknown.
    Unknown(Doubt),
    /// Its pod is known by uid.
    Bound(Bound),
    /// It has ended; the entry stays until every subscriber has seen that (spec S-14).
    Gone(Gone),
}

/// A request for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was last sent.
    pub sent: Tick,
    /// The API server's epoch in which it was sent.
    pub epoch: Epoch,
}

/// A request whose outcome is unknown (spec A-13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// The request, as last sent.
    pub request: Request,
    /// Since when the outcome has been unknown.
    pub since: Tick,
    /// The number of repeats.
    pub repeats: u32,
    /// Whether a repeat is in flight.
    pub in_flight: bool,
    /// Whether an answer to a repeat requires a look-up (spec A-14).
    pub look_up: bool,
    /// The error text.
    pub why: Arc<str>,
}

/// An entry's pod, and how reliable the knowledge of it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The newest accepted version of it.
    pub pod: Arc<Pod>,
    /// The epoch of the pod's resource version.
    pub epoch: Epoch,
    /// The store's count of news when the uid was bound: a list requested before proves nothing
    /// about this pod (spec S-12).
    pub bound_at: u64,
    /// When the uid was bound: a look-up sent before proves nothing about this pod.
    pub since: Tick,
    /// When this driver first saw it running.
    pub running_since: Option<Tick>,
    /// Set if it must be looked up: a full list lacks it, or it left the selector.
    pub absent: Option<Absence>,
}

/// The state of a bound pod that is missing where it should be visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    pub since: Tick,
    /// The resource version at which it was missing: older news does not bring the pod back (spec
    /// S-10).
    pub as_of: ResourceVersion,
    /// The epoch of that version.
    pub epoch: Epoch,
}

/// An executor that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Its last known pod; `None` if none was ever bound.
    pub bound: Option<Bound>,
    pub how: HowGone,
    /// When this became known.
    pub at: Tick,
}

/// How the driver knows that an executor has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HowGone {
    /// The deletion was observed.
    Deleted,
    /// A look-up found no such pod (spec L-4).
    Missing,
    /// A delete request found no pod.
    DeleteFoundNothing,
    /// A full list lacks it, and it was Terminating, Finished or reported before.
    NoLongerListed,
    /// A look-up found it without our labels, and it had ended before.
    RelabelledAfterEnd,
    /// The pod is kept, and its inactive label is confirmed (spec L-2).
    Kept,
    /// No pod was ever bound (spec ).
    NotCreated(Arc<str>),
    /// The record contains it, but adoption did not find it (spec L-1).
    LostBeforeStart,
}

/// The mark of an executor that was chosen to terminate (spec L-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    pub why: Why,
    pub how: How,
    /// When it was marked; if it was hurried later, the time of that.
    pub since: Tick,
}

/// Why an executor was chosen to terminate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The provisioner: there are more than the target.
    ScaledDown,
    /// The allocator: too few of its gang came in that time, and it is not needed without the others (spec B-20).
    GangMissed(Duration),
    /// Its labels no longer identify it as ours; contains the missing label.
    Mislabelled(Arc<str>),
    /// The application has ended (spec O-11).
    ApplicationEnded,
    /// No heartbeat for this long (spec B-12).
    HeartbeatTimeout(Duration),
    /// Its connection was lost, and neither it nor the cluster has reported why (spec B-15).
    Disconnected,
    /// It has run for this long without registering (spec A-52).
    RegistrationTimeout(Duration),
    /// It has waited to run for so long; what for, in the cluster's words (spec ).
    PendingTimeout(Duration, Arc<str>),
    /// It waits for what does not come by itself, and has for so long; in the cluster's words (spec A-51).
    NeverStarts(Duration, Arc<str>),
    /// A claim of its could not be made (spec A-61); why, in the cluster's words.
    NoClaim(Arc<str>),
    /// It was to be killed (spec B-28); who asked for that.
    Killed(Arc<str>),
    /// It was to finish what it does and go (spec B-30); who asked for that.
    Decommissioned(Arc<str>),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScaledDown => f.write_str("more executors than wanted"),
            Self::GangMissed(timeout) => {
                let seconds = timeout.as_secs();
                write!(
                    f,
                    "too few of its gang came within {seconds} s: it makes room"
                )
            }
            Self::Mislabelled(label) => {
                write!(f, "its pod no longer says that it is ours: {label}")
            }
            Self::ApplicationEnded => f.write_str("the application ended"),
            Self::Killed(by) => write!(f, "killed by {by}"),
            Self::Decommissioned(by) => write!(f, "decommissioned by {by}"),
            Self::HeartbeatTimeout(silent) => {
                write!(f, "nothing was heard of it for {} s", silent.as_secs())
            }
            Self::Disconnected => {
                f.write_str("its connection was lost, and neither it nor the cluster has said why")
            }
            Self::RegistrationTimeout(ran) => {
                write!(f, "it has run for {} s without registering", ran.as_secs())
            }
            Self::PendingTimeout(waited, why) => {
                write!(f, "it has waited to run for {} s: {why}", waited.as_secs())
            }
            Self::NoClaim(why) => write!(f, "its claim on a volume could not be made: {why}"),
            Self::NeverStarts(waited, why) => {
                write!(
                    f,
                    "it cannot start, and has not for {} s: {why}",
                    waited.as_secs()
                )
            }
        }
    }
}

/// How a mark is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Deleted with the pod's own grace.
    Delete,
    /// Told to exit, and deleted without any grace once this long has passed (spec B-28).
    Kill {
        /// How long it may take.
        grace: Duration,
    },
    /// Gets no new work, and is deleted with its pod's own grace when it has not exited after this long (spec L-12).
    Drain {
        /// How long it may take.
        within: Duration,
    },
}

impl How {
    /// Whether it ends an executor sooner than the other, so that one who is already leaving is hurried by it.
    pub fn is_harder_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Kill { grace }, Self::Kill { grace: known }) => grace < known,
            (Self::Kill { .. }, Self::Delete | Self::Drain { .. }) => true,
            (Self::Delete | Self::Drain { .. }, _) => false,
        }
    }
}

/// What an executor's session says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Session {
    /// Whether it has an open account with the driver.
    pub registered: bool,
    /// Whether it has nothing to do.
    pub idle: bool,
}

impl Session {
    /// Whether it is known to have something to do.
    pub fn is_busy(self) -> bool {
        self.registered && !self.idle
    }
}

/// The rows of the table in spec E-6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The request is in flight.
    Sent,
    /// Its outcome is unknown.
    Unknown,
    /// The pod does not run yet.
    Pending(PendingStage),
    /// The pod runs.
    Running,
    /// A phase never heard of.
    Odd,
    /// Not listed, being looked up.
    Absent,
    /// Chosen to go, whatever else it is.
    Leaving,
    /// Being deleted.
    Terminating,
    /// Ended, the pod still there.
    Finished,
    /// Over.
    Gone,
}

impl Class {
    /// Whether it counts towards the target.
    pub fn is_live(self) -> bool {
        match self {
            Class::Sent
            | Class::Unknown
            | Class::Pending(_)
            | Class::Running
            | Class::Odd
            | Class::Absent => true,
            Class::Leaving => planted::is(Planted::LeavingCounts),
            Class::Terminating => planted::is(Planted::TerminatingCounts),
            Class::Finished | Class::Gone => false,
        }
    }

    /// Whether its pod does not run yet.
    pub fn is_pending(self) -> bool {
        matches!(self, Class::Pending(_))
    }

    /// Whether the allocator may choose it to go.
    pub fn may_be_chosen(self) -> bool {
        self.is_pending() || self == Class::Running
    }
}

impl Entry {
    /// The entry of an executor whose request is about to be sent (spec A-11).
    pub fn requested(
        id: ExecutorId,
        profile: ProfileName,
        incarnation: Incarnation,
        sent: Tick,
        epoch: Epoch,
    ) -> Self {
        Self {
            id,
            profile,
            incarnation,
            since: sent,
            adopted: false,
            state: State::Sent(Request { sent, epoch }),
            leaving: None,
            end: None,
            session: Session::default(),
        }
    }

    /// The row of E-6 that it is in.
    pub fn class(&self) -> Class {
        match &self.state {
            State::Gone(_) => Class::Gone,
            State::Bound(bound) => match bound.pod.state() {
                PodState::Succeeded | PodState::Failed => Class::Finished,
                PodState::Terminating => Class::Terminating,
                _ if self.leaving.is_some() => Class::Leaving,
                _ if bound.absent.is_some() => Class::Absent,
                PodState::Pending(stage) => Class::Pending(stage),
                PodState::Running => Class::Running,
                PodState::Odd => Class::Odd,
            },
            _ if self.leaving.is_some() => Class::Leaving,
            State::Sent(_) => Class::Sent,
            State::Unknown(_) => Class::Unknown,
        }
    }

    /// Whether it was told, or is to be told, to finish what it does, and has time left for that (spec B-30).
    pub fn drains_at(&self, now: Tick) -> bool {
        (self.leaving.as_ref()).is_some_and(|mark| match mark.how {
            How::Drain { within } => now < mark.since + within,
            How::Delete | How::Kill { .. } => false,
        })
    }

    /// What is known of its pod, also of one that is gone.
    pub fn bound(&self) -> Option<&Bound> {
        match &self.state {
            State::Bound(bound) => Some(bound),
            State::Gone(gone) => gone.bound.as_ref(),
            State::Sent(_) | State::Unknown(_) => None,
        }
    }

    /// Its pod, also one that is gone.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.bound().map(|bound| &bound.pod)
    }

    /// The uid bound to it.
    pub fn uid(&self) -> Option<&PodUid> {
        self.pod().map(|pod| &pod.uid)
    }

    /// Whether it is over.
    pub fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Whether its end is known: its pod has ended, or is gone.
    pub fn has_ended(&self) -> bool {
        matches!(self.class(), Class::Finished | Class::Gone)
    }

    /// Whether its end was reported. That may be before its pod is gone (spec L-3).
    pub fn is_reported(&self) -> bool {
        self.end.is_some()
    }

    /// Whether its end has still to be reported: it was bound to a pod and has ended (spec L-1).
    pub fn has_unreported_end(&self) -> bool {
        self.has_ended() && !self.is_reported() && self.had_a_pod()
    }

    /// Whether it was bound to a pod, by this driver or an earlier one: only then does its end lose an executor.
    pub fn had_a_pod(&self) -> bool {
        self.uid().is_some()
            || matches!(&self.state, State::Gone(gone) if gone.how == HowGone::LostBeforeStart)
    }
}
