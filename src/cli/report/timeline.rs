//! Puts the events of an application together into one timeline (spec O-83): pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::sizes::Requests;

/// What an executor does, as far as its events tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Its pod does not exist yet.
    Requested,
    /// Its pod does not run yet.
    Pending,
    /// Its pod runs, and it has not registered.
    Running,
    Registered,
    /// Its connection is lost, or its state is unknown.
    Uncertain,
    /// It is to terminate.
    Leaving,
}

/// How an executor ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub time: Timestamp,
    /// The class of the reason, such as OomKilled.
    pub reason: String,
    pub failure: bool,
    pub why: String,
}

/// An executor from its request to its end, as far as the events tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Life {
    pub profile: String,
    pub node: Option<String>,
    /// Its node's zone, and how that is paid for, as far as the events tell.
    pub place: Option<String>,
    /// When each phase began, in order. Empty if only the end is known.
    pub phases: Vec<(Timestamp, Phase)>,
    /// When it ceased to be a spare, if it was one.
    pub promoted: Option<Timestamp>,
    /// `None`: it was alive at the last event.
    pub end: Option<End>,
    /// What its container used; `None` if no heartbeat told it.
    pub usage: Option<Usage>,
}

/// What an executor's container used until its end, or until now.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Usage {
    /// In bytes.
    #[serde(rename = "peak_memory_bytes")]
    pub memory: u64,
    /// In bytes.
    #[serde(default, rename = "memory_limit_bytes")]
    pub memory_limit: Option<u64>,
    /// What it did not exceed in 99 % of its time.
    #[serde(default, rename = "p99_cpu_cores")]
    pub cores: Option<f64>,
}

impl Usage {
    /// Only executors whose agent tells the highest memory have one.
    fn of(value: Option<&Value>) -> Option<Self> {
        Self::deserialize(value?).ok()
    }
}

/// What happened to the application as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    pub time: Timestamp,
    /// The event's name.
    pub event: String,
    pub what: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// The application's id, if the events tell it.
    pub app: Option<String>,
    pub begin: Timestamp,
    pub end: Timestamp,
    pub lives: BTreeMap<u64, Life>,
    /// The targets of each profile, with the time from which each applied.
    pub targets: BTreeMap<String, Vec<(Timestamp, u32)>>,
    pub incidents: Vec<Incident>,
    /// By profile; events do not tell it.
    pub requests: BTreeMap<String, Requests>,
}

/// Why there is no timeline.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    #[error("line {line} is not an event: {why}")]
    NotAnEvent { line: usize, why: serde_json::Error },
    #[error("there is no event")]
    Empty,
}

/// One line of `boatswain events -o json`.
#[derive(Debug, Deserialize)]
struct Event {
    event: String,
    #[serde(default)]
    id: Option<String>,
    time: Timestamp,
    #[serde(default)]
    executor: Option<u64>,
    #[serde(default)]
    profile: Option<String>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

impl Event {
    fn text(&self, field: &str) -> &str {
        self.more
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The incarnation of the driver that reported it.
    fn incarnation(&self) -> Option<&str> {
        let (incarnation, _) = self.id.as_deref()?.split_once('-')?;
        Some(incarnation)
    }

    fn flag(&self, field: &str) -> bool {
        self.more.get(field).and_then(Value::as_bool) == Some(true)
    }

    fn list<T: for<'a> Deserialize<'a>>(&self, field: &str) -> Vec<T> {
        let list = self.more.get(field).and_then(Value::as_array);
        let items = list.into_iter().flatten();
        // An item of another version is not worth the whole report.
        items.filter_map(|item| T::deserialize(item).ok()).collect()
    }
}

/// An executor that is alive when a reader begins.
#[derive(Debug, Deserialize)]
struct Living {
    executor: u64,
    profile: String,
    state: String,
    age_seconds: u32,
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    zone: Option<String>,
    #[serde(default)]
    capacity_type: Option<String>,
    #[serde(default)]
    session: Option<Value>,
}

impl Timeline {
    /// # Errors
    ///
    /// A line is not an event, or there is none.
    pub fn read(lines: &str) -> Result<Self, TimelineError> {
        let mut events = Vec::new();
        let texts = lines.lines().enumerate();
        for (number, line) in texts.filter(|(_, line)| !line.trim().is_empty()) {
            let event = serde_json::from_str(line);
            let event: Event = event.map_err(|why| TimelineError::NotAnEvent {
                line: number + 1,
                why,
            })?;
            events.push(event);
        }
        Self::of(&events).ok_or(TimelineError::Empty)
    }

