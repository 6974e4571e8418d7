//! Simulated executors' sessions: each running executor speaks the session protocol with the driver, over a WebSocket
//! or by HTTP requests. Some register late or never, some fall silent, and some send invalid messages. In some runs an
//! agent runs each executor, and ends it when it has not heard the driver for long (spec O-123).

mod executor;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use boatswain::clock::Clock;
use boatswain::config::Auth;
use boatswain::model::Snapshot;
use boatswain::model::executor::LeaveReason;
use boatswain_agent::NO_DRIVER;
use devcluster::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::beliefs::longest_recovery;
use crate::checks::Verdict;
use crate::node::{PodFault, restarts_containers, short};
use crate::objects::{NAMESPACE, is_terminating, label, text};
use crate::script::Script;
use crate::tokens::Issuer;
use crate::trace::trace_line;
use crate::world::World;

use executor::Executor;

pub use executor::UNSTEADY;

/// With at most this many executors, a driver that hears nobody gives them up in the end (spec B-59).
const FEW: usize = 2;

/// After this many heartbeat timeouts.
const LONGEST_DOUBT: u32 = 10;

/// How a simulated executor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Correctly, beginning this long after its start.
    Correct { after: Duration },
    /// It never sends anything.
    Silent,
    /// It falls silent after this long, without closing its connection.
    FallsSilent { after: Duration },
    /// It sends invalid messages first, and then behaves correctly.
    SendsInvalid,
    /// It requests its own decommissioning after this long.
    RequestsDecommission { after: Duration },
}

/// The network path from the executors to the driver.
#[derive(Clone)]
pub struct SessionLink(Arc<Mutex<LinkState>>);

/// State shared by the executors of a run.
#[derive(Default)]
pub struct LinkState {
    /// The current driver's number, and its session endpoint.
    driver: Option<(usize, Router)>,
    /// Whether the path is interrupted.
    partitioned: bool,
    /// Violations seen in the driver's answers.
    violations: Vec<String>,
    /// Executors that exit at the driver's request.
    exits: Vec<Exit>,
    /// Executors that fell silent on purpose, by pod uid.
    silent: BTreeSet<String>,
    /// Executors that have registered since their container was started last, by pod uid.
    registered: BTreeSet<String>,
    /// Issues the tokens of service accounts, if executors prove themselves with these.
    issuer: Option<(Issuer, Clock)>,
}

/// An executor's exit.
struct Exit {
    uid: String,
    why: ExitCause,
    /// The number of the driver that it spoke to last.
    driver: Option<usize>,
}

/// Why an executor exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitCause {
    /// The driver requested it.
    Requested,
    /// The driver refused the executor for good.
    Unwanted,
    /// Its agent has not heard the driver for too long.
    NoDriver,
}

impl SessionLink {
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.0.lock().unwrap()
    }

    fn exit(&self, uid: &str, why: ExitCause, driver: Option<usize>) {
        self.state().exits.push(Exit {
            uid: uid.to_owned(),
            why,
            driver,
        });
    }

    /// A new token of a pod's service account.
    fn account_token(&self, pod: &Value) -> Option<String> {
        let state = self.state();
        let (issuer, clock) = state.issuer.as_ref()?;
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let app = label(pod, "boatswain.dev/app-id");
        Some(issuer.token(app, name, uid, clock.now().wall))
    }

    /// The driver's number and session endpoint, if it can be reached.
    fn driver(&self) -> Option<(usize, Router)> {
        let state = self.state();
        (!state.partitioned).then(|| state.driver.clone())?
    }
}

/// All executors with sessions.
pub struct Sessions {
    link: SessionLink,
    rng: StdRng,
    /// The executors' tasks by pod uid, each with the number of restarts of its container when it began.
    executors: BTreeMap<String, (u64, JoinHandle<()>)>,
    /// The cluster's version when the running executors were last determined.
    seen_version: Option<u64>,
    /// Whether new executors behave correctly in any case.
    all_correct: bool,
    /// When the path was last interrupted or restored.
    path_changed_at: Option<Instant>,
    heartbeat_timeout: Duration,
    /// The latest registration of a correct executor after its start.
    latest_registration: Duration,
    /// The agents' `--driver-timeout`, if agents run the executors.
    driver_timeout: Option<Duration>,
}

