//! The numbers of a report (spec O-83): pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::sizes::Sizes;
use super::timeline::{Life, Phase, Timeline};

/// The numbers of one profile, or of several. Times are in seconds.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub requested: usize,
    /// Executors whose requests are not among the events, such as an earlier driver's.
    pub earlier: usize,
    /// Executors whose pod ran, or that registered.
    pub ran: usize,
    pub ended: usize,
    pub failures: usize,
    pub bring_up: Option<BringUp>,
    /// From an executor's request to its pod's running.
    pub to_running: Option<Spread>,
    /// From an executor's request to its registration.
    pub to_registered: Option<Spread>,
    /// Times with fewer working executors than the target, after it was reached. `None`: it never was.
    pub shortfalls: Option<Shortfalls>,
    pub seconds: PhaseSeconds,
    /// By the class of the reason.
    pub ends: BTreeMap<String, Ends>,
    /// By zone and capacity type, as far as they are known.
    pub places: BTreeMap<String, Place>,
    /// `None`: no executor told what it used.
    pub sizes: Option<Sizes>,
}

/// From the first request to the first time at which the target was reached.
#[derive(Debug, PartialEq, Serialize)]
pub struct BringUp {
    pub executors: u32,
    pub seconds: f64,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub p99: f64,
    pub most: f64,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Shortfalls {
    pub number: usize,
    /// All of them together.
    pub seconds: f64,
    pub longest: f64,
    /// The seconds of each missing executor, added up.
    pub executor_seconds: f64,
}

/// The seconds that executors spent in each phase, added up.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct PhaseSeconds {
    pub requested: f64,
    pub pending: f64,
    /// The pod ran, and the program had not registered; 0 for a profile whose executors never register.
    pub unregistered: f64,
    pub working: f64,
    pub uncertain: f64,
    pub leaving: f64,
}

/// What became of the executors in one place.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Place {
    pub executors: usize,
    /// For how long their pods existed, in seconds.
    pub seconds: f64,
    /// How many ended, by the class of the reason.
    pub ends: BTreeMap<String, usize>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Ends {
    pub number: usize,
    pub failures: usize,
    /// The explanation of the last one.
    pub why: String,
}

impl PhaseSeconds {
    /// The seconds of pods that existed and did no work.
    pub fn wasted(&self) -> f64 {
        self.pending + self.unregistered + self.uncertain + self.leaving
    }

    pub fn of_pods(&self) -> f64 {
        self.wasted() + self.working
    }
}

pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

impl Timeline {
    /// The names of all profiles, in order.
    pub fn profiles(&self) -> Vec<&str> {
        let mut profiles: Vec<&str> = self.targets.keys().map(String::as_str).collect();
        profiles.extend(self.lives.values().map(|life| &*life.profile));
        profiles.sort_unstable();
        profiles.dedup();
        profiles
    }

    pub fn figures(&self, profile: &str) -> Figures {
        let of_profile = || self.lives.values().filter(|life| life.profile == profile);
        let registers = of_profile().any(|life| life.since(Phase::Registered).is_some());
        let mut figures = Figures::default();
        for life in of_profile() {
            figures.count(life);
            figures.seconds.add(life, registers, self.end);
            figures.place(life, registers, self.end);
        }
        let requests = self.requests.get(profile).copied().unwrap_or_default();
        let pod_hours = figures.seconds.of_pods() / 3_600.0;
        figures.sizes = Sizes::of(of_profile(), requests, pod_hours);
        figures.to_running = spread(of_profile().filter_map(|life| life.wait(Phase::Running)));
        let registered = of_profile().filter_map(|life| life.wait(Phase::Registered));
        figures.to_registered = spread(registered);
        let levels = self.levels(profile, registers);
        let first = of_profile().filter_map(|life| life.since(Phase::Requested));
        if let Some((reached, executors)) = levels.reached() {
            let first = first.min().filter(|first| *first <= reached);
            figures.bring_up = first.map(|first| BringUp {
                executors,
                seconds: seconds(first, reached),
            });
            figures.shortfalls = Some(levels.shortfalls(reached, self.over()));
        }
        figures
    }

    /// When the application's end began, after which no executor is missing.
    fn over(&self) -> Timestamp {
        let mut ends = self.incidents.iter().filter(|one| one.event == "ending");
        ends.next().map_or(self.end, |ending| ending.time)
    }

    fn levels(&self, profile: &str, registers: bool) -> Levels {
        let mut changes: Vec<(Timestamp, Change)> = Vec::new();
        for (time, target) in self.targets.get(profile).into_iter().flatten() {
            changes.push((*time, Change::Target(*target)));
        }
        for life in self.lives.values().filter(|life| life.profile == profile) {
            let mut works = false;
            for (from, _, phase) in life.spans(self.end) {
                let next = is_work(phase, registers);
                if next != works {
                    changes.push((from, if next { Change::Begins } else { Change::Stops }));
                }
                works = next;
            }
            if let Some(end) = life.end.as_ref().filter(|_| works) {
                changes.push((end.time, Change::Stops));
            }
        }
        changes.sort_by_key(|(time, _)| *time);
        Levels(changes)
    }
}

