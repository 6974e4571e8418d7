//! Whether each key of the configuration is read by the driver.

use std::fs;
use std::path::Path;

/// The keys that the configuration's sections declare, one a line: `pub KEY: TYPE = METHOD(…`.
pub(crate) fn declared(folder: &Path) -> Vec<String> {
    let mut keys = Vec::new();
    for text in sources(folder) {
        let lines = text.lines().map(str::trim_start);
        keys.extend(lines.filter_map(|line| {
            let (key, rest) = line.strip_prefix("pub ")?.split_once(": ")?;
            let is_declaration = rest.contains(" =") && !key.contains([' ', '(', '<', '$']);
            is_declaration.then(|| key.to_owned())
        }));
    }
    keys
}

/// The text of all source files in a folder and below, without tests.
pub(crate) fn sources(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// Whether a text reads a field of this name.
pub(crate) fn reads(text: &str, key: &str) -> bool {
    text.match_indices(&format!(".{key}")).any(|(at, found)| {
        let next = text[at + found.len()..].chars().next();
        !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
    })
}
