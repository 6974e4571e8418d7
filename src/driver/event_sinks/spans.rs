//! Executors' lives as spans of OpenTelemetry, in OTLP's JSON (spec O-141): pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};

/// Which phase of an executor's life an event begins.
const PHASES: [&str; 5] = ["requested", "pending", "running", "registered", "leaving"];

/// The events after which nothing comes.
const ENDS: [&str; 2] = ["ended", "not-created"];

/// The fields of events that become attributes of spans, by the names of OpenTelemetry where it has some.
const ATTRIBUTES: [(&str, &str); 7] = [
    ("profile", "boatswain.profile"),
    ("reason", "boatswain.reason"),
    ("why", "boatswain.why"),
    ("slots", "boatswain.slots"),
    ("exit_code", "process.exit.code"),
    ("pod", "k8s.pod.name"),
    ("node", "k8s.node.name"),
];

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;

/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// The executors that have not ended, and what is known of them.
#[derive(Debug)]
pub(super) struct Spans {
    app: String,
    lives: BTreeMap<u64, Life>,
}

#[derive(Debug)]
struct Life {
    /// Of the first event about it.
    began: Timestamp,
    attributes: Map<String, Value>,
    /// The phase that it is in, and since when.
    phase: Option<(&'static str, Timestamp)>,
}

impl Spans {
    pub fn of(app: String) -> Self {
        Self {
            app,
            lives: BTreeMap::new(),
        }
    }

    /// The spans that end with an event: of a phase, and at an executor's end of its whole life.
    pub fn take(&mut self, event: &Value) -> Vec<Value> {
        let name = event["event"].as_str().unwrap_or_default();
        // Events were missed: whose life goes on is not known.
        if name == "living" {
            self.lives.clear();
        }
        let time = event["time"].as_str().and_then(|time| time.parse().ok());
        let (Some(id), Some(time)) = (event["executor"].as_u64(), time) else {
            return Vec::new();
        };
        let life = self.lives.entry(id).or_insert_with(|| Life {
            began: time,
            attributes: Map::new(),
            phase: None,
        });
        for (field, attribute) in ATTRIBUTES {
            if let Some(value) = event.get(field) {
                life.attributes.insert(attribute.to_owned(), value.clone());
            }
        }
        let phase = PHASES.into_iter().find(|phase| *phase == name);
        let (ends, before) = (ENDS.contains(&name), life.phase.map(|(phase, _)| phase));
        // An executor that waits for something else waits on.
        if !ends && (phase.is_none() || phase == before) {
            return Vec::new();
        }
        let of = Of { app: &self.app, id };
        let mut spans = Vec::new();
        if let Some((phase, since)) = life.phase.take() {
            spans.push(of.phase(phase, since, time, &life.attributes));
        }
        life.phase = phase.map(|phase| (phase, time));
        if ends && let Some(life) = self.lives.remove(&id) {
            spans.push(of.life(&life, time, event));
        }
        spans
    }
}

/// An executor. The ids of its spans follow from it, so that drivers after one another tell of one life.
struct Of<'a> {
    app: &'a str,
    id: u64,
}

impl Of<'_> {
    /// The first bytes of a hash, in hexadecimal digits.
    fn hash(&self, what: &str, bytes: usize) -> String {
        let mut context = Context::new(&SHA256);
        for part in [self.app, &self.id.to_string(), what] {
            context.update(part.as_bytes());
            context.update(&[0]);
        }
        let hash = context.finish();
        (hash.as_ref().iter().take(bytes))
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn span(
        &self,
        name: &str,
        begin: Timestamp,
        end: Timestamp,
        attributes: &Map<String, Value>,
    ) -> Value {
        let own = [
            ("boatswain.app", json!(self.app)),
            ("boatswain.executor", json!(self.id)),
        ];
        let given = attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        let attributes: Vec<Value> = (own.into_iter().chain(given))
            .map(|(name, value)| attribute(name, &value))
            .collect();
        json!({
            "traceId": self.hash("trace", 16),
            "spanId": self.hash(&format!("{name} {begin}"), 8),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": begin.as_nanosecond().to_string(),
            "endTimeUnixNano": end.as_nanosecond().to_string(),
            "attributes": attributes,
        })
    }

    fn phase(
        &self,
        name: &str,
        begin: Timestamp,
        end: Timestamp,
        attributes: &Map<String, Value>,
    ) -> Value {
        let mut span = self.span(name, begin, end, attributes);
        span["parentSpanId"] = self.hash("life", 8).into();
        span
    }

    fn life(&self, life: &Life, end: Timestamp, event: &Value) -> Value {
        let mut span = self.span("executor", life.began, end, &life.attributes);
        span["spanId"] = self.hash("life", 8).into();
        if event["failure"] == true {
            span["status"] = json!({"code": ERROR, "message": event["why"]});
        }
        span
    }
}