/// Whether an executor of a profile works in this phase. Executors that never register work while their pods run.
fn is_work(phase: Phase, registers: bool) -> bool {
    phase == Phase::Registered || phase == Phase::Running && !registers
}

impl Life {
    /// When a phase first began.
    pub fn since(&self, wanted: Phase) -> Option<Timestamp> {
        let of_phase = self.phases.iter().find(|(_, phase)| *phase == wanted);
        of_phase.map(|(time, _)| *time)
    }

    fn wait(&self, wanted: Phase) -> Option<f64> {
        let requested = self.since(Phase::Requested)?;
        // What a spare waits for is a loss.
        let begins = self.promoted.filter(|_| wanted == Phase::Registered);
        Some(seconds(begins.unwrap_or(requested), self.since(wanted)?))
    }

    /// The phases with their beginnings and ends.
    pub fn spans(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp, Phase)> {
        let end = self.end.as_ref().map_or(now, |end| end.time);
        let ends = self.phases.iter().skip(1).map(|(time, _)| *time);
        let ends = ends.chain([end]);
        (self.phases.iter().zip(ends)).map(|((from, phase), to)| (*from, to, *phase))
    }
}

impl Figures {
    fn count(&mut self, life: &Life) {
        match life.since(Phase::Requested) {
            Some(_) => self.requested += 1,
            None => self.earlier += 1,
        }
        let ran = [Phase::Running, Phase::Registered].map(|phase| life.since(phase).is_some());
        self.ran += usize::from(ran.contains(&true));
        let Some(end) = &life.end else { return };
        self.ended += 1;
        self.failures += usize::from(end.failure);
        let ends = self.ends.entry(end.reason.clone()).or_default();
        ends.number += 1;
        ends.failures += usize::from(end.failure);
        ends.why.clone_from(&end.why);
    }

    fn place(&mut self, life: &Life, registers: bool, now: Timestamp) {
        let Some(name) = &life.place else { return };
        let place = self.places.entry(name.clone()).or_default();
        place.executors += 1;
        let mut seconds = PhaseSeconds::default();
        seconds.add(life, registers, now);
        place.seconds += seconds.of_pods();
        if let Some(end) = &life.end {
            *place.ends.entry(end.reason.clone()).or_default() += 1;
        }
    }
}

impl PhaseSeconds {
    fn add(&mut self, life: &Life, registers: bool, now: Timestamp) {
        for (from, to, phase) in life.spans(now) {
            let sum = match phase {
                Phase::Requested => &mut self.requested,
                Phase::Pending => &mut self.pending,
                phase if is_work(phase, registers) => &mut self.working,
                Phase::Running | Phase::Registered => &mut self.unregistered,
                Phase::Uncertain => &mut self.uncertain,
                Phase::Leaving => &mut self.leaving,
            };
            *sum += seconds(from, to);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Target(u32),
    Begins,
    Stops,
}

/// The target of a profile and the number of its working executors over time.
struct Levels(Vec<(Timestamp, Change)>);

impl Levels {
    /// The time, the target and the working executors after each change.
    fn steps(&self) -> impl Iterator<Item = (Timestamp, u32, u32)> {
        let (mut target, mut working) = (0_u32, 0_u32);
        self.0.iter().map(move |(time, change)| {
            match change {
                Change::Target(new) => target = *new,
                Change::Begins => working += 1,
                Change::Stops => working = working.saturating_sub(1),
            }
            (*time, target, working)
        })
    }

    /// When a target above 0 was first reached, and that target.
    fn reached(&self) -> Option<(Timestamp, u32)> {
        let mut reached = self
            .steps()
            .filter(|(_, target, working)| *target > 0 && working >= target);
        reached.next().map(|(time, target, _)| (time, target))
    }

    fn shortfalls(&self, from: Timestamp, until: Timestamp) -> Shortfalls {
        let mut shortfalls = Shortfalls::default();
        // Since when, and how many are missing since the last change.
        let mut open: Option<(Timestamp, Timestamp, u32)> = None;
        let steps = self
            .steps()
            .filter(|(time, ..)| *time >= from && *time <= until);
        for (time, target, working) in steps.chain([(until, 0, 0)]) {
            if let Some((since, changed, missing)) = open {
                shortfalls.executor_seconds += f64::from(missing) * seconds(changed, time);
                if working >= target {
                    let lasted = seconds(since, time);
                    shortfalls.number += usize::from(lasted > 0.0);
                    shortfalls.seconds += lasted;
                    shortfalls.longest = shortfalls.longest.max(lasted);
                }
            }
            let since = open.map_or(time, |(since, ..)| since);
            open = (working < target).then(|| (since, time, target - working));
        }
        shortfalls
    }
}

fn spread(times: impl Iterator<Item = f64>) -> Option<Spread> {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    Some(Spread {
        median: percentile(&times, 50)?,
        p99: percentile(&times, 99)?,
        most: *times.last()?,
    })
}

/// The lowest of these numbers, which are sorted, that so many percent of them do not exceed. `None` without a number.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
