//! Whether each key of the configuration is read by the driver.

use std::fs;
use std::path::Path;

/// A section's type, and one of its keys.
pub(crate) type Key = (String, String);

/// The keys that the configuration's sections declare, one a line: `pub KEY: TYPE = METHOD(…`.
pub(crate) fn declared(folder: &Path) -> Vec<Key> {
    let mut keys = Vec::new();
    for text in sources(folder) {
        let mut section = "";
        for line in text.lines().map(str::trim_start) {
            if let Some(name) = line.strip_prefix("pub struct ") {
                section = name.split([' ', '<', ';', '(']).next().unwrap();
            }
            let Some((key, rest)) = line
                .strip_prefix("pub ")
                .and_then(|line| line.split_once(": "))
            else {
                continue;
            };
            if rest.contains(" =") && !key.contains([' ', '(', '<', '$']) {
                keys.push((section.to_owned(), key.to_owned()));
            }
        }
    }
    keys
}

/// What a section's value is called in the code, where that is not the section's name.
const NAMES: [(&str, &str); 3] = [
    ("Sessions", "keys"),
    ("Autoscaling", "demand"),
    ("FailureRule", "rule"),
];

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

/// Whether a text reads this key of its section: `cluster.start_timeout` for a key of `Cluster`, and not the field of
/// another value that has the same name.
pub(crate) fn reads(text: &str, (section, key): &Key) -> bool {
    let other = NAMES.iter().filter(|(name, _)| name == section);
    let names = other
        .map(|(_, other)| (*other).to_owned())
        .chain([snake_case(section)]);
    names.map(|name| format!("{name}.{key}")).any(|path| {
        text.match_indices(&path)
            .any(|(at, _)| stands_alone(text, at, &path))
    })
}

fn stands_alone(text: &str, at: usize, path: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let before = text[..at].chars().next_back();
    let after = text[at + path.len()..].chars().next();
    !before.is_some_and(is_word) && !after.is_some_and(is_word)
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