    fn of(events: &[Event]) -> Option<Self> {
        let times = || events.iter().map(|event| event.time);
        let mut began = events.iter().filter(|event| event.event == "began");
        let app = began.find_map(|event| event.more.get("app")?.as_str());
        let mut timeline = Self {
            app: app.map(str::to_owned),
            begin: times().min()?,
            end: times().max()?,
            lives: BTreeMap::new(),
            targets: BTreeMap::new(),
            incidents: Vec::new(),
            requests: BTreeMap::new(),
        };
        let mut seen = BTreeSet::new();
        for (place, event) in events.iter().enumerate() {
            // A reader that reconnected may have an event twice.
            if event.id.as_ref().is_none_or(|id| seen.insert(id)) {
                timeline.add(event);
            }
            if event.event == "living" && event.flag("gap") {
                let (before, after) = events.split_at(place);
                let what = missing(before, after);
                timeline.incidents.push(Incident {
                    time: event.time,
                    event: "gap".to_owned(),
                    what,
                });
            }
        }
        if let Some(first) = events.first() {
            timeline.adopt(first);
        }
        timeline.order();
        Some(timeline)
    }

    fn add(&mut self, event: &Event) {
        let time = event.time;
        match (&*event.event, event.executor) {
            ("living", _) => self.begin_with(event),
            (_, Some(executor)) => self.step(executor, event),
            ("target-changed", _) => {
                let target = event.more.get("target").and_then(Value::as_u64);
                if let (Some(profile), Some(target)) = (&event.profile, target) {
                    self.target(profile, target, time);
                }
            }
            _ => {
                let targets = event.more.get("targets").and_then(Value::as_object);
                for (profile, target) in targets.into_iter().flatten() {
                    self.target(profile, target.as_u64().unwrap_or_default(), time);
                }
                self.incidents.push(Incident {
                    time,
                    event: event.event.clone(),
                    what: described(event),
                });
            }
        }
    }

    fn target(&mut self, profile: &str, target: u64, time: Timestamp) {
        let target = u32::try_from(target).unwrap_or(u32::MAX);
        let targets = self.targets.entry(profile.to_owned()).or_default();
        if targets.last().is_none_or(|(_, last)| *last != target) {
            targets.push((time, target));
        }
    }

    /// The stream begins here, or continues after events that are no longer kept.
    fn begin_with(&mut self, event: &Event) {
        for ended in event.list::<Event>("ended") {
            if let Some(executor) = ended.executor {
                self.step(executor, &ended);
            }
        }
        for living in event.list::<Living>("executors") {
            let life = self.lives.entry(living.executor).or_default();
            life.profile = living.profile;
            life.node = living.node.or_else(|| life.node.take());
            let place = place(living.zone.as_deref(), living.capacity_type.as_deref());
            life.place = place.or_else(|| life.place.take());
            let session = living.session.as_ref();
            let usage = Usage::of(session.and_then(|session| session.get("usage")));
            life.usage = usage.or(life.usage);
            let since = event
                .time
                .saturating_sub(SignedDuration::from_secs(living.age_seconds.into()));
            let phase = match (&*living.state, living.session) {
                ("running", Some(_)) => Some(Phase::Registered),
                (state, _) => phase_of(state, false),
            };
            if life.phases.is_empty() {
                let since = since.unwrap_or(event.time);
                life.phases.extend(phase.map(|phase| (since, phase)));
            }
        }
    }

