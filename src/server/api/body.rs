//! Parses request bodies, and names the requester.

use serde::de::DeserializeOwned;

use crate::kubernetes::refusal::clean;
use crate::server::problem::Problem;
use std::sync::Arc;

/// Longer names are cut.
const LONGEST_NAME: usize = 128;

/// Parses a JSON body; an empty one counts as an empty object.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let problem = Problem::bad_request(error.inner().to_string());
        match error.path().to_string().as_str() {
            "." => problem,
            path => problem.at(path),
        }
    })?;
    deserializer
        .end()
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    Ok(parsed)
}

/// The requester's name for logs, events and loss reasons.
pub fn by(named: Option<&str>) -> Arc<str> {
    match named.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => clean(name, LONGEST_NAME),
        None => Arc::from("a call of the api"),
    }
}
