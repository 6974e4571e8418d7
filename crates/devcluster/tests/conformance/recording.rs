//! The recordings, as they are in their files.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One file.
#[derive(Deserialize)]
struct Recording {
    scenarios: Vec<Scenario>,
}

/// One conversation.
#[derive(Clone, Deserialize)]
pub struct Scenario {
    pub name: String,
    pub steps: Vec<Value>,
    #[serde(default)]
    pub rv_order: Vec<String>,
}

/// All conversations of all files.
pub fn scenarios() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/scenarios");
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let recordings = files.iter().map(|file| {
        let text = fs::read_to_string(file).unwrap();
        serde_json::from_str::<Recording>(&text).unwrap()
    });
    recordings
        .flat_map(|recording| recording.scenarios)
        .collect()
}
