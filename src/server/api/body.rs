//! What a request's body says.

use serde::de::DeserializeOwned;

use crate::kubernetes::refusal::clean;
use crate::server::problem::Problem;
use std::sync::Arc;

/// Nobody's name is longer; what is longer is cut.
const LONGEST_NAME: usize = 128;

/// What the body says; an empty one is an empty object.
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

/// Who asks, as logs, events and loss reasons name them.
pub fn by(named: Option<&str>) -> Arc<str> {
    match named.map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => clean(name, LONGEST_NAME),
        None => Arc::from("a call of the api"),
    }
}
