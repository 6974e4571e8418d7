//! The cluster's state in a file, so that it is there again after a restart: pure, bytes in and out.
//!
//! One JSON document a line. First what the server had at the version up to which its history is forgotten, then each
//! write since, as it was made: so a watch that was cut by the restart goes on from where it was. The key is the one
//! that signs the tokens of service accounts.
//!
//! ```text
//! {"devcluster":"state","format":1,"compacted":1000,"key":"…"}
//! {"base":{…}}
//! {"put":{…}}
//! {"removed":{"apiVersion":"v1","kind":"Pod","namespace":"default","name":"a"}}
//! ```

use serde_json::{Value, json};

use super::store::{Event, EventKind, Forgotten, State};
use crate::objects::object::{Key, Object, set, text};
use crate::objects::resource::Resource;

/// The format of files that this program writes, and the only one that it reads.
const FORMAT: u64 = 1;

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Its first line is not that of such a file.
    #[error("its first line is not that of a cluster's data: is it another file?")]
    Foreign,
    /// Written by another version of this program.
    #[error(
        "it has format {0}, and this program reads format {FORMAT} only: start with another file"
    )]
    Format(u64),
    /// A line cannot be what was written there.
    #[error(
        "line {line}: {why}: the file was changed or is damaged; put back a copy, or start with another file"
    )]
    Damaged {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// What a file holds.
#[derive(Debug)]
pub struct Loaded {
    /// The state.
    pub state: State,
    /// How many bytes of the file make it up: after them is, at most, a line that was not written whole.
    pub length: usize,
    /// The key that signs, if there is one.
    pub key: Option<String>,
}

/// Reads a file. A last line without its end was being written when the program died: nobody was told that its write
/// took place, and it is left out.
pub fn load(bytes: &[u8], log_limit: usize) -> Result<Loaded, Unusable> {
    let length = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let mut lines = bytes[..length].split_inclusive(|b| *b == b'\n').enumerate();
    let (_, head) = lines.next().ok_or(Unusable::Foreign)?;
    let (compacted, key) = begin(head)?;
    let mut state = State::forgetful(log_limit, compacted);
    for (index, line) in lines {
        apply(&mut state, line).map_err(|why| Unusable::Damaged {
            line: index + 1,
            why,
        })?;
    }
    Ok(Loaded { state, length, key })
}

/// The version up to which history is forgotten, and the key.
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
            // Who owns what was forgotten on request, and is not as before.
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

/// The whole of a state, as a file, with the key that signs.
pub fn whole(state: &State, key: Option<&str>) -> Result<Vec<u8>, Forgotten> {
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

/// Appends what was written after a version; refused where that is forgotten.
pub fn append_since(out: &mut Vec<u8>, state: &State, mut version: u64) -> Result<(), Forgotten> {
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
