//! Parses and validates the messages of executors, and describes what is wrong with invalid ones
//! (spec I-11).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::from_executor::{FromExecutor, Register, Usage};
use super::to_executor::ToExecutor;

/// The longest message, in bytes.
pub const MESSAGE_LIMIT: usize = 16 * 1024;

/// The most attributes or metrics.
const ENTRIES: usize = 64;

/// The longest name of an attribute or a metric, in bytes.
const NAME: usize = 128;

/// The most bytes of all attributes, and of the names of all metrics. The driver keeps them for each executor.
const TOGETHER: usize = 4 * 1024;

/// The longest text, in bytes.
const TEXT: usize = 1024;

/// The longest description of an error, in bytes.
const DESCRIPTION: usize = 256;

/// The most slots.
const SLOTS: u32 = 65_536;

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Misread {
    /// A machine-readable code.
    pub code: &'static str,
    /// A human-readable description.
    pub message: String,
    /// The field of the message that is wrong, if known.
    pub field: Option<String>,
}

impl Misread {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            field: None,
        }
    }

    fn at(field: &str, message: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new("bad-message", message)
        }
    }

    /// The problem to answer with.
    pub fn answer(self) -> ToExecutor {
        ToExecutor::Problem {
            code: self.code.to_owned(),
            message: self.message,
            field: self.field,
        }
    }
}

/// Parses a message.
///
/// # Errors
///
/// The message is too long, not JSON, of an unknown type, or has an invalid value.
pub fn read(bytes: &[u8]) -> Result<FromExecutor, Misread> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    if bytes.len() > MESSAGE_LIMIT {
        let message = format!("a message may have at most {MESSAGE_LIMIT} bytes");
        return Err(Misread::new("too-large", message));
    }
    let kind = parsed::<Typed<'_>>(bytes)?.kind;
    let message = match &*kind {
        "register" => FromExecutor::Register(parsed_whole(bytes)?),
        "heartbeat" => FromExecutor::Heartbeat(parsed_whole(bytes)?),
        "decommission-me" => FromExecutor::DecommissionMe(parsed_whole(bytes)?),
        "exiting" => FromExecutor::Exiting(parsed_whole(bytes)?),
        _ => {
            let kinds = "register, heartbeat, decommission-me and exiting";
            let message = format!("unknown message type; the types are {kinds}");
            return Err(Misread {
                field: Some("type".to_owned()),
                ..Misread::new("unknown-type", message)
            });
        }
    };
    check(&message)?;
    Ok(message)
}

fn parsed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Misread> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let misread = Misread::new("bad-message", short(error.inner().to_string()));
        match error.path().to_string() {
            path if path == "." => misread,
            path => Misread {
                field: Some(short(path)),
                ..misread
            },
        }
    })?;
    let end = deserializer.end();
    end.map_err(|error| Misread::new("bad-message", error.to_string()))?;
    Ok(parsed)
}

/// Cuts a description, which may quote a long part of the message.
fn short(mut text: String) -> String {
    if text.len() > DESCRIPTION {
        text.truncate(text.floor_char_boundary(DESCRIPTION));
        text.push('…');
    }
    text
}

fn parsed_whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Misread> {
    parsed(bytes)
}

/// Refuses values out of range.
fn check(message: &FromExecutor) -> Result<(), Misread> {
    match message {
        FromExecutor::Register(register) => check_register(register),
        FromExecutor::Heartbeat(heartbeat) => {
            names("metrics", &heartbeat.metrics)?;
            together("metrics", heartbeat.metrics.keys().map(String::len).sum())?;
            match heartbeat.metrics.values().all(|value| value.is_finite()) {
                true => check_usage(heartbeat.usage),
                false => Err(Misread::at("metrics", "a metric must be a finite number")),
            }
        }
        FromExecutor::DecommissionMe(ask) => text("why", &ask.why),
        FromExecutor::Exiting(exiting) => text("why", &exiting.why),
    }
}

fn check_usage(usage: Option<Usage>) -> Result<(), Misread> {
    let cores = usage.map_or([None; 2], |usage| [usage.cpu_cores, usage.p99_cpu_cores]);
    let is_possible = |cores: &f64| cores.is_finite() && *cores >= 0.0;
    match cores.iter().flatten().all(is_possible) {
        true => Ok(()),
        false => Err(Misread::at(
            "usage",
            "numbers of cores must be finite and not negative",
        )),
    }
}

