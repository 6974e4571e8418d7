//! The format of the data file: encodes and decodes the cluster's state. Pure, without I/O.
//!
//! The file has one JSON document per line: first the objects at the version up to which history is compacted, then
//! each later write. So a watch that a restart interrupted resumes at its version. The key signs the tokens of service
//! accounts.
//!
//! ```text
//! {"devcluster":"state","format":1,"compacted":1000,"key":"…"}
//! {"base":{…}}
//! {"put":{…}}
//! {"removed":{"apiVersion":"v1","kind":"Pod","namespace":"default","name":"a"}}
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::store::{Compacted, Event, EventKind, State};
use crate::objects::object::{Key, Object, set, text};
use crate::objects::resource::Resource;

/// The only file format that this program reads and writes.
const FORMAT: u64 = 1;

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("its first line is not that of a cluster's data: is it another file?")]
    Foreign,
    #[error(
        "it has format {0}, and this program reads format {FORMAT} only: start with another file"
    )]
    Format(u64),
    #[error(
        "{0}: the file was changed or is damaged; put back a copy, start with another file, or rescue the other lines \
         (`--rescue`)"
    )]
    Damaged(Damage),
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The line number, from 1.
    line: usize,
    fault: Fault,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.fault.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.fault.why)
    }
}

/// Why a line cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    /// The column in bytes, from 1, if the line is not JSON.
    column: Option<usize>,
    why: String,
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self { column: None, why }
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        let place = format!(" at line {} column {}", error.line(), error.column());
        Self {
            column: Some(error.column()),
            why: error.to_string().replace(&place, ""),
        }
    }
}

#[derive(Debug)]
pub struct Loaded {
    pub state: State,
    /// The length of the file's complete lines, in bytes. At most one incomplete line follows.
    pub length: usize,
    /// The signing key, if there is one.
    pub key: Option<String>,
}

/// Decodes a file. An incomplete last line is dropped: the program died while writing it, before the write was
/// answered.
pub fn load(bytes: &[u8], log_limit: usize) -> Result<Loaded, Unusable> {
    let (length, mut lines) = lines(bytes);
    let (_, head) = lines.next().ok_or(Unusable::Foreign)?;
    let (compacted, key) = begin(head)?;
    let mut state = State::compacted_at(log_limit, compacted);
    for (line, text) in lines {
        let applied = parse(text).and_then(|entry| apply(&mut state, entry));
        applied.map_err(|fault| Unusable::Damaged(Damage { line, fault }))?;
    }
    Ok(Loaded { state, length, key })
}

/// Decodes the undamaged lines of a file, and returns the damage. The state has no history, because history would have
/// gaps, and a resource version that is not lower than that of any written object.
pub fn rescue(bytes: &[u8]) -> Result<(Loaded, Vec<Damage>), Unusable> {
    let (length, mut lines) = lines(bytes);
    let (_, head) = lines.next().ok_or(Unusable::Foreign)?;
    let (mut latest, key) = begin(head)?;
    let mut objects = BTreeMap::new();
    let mut damage = Vec::new();
    for (line, text) in lines {
        match parse(text) {
            Ok(Entry::Base(key, object, version)) => {
                latest = latest.max(version);
                objects.insert(key, (object, version));
            }
            Ok(Entry::Put(key, object, version)) => {
                latest = version.max(latest + 1);
                objects.insert(key, (object, version));
            }
            Ok(Entry::Removed(key)) => {
                latest += 1;
                objects.remove(&key);
            }
            Err(fault) => {
                // The line may have been a write, which had a version.
                latest += 1;
                damage.push(Damage { line, fault });
            }
        }
    }
    let mut state = State::compacted_at(1, latest);
    for (key, (object, version)) in objects {
        state.seed(key, object, version);
    }
    Ok((Loaded { state, length, key }, damage))
}

/// The length of the complete lines, and these with their numbers.
fn lines(bytes: &[u8]) -> (usize, impl Iterator<Item = (usize, &[u8])>) {
    let end = bytes.iter().rposition(|b| *b == b'\n');
    let length = end.map_or(0, |at| at + 1);
    let lines = bytes[..length].split_inclusive(|b| *b == b'\n');
    (length, (1..).zip(lines))
}

