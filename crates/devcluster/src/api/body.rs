//! Parses JSON request bodies, and reports duplicate fields.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::objects::depth::{MAX_LEVELS, exceeds};
use crate::objects::messages;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The content; of a duplicate field the last value.
    pub value: Value,
    /// The paths of duplicate fields, for strict field validation.
    pub duplicates: Vec<String>,
}

pub fn json(bytes: &[u8]) -> Result<Document, String> {
    let read = Read::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node(&read)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => "unexpected end of JSON input".to_owned(),
            _ => error.to_string(),
        })?;
    check_depth(&value)?;
    Ok(Document {
        value,
        duplicates: read.duplicates.into_inner(),
    })
}

fn check_depth(value: &Value) -> Result<(), String> {
    match exceeds(value, MAX_LEVELS) {
        true => Err("exceeded max depth".to_owned()),
        false => Ok(()),
    }
}

/// The parser's notes on a body.
#[derive(Default)]
struct Read {
    /// With a dot before each name.
    path: RefCell<String>,
    duplicates: RefCell<Vec<String>>,
}

/// A value at the current path of the body.
struct Node<'a>(&'a Read);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let before = self.0.path.borrow().len();
        loop {
            self.0
                .path
                .borrow_mut()
                .push_str(&format!("[{}]", list.len()));
            let item = items.next_element_seed(Node(self.0))?;
            self.0.path.borrow_mut().truncate(before);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let before = self.0.path.borrow().len();
        while let Some(name) = entries.next_key::<String>()? {
            {
                let mut path = self.0.path.borrow_mut();
                path.push('.');
                path.push_str(&name);
            }
            let value = entries.next_value_seed(Node(self.0))?;
            if fields.insert(name, value).is_some() {
                let path = self.0.path.borrow();
                let path = path.strip_prefix('.').unwrap_or(&path);
                let twice = format_args!("duplicate field \"{path}\"");
                messages::add(&mut self.0.duplicates.borrow_mut(), twice);
            }
            self.0.path.borrow_mut().truncate(before);
        }
        Ok(Value::Object(fields))
    }
}

/// The beginning of a body, for error messages.
pub fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (shown, rest) = body.split_at(body.len().min(SHOWN));
    let more = if rest.is_empty() { "" } else { " ..." };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn duplicate_fields_are_reported_and_the_last_value_wins() {
        let body = json(br#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}"#).expect("JSON");
        assert_eq!(body.value, json!({"a": 3, "b": [{"c": 2}]}));
        let names = ["duplicate field \"b[0].c\"", "duplicate field \"a\""];
        assert_eq!(body.duplicates, names);
        // A field may have no name.
        let body = json(br#"{"": 1, "": {"": 1, "": 2}}"#).expect("JSON");
        let names = ["duplicate field \".\"", "duplicate field \"\""];
        assert_eq!(body.duplicates, names);
    }

    #[test]
    fn a_body_nested_too_deeply_is_refused() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(json(nested(MAX_LEVELS).as_bytes()).is_ok());
        for levels in [MAX_LEVELS + 1, 1_000] {
            assert!(json(nested(levels).as_bytes()).is_err());
        }
    }

    #[test]
    fn many_duplicates_at_a_long_path_take_little_memory() {
        let duplicates = r#""a":1,"#.repeat(8_000);
        let others: String = (0..4_000).map(|n| format!(r#""{n}":1,"{n}":1,"#)).collect();
        let path = "x".repeat(50_000);
        for fields in [duplicates, others] {
            let body = format!(r#"{{"{path}":{{{fields}"b":1}}}}"#);
            let kept = json(body.as_bytes()).expect("JSON").duplicates;
            let bytes: usize = kept.iter().map(String::len).sum();
            assert!(!kept.is_empty() && bytes < 200_000, "{bytes} bytes");
        }
    }

    #[test]
    fn truncated_bodies_are_errors() {
        assert_eq!(
            json(b"{\"a\":"),
            Err("unexpected end of JSON input".to_owned())
        );
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"ab"), "6162");
        assert_eq!(summary(&[b'{'; 40]), format!("{} ...", "{".repeat(30)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "[-{}\\[\\]:a&*\"|>! \\n]{0,40}") {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                let read = json(bytes).ok().map(|body| body.value);
                prop_assert_eq!(read, serde_json::from_slice::<Value>(bytes).ok());
                summary(bytes);
            }
        }
    }
}
