//! What the store is told and asked, and what it hands out.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Message, Recipient};

use crate::model::executor::{How, Why};
use crate::model::news::{Aim, ListTicket, Listed, News};
use crate::model::{Batch, Epoch, ExecutorId, ProfileName, Snapshot, Tick};

use super::delivery::Timing;
use super::ledger::ListVerdict;

/// News for the ledger.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Tell(pub News);

/// These go, and with them targets change (spec L-10, E-5); answered with what came of it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Retired")]
pub struct Retire {
    /// Which ones.
    pub ids: Vec<ExecutorId>,
    /// What becomes of the targets.
    pub aim: Aim,
    /// Why.
    pub why: Why,
    /// How.
    pub how: How,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, actix::MessageResponse)]
pub struct Retired {
    /// Those that became leaving by it.
    pub marked: Vec<ExecutorId>,
    /// All targets, as they are then.
    pub targets: BTreeMap<ProfileName, u32>,
    /// How many executors of each profile are asked for then; unlike the targets also while executors are held.
    pub asked: BTreeMap<ProfileName, u32>,
}

/// As many executors of these profiles are asked for; answered with how many are asked for then, of all profiles (spec
/// B-25).
#[derive(Debug, Clone, Message)]
#[rtype(result = "BTreeMap<ProfileName, u32>")]
pub struct AskFor(pub BTreeMap<ProfileName, u32>);

/// A list is about to be asked for.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "ListTicket")]
pub struct BeginList;

/// A list came in.
#[derive(Debug, Clone, Message)]
#[rtype(result = "ListVerdict")]
pub struct ListArrived(pub Listed);

/// Who subscribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subscriber {
    /// PodAllocator.
    Allocator,
    /// LifecycleManager.
    Lifecycle,
    /// RecordKeeper.
    Record,
    /// ExecutorRegistry.
    Registry,
    /// EventHistory.
    History,
    /// Commands.
    Commands,
    /// Autoscaler.
    Autoscaler,
    /// Roller.
    Roller,
    /// DriverBackend.
    Backend,
    /// Meter.
    Metrics,
    /// Observer.
    Observer,
}

/// Wants batches.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Subscribe {
    /// Who.
    pub subscriber: Subscriber,
    /// Its timer.
    pub timing: Timing,
    /// Where batches go.
    pub recipient: Recipient<Round>,
}

/// One batch to decide on; answered with [`Decided`] after all that the decision tells the store.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Round(pub Batch);

/// The subscriber has decided on its batch.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Decided(pub Subscriber);

/// A round is wanted now (spec S-24).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct AskRound(pub Subscriber);

/// A list revealed that the API server's history begins anew: so does the watch, with a new list (spec S-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ListAnew {
    /// The new history.
    pub epoch: Epoch,
}

/// A subscriber has decided on a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct RoundMade {
    /// Who.
    pub subscriber: Subscriber,
    /// From the batch's leaving the store to the decision's coming back.
    pub took: Duration,
}

/// The current snapshot, for those who only look.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Look")]
pub struct LookNow;

/// How much the store remembers beside the current snapshot.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Measures")]
pub struct MeasureNow;

/// The answer to [`MeasureNow`]: each of these follows the living fleet or a limit, and not time (spec I-8, S-14, S-23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::MessageResponse)]
pub struct Measures {
    /// Pods that have ended, kept until a full list that was asked for after that.
    pub tombstones: usize,
    /// Pods that were warned about as no executors.
    pub unrecognised: usize,
    /// Pods about which a poll has said something else than the watch.
    pub suspects: usize,
    /// The most snapshots that wait for any one subscriber.
    pub waiting: usize,
    /// When anything last changed.
    pub changed: Option<Tick>,
    /// When the watch last said how far it has come.
    pub bookmark: Option<Tick>,
}

/// The answer to [`LookNow`].
#[derive(Debug, Clone, actix::MessageResponse)]
pub struct Look(pub Snapshot);
