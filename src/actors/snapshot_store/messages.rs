use std::time::Duration;

use actix::{Message, Recipient};

use crate::model::news::{ListTicket, Listed, News};
use crate::model::{Batch, Epoch, ExecutorId, Snapshot, Tick};

use crate::model::delivery::Timing;
use crate::model::ledger::ListVerdict;

/// Answered with the executors that this marked as leaving (spec L-10).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Vec<ExecutorId>")]
pub struct Tell(pub News);

/// Must be sent before a list is requested.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "ListTicket")]
pub struct BeginList;

#[derive(Debug, Clone, Message)]
#[rtype(result = "ListVerdict")]
pub struct ListArrived(pub Listed);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subscriber {
    /// PodAllocator or SetScaler.
    Allocator,
    Lifecycle,
    Record,
    Registry,
    History,
    Backend,
    Observer,
}

impl Subscriber {
    /// The subscriber as a metric label.
    pub fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Subscribe {
    pub subscriber: Subscriber,
    pub timing: Timing,
    pub recipient: Recipient<Round>,
}

impl Subscribe {
    /// For a reader outside the driver, which need not know the store: it decides nothing. Each change is a batch of its
    /// own.
    pub fn observer(recipient: Recipient<Round>) -> Self {
        Self {
            subscriber: Subscriber::Observer,
            timing: Timing {
                interval: Duration::from_secs(60),
                quiet_latency: Duration::ZERO,
                min_gap: Duration::ZERO,
                max_buffered: 10_000,
            },
            recipient,
        }
    }
}

/// A batch. The subscriber sends its news to the store before it answers (spec S-22).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Next")]
pub struct Round(pub Batch);

/// The answer to a batch: the subscriber has decided on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, actix::MessageResponse)]
pub struct Next {
    /// When the next round must come at the latest. A round comes after the subscriber's interval in any case.
    pub wake: Option<Tick>,
}

/// Requests a round without delay (spec S-24).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct AskRound(pub Subscriber);

/// A list of the poll began a new epoch: the watch must start again with a list (spec S-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ListAnew {
    pub epoch: Epoch,
}

#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Look")]
pub struct LookNow;

/// Requests the sizes of what the store keeps beside the current snapshot.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Measures")]
pub struct MeasureNow;

/// Each number is bounded by the living fleet or a limit, never by time (spec I-8, S-14, S-23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::MessageResponse)]
pub struct Measures {
    pub tombstones: usize,
    pub unrecognised: usize,
    /// Pods on which a poll and the watch differ.
    pub suspects: usize,
    /// The most snapshots that wait for one subscriber.
    pub waiting: usize,
    /// When the ledger last changed.
    pub changed: Option<Tick>,
    /// When the watch last delivered a bookmark.
    pub bookmark: Option<Tick>,
}

#[derive(Debug, Clone, actix::MessageResponse)]
pub struct Look(pub Snapshot);
