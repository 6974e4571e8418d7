//! Standby: a driver that may only write while it holds the application's Lease (spec O-32).

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::actors::lease_keeper::machine::{Identity, LeaseTimes, Loss};
use crate::actors::lease_keeper::{self, LeaseKeeper, LeaseState, Published, Release};
use crate::clock::Clock;
use crate::config::Config;
use crate::event_recorder::events::{Call, Events, Note};
use crate::exit::Exit;
use crate::kubernetes::calls::Reference;
use crate::kubernetes::{Calls, Failure, FailureKind, WriteGate};
use crate::telemetry::millis;
use boatswain_agent::backoff::Backoff;

use super::Environment;
use super::owner_chain::OwnerChain;
use super::succession::holder;

/// The label of the pod whose driver holds the Lease, by which the sessions' Service selects it.
pub(super) const ACTIVE: &str = "boatswain.dev/active";

/// How long a release and an event about a loss may take. Without the release a standby waits for the Lease's end.
pub(super) const AT_THE_END: Duration = Duration::from_secs(2);

/// The backoff between attempts to label the driver's pod.
const LABEL_AGAIN: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
};

/// The Lease of this driver, which it holds or waits for.
pub(super) struct Lease {
    keeper: Addr<LeaseKeeper>,
    state: watch::Receiver<LeaseState>,
    gate: WriteGate,
    /// For the event about a loss, which passes no gate.
    calls: Calls,
    clock: Clock,
    /// The driver's pod; `None` outside a cluster.
    pod: Option<Reference>,
    instance: Arc<str>,
    /// Labels the pod as the active driver's.
    labelling: Option<Labelling>,
}

/// A task that goes on until the pod is labelled, or this is dropped.
struct Labelling(JoinHandle<()>);

impl Drop for Labelling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The Lease's name.
fn lease_name(prefix: &str) -> String {
    format!("{prefix}-driver")
}

impl Lease {
    /// Begins to acquire the Lease.
    pub(super) fn wait_for(
        config: &Config,
        environment: &Environment,
        calls: &Calls,
        prefix: &str,
        owner_chain: Option<&OwnerChain>,
    ) -> Self {
        let pod = owner_chain.map(|owner_chain| owner_chain.pod.clone());
        let start = holder(environment.holder);
        let identity = Identity {
            pod: (pod.as_ref()).map(|pod| Arc::from(format!("{}_{}", pod.name, pod.uid))),
            start: Arc::clone(&start),
        };
        let (keeper, published) = LeaseKeeper::new(lease_keeper::Wiring {
            settings: LeaseTimes {
                identity,
                duration: config.ha.lease_duration,
                renew_deadline: config.ha.renew_deadline,
                retry_period: config.ha.retry_period,
            },
            calls: calls.clone(),
            name: lease_name(prefix),
            owner: owner_chain.map(|owner_chain| json!(owner_chain.top)),
            clock: environment.clock,
        });
        let Published { gate, state } = published;
        Self {
            keeper: keeper.start(),
            state,
            gate,
            calls: calls.clone(),
            clock: environment.clock,
            pod,
            instance: start,
            labelling: None,
        }
    }

    /// What writes have to pass.
    pub(super) fn gate(&self) -> WriteGate {
        self.gate.clone()
    }

    /// Waits until this driver holds the Lease. `stands_by` is called with each driver that holds it meanwhile.
    ///
    /// # Errors
    /// Returns the exit code of a driver that cannot have it.
    pub(super) async fn acquired(&mut self, stands_by: impl Fn(&str)) -> Result<(), Exit> {
        let began = Instant::now();
        loop {
            let state = self.state.borrow_and_update().clone();
            match state {
                LeaseState::Unknown => {}
                LeaseState::Held => {
                    let duration_ms = millis(began.elapsed());
                    tracing::info!(duration_ms, "lease acquired: this driver is active");
                    self.labelling = self.label_pod();
                    return Ok(());
                }
                LeaseState::StandBy { holder } => {
                    let holder = &*holder;
                    tracing::info!(holder, "standby: another driver holds the lease");
                    stands_by(holder);
                }
                LeaseState::Refused(failure) => return Err(refused(&failure)),
                LeaseState::Lost(loss) => {
                    self.record(&loss).await;
                    return Err(Exit::Superseded);
                }
                LeaseState::Released => return Err(Exit::Superseded),
            }
            if self.state.changed().await.is_err() {
                return Err(Exit::Bug);
            }
        }
    }