fn check_register(register: &Register) -> Result<(), Misread> {
    text("app", &register.app)?;
    text("pod", register.pod.as_deref().unwrap_or_default())?;
    text("pod_uid", &register.pod_uid)?;
    text("address", &register.address)?;
    text("log_url", register.log_url.as_deref().unwrap_or_default())?;
    names("attributes", &register.attributes)?;
    for value in register.attributes.values() {
        text("attributes", value)?;
    }
    let lengths = (register.attributes.iter()).map(|(name, value)| name.len() + value.len());
    together("attributes", lengths.sum())?;
    if register.executor == Some(0) {
        return Err(Misread::at("executor", "ids start at 1"));
    }
    if register.executor.is_none() && register.pod.is_none() {
        let message = "either executor or pod is required, to identify the executor";
        return Err(Misread::at("executor", message));
    }
    if register.pod_uid.is_empty() {
        return Err(Misread::at(
            "pod_uid",
            "the uid of the executor's pod is required",
        ));
    }
    if !(1..=SLOTS).contains(&register.slots) {
        let message = format!("slots must be from 1 to {SLOTS}");
        return Err(Misread::at("slots", message));
    }
    Ok(())
}

/// Refuses texts that are too long, or have control characters that could spoil a log or a
/// terminal.
fn text(field: &str, text: &str) -> Result<(), Misread> {
    if text.len() > TEXT {
        return Err(Misread::at(
            field,
            format!("at most {TEXT} bytes are allowed"),
        ));
    }
    match text.chars().any(char::is_control) {
        true => Err(Misread::at(field, "control characters are not allowed")),
        false => Ok(()),
    }
}

fn names<V>(field: &str, entries: &BTreeMap<String, V>) -> Result<(), Misread> {
    if entries.len() > ENTRIES {
        return Err(Misread::at(
            field,
            format!("at most {ENTRIES} entries are allowed"),
        ));
    }
    for name in entries.keys() {
        if name.is_empty() || name.len() > NAME {
            let message = format!("a name must have from 1 to {NAME} bytes");
            return Err(Misread::at(field, message));
        }
        text(field, name)?;
    }
    Ok(())
}

