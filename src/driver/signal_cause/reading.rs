//! Reads after a signal why the driver's pod is being stopped. It is bounded, and hands over where nothing is learned.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::config::Config;
use crate::driver::owner_chain::OwnerChain;
use crate::kubernetes::calls::{Controlled, ControllerKind, Reference};
use crate::kubernetes::{Calls, Failure, FailureKind};
use crate::telemetry::millis;

use crate::actors::driver_backend::messages::Stop;

use super::{Evidence, OwnPod, Owner, Workload, may_change, meaning, without_rights};

/// How long it may take to learn what a signal means, at most.
const LIMIT: Duration = Duration::from_secs(2);

/// It takes no larger part of `shutdown.grace` than this, as a divisor.
const SHARE: u32 = 5;

/// The part of the time after which the second look begins.
const SECOND_LOOK: f64 = 0.75;

/// The interval between attempts while the API server does not answer.
const RETRY: Duration = Duration::from_millis(200);

/// The controller of the driver's pod.
enum Set {
    /// It is no ReplicaSet, or there is none.
    IsNone,
    Gone,
    Exists(Box<Controlled>),
}

/// Reads the driver's pod and its controllers.
#[derive(Debug, Clone)]
pub struct Reader {
    calls: Calls,
    pod: String,
    /// The pod and its controllers at the start; `None` until they are known.
    chain: Option<OwnerChain>,
    has_standby: bool,
    limit: Duration,
    /// Shows whether the application record is gone; `None` until it is watched.
    record_is_gone: Option<watch::Receiver<bool>>,
}

impl Reader {
    /// `None` outside a cluster.
    pub fn new(config: &Config, calls: Calls) -> Option<Self> {
        Some(Self {
            calls,
            pod: config.driver.pod_name.clone()?,
            chain: None,
            has_standby: config.ha.lease,
            limit: LIMIT.min(config.shutdown.grace / SHARE),
            record_is_gone: None,
        })
    }

    /// From now on these calls are used.
    pub fn use_calls(&mut self, calls: &Calls) {
        self.calls = calls.clone();
    }

    pub fn follow_record(&mut self, is_gone: watch::Receiver<bool>) {
        self.record_is_gone = Some(is_gone);
    }

    pub fn set_owner_chain(&mut self, chain: Option<&OwnerChain>) {
        self.chain = chain.cloned();
    }

    /// What the signal that came now means. Takes 2 s at most, and less with a short `shutdown.grace` (spec O-66).
    pub async fn learn(self) -> Stop {
        let began = Instant::now();
        let (meaning, why) = self.learn_since(began).await;
        tracing::info!(
            meaning = meaning.word(),
            why,
            duration_ms = millis(began.elapsed()),
            "asked to stop: what it means for the application is learned"
        );
        meaning
    }

    /// Waits until the application record is gone, and with it the controller that owned it (spec O-97). What would
    /// be created anew for it would be collected again.
    pub async fn deleted(&self) -> Stop {
        let (Some(mut is_gone), Some(chain)) = (self.record_is_gone.clone(), &self.chain) else {
            return pending().await;
        };
        loop {
            if is_gone.wait_for(|is_gone| *is_gone).await.is_err() {
                return pending().await;
            }
            match chain.top_is_gone(&self.calls).await {
                Ok(true) => {
                    let why = "the application record was deleted, and so was the controller that owned it";
                    tracing::info!(why, "the application is over");
                    return Stop::DONE;
                }
                // Asking again would tell no more.
                Err(failure) if failure.kind == FailureKind::Rights => return pending().await,
                Ok(false) | Err(_) => sleep(RETRY).await,
            }
        }
    }

    async fn learn_since(&self, began: Instant) -> (Stop, &'static str) {
        let until = began + self.limit;
        let mut last = None;
        let first = match timeout_at(until, self.read_until_answered(&mut last)).await {
            Ok(Ok(evidence)) => evidence,
            Ok(Err(failure)) => return self.without_rights(&failure, until).await,
            Err(_) => match last.filter(|failure| failure.kind == FailureKind::Credentials) {
                Some(failure) => return self.without_rights(&failure, until).await,
                None => return (Stop::HandOver, "the API server does not answer"),
            },
        };
        let decided = meaning(&first, self.has_standby);
        if decided.0 != Stop::HandOver || !may_change(&first) {
            return decided;
        }
        sleep_until(began + self.limit.mul_f64(SECOND_LOOK)).await;
        match timeout_at(until, self.read()).await {
            Ok(Ok(second)) => meaning(&second, self.has_standby),
            _ => decided,
        }
    }

