//! Collects what is found while a configuration is read: mistakes, known keys, effective values.

use std::collections::BTreeMap;

use super::effective::Effective;
use super::error::{Mistake, Origin};
use super::reader::KnownKey;
use super::template::Templates;

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// How pod templates are handled.
    pub templates: Templates,
    pub mistakes: Vec<Mistake>,
    pub known: Vec<KnownKey>,
    /// Whether sections describe themselves in JSON Schema, lists of sections also where they are empty.
    pub describes: bool,
    pub effective: Effective,
    /// The origin of each key that was set.
    pub origins: BTreeMap<String, Origin>,
    /// The known keys that unknown ones were most likely meant to be.
    pub meant: Vec<String>,
    /// The unknown keys with no similar key in their section: the index of the mistake, and the
    /// key.
    pub unrecognised: Vec<(usize, String)>,
}

impl Notes {
    /// Whether the key was set, in the file or by an override.
    pub fn is_set(&self, path: &str) -> bool {
        self.origins.contains_key(path)
    }

    /// Whether the values of these keys can be trusted: no mistake was noted about them. A default
    /// in place of a mistake would contradict others only by accident.
    pub fn are_sound<S: AsRef<str>>(&self, paths: &[S]) -> bool {
        let meets = |spoilt: &str, path: &str| is_within(spoilt, path) || is_within(path, spoilt);
        let known = |mistake: &&Mistake| !mistake.found.starts_with("no such ");
        let spoilt = self
            .mistakes
            .iter()
            .filter(known)
            .map(|mistake| &mistake.key);
        let mut spoilt = spoilt.chain(&self.meant);
        spoilt.all(|spoilt| !paths.iter().any(|path| meets(spoilt, path.as_ref())))
    }

    /// Notes a contradiction between these keys as a mistake about the first, if all are sound.
    pub fn contradict<S: AsRef<str>>(
        &mut self,
        paths: &[S],
        found: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if let Some(first) = paths.first()
            && self.are_sound(paths)
        {
            self.refuse(first.as_ref(), found, fix);
        }
    }

    /// Adds to the mistake about each unrecognised key the other sections that have a key of this
    /// name.
    pub fn place_unrecognised(&mut self) {
        for (at, key) in std::mem::take(&mut self.unrecognised) {
            let elsewhere = self.known.iter().map(|known| &known.path);
            let same = elsewhere.filter(|path| path.rsplit('.').next() == Some(&*key));
            let same: Vec<&str> = same.map(String::as_str).collect();
            if let (Some(mistake), false) = (self.mistakes.get_mut(at), same.is_empty()) {
                mistake.fix = format!("there is {}; {}", same.join(", "), mistake.fix);
            }
        }
    }

    /// Notes a mistake about a known key. For a missing key the position is that of its section.
    pub fn refuse(&mut self, path: &str, found: impl Into<String>, fix: impl Into<String>) {
        let mut at = path;
        let origin = loop {
            if let Some(origin) = self.origins.get(at) {
                break origin.clone();
            }
            match at.rsplit_once('.') {
                Some((outer, _)) => at = outer,
                None => break Origin::Default,
            }
        };
        self.note(origin, path.to_owned(), found, fix);
    }

    pub fn note(
        &mut self,
        origin: Origin,
        key: String,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (found, fix) = (found.into(), fix.into());
        self.mistakes.push(Mistake {
            origin,
            key,
            found,
            fix,
        });
    }
}

/// Whether a path is this outer one or leads to a part of it.
pub(super) fn is_within(inner: &str, outer: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Joins two parts of a path. A part that is not a bare TOML key is quoted.
pub(super) fn join(path: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let key = if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        // JSON's escapes are valid in TOML; this character is the only one that TOML escapes and
        // JSON does not.
        let quoted = serde_json::Value::from(key).to_string();
        quoted.replace('\u{7f}', "\\u007f")
    };
    join_dotted(path, &key)
}

/// Joins a path and a key that is already a path.
pub(super) fn join_dotted(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
