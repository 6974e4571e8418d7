//! What a text is that has Spark's configuration, and the settings in it.

use serde_json::Value as Json;

use super::gathered::Gathered;
use super::properties::properties;
use super::{application, command, emr};

/// The settings that were found.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// What the text is, for the first line of the output.
    pub kind: &'static str,
    /// Spark's keys and their values, the later of two equal keys last.
    pub pairs: Vec<(String, String)>,
    /// What is said by fields that have no key of Spark's.
    pub made: Vec<Gathered>,
    /// What could be of use, but is not taken over: where, and why.
    pub refused: Vec<String>,
    /// What is of no use: where, and why.
    pub useless: Vec<String>,
}

impl Source {
    pub fn of(kind: &'static str) -> Self {
        let empty = Self::default();
        Self { kind, ..empty }
    }

    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.pairs.push((key.into(), value.into()));
    }

    pub fn refuse(&mut self, what: &str, why: &str) {
        self.refused.push(format!("{what}: {why}"));
    }

    pub fn leave(&mut self, what: &str, why: &str) {
        self.useless.push(format!("{what}: {why}"));
    }

    pub fn is_empty(&self) -> bool {
        let is_spark_s = |(key, _): &(String, String)| key.starts_with("spark.");
        self.made.is_empty() && !self.pairs.iter().any(is_spark_s)
    }
}

const READ: &str = "give a spark-defaults.conf or another properties file of Spark, a script with a spark-submit \
     command, EMR's JSON (classifications, or a start-job-run request), or a SparkApplication as YAML or JSON";

/// Reads the settings.
///
/// # Errors
///
/// Why there are none.
pub(super) fn read(text: &str) -> Result<Source, String> {
    let text = text.trim_start_matches('\u{feff}');
    let source = match text.trim_start().chars().next() {
        Some('{' | '[') => {
            let document: Json = serde_json::from_str(text)
                .map_err(|error| format!("it is no JSON: {error}\n  {READ}"))?;
            of_json(document)
        }
        _ if is_manifest(text) => application::read(documents(text)?),
        _ => command::read(text).unwrap_or_else(|| {
            let mut source = Source::of("a Spark properties file");
            let all = properties(text).into_iter();
            source.pairs = all.map(|one| (one.key, one.value)).collect();
            source
        }),
    };
    match source.is_empty() {
        false => Ok(source),
        true => Err(format!(
            "no setting of Spark's is in it, read as {}\n  {READ}",
            source.kind
        )),
    }
}

/// The objects of YAML, or of JSON, which is YAML as well.
///
/// # Errors
///
/// It is neither.
pub(super) fn documents(text: &str) -> Result<Vec<Json>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| {
        let why = error.to_string().replace('\n', " ");
        format!("it is no YAML: {why}\n  {READ}")
    })
}

/// What a JSON document says, whose kind its content tells.
pub(super) fn of_json(document: Json) -> Source {
    match document.get("kind").is_some() {
        true => application::read(vec![document]),
        false => emr::read(&document),
    }
}

/// Whether it is an object of Kubernetes as YAML.
fn is_manifest(text: &str) -> bool {
    let says = |key: &str| text.lines().any(|line| line.starts_with(key));
    says("kind:") && says("apiVersion:")
}

/// A single value as a text.
pub(super) fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}
