//! Checks each driver's beliefs, which are its ledger and its reports, against the server's state (spec E-6, E-9,
//! S-12, S-14, A-13, L-4, P-4).
//!
//! The driver corrects many wrong beliefs by itself, for example by looking up a pod that it wrongly misses. Checking
//! only its actions would not reveal them.

use std::collections::{BTreeMap, BTreeSet};

use boatswain::model::{
    Ending, Entry, ExecutorId, LossClass, PodState, PodUid, ProfileName, Snapshot, State,
};
use devcluster::State as Server;
use serde_json::Value;

use crate::checks::{Excuses, PREFIX, Verdict};
use crate::objects::{NAMESPACE, is_inactive, is_terminating, label, text};
use crate::requests::{Done, Kind};
use crate::script::{Fault, Script};

/// The history that later beliefs are checked against.
pub struct Truth {
    /// Whether lists or watches are falsified at some time in this run. The driver then has to recover from wrong
    /// beliefs.
    lied_to: bool,
    /// Pods created in time for a driver, by driver and executor id, whose end it has not reported.
    made: BTreeMap<(usize, u64), PodUid>,
    /// Pods whose end a driver reported.
    reported: BTreeSet<(usize, PodUid)>,
    /// The executor ids of those ends. A pod that is created afterwards is not the one that was counted.
    closed: BTreeSet<(usize, u64)>,
}

/// A driver's ledger and what it is checked against.
pub struct Look<'a> {
    pub driver: usize,
    /// The driver's previous snapshot.
    pub before: Option<&'a Snapshot>,
    pub now: &'a Snapshot,
    /// The server's state after `now` was taken. A pod in it existed before, because uids are never reused.
    pub server: &'a Server,
    pub excuses: &'a Excuses,
}