impl Sessions {
    /// `None` if the configuration has no sessions.
    pub fn of(script: &Script, issuer: Issuer, clock: Clock) -> Option<Self> {
        let config = &script.config;
        let sessions = &config.backend.sessions;
        sessions.listen?;
        let link = LinkState {
            issuer: (sessions.auth == Some(Auth::Kubernetes)).then_some((issuer, clock)),
            ..LinkState::default()
        };
        Some(Self {
            link: SessionLink(Arc::new(Mutex::new(link))),
            rng: StdRng::seed_from_u64(script.seed),
            executors: BTreeMap::new(),
            seen_version: None,
            all_correct: false,
            path_changed_at: None,
            heartbeat_timeout: sessions.heartbeat_timeout,
            latest_registration: config.allocation.registration_timeout / 2,
            driver_timeout: script.driver_timeout,
        })
    }

    /// Interrupts or restores the path.
    pub fn set_partitioned(&mut self, partitioned: bool) {
        self.link.state().partitioned = partitioned;
        self.path_changed_at = Some(Instant::now());
    }

    /// These executors' node is down: they never speak again.
    pub fn fall_silent(&mut self, uids: impl Iterator<Item = String>) {
        for uid in uids {
            if let Some((_, task)) = self.executors.get(&uid) {
                task.abort();
                self.link.state().silent.insert(uid);
            }
        }
    }

    /// Ends all faults of the sessions.
    pub fn end_faults(&mut self) {
        self.set_partitioned(false);
        self.all_correct = true;
    }

    /// Starts a session task for each running executor, and aborts those of the others. Adds the pods of executors
    /// that will request their own decommissioning to `may_leave`.
    fn update_executors(&mut self, state: &State, may_leave: &mut BTreeSet<String>) {
        let version = state.resource_version();
        if self.seen_version.replace(version) == Some(version) {
            return;
        }
        let running: BTreeMap<&str, &Value> = (state.pods(NAMESPACE))
            .filter(|pod| matches!(text(pod, "/status/phase"), "Running" | "Unknown"))
            .filter(|pod| !waits_for_restart(pod))
            .map(|pod| (text(pod, "/metadata/uid"), pod))
            .collect();
        self.executors.retain(|uid, (restarts, task)| {
            let pod = running.get(uid.as_str());
            let runs = pod.is_some_and(|pod| restart_count(pod) == *restarts);
            if !runs {
                task.abort();
            }
            runs
        });
        for (uid, pod) in running {
            if self.executors.contains_key(uid) || is_terminating(pod) {
                continue;
            }
            let (link, seed) = (self.link.clone(), self.rng.random());
            let Some(executor) = Executor::of(pod, link, seed, self.driver_timeout) else {
                continue;
            };
            let behaviour = self.draw_behaviour();
            if restart_count(pod) > 0 {
                let mut state = self.link.state();
                state.silent.remove(uid);
                state.registered.remove(uid);
            }
            trace_line!(
                "   {} has a session: {behaviour:?}",
                text(pod, "/metadata/name")
            );
            if let Behaviour::RequestsDecommission { .. } = behaviour {
                may_leave.insert(uid.to_owned());
            }
            let task = tokio::spawn(executor.run(behaviour));
            self.executors
                .insert(uid.to_owned(), (restart_count(pod), task));
        }
    }

    fn draw_behaviour(&mut self) -> Behaviour {
        let rng = &mut self.rng;
        let after = Duration::from_millis(rng.random_range(0..200_000));
        let drawn = match rng.random_range(0..100) {
            0..=4 => Behaviour::Silent,
            5..=11 => Behaviour::FallsSilent { after },
            12..=19 => Behaviour::SendsInvalid,
            20..=24 => Behaviour::RequestsDecommission { after },
            25..=34 => Behaviour::Correct {
                after: self.latest_registration.mul_f64(rng.random()),
            },
            _ => Behaviour::Correct { after: after / 100 },
        };
        match drawn {
            _ if self.all_correct => Behaviour::Correct { after: after / 100 },
            drawn => drawn,
        }
    }

