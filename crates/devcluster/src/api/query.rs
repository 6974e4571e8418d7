//! The query parameters of a request.

use std::time::Duration;

use super::status::{ApiError, Causes};
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;

/// The parameters, in their order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(uri: &http::Uri) -> Result<Self, ApiError> {
        axum::extract::Query::try_from_uri(uri)
            .map(|query| Self(query.0))
            .map_err(|e| ApiError::bad_request(format!("the query cannot be read: {e}")))
    }

    /// The first value of a parameter; empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean, as real servers parse it: everything but `false` and `0` is true.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.find(name)
            .map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// An integer, or an error if the value is none.
    pub fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.find(name) {
            None | Some("") => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing \"{value}\": invalid syntax"
                ))
            }),
        }
    }

    /// Whether this is a dry run. `All` is the only stage.
    pub fn dry_run(&self, causes: &mut Causes) -> bool {
        let stages: Vec<&str> = self.all("dryRun").collect();
        if stages.iter().any(|stage| *stage != "All") {
            causes.not_supported("dryRun", &stages, &["All"]);
        }
        !stages.is_empty()
    }

    /// The request timeout, if the client sets one.
    pub fn timeout(&self) -> Result<Option<Duration>, ApiError> {
        let value = self.text("timeout");
        if value.is_empty() {
            return Ok(None);
        }
        let duration = humantime::parse_duration(value).map_err(|_| {
            let why = format!("invalid timeout specified in the request URL: {value}");
            ApiError::bad_request(why)
        })?;
        Ok(Some(duration).filter(|d| !d.is_zero()))
    }

    pub fn selector(&self, resource: Resource) -> Result<Selector, ApiError> {
        Selector::parse(
            resource,
            self.text("labelSelector"),
            self.text("fieldSelector"),
        )
    }
}