/// An attribute of a span or a resource.
pub(super) fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event about executor 7, so many seconds after the first one.
    fn event(seconds: u32, name: &str, more: Value) -> Value {
        let mut event = json!({
            "event": name, "executor": 7, "profile": "default",
            "time": format!("2026-01-01T00:00:{seconds:02}Z"),
        });
        for (field, value) in more.as_object().unwrap() {
            event[field] = value.clone();
        }
        event
    }

    /// Name and length in seconds.
    fn shown(span: &Value) -> (String, i64) {
        let nanoseconds = |field: &str| span[field].as_str().unwrap().parse::<i64>().unwrap();
        let length = nanoseconds("endTimeUnixNano") - nanoseconds("startTimeUnixNano");
        (
            span["name"].as_str().unwrap().to_owned(),
            length / 1_000_000_000,
        )
    }

    fn value<'a>(span: &'a Value, name: &str) -> &'a Value {
        let attributes = span["attributes"].as_array().unwrap();
        let found = attributes.iter().find(|attribute| attribute["key"] == name);
        &found.unwrap()["value"]
    }

    // spec: O-141
    #[test]
    fn each_phase_of_an_executors_life_is_a_span_in_the_span_of_its_life() {
        let mut spans = Spans::of("app".to_owned());
        let told: Vec<Value> = [
            event(0, "requested", json!({})),
            event(
                1,
                "pending",
                json!({"pod": "t-exec-7", "why": "unscheduled"}),
            ),
            event(
                2,
                "pending",
                json!({"pod": "t-exec-7", "why": "ContainerCreating"}),
            ),
            event(4, "running", json!({"pod": "t-exec-7", "node": "node-1"})),
            event(7, "registered", json!({"slots": 4})),
            event(
                20,
                "ended",
                json!({"reason": "OomKilled", "exit_code": 137, "failure": true, "why": "memory"}),
            ),
        ]
        .iter()
        .flat_map(|event| spans.take(event))
        .collect();
        let expected = [
            ("requested", 1),
            ("pending", 3),
            ("running", 3),
            ("registered", 13),
            ("executor", 20),
        ];
        let expected = expected.map(|(name, length)| (name.to_owned(), length));
        assert_eq!(told.iter().map(shown).collect::<Vec<_>>(), expected);
        let life = &told[4];
        for span in &told[..4] {
            assert_eq!(span["traceId"], life["traceId"]);
            assert_eq!(span["parentSpanId"], life["spanId"]);
            assert_ne!(span["spanId"], life["spanId"]);
        }
        assert_eq!(life["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(life["spanId"].as_str().unwrap().len(), 16);
        assert_eq!(life["status"], json!({"code": 2, "message": "memory"}));
        assert_eq!(
            value(life, "process.exit.code"),
            &json!({"intValue": "137"})
        );
        assert_eq!(
            value(life, "k8s.node.name"),
            &json!({"stringValue": "node-1"})
        );
        assert!(spans.lives.is_empty());
    }

    // spec: O-141
    #[test]
    fn a_successor_tells_of_the_same_life_and_of_an_adopted_executor_from_what_it_has_seen() {
        let mut first = Spans::of("app".to_owned());
        first.take(&event(0, "requested", json!({})));
        let phase = first.take(&event(1, "pending", json!({})));
        let mut second = Spans::of("app".to_owned());
        let ended = second.take(&event(9, "ended", json!({"failure": false})));
        assert_eq!(ended.len(), 1);
        assert_eq!(phase[0]["parentSpanId"], ended[0]["spanId"]);
        assert!(ended[0].get("status").is_none());
        let mut other = Spans::of("other".to_owned());
        let ended = other.take(&event(9, "ended", json!({})));
        assert_ne!(phase[0]["traceId"], ended[0]["traceId"]);
    }

    // spec: O-141
    #[test]
    fn events_that_were_missed_leave_no_life_behind() {
        let mut spans = Spans::of("app".to_owned());
        spans.take(&event(0, "requested", json!({})));
        assert_eq!(
            spans.take(&json!({"event": "living", "time": "2026-01-01T00:00:00Z"})),
            [] as [Value; 0]
        );
        assert!(spans.lives.is_empty());
        assert_eq!(spans.take(&json!({"event": "degraded"})), [] as [Value; 0]);
    }
}