    /// Whether an executor is silent. One that has exited is, even if the driver does not know yet; and so is one whose
    /// container was started again, until it has registered.
    fn is_silent(&self, uid: &str) -> bool {
        let state = self.link.state();
        let speaks = self.executors.get(uid).is_some_and(|(restarts, task)| {
            !task.is_finished() && (*restarts == 0 || state.registered.contains(uid))
        });
        !speaks || state.silent.contains(uid)
    }

    /// Whether an executor has registered with any driver since its container was started last.
    fn was_heard(&self, uid: &str) -> bool {
        self.link.state().registered.contains(uid)
    }

    /// Whether the path was cut at some time within this duration.
    fn was_cut_within(&self, time: Duration) -> bool {
        self.link.state().partitioned || self.path_changed_at.is_some_and(|at| at.elapsed() < time)
    }

    /// Whether the driver may give up an executor that is not silent: it hears nobody, and has so few executors that it
    /// does not doubt the path for ever.
    fn may_lose_live_executor(&self) -> bool {
        let longest = LONGEST_DOUBT * self.heartbeat_timeout;
        let was_long = self
            .path_changed_at
            .is_some_and(|at| at.elapsed() >= longest);
        self.link.state().partitioned && was_long && self.executors.len() <= FEW
    }
}

/// How often the container of a pod was started again; 0 if it never is.
fn restart_count(pod: &Value) -> u64 {
    let count = pod.pointer("/status/containerStatuses/0/restartCount");
    count.and_then(Value::as_u64).unwrap_or_default()
}

/// Whether the container has ended and is to be started again in the same pod.
fn waits_for_restart(pod: &Value) -> bool {
    let state = pod.pointer("/status/containerStatuses/0/state");
    let runs = state.is_none_or(|state| state.get("running").is_some());
    restarts_containers(pod) && !runs
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for (_, task) in self.executors.values() {
            task.abort();
        }
    }
}