/// Decodes the first line: the compacted version and the key.
fn begin(head: &[u8]) -> Result<(u64, Option<String>), Unusable> {
    let head: Value = serde_json::from_slice(head).map_err(|_| Unusable::Foreign)?;
    if head["devcluster"] != "state" {
        return Err(Unusable::Foreign);
    }
    match (head["format"].as_u64(), head["compacted"].as_u64()) {
        (Some(FORMAT), Some(compacted)) => Ok((compacted, head["key"].as_str().map(str::to_owned))),
        (Some(format), _) if format != FORMAT => Err(Unusable::Format(format)),
        _ => Err(Unusable::Foreign),
    }
}

/// A line after the first, with the resource version of its object.
enum Entry {
    Base(Key, Value, u64),
    Put(Key, Value, u64),
    Removed(Key),
}

fn parse(line: &[u8]) -> Result<Entry, Fault> {
    let mut line: Value = serde_json::from_slice(line)?;
    if let Some(object) = line.get_mut("base").map(Value::take) {
        let (key, version) = (key_of(&object, &["metadata"])?, version_of(&object)?);
        return Ok(Entry::Base(key, object, version));
    }
    if let Some(object) = line.get_mut("put").map(Value::take) {
        let (key, version) = (key_of(&object, &["metadata"])?, version_of(&object)?);
        return Ok(Entry::Put(key, object, version));
    }
    let removed = line.get("removed").ok_or("neither base, put nor removed")?;
    Ok(Entry::Removed(key_of(removed, &[])?))
}

fn apply(state: &mut State, entry: Entry) -> Result<(), Fault> {
    let next = state.resource_version() + 1;
    match entry {
        Entry::Base(key, object, version) => state.seed(key, object, version),
        Entry::Put(_, _, version) if version != next => {
            let why = format!("resource version {version} where {next} comes next");
            return Err(why.into());
        }
        Entry::Put(key, mut object, _) => {
            if object.pointer("/metadata/managedFields").is_none() {
                // An object without managed fields had them reset; `put` must not inherit those of the previous
                // version.
                set(&mut object, &["metadata", "managedFields"], json!([]));
            }
            state.put(key, object).map_err(|error| error.message)?;
        }
        Entry::Removed(key) => {
            if state.remove(&key).is_none() {
                return Err(format!("{} is removed, but was not there", key.name).into());
            }
        }
    }
    Ok(())
}

fn key_of(object: &Value, at: &[&str]) -> Result<Key, String> {
    let names = at.iter().try_fold(object, |value, step| value.get(step));
    let names = names.ok_or("an object without metadata")?;
    let (api_version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
    let resource = Resource::of_kind(api_version, kind)
        .ok_or_else(|| format!("no kind {kind:?} of {api_version:?} is known"))?;
    let name = text(names, &["name"]);
    if name.is_empty() {
        return Err("an object without a name".to_owned());
    }
    Ok(Key::new(resource, text(names, &["namespace"]), name))
}

fn version_of(object: &Value) -> Result<u64, String> {
    let version = text(object, &["metadata", "resourceVersion"]);
    version
        .parse()
        .map_err(|_| format!("{version:?} is no resource version"))
}

/// Encodes a whole state and the signing key as a file.
pub fn whole(state: &State, key: Option<&str>) -> Result<Vec<u8>, Compacted> {
    let compacted = state.compacted();
    let mut head = json!({"devcluster": "state", "format": FORMAT, "compacted": compacted});
    if let Some(key) = key {
        head["key"] = key.into();
    }
    let mut out = format!("{head}\n").into_bytes();
    for object in state.objects_at(compacted)?.values() {
        append(&mut out, "base", object);
    }
    append_since(&mut out, state, compacted)?;
    Ok(out)
}

/// Appends the writes after a version; an error if that version is compacted.
pub fn append_since(out: &mut Vec<u8>, state: &State, mut version: u64) -> Result<(), Compacted> {
    while let Some(event) = state.event_after(version)? {
        version = event.object().resource_version();
        append_event(out, event);
    }
    Ok(())
}

fn append_event(out: &mut Vec<u8>, event: &Event) {
    if event.kind() != EventKind::Deleted {
        return append(out, "put", event.object());
    }
    let key = event.object().key();
    let traits = key.resource.traits();
    let removed = json!({
        "apiVersion": traits.api_version,
        "kind": traits.kind,
        "namespace": &*key.namespace,
        "name": &*key.name,
    });
    out.extend_from_slice(format!("{}\n", json!({"removed": removed})).as_bytes());
}

fn append(out: &mut Vec<u8>, what: &str, object: &Object) {
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(what.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(object.encoded());
    out.extend_from_slice(b"}\n");
}
