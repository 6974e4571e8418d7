//! An executor's entry in the ledger, and the class by which it is counted (spec E-5, E-6).

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

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
    /// Whether its pod was being deleted already when it was adopted.
    pub found_terminating: bool,
    pub state: State,
    /// Who chose it to terminate, and how; the mark is never removed.
    pub leaving: Option<Leaving>,
    /// Why it ended, once that was reported. A reason that becomes known later does
    /// not replace it.
    pub end: Option<Arc<LossReason>>,
    pub session: Session,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The first request is in flight.
    Sent(Request),
    /// The request's outcome is unknown.
    Unknown(Unanswered),
    /// Its pod is known by uid.
    Bound(Bound),
    /// It has ended; the entry stays until every subscriber has seen that.
    Gone(Gone),
}

/// A create request for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was last sent.
    pub sent: Tick,
    /// The API server's epoch in which it was sent.
    pub epoch: Epoch,
}

/// A create request whose outcome is unknown (spec A-13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    pub request: Request,
    /// Since when the outcome has been unknown.
    pub since: Tick,
    /// The number of repeats.
    pub repeats: u32,
    /// Whether a repeat is in flight.
    pub in_flight: bool,
    /// Whether an answer to a repeat requires a look-up.
    pub look_up: bool,
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
    /// about this pod.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Its last known pod; `None` if none was ever bound.
    pub bound: Option<Bound>,
    pub how: GoneEvidence,
    /// When this became known.
    pub at: Tick,
}

/// How the driver knows that an executor has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoneEvidence {
    /// The deletion was observed.
    Deleted,
    /// A look-up found no such pod.
    Missing,
    /// A delete request found no pod.
    DeleteFoundNothing,
    /// A full list lacks it, and it was Terminating, Finished or reported before.
    NoLongerListed,
    /// A look-up found it without our labels, and it had ended before.
    RelabelledAfterEnd,
    /// The pod is kept, and its inactive label is confirmed.
    Kept,
    /// No pod was ever bound.
    NotCreated(Arc<str>),
    /// The record contains it, but adoption did not find it.
    LostBeforeStart,
}

/// The mark of an executor that was chosen to terminate (spec L-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    pub why: LeaveReason,
    pub how: LeaveMethod,
    /// When it was marked; if it was hurried later, the time of that.
    pub since: Tick,
}

/// Why an executor was chosen to terminate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    /// There are more executors than the target.
    ScaledDown,
    /// Too few executors of its gang started within this time, and it is useless without the others.
    GangMissed(Duration),
    /// Its labels no longer identify it as ours; contains the missing label.
    Mislabelled(Arc<str>),
    /// The application has ended.
    ApplicationEnded,
    /// No heartbeat for this long.
    HeartbeatTimeout(Duration),
    /// Its connection was lost, and neither the executor nor the cluster has reported why.
    Disconnected,
    /// Silent for this long, together with others or since the driver suspected its own network path.
    Unreachable(Duration),
    /// Silent for this long on this node, which is not ready.
    NodeNotReady(Duration, Arc<str>),
    /// It has run for this long without registering.
    RegistrationTimeout(Duration),
    /// It has been pending for this long; the text is the cluster's explanation.
    PendingTimeout(Duration, Arc<str>),
    /// For this long it has waited for something that does not resolve by itself; the text is the cluster's
    /// explanation.
    NeverStarts(Duration, Arc<str>),
    /// Its node is about to leave the cluster; contains which one, and how that is known.
    NodeLeaving(Arc<str>),
    /// Its block is not admitted any more; contains the queue's message.
    QuotaLost(Arc<str>),
    /// One of its volume claims could not be created; contains the cluster's message.
    NoClaim(Arc<str>),
    /// Killed on request; contains who requested it.
    Killed(Arc<str>),
    /// Decommissioned on request; contains who requested it.
    Decommissioned(Arc<str>),
    /// Decommissioned because it asked for that; contains that, with its own words.
    AskedToGo(Arc<str>),
}

impl fmt::Display for LeaveReason {
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
            Self::Decommissioned(by) | Self::AskedToGo(by) => write!(f, "decommissioned by {by}"),
            Self::HeartbeatTimeout(silent) => {
                write!(f, "nothing was heard of it for {} s", silent.as_secs())
            }
            Self::Disconnected => {
                f.write_str("its connection was lost, and neither it nor the cluster has said why")
            }
            Self::Unreachable(silent) => write!(
                f,
                "nothing was heard of it for {} s, and the driver suspects the network between them",
                silent.as_secs()
            ),
            Self::NodeNotReady(silent, node) => write!(
                f,
                "nothing was heard of it for {} s, and its node {node} is not ready",
                silent.as_secs()
            ),
            Self::RegistrationTimeout(ran) => {
                write!(f, "it has run for {} s without registering", ran.as_secs())
            }
            Self::PendingTimeout(waited, why) => {
                write!(f, "it has waited to run for {} s: {why}", waited.as_secs())
            }
            Self::NodeLeaving(which) => write!(f, "its node leaves the cluster: {which}"),
            Self::QuotaLost(why) => write!(f, "its queue took the quota that it had: {why}"),
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

/// How LifecycleManager terminates a marked executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveMethod {
    /// Deletes the pod with its own grace period.
    Delete,
    /// Requests the executor to exit, and deletes the pod without a grace period after `grace`.
    Kill { grace: Duration },
    /// Gives the executor no new work. If it has not exited after `within`, deletes the pod with its own grace period.
    Drain { within: Duration },
}

