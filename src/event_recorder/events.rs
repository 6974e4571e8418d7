//! Decides which Kubernetes Events are recorded, and builds them: pure (spec O-45).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kubernetes::calls::Reference;
use crate::model::{Now, Tick};

/// The most waiting notes, of which there is one per profile and kind of problem.
const MOST_WAITING: usize = 16;

/// The least interval between events about the same problem.
const AGAIN: Duration = Duration::from_secs(60);

/// The most events that are remembered, so that repetitions are counted on the existing event.
const MOST_KNOWN: usize = 64;

/// The longest message, below the limit of Kubernetes.
const LONGEST_NOTE: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The event's reason in CamelCase: `QuotaExceeded`.
    pub reason: &'static str,
    /// The profile that it is about; empty: the driver.
    pub about: String,
    pub text: String,
    /// Whether it is a problem, rather than the end of one.
    pub warning: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Create(Value),
    /// Patches the event with this name, because it was repeated.
    Update(String, Value),
}

#[derive(Debug)]
pub struct Events {
    pod: Reference,
    namespace: String,
    instance: String,
    waiting: VecDeque<Note>,
    known: BTreeMap<(&'static str, String), Known>,
    made: u64,
}

#[derive(Debug)]
struct Known {
    name: String,
    count: u64,
    last: Tick,
}

impl Events {
    /// `instance` distinguishes this process from earlier ones of the driver.
    pub fn new(pod: Reference, namespace: String, instance: String) -> Self {
        Self {
            pod,
            namespace,
            instance,
            waiting: VecDeque::new(),
            known: BTreeMap::new(),
            made: 0,
        }
    }

    /// Adds a note to the queue.
    ///
    /// # Errors
    ///
    /// Returns the note if it is repeated too soon, or if the queue is full.
    pub fn add(&mut self, note: Note, now: Tick) -> Result<(), Note> {
        let key = (note.reason, note.about.clone());
        let lately = (self.known.get(&key)).is_some_and(|known| now.since(known.last) < AGAIN);
        let waits =
            (self.waiting.iter()).any(|other| (other.reason, &other.about) == (key.0, &key.1));
        if lately || waits || self.waiting.len() >= MOST_WAITING {
            return Err(note);
        }
        self.waiting.push_back(note);
        Ok(())
    }

    pub fn next(&mut self, now: Now) -> Option<Call> {
        let note = self.waiting.pop_front()?;
        let text: String = note.text.chars().take(LONGEST_NOTE).collect();
        let key = (note.reason, note.about);
        let time = now.wall.strftime("%FT%TZ").to_string();
        if let Some(known) = self.known.get_mut(&key) {
            (known.count, known.last) = (known.count + 1, now.tick);
            let patch = json!({"count": known.count, "lastTimestamp": time, "message": text});
            return Some(Call::Update(known.name.clone(), patch));
        }
        self.made += 1;
        let Reference {
            api_version,
            kind,
            name: pod,
            uid,
        } = &self.pod;
        let name = format!("{pod}.{}-{}", self.instance, self.made);
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": api_version, "kind": kind, "name": pod, "uid": uid,
                "namespace": self.namespace,
            },
            "type": if note.warning { "Warning" } else { "Normal" },
            "reason": key.0,
            "message": text,
            "source": {"component": "boatswain"},
            "reportingComponent": "boatswain",
            "reportingInstance": pod,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        });
        if self.known.len() >= MOST_KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.known.remove(&oldest);
            }
        }
        let (count, last) = (1, now.tick);
        self.known.insert(key, Known { name, count, last });
        Some(Call::Create(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(seconds: u64) -> Now {
        let since = Duration::from_secs(seconds);
        let wall = jiff::Timestamp::UNIX_EPOCH.checked_add(since).unwrap();
        Now::new(Tick::after_start(since), wall)
    }

    fn events() -> Events {
        let pod = Reference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: "driver-0".to_owned(),
            uid: "u".to_owned(),
        };
        Events::new(pod, "jobs".to_owned(), "c0ffee".to_owned())
    }

    fn note(reason: &'static str, about: &str) -> Note {
        Note {
            reason,
            about: about.to_owned(),
            text: format!("profile {about}: no room"),
            warning: true,
        }
    }

    // spec: O-45
    #[test]
    fn a_repeated_note_is_counted_on_the_existing_event() {
        let mut events = events();
        events
            .add(note("QuotaExceeded", "default"), now(0).tick)
            .unwrap();
        let Some(Call::Create(event)) = events.next(now(0)) else {
            panic!("{events:?}")
        };
        assert_eq!(event["metadata"]["name"], "driver-0.c0ffee-1");
        assert_eq!(event["involvedObject"]["uid"], "u");
        assert_eq!(event["reason"], "QuotaExceeded");
        assert_eq!(
            (&event["type"], &event["count"]),
            (&json!("Warning"), &json!(1))
        );
        assert!(
            events
                .add(note("QuotaExceeded", "default"), now(59).tick)
                .is_err()
        );
        events
            .add(note("QuotaExceeded", "gpu"), now(59).tick)
            .unwrap();
        events
            .add(note("QuotaExceeded", "default"), now(60).tick)
            .unwrap();
        assert!(
            matches!(events.next(now(60)), Some(Call::Create(_))),
            "another profile"
        );
        let Some(Call::Update(name, patch)) = events.next(now(60)) else {
            panic!("{events:?}")
        };
        assert_eq!((&*name, &patch["count"]), ("driver-0.c0ffee-1", &json!(2)));
        assert_eq!(patch["lastTimestamp"], "1970-01-01T00:01:00Z");
        assert_eq!(events.next(now(60)), None);
    }

    // spec: O-45, I-8
    #[test]
    fn a_note_that_finds_no_room_is_returned() {
        let mut events = events();
        let taken = (0..100).filter(|n| {
            events
                .add(note("CrashLoop", &n.to_string()), now(0).tick)
                .is_ok()
        });
        assert_eq!(taken.count(), MOST_WAITING);
        for n in 0..1_000_u64 {
            let _ = events.add(note("CrashLoop", &n.to_string()), now(n).tick);
            events.next(now(n));
        }
        assert!(events.known.len() <= MOST_KNOWN);
        let long = Note {
            text: "ü".repeat(5_000),
            ..note("Long", "x")
        };
        while events.next(now(9_999)).is_some() {}
        events.add(long, now(9_999).tick).unwrap();
        let Some(Call::Create(event)) = events.next(now(9_999)) else {
            panic!("{events:?}")
        };
        // Kubernetes counts the message's characters, and allows 1024.
        assert_eq!(
            event["message"].as_str().unwrap().chars().count(),
            LONGEST_NOTE
        );
    }
}
