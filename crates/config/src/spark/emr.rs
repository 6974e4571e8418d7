//! EMR's JSON: lists of classifications, and requests that start a job.

use serde_json::{Map, Value as Json};

use super::command;
use super::source::{Source, scalar};

const KIND: &str = "EMR's JSON";
/// The classification of Spark's own keys.
const DEFAULTS: &str = "spark-defaults";
/// Parameters of spark-submit, as one text.
const PARAMETERS: &str = "sparkSubmitParameters";

/// Reads every setting of Spark's in the document, wherever it is; the rest is named.
pub(super) fn read(document: &Json) -> Source {
    let mut reader = Reader {
        found: Source::of(KIND),
        given: Source::default(),
    };
    let used = reader.walk("", document);
    if !used {
        return reader.found;
    }
    // What a job is started with wins over the defaults.
    let Reader { mut found, given } = reader;
    found.pairs.extend(given.pairs);
    found.refused.extend(given.refused);
    found.useless.extend(given.useless);
    found
}

struct Reader {
    found: Source,
    /// What the parameters of a job say.
    given: Source,
}

impl Reader {
    /// Whether there was anything of Spark's in this value. What has nothing is named by its parent.
    fn walk(&mut self, path: &str, value: &Json) -> bool {
        match value {
            Json::Object(fields) => self.object(path, fields),
            Json::Array(items) => {
                if let Some(words) = words_of(items) {
                    return self.parameters(&words);
                }
                let inner = |(n, item)| (format!("{path}[{n}]"), item);
                self.all(items.iter().enumerate().map(inner).collect())
            }
            Json::String(text) if is_named(path, PARAMETERS) => {
                self.parameters(&command::words(text))
            }
            _ => false,
        }
    }

    fn object(&mut self, path: &str, fields: &Map<String, Json>) -> bool {
        let named = |name: &str| {
            let mut fields = fields.iter();
            fields
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        if let Some(classification) = named("classification").and_then(Json::as_str) {
            let properties = named("properties").and_then(Json::as_object);
            for properties in properties.into_iter() {
                if classification == DEFAULTS {
                    self.set(properties);
                    continue;
                }
                for name in properties.keys() {
                    let why = "only the classification spark-defaults has settings of Spark's";
                    self.found.leave(&at(classification, name), why);
                }
            }
            if let Some(inner) = named("configurations") {
                self.walk(&at(path, "configurations"), inner);
            }
            return true;
        }
        if fields.keys().any(|key| key.starts_with("spark.")) {
            self.set(fields);
            return true;
        }
        let inner = |(key, value): (&String, _)| (at(path, key), value);
        self.all(
            fields
                .iter()
                .map(|(key, value)| inner((key, value)))
                .collect(),
        )
    }

    fn all(&mut self, inner: Vec<(String, &Json)>) -> bool {
        let used: Vec<bool> = inner
            .iter()
            .map(|(path, value)| self.walk(path, value))
            .collect();
        let any = used.contains(&true);
        if any {
            for ((path, _), _) in inner.iter().zip(used).filter(|(_, used)| !used) {
                let why = "it is about EMR and the program, not about executors";
                self.found.leave(path, why);
            }
        }
        any
    }

    fn set(&mut self, properties: &Map<String, Json>) {
        for (key, value) in properties {
            match scalar(value) {
                Some(value) => self.found.set(key, value),
                None => self.found.refuse(key, "its value is no text"),
            }
        }
    }

    fn parameters(&mut self, words: &[String]) -> bool {
        command::options(words, &mut self.given);
        true
    }
}

/// The arguments of a step that runs spark-submit.
fn words_of(items: &[Json]) -> Option<Vec<String>> {
    let words: Option<Vec<String>> = items.iter().map(scalar).collect();
    let words = words?;
    let begin = words.iter().position(|word| command::submits(word))?;
    Some(words[begin + 1..].to_vec())
}

fn at(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

fn is_named(path: &str, name: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case(name)
}