fn together(field: &str, bytes: usize) -> Result<(), Misread> {
    match bytes > TOGETHER {
        true => Err(Misread::at(
            field,
            format!("at most {TOGETHER} bytes are allowed for all of them together"),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::protocol::{AskToGo, Exiting, Heartbeat};

    fn of(value: &Value) -> Result<FromExecutor, Misread> {
        read(value.to_string().as_bytes())
    }

    // spec: B-1, B-10
    #[test]
    fn each_message_is_read_as_it_is_written_and_unknown_fields_are_ignored() {
        let messages = [
            FromExecutor::Register(Register {
                app: "app".to_owned(),
                executor: Some(3),
                pod_uid: "u-3".to_owned(),
                address: "10.0.0.3:7000".to_owned(),
                slots: 4,
                attributes: [("zone".to_owned(), "a".to_owned())].into(),
                log_url: Some("http://logs/3".to_owned()),
                ..Register::default()
            }),
            FromExecutor::Heartbeat(Heartbeat {
                session: Some(7),
                busy_slots: 2,
                metrics: [("gc_ms".to_owned(), 12.5)].into(),
                usage: Some(Usage {
                    memory_bytes: 600,
                    memory_limit_bytes: None,
                    cpu_cores: Some(1.5),
                    peak_memory_bytes: Some(700),
                    p99_cpu_cores: Some(2.0),
                }),
            }),
            FromExecutor::DecommissionMe(AskToGo {
                session: Some(7),
                why: "spot notice".to_owned(),
            }),
            FromExecutor::Exiting(Exiting {
                session: None,
                code: -1,
                why: String::new(),
            }),
        ];
        for message in messages {
            let mut value = serde_json::to_value(&message).unwrap();
            assert_eq!(of(&value), Ok(message.clone()), "{value}");
            value["of_a_later_version"] = json!({"x": [1]});
            assert_eq!(of(&value), Ok(message), "{value}");
        }
    }

    // spec: I-11, O-142
    #[test]
    fn a_negative_use_is_refused() {
        for cores in ["cpu_cores", "p99_cpu_cores"] {
            let usage = json!({"memory_bytes": 1, cores: -0.5});
            let misread = of(&json!({"type": "heartbeat", "busy_slots": 0, "usage": usage}));
            assert_eq!(misread.unwrap_err().field.as_deref(), Some("usage"));
        }
    }

    // spec: I-11
    #[test]
    fn a_long_value_is_not_all_told_in_what_is_wrong_with_it() {
        let long = "ü".repeat(4_000);
        let (of_slots, of_names) = (json!({&*long: 1}), json!({"slots": long.clone()}));
        for (field, value) in [("attributes", of_slots), ("metrics", of_names)] {
            let kind = if field == "metrics" {
                "heartbeat"
            } else {
                "register"
            };
            let misread = of(&json!({"type": kind, "busy_slots": 0, field: value})).unwrap_err();
            let field = misread.field.unwrap_or_default();
            assert!(misread.message.len() < 300 && field.len() < 300, "{field}");
        }
    }

    // spec: O-113
    #[test]
    fn attributes_and_the_names_of_metrics_have_at_most_4_kib_together() {
        for (more, is_read) in [(0, true), (1, false)] {
            // With names of one byte, four values; 32 names of 128 bytes.
            let values = [1_023, 1_023, 1_023, 1_023 + more].map(|length| "x".repeat(length));
            let attributes: BTreeMap<_, _> = ["a", "b", "c", "d"].into_iter().zip(values).collect();
            let names = (0..32).map(|n| format!("{n:0128}"));
            let others = (0..more).map(|n| n.to_string());
            let metrics: BTreeMap<_, _> = names.chain(others).map(|name| (name, 0.5)).collect();
            let registration = json!({
                "type": "register", "app": "a", "executor": 1, "pod_uid": "u",
                "attributes": attributes,
            });
            let heartbeat = json!({"type": "heartbeat", "busy_slots": 0, "metrics": metrics});
            for (message, field) in [(registration, "attributes"), (heartbeat, "metrics")] {
                let read = of(&message);
                assert_eq!(read.is_ok(), is_read, "{field}: {read:?}");
                if let Err(misread) = read {
                    assert_eq!(misread.field.as_deref(), Some(field));
                    assert!(misread.message.contains("4096 bytes"), "{misread}");
                }
            }
        }
    }

    // spec: B-1
    #[test]
    fn what_is_left_out_of_a_registration_has_a_sound_value() {
        let value = json!({"type": "register", "app": "a", "pod": "a-exec-1", "pod_uid": "u"});
        let Ok(FromExecutor::Register(register)) = of(&value) else {
            panic!("{value} is a registration");
        };
        assert_eq!((register.slots, register.executor), (1, None));
    }

    // spec: B-1, I-11
    #[test]
    fn what_nobody_can_mean_is_refused_by_its_name() {
        let registration = |field: &str, value: Value| {
            let mut message =
                json!({"type": "register", "app": "a", "executor": 1, "pod_uid": "u"});
            message[field] = value;
            message
        };
        let many: BTreeMap<String, String> =
            (0..65).map(|n| (n.to_string(), String::new())).collect();
        let fields = [
            ("slots", json!(-1)),
            ("slots", json!(0)),
            ("slots", json!(1e9)),
            ("slots", json!("2")),
            ("executor", json!(0)),
            ("executor", json!(null)),
            ("pod_uid", json!("")),
            ("address", json!("a\u{1b}[2J")),
            ("address", json!("x".repeat(1025))),
            ("attributes", json!(many)),
            ("attributes", json!({"": "x"})),
            ("app", json!(null)),
        ];
        let fields = fields.map(|(field, value)| (registration(field, value), Some(field)));
        let heartbeat = json!({"type": "heartbeat", "busy_slots": -2});
        let others = [
            (heartbeat, Some("busy_slots")),
            (json!({"type": "heartbeat"}), None),
            (json!({"busy_slots": 2}), None),
            (json!([1]), Some("[0]")),
            (json!(1), None),
        ];
        let bad = fields.into_iter().chain(others);
        let bad = bad.map(|(message, field)| (message, "bad-message", field));
        let unknown = registration("type", json!("dance"));
        let large = json!({"type": "register", "app": "x".repeat(20_000)});
        let rest = [
            (unknown, "unknown-type", Some("type")),
            (large, "too-large", None),
        ];
        for (message, code, field) in bad.chain(rest) {
            let misread = of(&message).unwrap_err();
            assert_eq!(
                (misread.code, misread.field.as_deref()),
                (code, field),
                "{message}"
            );
            assert!(misread.message.len() < 300, "{}", misread.message);
        }
        assert_eq!(
            read(b"{\"type\": \"\xff\"}").unwrap_err().code,
            "bad-message"
        );
        assert_eq!(read(b"{} {}").unwrap_err().code, "bad-message");
    }

    proptest! {
        // spec: I-11
        #[test]
        fn any_bytes_are_a_message_or_refused_in_a_few_words(bytes: Vec<u8>, text in ".*") {
            for bytes in [&bytes[..], text.as_bytes()] {
                if let Err(misread) = read(bytes) {
                    prop_assert!(misread.message.len() < 300);
                }
            }
            let framed = json!({"type": text, "session": text, "slots": bytes}).to_string();
            prop_assert!(read(framed.as_bytes()).is_err());
        }
    }
}