    /// Waits until this driver has lost the Lease, and returns its exit code.
    pub(super) async fn lost(&mut self) -> Exit {
        loop {
            let state = self.state.borrow_and_update().clone();
            if let LeaseState::Lost(loss) = state {
                self.record(&loss).await;
                return Exit::Superseded;
            }
            if self.state.changed().await.is_err() {
                return Exit::Bug;
            }
        }
    }

    /// Labels this driver's pod as the active one. The take-over does not wait for it: a webhook may refuse it for a
    /// while, and executors that do not find the driver by the Service yet try again.
    fn label_pod(&self) -> Option<Labelling> {
        let pod = self.pod.clone()?;
        let calls = self.calls.clone().gated(self.gate());
        let labelling = async move {
            let patch = active_patch(&pod.uid, true);
            let mut failures = 0;
            while let Err(failure) = calls.patch_pod(&pod.name, &patch).await {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(
                        error = %failure.explained(),
                        "this driver's pod is not labelled as the active one, so executors do not find it by the Service: \
                         trying again"
                    );
                }
                let asked_for = failure.retry_after.unwrap_or_default();
                sleep(LABEL_AGAIN.delay(failures).max(asked_for)).await;
            }
            if failures > 0 {
                tracing::info!("this driver's pod is labelled as the active one");
            }
        };
        Some(Labelling(actix::spawn(labelling)))
    }

    /// Gives the Lease up, so that a standby takes over at once. No write is sent any more.
    pub(super) async fn release(&mut self) {
        self.labelling = None;
        let mut state = self.state.clone();
        if *state.borrow() == LeaseState::Held
            && let Some(pod) = &self.pod
        {
            // A successor marks its own pod. Executors are not to find two.
            let patch = active_patch(&pod.uid, false);
            let _ = timeout(AT_THE_END, self.calls.patch_pod(&pod.name, &patch)).await;
        }
        self.keeper.do_send(Release);
        let over = |state: &LeaseState| {
            matches!(
                state,
                LeaseState::Released | LeaseState::Lost(_) | LeaseState::Refused(_)
            )
        };
        if timeout(AT_THE_END, state.wait_for(over)).await.is_err() {
            tracing::warn!("the lease could not be released: a standby waits until it is over");
        }
    }

    /// Records the loss in the log and as a Kubernetes Event (spec O-45).
    async fn record(&self, loss: &Loss) {
        let text = match loss {
            Loss::Expired => {
                tracing::error!(
                    "the lease was not renewed in time: this driver ends, executors stay; look at the API server, the \
                     network and this machine's load"
                );
                "the lease was not renewed in time".to_owned()
            }
            Loss::Taken { by } => {
                let by = &**by;
                tracing::error!(
                    by,
                    "another driver has taken the lease: this driver ends, executors stay"
                );
                format!("{by} has taken the lease")
            }
        };
        let Some(pod) = &self.pod else {
            return;
        };
        let namespace = self.calls.namespace().to_owned();
        let instance = format!("{}-lease", self.instance);
        let mut events = Events::new(pod.clone(), namespace, instance);
        let note = Note {
            reason: "LeaseLost",
            about: String::new(),
            text: format!("{text}: this driver ends, executors stay for the one that holds it"),
            warning: true,
        };
        let now = self.clock.now();
        if events.add(note, now.tick).is_ok()
            && let Some(Call::Create(event)) = events.next(now)
        {
            // The API server may be the reason for the loss, and the log says the same.
            let _ = timeout(AT_THE_END, self.calls.create_event(&event)).await;
        }
    }
}

/// As [`Lease::lost`]; waits for ever without a Lease.
pub(super) async fn lost(lease: &mut Option<Lease>) -> Exit {
    match lease {
        Some(lease) => lease.lost().await,
        None => std::future::pending().await,
    }
}

/// The merge patch of the pod with this uid that says whether its driver is active.
pub(super) fn active_patch(uid: &str, active: bool) -> Value {
    let value = match active {
        true => Value::from("true"),
        false => Value::Null,
    };
    json!({"metadata": {"uid": uid, "labels": {ACTIVE: value}}})
}

fn refused(failure: &Failure) -> Exit {
    let (exit, hint) = match failure.kind {
        FailureKind::Rights => (
            Exit::Rights,
            "grant it, or run with an account that has it: see docs/kubernetes.md, \"Rights\"",
        ),
        _ => (
            Exit::Configuration,
            "the cluster refuses it as it is: mend that, or set ha.lease = false",
        ),
    };
    let error = failure.explained();
    tracing::error!(exit = exit.code(), %error, hint, "the lease cannot be acquired");
    exit
}
