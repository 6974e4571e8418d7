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
        "line {line}: {why}: the file was changed or is damaged; put back a copy, or start with another file"
    )]
    Damaged {
        /// The line number, from 1.
        line: usize,
        why: String,
    },
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
    let length = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let mut lines = bytes[..length].split_inclusive(|b| *b == b'\n').enumerate();
    let (_, head) = lines.next().ok_or(Unusable::Foreign)?;
    let (compacted, key) = begin(head)?;
    let mut state = State::compacted_at(log_limit, compacted);
    for (index, line) in lines {
        apply(&mut state, line).map_err(|why| Unusable::Damaged {
            line: index + 1,
            why,
        })?;
    }
    Ok(Loaded { state, length, key })
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

fn apply(state: &mut State, line: &[u8]) -> Result<(), String> {
    let mut line: Value = serde_json::from_slice(line).map_err(|why| why.to_string())?;
    let next = state.resource_version() + 1;
    if let Some(object) = line.get_mut("base").map(Value::take) {
        let (key, version) = (key_of(&object, &["metadata"])?, version_of(&object)?);
        state.seed(key, object, version);
        return Ok(());
    }
    if let Some(mut object) = line.get_mut("put").map(Value::take) {
        let (key, version) = (key_of(&object, &["metadata"])?, version_of(&object)?);
        if version != next {
            return Err(format!(
                "resource version {version} where {next} comes next"
            ));
        }
        if object.pointer("/metadata/managedFields").is_none() {
            // An object without managed fields had them reset; `put` must not inherit those of the previous version.
            set(&mut object, &["metadata", "managedFields"], json!([]));
        }
        state.put(key, object).map_err(|error| error.message)?;
        return Ok(());
    }
    let removed = line.get("removed").ok_or("neither base, put nor removed")?;
    let key = key_of(removed, &[])?;
    match state.remove(&key) {
        Some(_) => Ok(()),
        None => Err(format!("{} is removed, but was not there", key.name)),
    }
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
