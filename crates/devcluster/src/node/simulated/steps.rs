//! What the simulated node does to one pod when its time comes.

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::{BACK_OFF_AFTER, Node, Step};
use crate::changes::write::Write;
use crate::node::fault_injection::Fault;
use crate::node::report::{Container, Report, Termination, evicted};
use crate::node::restart::Restarts;
use crate::node::{bind, containers, register, remove, volumes};
use crate::objects::object::{Object, text};
use crate::storage::store::State;

/// A pod whose time has come.
struct Due<'a> {
    pod: &'a Object,
    now: Timestamp,
    address: String,
}

impl Due<'_> {
    fn status(&self, containers: &[Container], started: Timestamp) -> Value {
        let report = Report {
            pod: self.pod.value(),
            containers,
            init: &[],
            started,
            now: self.now,
            pod_ip: &self.address,
        };
        report.status()
    }

    /// The status of a pod whose containers are all like this one.
    fn status_of_all(&self, container: Container, started: Timestamp) -> Value {
        let count = containers(self.pod.value()).count();
        self.status(&vec![container; count], started)
    }

    fn report(&self, status: Value) -> Write {
        Write::report(self.pod, status)
    }

    fn runs(&self) -> bool {
        text(self.pod.value(), &["status", "phase"]) == "Running"
    }
}

impl Node {
    pub(super) fn step(&mut self, uid: &str, step: Step) -> Option<Vec<Write>> {
        let known = self.pods.get_mut(uid)?;
        known.next = None;
        let state = self.store.state();
        let due = Due {
            pod: state.get(&known.key).filter(|pod| pod.uid() == uid)?,
            now: self.store.clock().now(),
            address: known.address.clone(),
        };
        match step {
            Step::Bind => Some(self.bind(&state, &due)),
            Step::Start | Step::BackOff => self.start(&due, step == Step::BackOff),
            Step::Restart => {
                known.restarts.begin();
                let started = *known.started.get_or_insert(due.now);
                self.report_running(&due, Container::Running(due.now), started)
            }
            Step::ReportReady => {
                let started = known.started.unwrap_or(due.now);
                self.report_running(&due, Container::Running(started), started)
            }
            Step::Fail(fault) => due.runs().then(|| self.fail(&due, fault)).flatten(),
            Step::Stop => {
                let started = known.started.filter(|_| due.runs());
                let ended = started.map(|started| {
                    let ending = Termination::exit(143, started, due.now);
                    due.report(due.status_of_all(Container::Ended(ending), started))
                });
                let removed = remove(&known.key, uid);
                Some(ended.into_iter().chain([removed]).collect())
            }
        }
    }

    /// What cannot be bound is considered again when the node takes pods again, or when a claim is made.
    fn bind(&mut self, state: &State, due: &Due<'_>) -> Vec<Write> {
        let refused = register::refusal(state, &self.options.name, due.pod)
            .map(str::to_owned)
            .or_else(|| volumes::missing_claim(state, due.pod));
        let Some(why) = refused else {
            return vec![bind(due.pod, &self.options.name)];
        };
        self.pods.remove(due.pod.uid());
        let refusal = register::mark_unschedulable(due.pod, &why, due.now);
        refusal.into_iter().collect()
    }

    fn start(&mut self, due: &Due<'_>, backing_off: bool) -> Option<Vec<Write>> {
        let uid = due.pod.uid();
        let known = self.pods.get_mut(uid)?;
        let missing = self.injected.borrow().missing_images.clone();
        known.has_no_image = containers(due.pod.value()).any(|(_, image)| missing.contains(image));
        let status = if known.has_no_image {
            if !backing_off {
                self.plan_step(uid, Instant::now() + BACK_OFF_AFTER, Step::BackOff);
            }
            let containers: Vec<_> = containers(due.pod.value())
                .map(|(_, image)| match missing.contains(image) {
                    true => Container::NoImage { backing_off },
                    false => Container::Waiting,
                })
                .collect();
            due.status(&containers, due.now)
        } else {
            known.started = Some(due.now);
            self.plan_failure(uid);
            due.status_of_all(Container::Running(due.now), due.now)
        };
        Some(vec![due.report(status)])
    }

    /// Says that the pod's containers run, as often as they were restarted.
    fn report_running(
        &mut self,
        due: &Due<'_>,
        container: Container,
        started: Timestamp,
    ) -> Option<Vec<Write>> {
        let mut status = due.status_of_all(container, started);
        self.pods.get(due.pod.uid())?.restarts.add_to(&mut status);
        self.plan_failure(due.pod.uid());
        Some(vec![due.report(status)])
    }

    fn fail(&mut self, due: &Due<'_>, fault: Fault) -> Option<Vec<Write>> {
        let known = self.pods.get_mut(due.pod.uid())?;
        let started = known.started.unwrap_or(due.now);
        let ending = Termination::by(fault, started, due.now);
        let mut status = due.status_of_all(Container::Ended(ending), started);
        if fault == Fault::Eviction {
            evicted(&mut status, due.now);
        } else if Restarts::are_enabled(due.pod.value()) {
            let wait = known.restarts.ended(&mut status);
            let at = Instant::now() + wait + self.options.start_delay;
            self.plan_step(due.pod.uid(), at, Step::Restart);
        }
        Some(vec![due.report(status)])
    }
}
