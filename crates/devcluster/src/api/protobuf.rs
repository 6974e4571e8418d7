//! Decodes request bodies in Kubernetes' protobuf encoding into JSON.
//!
//! Only what kubectl itself writes in protobuf for documented commands is supported. It accepts JSON responses for all of
//! it, and sends manifests as JSON.

mod fields;

use serde_json::{Map, Value};

use crate::objects::object::text;
use fields::FieldType::{self, ListOf, Message, Number, Text};
use fields::{Field, fields};

/// The prefix of every encoded object.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Objects of this kind, or with what this one has, are accepted as JSON only.
    Kind(String),
    /// The body is not in this encoding, or is truncated.
    Malformed,
}

/// Decodes the object in a body, with its kind and version.
pub fn object(body: &[u8]) -> Result<Value, DecodeError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(DecodeError::Malformed)?;
    const TYPE: FieldType = Message(&[(1, "apiVersion", Text), (2, "kind", Text)]);
    let head = message(envelope, &[(1, "type", TYPE)]).ok_or(DecodeError::Malformed)?;
    let kind = text(&head, &["type", "kind"]);
    let fields = fields(kind).ok_or_else(|| DecodeError::Kind(kind.to_owned()))?;
    let raw = parts(envelope)
        .ok_or(DecodeError::Malformed)?
        .into_iter()
        .find_map(|(number, part)| match part {
            Part::Bytes(raw) if number == 2 => Some(raw),
            _ => None,
        });
    if !is_known(raw.unwrap_or_default(), fields) {
        return Err(DecodeError::Kind(kind.to_owned()));
    }
    let mut object = message(raw.unwrap_or_default(), fields).ok_or(DecodeError::Malformed)?;
    object["kind"] = kind.into();
    object["apiVersion"] = head["type"]["apiVersion"].clone();
    Ok(object)
}

/// Whether all fields of a message that have a value are known. What is no message has a value that is not.
fn is_known(bytes: &[u8], fields: &[Field]) -> bool {
    let Some(parts) = parts(bytes) else {
        return false;
    };
    parts.into_iter().all(|(number, part)| {
        let field = fields.iter().find(|(n, ..)| *n == number);
        match (field.map(|(_, _, is)| is), part) {
            (Some(Message(below) | ListOf(Message(below))), Part::Bytes(bytes)) => {
                is_known(bytes, below)
            }
            (Some(_), _) | (None, Part::Number(0)) => true,
            (None, Part::Number(_)) => false,
            (None, Part::Bytes(bytes)) => bytes.is_empty() || is_known(bytes, &[]),
        }
    })
}

/// The encoded value of a field.
enum Part<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Splits a message into its fields, by number.
fn parts(mut bytes: &[u8]) -> Option<Vec<(u64, Part<'_>)>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        let part = match tag & 7 {
            0 => Part::Number(number(&mut bytes)?),
            2 => {
                let length = usize::try_from(number(&mut bytes)?).ok()?;
                let (taken, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Part::Bytes(taken)
            }
            // Fixed-width values; none of the known fields has one, so they are skipped.
            fixed @ (1 | 5) => {
                let width = if fixed == 1 { 8 } else { 4 };
                bytes = bytes.get(width..)?;
                continue;
            }
            _ => return None,
        };
        parts.push((tag >> 3, part));
    }
    Some(parts)
}

fn message(bytes: &[u8], fields: &[Field]) -> Option<Value> {
    let mut object = Map::new();
    for (number, part) in parts(bytes)? {
        let Some((_, name, is)) = fields.iter().find(|(n, ..)| *n == number) else {
            continue;
        };
        match is {
            ListOf(each) => {
                let value = scalar(&part, each)?;
                let list = object
                    .entry(*name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()?.push(value);
            }
            is => {
                let value = scalar(&part, is)?;
                // Go clients also encode empty strings; in JSON they are omitted.
                if value != "" {
                    object.insert((*name).to_owned(), value);
                }
            }
        }
    }
    Some(Value::Object(object))
}

fn scalar(part: &Part<'_>, is: &FieldType) -> Option<Value> {
    Some(match (is, part) {
        (Text, Part::Bytes(bytes)) => std::str::from_utf8(bytes).ok()?.into(),
        (Number, Part::Number(number)) => number.cast_signed().into(),
        (Message(fields), Part::Bytes(bytes)) => message(bytes, fields)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("short");
        assert!(length < 0x80);
        [&[number << 3 | 2, length], bytes].concat()
    }

    fn enveloped(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let head = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &head), field(2, raw)].concat()
    }

    #[test]
    fn a_protobuf_object_decodes_to_equivalent_json() {
        let asked = field(
            2,
            &field(1, &[field(2, b"get"), field(5, b"pods")].concat()),
        );
        let read = object(&enveloped("v1", "SelfSubjectAccessReview", &asked)).expect("a question");
        assert_eq!(
            read["spec"]["resourceAttributes"],
            json!({"verb": "get", "resource": "pods"})
        );
        let subject = field(2, &[field(1, b"User"), field(3, b"ann")].concat());
        let binding = [subject.clone(), subject].concat();
        let read = object(&enveloped("rbac", "RoleBinding", &binding)).expect("a binding");
        let user = json!({"kind": "User", "name": "ann"});
        assert_eq!(read["subjects"], json!([user, user]));
    }

    #[test]
    fn an_object_with_fields_that_are_not_known_is_not_decoded() {
        let named = |more: &[u8]| {
            let meta = field(1, &[field(1, b"a").as_slice(), more].concat());
            object(&enveloped("v1", "Namespace", &meta))
        };
        let read = named(&field(8, b"")).expect("empty fields are not lost");
        assert_eq!(read["metadata"], json!({"name": "a"}));
        let label = field(11, &[field(1, b"k"), field(2, b"v")].concat());
        let refused = Err(DecodeError::Kind("Namespace".to_owned()));
        assert_eq!(named(&label), refused);
    }

    #[test]
    fn unsupported_kinds_are_named_and_malformed_bodies_refused() {
        let pod = enveloped("v1", "Pod", b"");
        assert_eq!(object(&pod), Err(DecodeError::Kind("Pod".to_owned())));
        for bad in [b"".as_slice(), b"{}", b"k8s\0\xFF", b"k8s\0\x0A\x7F"] {
            assert_eq!(object(bad), Err(DecodeError::Malformed), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let _ = object(&[MAGIC, &bytes].concat());
            let _ = object(&enveloped("v1", "RoleBinding", &bytes[..bytes.len().min(100)]));
        }
    }
}