impl World {
    /// Connects the executors to the current driver and carries out their exits.
    // spec: B-1, B-2, B-4, B-5
    pub async fn update_sessions(&mut self) -> Verdict {
        let Some(link) = self.sessions.as_ref().map(|sessions| sessions.link.clone()) else {
            return Ok(());
        };
        let handle = (self.drivers.borrow().iter().rev())
            .find(|driver| driver.is_alive() && !driver.paused && driver.stop_requested.is_none())
            .map(|driver| (driver.number, driver.handle.clone()));
        let known = link.state().driver.as_ref().map(|(number, _)| *number);
        if let Some((number, handle)) = handle.filter(|(number, _)| known != Some(*number)) {
            let answer = timeout(Duration::from_secs(1), handle.sessions()).await;
            if let Ok(Some(router)) = answer {
                trace_line!("   executors reach d{number}");
                link.state().driver = Some((number, router));
            }
        }
        // Before the pods are read, so that those show why a driver refused an executor at this instant.
        let exits = std::mem::take(&mut link.state().exits);
        let state = self.cluster.state().await;
        if let Some(sessions) = &mut self.sessions {
            sessions.update_executors(&state, &mut self.checks.excuses.may_leave);
        }
        for exit in exits {
            self.exit(&state, &exit).await?;
        }
        match link.state().violations.pop() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    async fn exit(&mut self, state: &State, exit: &Exit) -> Verdict {
        let uid = exit.uid.as_str();
        let mut pods = state.pods(NAMESPACE);
        let Some(pod) = pods.find(|pod| text(pod, "/metadata/uid") == uid) else {
            return Ok(());
        };
        // A driver may refuse it before the checker has seen, at the same instant, that the pod ended.
        if matches!(text(pod, "/status/phase"), "Failed" | "Succeeded") {
            return Ok(());
        }
        // Somebody deletes it, and the driver may know that before the checker does.
        let is_leaving = is_terminating(pod);
        let is_known = |driver: &usize| !self.checks.last_changes_are_unknown(*driver);
        let last =
            (exit.driver.filter(is_known)).and_then(|driver| self.checks.last_ledger(driver));
        let wanted = last.is_some_and(|last| {
            (last.entries.values()).any(|entry| {
                let is_its_pod = entry.uid().is_some_and(|bound| bound.as_str() == uid);
                is_its_pod && entry.class().is_live() && entry.leaving.is_none()
            })
        });
        // Until a driver notices that a restored server shows an ended executor again, it refuses it.
        let noticing = Instant::now().checked_sub(self.checks.recovery);
        let was_restored =
            noticing.is_some_and(|since| self.checks.was_history_replaced_since(since));
        if wanted && exit.why == ExitCause::Unwanted && !was_restored && !is_leaving {
            return Err(format!(
                "B-4: {} ({}) was refused for good, and the ledger counts it as live",
                text(pod, "/metadata/name"),
                short(uid)
            ));
        }
        let code = match exit.why {
            ExitCause::Requested | ExitCause::Unwanted => 0,
            ExitCause::NoDriver => i32::from(NO_DRIVER),
        };
        trace_line!("   {} exits: {:?}", short(uid), exit.why);
        if restarts_containers(pod) {
            (self.checks).note_pod_fault(uid, PodFault::Exit(code), None);
        }
        self.nodes.end(pod, PodFault::Exit(code)).await;
        Ok(())
    }

    /// Checks that executors are given up for their silence only if they are silent.
    // spec: B-12, B-13, B-15, B-16, A-44, A-52, I-12
    pub fn check_silence(&self, driver: usize, now: &Snapshot) -> Verdict {
        let Some(sessions) = &self.sessions else {
            return Ok(());
        };
        let before = self.checks.last_ledger(driver);
        for entry in now.entries.values() {
            let Some(leaving) = &entry.leaving else {
                continue;
            };
            let is_for_silence = matches!(
                leaving.why,
                LeaveReason::HeartbeatTimeout(_)
                    | LeaveReason::Disconnected
                    | LeaveReason::Unreachable(_)
                    | LeaveReason::NodeNotReady(..)
                    | LeaveReason::RegistrationTimeout(_)
            );
            let was_leaving = before
                .and_then(|before| before.entry(entry.id))
                .is_some_and(|before| before.leaving.is_some());
            let uid = entry.uid().map_or("", |uid| uid.as_str());
            if !is_for_silence || was_leaving || entry.is_gone() {
                continue;
            }
            if let LeaveReason::NodeNotReady(_, node) = &leaving.why
                && !self.nodes.objects.was_down(node)
            {
                return Err(format!(
                    "B-73: {node}, which d{driver} blames, was always ready"
                ));
            }
            // Of executors that were never heard nobody can say whether they or the path are broken.
            let may_be_path =
                |longest| !sessions.was_heard(uid) && sessions.was_cut_within(longest);
            let may_be_lost = match leaving.why {
                LeaveReason::Unreachable(longest) => {
                    sessions.may_lose_live_executor() || may_be_path(longest)
                }
                LeaveReason::RegistrationTimeout(longest) => may_be_path(longest),
                _ => false,
            };
            if !(sessions.is_silent(uid) || self.may_be_refused(uid) || may_be_lost) {
                return Err(format!(
                    "I-12: d{driver} gives up {} ({:?}), which is not silent",
                    entry.id, leaving.why
                ));
            }
        }
        Ok(())
    }

    /// Whether an executor may be refused, because it is not in the ledger under its id, or was not until recently.
    fn may_be_refused(&self, uid: &str) -> bool {
        let config = &self.script.config;
        let longest = longest_recovery(config)
            + config.allocation.registration_timeout
            + config.backend.sessions.heartbeat_timeout;
        let since = Instant::now().checked_sub(longest);
        let excuses = &self.checks.excuses;
        let is_replaced = !excuses.history_replaced.is_empty()
            && since.is_none_or(|since| self.checks.was_history_replaced_since(since));
        excuses.relabelled.contains(uid) || excuses.foreign.contains(uid) || is_replaced
    }
}