impl LeaveMethod {
    /// Whether it ends an executor sooner than `other`. Only then does it replace the `how` of a leaving executor.
    pub fn is_harder_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Kill { grace }, Self::Kill { grace: known }) => grace < known,
            (Self::Kill { .. }, Self::Delete | Self::Drain { .. }) => true,
            (Self::Delete | Self::Drain { .. }, _) => false,
        }
    }
}

/// What the ledger contains of an executor's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Session {
    pub registered: bool,
    /// Whether the executor has no work.
    pub idle: bool,
    /// The memory limit, in bytes, that its container should have, because it is near the one that it has; `None`: it has
    /// enough, or may not have more while it runs (spec L-44).
    pub memory: Option<NonZeroU64>,
}

impl Session {
    /// That of an executor that has registered.
    pub fn open(idle: bool) -> Self {
        Self {
            registered: true,
            idle,
            memory: None,
        }
    }

    pub fn is_busy(self) -> bool {
        self.registered && !self.idle
    }
}

/// The states in which executors that have not ended are listed and counted.
pub const STATES: [&str; 6] = [
    "requested",
    "unanswered",
    "pending",
    "running",
    "uncertain",
    "leaving",
];

/// The rows of the table in spec E-6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Sent,
    Unknown,
    Pending(PendingStage),
    Running,
    /// The pod's phase is unknown.
    Odd,
    /// The pod is missing from a full list and is being looked up.
    Absent,
    /// Marked as leaving. Takes precedence over the classes above.
    Leaving,
    Terminating,
    /// Ended, and the pod still exists.
    Finished,
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
            Class::Leaving | Class::Terminating | Class::Finished | Class::Gone => false,
        }
    }

    pub fn is_pending(self) -> bool {
        matches!(self, Class::Pending(_))
    }

    /// Whether the allocator may choose it to terminate.
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
            found_terminating: false,
            state: State::Sent(Request { sent, epoch }),
            leaving: None,
            end: None,
            session: Session::default(),
        }
    }

    /// Its row of the table in spec E-6.
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

    /// Whether its pod says that it is a spare, whose program is held back (spec A-117).
    pub fn is_spare(&self) -> bool {
        let label = self.pod().and_then(|pod| pod.identity.profile());
        label.unwrap_or(&self.profile).is_of_spares()
    }

    /// The profile that its pod's label has to name, because it was promoted; `None`: the label is right.
    pub fn owed_label(&self) -> Option<&ProfileName> {
        let label = self.pod()?.identity.profile()?;
        label.is_spares_of(&self.profile).then_some(&self.profile)
    }

    /// Whether it drains and its time for that has not passed (spec B-30).
    pub fn drains_at(&self, now: Tick) -> bool {
        (self.leaving.as_ref()).is_some_and(|mark| match mark.how {
            LeaveMethod::Drain { within } => now < mark.since + within,
            LeaveMethod::Delete | LeaveMethod::Kill { .. } => false,
        })
    }

    /// Its pod, including one that is gone.
    pub fn bound(&self) -> Option<&Bound> {
        match &self.state {
            State::Bound(bound) => Some(bound),
            State::Gone(gone) => gone.bound.as_ref(),
            State::Sent(_) | State::Unknown(_) => None,
        }
    }

    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.bound().map(|bound| &bound.pod)
    }

    pub fn uid(&self) -> Option<&PodUid> {
        self.pod().map(|pod| &pod.uid)
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone(_))
    }

    /// Whether its pod has ended or is gone.
    pub fn has_ended(&self) -> bool {
        matches!(self.class(), Class::Finished | Class::Gone)
    }

    /// Whether its end was reported, which may be before its pod is gone (spec L-3).
    pub fn is_reported(&self) -> bool {
        self.end.is_some()
    }

    /// Whether its end must still be reported: it was bound to a pod and has ended (spec L-1).
    pub fn has_unreported_end(&self) -> bool {
        self.has_ended() && !self.is_reported() && self.had_a_pod()
    }

    /// Whether this driver or an earlier one bound it to a pod. Otherwise its end loses no executor.
    pub fn had_a_pod(&self) -> bool {
        self.uid().is_some()
            || matches!(&self.state, State::Gone(gone) if gone.how == GoneEvidence::LostBeforeStart)
    }
}
