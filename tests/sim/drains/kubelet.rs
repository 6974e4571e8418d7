//! Starts, signals and restarts drivers as their pods say.

use boatswain::exit::Exit;
use devcluster::State;
use tokio::time::Instant;

use super::truth::{Signal, agrees, controller_of, executors, running_pods, stays};
use super::{LEARNING, Placed, RESTART_AFTER, START, World};
use crate::drivers::start_next;
use crate::lease::wire::Wire;
use crate::trace::trace_line;

impl World {
    /// Starts, signals and restarts drivers as the pods say. Checks those that have exited.
    pub(super) async fn kubelet(&mut self) -> Result<(), String> {
        let state = self.cluster.state().await;
        let now = Instant::now();
        self.look_at_drivers(&state);
        self.check_exits(&state)?;
        let alive = self.alive();
        for (pod, uid) in running_pods(&state) {
            let has_driver = alive.iter().any(|number| self.placed[number].uid == uid);
            let may_start = self.restarts.get(&uid).is_none_or(|at| *at <= now);
            if !has_driver && may_start {
                self.start(&state, pod, uid);
            }
        }
        let over: Vec<_> = (self.interrupted.iter())
            .filter(|(_, until)| **until <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            self.interrupted.remove(&number);
            self.wires.set(number, Wire::Works);
        }
        if self.repair.is_some_and(|at| at <= now) {
            self.repair().await;
        }
        Ok(())
    }

    /// Signals drivers whose pods are being deleted, and notes what those that were signalled may learn.
    fn look_at_drivers(&mut self, state: &State) {
        let now = Instant::now();
        let alive = self.alive();
        for number in &alive {
            let placed = &self.placed[number];
            if !stays(state, &placed.pod, &placed.uid) {
                self.signal(*number, state);
            }
            let truth = self.truth(state, &self.placed[number]);
            let interrupted = self.interrupted.contains_key(number);
            let others = alive.len() > 1;
            let signal = self
                .placed
                .get_mut(number)
                .and_then(|placed| placed.signal.as_mut());
            if let Some(signal) = signal {
                if signal.at + LEARNING >= now {
                    signal.truths.insert(truth);
                }
                signal.excused |= interrupted || others;
            }
        }
    }

    fn start(&mut self, state: &State, pod: String, uid: String) {
        let mut config = self.config.clone();
        config.driver.pod_name = Some(pod.clone());
        let clients = self.wires.connect(self.cluster.router());
        let number = start_next(&self.drivers, config, clients, self.seed);
        for placed in self.placed.values_mut() {
            if let Some(signal) = &mut placed.signal {
                signal.excused = true;
            }
        }
        let placed = Placed {
            pod,
            owner: controller_of(state, &uid),
            uid,
            since: Instant::now(),
            signal: None,
        };
        self.placed.insert(number, placed);
    }

    /// Sends SIGTERM, once.
    pub(super) fn signal(&mut self, number: usize, state: &State) {
        let placed = &self.placed[&number];
        if placed.signal.is_some() {
            return;
        }
        let truth = self.truth(state, placed);
        trace_line!("d{number} gets a signal: {truth:?}");
        let signal = Signal {
            at: Instant::now(),
            truths: [truth].into(),
            executors: executors(state),
            // A pod can be gone before its driver has read what controls it.
            excused: placed.since.elapsed() < START,
        };
        self.drivers.borrow()[number - 1].handle.stop();
        self.placed.get_mut(&number).unwrap().signal = Some(signal);
    }

    fn check_exits(&mut self, state: &State) -> Result<(), String> {
        let exits: Vec<_> = (self.drivers.borrow_mut().iter_mut())
            .filter_map(|driver| Some((driver.number, driver.take_exit()?)))
            .collect();
        for (number, exit) in exits {
            trace_line!("d{number} exits with {exit:?}");
            let placed = &self.placed[&number];
            self.restarts
                .insert(placed.uid.clone(), Instant::now() + RESTART_AFTER);
            if exit == Exit::Bug {
                return Err(format!("O-12: d{number} has a bug"));
            }
            match &placed.signal {
                Some(signal) => agrees(number, exit, signal, state)?,
                None if exit == Exit::Clean => {
                    return Err(format!("I-12: d{number} ended by itself"));
                }
                None => {}
            }
        }
        Ok(())
    }
}