    /// If the events begin with those of a driver that adopted executors, the executors of which only the end is known
    /// ran since then: their adoption is no event of the stream.
    fn adopt(&mut self, first: &Event) {
        if first.event != "began" || first.more.get("adopted") == Some(&0.into()) {
            return;
        }
        let began = first.time;
        for life in self.lives.values_mut() {
            let is_later = |end: &End| end.reason != "NotCreated" && end.time >= began;
            match life.phases.first_mut() {
                None if life.end.as_ref().is_some_and(is_later) => {
                    life.phases.push((began, Phase::Running));
                }
                // An age is in whole seconds, so this seems up to one second too late.
                Some((since, phase))
                    if *phase != Phase::Requested
                        && since.duration_since(began) < SignedDuration::from_secs(1) =>
                {
                    *since = began;
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, executor: u64, event: &Event) {
        let life = self.lives.entry(executor).or_default();
        if let Some(profile) = &event.profile {
            life.profile.clone_from(profile);
        }
        if life.end.is_some() {
            return;
        }
        if !event.text("node").is_empty() {
            life.node = Some(event.text("node").to_owned());
        }
        let text = |field| Some(event.text(field)).filter(|text| !text.is_empty());
        if let Some(place) = place(text("zone"), text("capacity_type")) {
            life.place = Some(place);
        }
        if ["ended", "not-created"].contains(&&*event.event) {
            let reason = match &*event.event {
                "not-created" => "NotCreated",
                _ => event.text("reason"),
            };
            life.end = Some(End {
                time: event.time,
                reason: reason.to_owned(),
                failure: event.flag("failure"),
                why: event.text("why").to_owned(),
            });
            life.usage = Usage::of(event.more.get("usage")).or(life.usage);
            return;
        }
        let name = match &*event.event {
            "adopted" => event.text("state"),
            "promoted" => {
                life.promoted = Some(event.time);
                return;
            }
            name => name,
        };
        let registered = (life.phases.iter()).any(|(_, phase)| *phase == Phase::Registered);
        let next = phase_of(name, registered);
        // A pod that waits for something else is pending still; what terminates does not come back.
        let last = life.phases.last().map(|(_, phase)| *phase);
        if let Some(next) = next.filter(|_| last != next && last != Some(Phase::Leaving)) {
            life.phases.push((event.time, next));
        }
    }

    /// An event of a pod has the pod's own time, which may be before that of an event which was reported earlier.
    fn order(&mut self) {
        for life in self.lives.values_mut() {
            let mut latest = life.end.as_ref().map_or(self.end, |end| end.time);
            for (time, _) in life.phases.iter_mut().rev() {
                latest = latest.min(*time);
                *time = latest;
            }
            let first = life.phases.first().map(|(time, _)| *time);
            let first = first.or_else(|| life.end.as_ref().map(|end| end.time));
            self.begin = first.map_or(self.begin, |first| first.min(self.begin));
        }
        self.incidents.sort_by_key(|incident| incident.time);
    }
}

/// Such as `europe-west1-b, spot`.
fn place(zone: Option<&str>, capacity_type: Option<&str>) -> Option<String> {
    let known: Vec<&str> = [zone, capacity_type].into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn phase_of(name: &str, registered: bool) -> Option<Phase> {
    Some(match name {
        "requested" | "unanswered" => Phase::Requested,
        "pending" => Phase::Pending,
        "running" if !registered => Phase::Running,
        "running" | "registered" | "enabled" => Phase::Registered,
        "uncertain" | "disabled" => Phase::Uncertain,
        "leaving" => Phase::Leaving,
        _ => return None,
    })
}

/// Why events are missing between these.
fn missing(before: &[Event], after: &[Event]) -> String {
    let last = before.iter().rev().find_map(Event::incarnation);
    // A list of executors has no id itself, but the ends in it have.
    let ended = after.first().map(|list| list.list::<Event>("ended"));
    let listed = (ended.iter().flatten()).find_map(Event::incarnation);
    match listed.or_else(|| after.iter().find_map(Event::incarnation)) {
        Some(next) if last.is_some_and(|last| last != next) => {
            format!(
                "the next driver took over (incarnation {next}): events around that may be missing"
            )
        }
        _ => "earlier events are missing: the driver no longer had them".to_owned(),
    }
}

/// The details of an event in the order of their names.
fn described(event: &Event) -> String {
    let profile = event
        .profile
        .iter()
        .map(|profile| format!("profile {profile}"));
    let details = event.more.iter().map(|(name, value)| match value.as_str() {
        Some(text) if name == "why" => text.to_owned(),
        Some(text) => format!("{name} {text}"),
        None => format!("{name} {value}"),
    });
    profile.chain(details).collect::<Vec<_>>().join(", ")
}