    /// The record, which is watched by a connection from before, may be collected a moment after the rights.
    async fn without_rights(&self, failure: &Failure, until: Instant) -> (Stop, &'static str) {
        let gone = async {
            let mut is_gone = self.record_is_gone.clone()?;
            is_gone.wait_for(|is_gone| *is_gone).await.ok().map(drop)
        };
        let record_is_gone = matches!(timeout_at(until, gone).await, Ok(Some(())));
        let decided = without_rights(record_is_gone);
        if decided.0 == Stop::HandOver {
            tracing::warn!(
                error = %failure,
                rule = failure.missing_right().map(|right| right.rule()),
                hint = "grant it: see docs/kubernetes.md, \"Rights\"",
                "why this driver is asked to stop cannot be read"
            );
        }
        decided
    }

    /// `last` is the last failure.
    ///
    /// # Errors
    /// If a right is missing: then there will be no answer.
    async fn read_until_answered(&self, last: &mut Option<Failure>) -> Result<Evidence, Failure> {
        loop {
            match self.read().await {
                Err(failure) if failure.kind != FailureKind::Rights => {
                    tracing::debug!(error = %failure, "the driver's pod or its controller is not read");
                    *last = Some(failure);
                    sleep(RETRY).await;
                }
                answered => return answered,
            }
        }
    }

    /// The top controller that is known is read together with the pod: one after the other, the reads of a Deployment's
    /// pod take a slow API server longer than there is time.
    async fn read(&self) -> Result<Evidence, Failure> {
        let (pod, known_top) = tokio::join!(self.pod_and_set(), self.known_top());
        let (pod, set) = pod?;
        let controller = pod.as_ref().map(|pod| pod.controller.as_ref());
        let owner = match (controller, set) {
            // Without its ReplicaSet, its Deployment may go on with another one.
            (None, _) | (_, Set::Gone) => known_top?,
            (Some(None), _) => Owner::None,
            (Some(Some(controller)), Set::IsNone) => self.top_or(controller, known_top).await?,
            (_, Set::Exists(set)) => match &set.controller {
                Some(above) => self.top_or(above, known_top).await?,
                None => Owner::Exists(Workload::of(ControllerKind::ReplicaSet, &set)),
            },
        };
        Ok(Evidence {
            pod: pod.as_ref().map_or(OwnPod::Gone, OwnPod::of),
            owner,
        })
    }

    /// The driver's pod, and its controller if that is a ReplicaSet.
    async fn pod_and_set(&self) -> Result<(Option<Controlled>, Set), Failure> {
        let own = self.chain.as_ref().map(|chain| chain.pod.uid.as_str());
        let pod = self.calls.controller_of_pod(&self.pod).await?;
        // A StatefulSet gives the name to the next pod.
        let pod = pod.filter(|pod| own.is_none_or(|own| own == pod.uid));
        let controller = pod.as_ref().and_then(|pod| pod.controller.as_ref());
        let kind = ControllerKind::ReplicaSet;
        let set = match controller {
            Some(set) if ControllerKind::of(set) == Some(kind) => {
                (self.existing(kind, set).await?)
                    .map_or(Set::Gone, |set| Set::Exists(Box::new(set)))
            }
            _ => Set::IsNone,
        };
        Ok((pod, set))
    }

    /// Reads this top controller, unless it is the known one.
    async fn top_or(
        &self,
        top: &Reference,
        known: Result<Owner, Failure>,
    ) -> Result<Owner, Failure> {
        match &self.chain {
            Some(chain) if chain.top == *top => known,
            _ => self.top(top).await,
        }
    }

    /// The top controller that the start has found.
    async fn known_top(&self) -> Result<Owner, Failure> {
        match &self.chain {
            Some(chain) if chain.top == chain.pod => Ok(Owner::None),
            Some(chain) => self.top(&chain.top).await,
            None => Ok(Owner::NeverRead),
        }
    }

    async fn top(&self, reference: &Reference) -> Result<Owner, Failure> {
        let Some(kind) = ControllerKind::of(reference) else {
            return Ok(Owner::Unknown);
        };
        let read = self.existing(kind, reference).await?;
        Ok(read.map_or(Owner::Gone, |read| Owner::Exists(Workload::of(kind, &read))))
    }

    /// `None` if it does not exist, or if another object has its name.
    async fn existing(
        &self,
        kind: ControllerKind,
        reference: &Reference,
    ) -> Result<Option<Controlled>, Failure> {
        let read = self.calls.controller(kind, &reference.name).await?;
        Ok(read.filter(|read| read.uid == reference.uid))
    }
}
