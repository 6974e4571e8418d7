//! Lists applications by their records (spec O-137).

use jiff::Timestamp;
use serde::Deserialize;

use super::config_maps::read_config_map;
use super::transport::path;
use super::{Calls, ConfigMap};
use crate::record::{Record, RecordError, id_in, name_in};
use crate::refusal::Failure;

/// The labels of a record.
const RECORDS: &str = "app.kubernetes.io/managed-by=boatswain,app.kubernetes.io/component=record";

/// An application that has a record.
#[derive(Debug)]
pub struct Application {
    pub namespace: String,
    pub id: String,
    /// `app.name` of its configuration; empty in the record of an older program.
    pub name: String,
    /// When its record was made.
    pub since: Option<Timestamp>,
    /// Or why the record cannot be read.
    pub record: Result<Record, RecordError>,
}

impl Application {
    fn of(map: &ConfigMap, namespace: String, since: Option<&str>) -> Self {
        Self {
            namespace,
            id: id_in(map),
            name: name_in(map),
            since: since.and_then(|text| text.parse().ok()),
            record: Record::read(map),
        }
    }
}

impl Calls {
    /// Lists the applications of the calls' namespace, or of all namespaces.
    ///
    /// # Errors
    /// If any page or object cannot be read.
    pub async fn list_applications(&self, everywhere: bool) -> Result<Vec<Application>, Failure> {
        let path = match everywhere {
            true => path(&["api", "v1", "configmaps"]),
            false => self.core_path("configmaps", None),
        };
        self.list_all(&path, "ConfigMapList", RECORDS, |item| read(item).map(Some))
            .await
    }
}

fn read(json: &str) -> Result<Application, String> {
    #[derive(Deserialize)]
    struct Item {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        namespace: String,
        creation_timestamp: Option<String>,
    }
    let meta = serde_json::from_str::<Item>(json).map_err(|error| error.to_string())?;
    let Meta {
        namespace,
        creation_timestamp,
    } = meta.metadata;
    let map = read_config_map(json)?;
    Ok(Application::of(
        &map,
        namespace,
        creation_timestamp.as_deref(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(data: serde_json::Value) -> Application {
        let map = json!({
            "metadata": {
                "name": "etl-app", "namespace": "jobs", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "data": data,
        });
        read(&map.to_string()).unwrap()
    }

    // spec: O-137
    #[test]
    fn an_application_is_what_its_record_says_even_if_that_cannot_be_read_as_a_whole() {
        let data =
            json!({"format": "1", "app-id": "etl-1", "app-name": "My ETL", "incarnation": "3"});
        let found = record(data);
        assert_eq!(
            (&*found.namespace, &*found.id, &*found.name),
            ("jobs", "etl-1", "My ETL")
        );
        assert_eq!(found.since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(found.record.unwrap().incarnation.0, 3);
        let newer = record(json!({"format": "99", "app-id": "etl-2"}));
        assert_eq!((&*newer.id, &*newer.name), ("etl-2", ""));
        assert!(newer.record.is_err());
        assert!(read("{}").is_err());
    }
}
