//! The node: binds pods, has them run, end and go, each in its own time.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::clock::Clock;
use boatswain::devcluster::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::hand::{Hand, NAMESPACE, is_terminating, label, text};
use crate::trace::say;

/// How the pods of this run behave where nothing is done to them.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From a pod's creation to its binding, at most.
    pub bind: Duration,
    /// From its binding to its running, at most.
    pub start: Duration,
    /// From its deletion to its being gone, at most; never longer than its grace.
    pub stop: Duration,
}

/// What becomes of a pod, and when.
#[derive(Debug)]
struct Fate {
    bind: Instant,
    run: Instant,
    /// Ends by itself, with this code.
    end: Option<(Instant, i32)>,
    /// Is gone.
    gone: Option<Instant>,
    /// Says how it ended before it is gone.
    reports: bool,
    /// Ignores its deletion until the world is calm.
    stuck: bool,
}

/// The node.
pub struct Node {
    hand: Hand,
    pace: Pace,
    clock: Clock,
    rng: StdRng,
    fates: BTreeMap<String, Fate>,
    /// Until when executors of a profile end soon after they began, with which code.
    crashing: BTreeMap<String, (Instant, i32)>,
    due: Option<Instant>,
    seen: u64,
}

impl Node {
    pub fn new(hand: Hand, pace: Pace, clock: Clock, seed: u64) -> Self {
        Self {
            hand,
            pace,
            clock,
            rng: StdRng::seed_from_u64(seed),
            fates: BTreeMap::new(),
            crashing: BTreeMap::new(),
            due: None,
            seen: 0,
        }
    }

    /// When it has something to do, if nothing else happens.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Executors of this profile end soon after they began, for so long.
    pub fn crash_all(&mut self, profile: &str, time: Duration, code: i32) {
        let until = Instant::now() + time;
        self.crashing.insert(profile.to_owned(), (until, code));
    }

    /// This pod ends by itself now.
    pub fn end(&mut self, uid: &str, code: i32) {
        if let Some(fate) = self.fates.get_mut(uid) {
            fate.end = Some((Instant::now(), code));
            self.due = Some(Instant::now());
        }
    }

    /// This pod, when deleted, stays until the world is calm.
    pub fn get_stuck(&mut self, uid: &str) {
        if let Some(fate) = self.fates.get_mut(uid) {
            fate.stuck = true;
        }
    }

    /// From now on all goes well.
    pub fn calm(&mut self) {
        self.crashing.clear();
        for fate in self.fates.values_mut() {
            fate.stuck = false;
            if fate.end.is_some_and(|(at, _)| at > Instant::now()) {
                fate.end = None;
            }
        }
        self.due = Some(Instant::now());
    }

    /// Does what is due.
    pub async fn work(&mut self, state: &State) {
        let now = Instant::now();
        let version = state.resource_version();
        if version == self.seen && self.due.is_none_or(|due| due > now) {
            return;
        }
        self.seen = version;
        self.due = None;
        for pod in state.pods(NAMESPACE) {
            self.attend(pod, now).await;
        }
    }

    async fn attend(&mut self, pod: &Value, now: Instant) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        if !self.fates.contains_key(uid) {
            let fate = self.draw(pod, now);
            self.fates.insert(uid.to_owned(), fate);
        }
        let wall = self.clock.now().wall.strftime("%FT%TZ").to_string();
        let phase = text(pod, "/status/phase");
        let bound = !text(pod, "/spec/nodeName").is_empty();
        let Some(fate) = self.fates.get_mut(uid) else {
            return;
        };
        if is_terminating(pod) {
            if fate.stuck {
                return;
            }
            let gone = *fate.gone.get_or_insert_with(|| {
                let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
                let grace = Duration::from_secs(grace.and_then(Value::as_u64).unwrap_or(0));
                now + self.pace.stop.min(grace).mul_f64(self.rng.random())
            });
            if gone > now {
                return self.wake(gone);
            }
            if fate.reports && phase == "Running" {
                self.hand.status(name, ended(pod, 143, &wall)).await;
            }
            say!("node: {name} {} is gone", short(uid));
            self.hand.delete(name, uid, Some(0)).await;
            return;
        }
        let (bind, run, end) = (fate.bind, fate.run, fate.end);
        match phase {
            "Pending" if !bound && bind <= now => {
                self.hand.bind(name, "node-1").await;
                self.wake(run.max(now));
            }
            "Pending" if !bound => self.wake(bind),
            "Pending" if run <= now => {
                say!("node: {name} {} runs", short(uid));
                self.hand.status(name, running(pod, &wall)).await;
                if let Some((at, _)) = end {
                    self.wake(at.max(now));
                }
            }
            "Pending" => self.wake(run),
            "Running" => match end {
                Some((at, code)) if at <= now => {
                    say!("node: {name} {} ends with {code}", short(uid));
                    self.hand.status(name, ended(pod, code, &wall)).await;
                }
                Some((at, _)) => self.wake(at),
                None => {}
            },
            _ => {}
        }
    }

    fn draw(&mut self, pod: &Value, now: Instant) -> Fate {
        let bind = now + self.pace.bind.mul_f64(self.rng.random());
        let run = bind + self.pace.start.mul_f64(self.rng.random());
        let crash = self.crashing.get(label(pod, "boatswain.dev/profile"));
        let life = Duration::from_millis(self.rng.random_range(0..2_000));
        Fate {
            bind,
            run,
            end: (crash.filter(|(until, _)| now < *until)).map(|(_, code)| (run + life, *code)),
            gone: None,
            reports: self.rng.random_bool(0.5),
            stuck: false,
        }
    }

    fn wake(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

fn running(pod: &Value, since: &str) -> Value {
    let state = json!({"running": {"startedAt": since}});
    status("Running", container(pod, true, &state))
}

fn ended(pod: &Value, code: i32, now: &str) -> Value {
    let (phase, reason) = match code {
        0 => ("Succeeded", "Completed"),
        _ => ("Failed", "Error"),
    };
    let since = text(pod, "/status/containerStatuses/0/state/running/startedAt");
    let since = if since.is_empty() { now } else { since };
    let end = json!({"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": now});
    status(phase, container(pod, false, &json!({"terminated": end})))
}

fn status(phase: &str, container: Value) -> Value {
    json!({"phase": phase, "containerStatuses": [container]})
}

fn container(pod: &Value, ready: bool, state: &Value) -> Value {
    json!({
        "name": text(pod, "/spec/containers/0/name"),
        "image": "none",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    })
}

/// Enough of a uid to tell it from others.
pub fn short(uid: &str) -> &str {
    uid.get(..8).unwrap_or(uid)
}
