//! What goes into the decisions about the Lease, and what comes out of them.

use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::Failure;
use crate::kubernetes::calls::{Lease, LeaseSpec};
use crate::model::{PodUid, ResourceVersion, Tick};

#[derive(Debug, Clone)]
pub struct LeaseTimes {
    pub identity: Identity,
    /// How long another driver waits after it saw the last renewal.
    pub duration: Duration,
    /// How long after its last renewal a holder writes. Then it ends.
    pub renew_deadline: Duration,
    /// From one renewal to the next, and from one look of a candidate to the next.
    pub retry_period: Duration,
}

/// Who holds a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The driver's pod; `None` outside a cluster. Each start in a pod follows the end of the one before.
    pub pod: Option<Arc<str>>,
    /// Unique to the start of this process.
    pub start: Arc<str>,
}

impl Identity {
    pub(super) fn text(&self) -> Arc<str> {
        match &self.pod {
            Some(pod) => Arc::from(format!("{pod}_{}", self.start)),
            None => Arc::clone(&self.start),
        }
    }

    /// Whether this holder is an earlier start in the same pod, which has ended.
    pub(super) fn followed(&self, holder: &str) -> bool {
        let (Some(pod), Some((theirs, _))) = (&self.pod, holder.rsplit_once('_')) else {
            return false;
        };
        theirs == &**pod
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Get,
    Create(LeaseSpec),
    Replace(LeaseSpec, PodUid, ResourceVersion),
}

#[derive(Debug, Clone)]
pub enum Answer {
    Got(Option<Lease>),
    Written(Lease),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Another driver holds the Lease.
    StandBy {
        holder: Arc<str>,
    },
    /// This driver holds it, as of this time.
    Held {
        since: Tick,
    },
    Lost(Loss),
    /// The Lease cannot be read or created at the start, and trying again would not help.
    Refused(Failure),
    /// This driver does not hold it any more, as it was asked.
    Released,
    /// The first failure in a row.
    Troubled(Arc<str>),
    Recovered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It was not renewed in time.
    Expired,
    /// Another driver has taken it.
    Taken { by: Arc<str> },
}