impl Truth {
    pub fn of(script: &Script) -> Self {
        let lies = |fault: &Fault| match fault {
            Fault::Weather { weather, .. } => weather.lies(),
            _ => false,
        };
        Self {
            lied_to: script.steps.iter().any(|step| lies(&step.fault)),
            made: BTreeMap::new(),
            reported: BTreeSet::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Notes a write that the server carried out for a driver.
    pub fn done(&mut self, done: &Done) {
        let id = label(&done.sent, "boatswain.dev/executor-id").parse();
        if let (Kind::Create, Ok(id), Some(uid)) = (&done.kind, id, &done.made)
            && !done.late
            && !self.closed.contains(&(done.driver, id))
        {
            let uid = PodUid::from(uid.as_str());
            self.made.insert((done.driver, id), uid);
        }
    }

    /// Checks the ends that a driver reported against the server's state after the report.
    // spec: L-4
    pub fn reported(&mut self, driver: usize, ends: &[Ending], server: &Server) -> Verdict {
        for ending in ends {
            let Some(pod) = ending.entry.pod() else {
                continue;
            };
            let there = pod_of(server, &pod.name, &pod.uid).is_some();
            if ending.reason.class == LossClass::Missing && there {
                return Err(format!(
                    "L-4: d{driver} reported {} missing, and its pod is there",
                    ending.entry.id
                ));
            }
            self.reported.insert((driver, pod.uid.clone()));
            let id = (driver, ending.entry.id.get());
            self.made.remove(&id);
            self.closed.insert(id);
        }
        Ok(())
    }

    /// Checks a driver's ledger.
    pub fn look(&self, look: &Look<'_>) -> Verdict {
        if !look.now.adopted {
            return Ok(());
        }
        let same = look.before.is_some_and(|before| before.seq == look.now.seq);
        if !same {
            counted_as_they_are(look)?;
        }
        // After a restore, the pods on the server need not be those that the driver knew.
        if !look.excuses.rewritten.is_empty() {
            return Ok(());
        }
        self.given_up_for_a_reason(look)?;
        if same {
            return Ok(());
        }
        if !self.lied_to {
            drift_is_real(look)?;
            missed_for_a_reason(look)?;
        }
        ended_for_a_reason(look)?;
        // A terminating pod that was missing from a falsified list counts as removed.
        if self.lied_to {
            return Ok(());
        }
        self.dead_for_good(look)
    }

    // spec
    fn given_up_for_a_reason(&self, look: &Look<'_>) -> Verdict {
        let driver = look.driver;
        let made = self.made.range((driver, 0)..=(driver, u64::MAX));
        let made = made.filter_map(|((_, id), uid)| Some((ExecutorId::new(*id)?, uid)));
        for (id, made) in made {
            let given_up = look.now.ended.contains(id) && look.now.entry(id).is_none();
            let pod = given_up
                .then(|| look.server.pod(NAMESPACE, &format!("{PREFIX}-exec-{id}")))
                .flatten();
            let Some(pod) = pod else { continue };
            // A pod created after the server's time limit belongs to no executor (spec A-13).
            let uid = PodUid::from(text(pod, "/metadata/uid"));
            if uid == *made && is_well(pod) && !self.reported.contains(&(driver, uid)) {
                return Err(format!(
                    "A-13: d{driver} gave {id} up, for which it has a pod"
                ));
            }
        }
        Ok(())
    }

    // spec: E-9, S-14
    fn dead_for_good(&self, look: &Look<'_>) -> Verdict {
        let driver = look.driver;
        let back = (look.now.orphans.iter()).find(|(uid, _)| {
            self.reported.contains(&(driver, (*uid).clone()))
                && !look.excuses.relabelled.contains(uid.as_str())
        });
        match back {
            Some((_, orphan)) => Err(format!(
                "S-14: d{driver} reported the end of {}, and has it for a orphan",
                orphan.name
            )),
            None => Ok(()),
        }
    }
}

// spec: E-6
fn counted_as_they_are(look: &Look<'_>) -> Verdict {
    let driver = look.driver;
    for (profile, counts) in &look.now.counts {
        let (live, running) = recount(look.now, profile);
        if (counts.live(), counts.running) != (live, running) {
            return Err(format!(
                "E-6: d{driver} counts {} live, {} running of {profile}, and these are {live} and {running}",
                counts.live(),
                counts.running
            ));
        }
    }
    Ok(())
}

/// The numbers of a profile's live and running entries.
fn recount(snapshot: &Snapshot, profile: &ProfileName) -> (u32, u32) {
    let mut counts = (0, 0);
    for entry in snapshot
        .entries
        .values()
        .filter(|entry| entry.profile == *profile)
    {
        let (live, running) = standing(entry);
        counts.0 += u32::from(live);
        counts.1 += u32::from(running);
    }
    counts
}

fn standing(entry: &Entry) -> (bool, bool) {
    match &entry.state {
        _ if entry.leaving.is_some() => (false, false),
        State::Gone(_) => (false, false),
        State::Sent(_) | State::Unknown(_) => (true, false),
        State::Bound(bound) => match bound.pod.state() {
            PodState::Succeeded | PodState::Failed | PodState::Terminating => (false, false),
            PodState::Running => (true, bound.absent.is_none()),
            PodState::Pending(_) | PodState::Odd => (true, false),
        },
    }
}

// spec: P-4
fn drift_is_real(look: &Look<'_>) -> Verdict {
    match look.now.drifts {
        0 => Ok(()),
        _ => Err(format!(
            "P-4: the watch of d{} did not show what it should have",
            look.driver
        )),
    }
}

// spec: S-11, S-12
fn missed_for_a_reason(look: &Look<'_>) -> Verdict {
    for (id, entry) in look.now.entries.iter() {
        let State::Bound(bound) = &entry.state else {
            continue;
        };
        if bound.absent.is_none() || look.excuses.relabelled.contains(bound.pod.uid.as_str()) {
            continue;
        }
        // A pod that another driver has labelled as inactive exists but is in no list.
        let listed = |pod: &Value| !is_inactive(pod);
        if pod_of(look.server, &bound.pod.name, &bound.pod.uid).is_some_and(listed) {
            return Err(format!(
                "S-12: d{} misses {id}, whose pod is there",
                look.driver
            ));
        }
    }
    Ok(())
}

// spec: E-9, I-9
fn ended_for_a_reason(look: &Look<'_>) -> Verdict {
    let Some(before) = look.before else {
        return Ok(());
    };
    for (id, entry) in before.entries.iter() {
        let Some(pod) = entry.pod().filter(|_| look.now.entry(id).is_none()) else {
            continue;
        };
        // An operator who relabels a dead pod takes it over.
        let relabelled = look.excuses.relabelled.contains(pod.uid.as_str());
        let well = pod_of(look.server, &pod.name, &pod.uid).is_some_and(is_well);
        if well && !relabelled {
            return Err(format!(
                "E-9: d{} holds {id} for ended, whose pod is well",
                look.driver
            ));
        }
    }
    Ok(())
}

/// The pod of this name, if it has this uid.
fn pod_of<'a>(server: &'a Server, name: &str, uid: &PodUid) -> Option<&'a Value> {
    let pod = server.pod(NAMESPACE, name)?;
    (text(pod, "/metadata/uid") == uid.as_str()).then_some(pod)
}

/// Whether a pod is alive, not terminating, and not labelled as inactive.
fn is_well(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Pending" | "Running")
        && !is_inactive(pod)
        && !is_terminating(pod)
}
