//! Why a ConfigMap is not a record that can be used.

use std::sync::Arc;

use thiserror::Error;

use super::FORMAT;
use boatswain_model::AppId;

/// Why a ConfigMap is not a valid record of this application.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// A newer program wrote the record.
    #[error(
        "ConfigMap {map}: the record has format {found}, this program reads up to {FORMAT}: a newer boatswain wrote it, use that one"
    )]
    Newer { map: String, found: u32 },
    /// A key is missing or invalid.
    #[error("ConfigMap {map}, key {key}: {why}")]
    Unreadable {
        map: String,
        key: &'static str,
        why: String,
    },
    /// The record belongs to another application.
    #[error(
        "ConfigMap {map} is the record of application {found}, not of {wanted}: choose another prefix"
    )]
    AnotherApplication {
        map: String,
        found: AppId,
        wanted: AppId,
    },
}

/// The record belongs to an application with another name, which was made into the same prefix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "ConfigMap {map} is the record of the application {found:?}, not of {wanted:?}: choose another app.name or \
     executors.pod_name_prefix, or, if this is the same application with another name, set app.id = {id:?}"
)]
pub struct AnotherName {
    pub map: String,
    pub found: String,
    pub wanted: String,
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoSuccession {
    #[error("the application is over, it ended with code {code}{}", because(.why.as_deref()))]
    Finished { code: u8, why: Option<Arc<str>> },
    #[error("the application has used up all executor ids")]
    NoMoreIds,
    #[error("the application has used up all incarnations")]
    NoMoreIncarnations,
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}
