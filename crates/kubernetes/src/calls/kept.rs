//! The list of kept pods (spec O-101).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Calls;
use crate::decode::PodReader;
use crate::labels::KEPT_SINCE;
use crate::refusal::Failure;
use boatswain_model::ids::id_in_pod_name;
use boatswain_model::{ExecutorId, PodUid};

/// A pod that a driver has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPod {
    pub uid: PodUid,
    pub name: Arc<str>,
    pub since: Timestamp,
    /// Whether its executor runs: a restored server shows the pod as it was before the end.
    pub lives: bool,
}

#[derive(Deserialize)]
struct PodWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a>,
    #[serde(borrow, default)]
    status: StatusWire<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct StatusWire<'a> {
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<ContainerWire<'a>>>,
}

#[derive(Deserialize)]
struct ContainerWire<'a> {
    name: Cow<'a, str>,
    state: Option<ContainerState>,
}

#[derive(Deserialize)]
struct ContainerState {
    terminated: Option<IgnoredAny>,
}

impl StatusWire<'_> {
    /// Whether the executor has not ended; others of its containers may run on.
    fn lives(&self, container: &str) -> bool {
        let containers = self.container_statuses.as_deref().unwrap_or_default();
        let is_over = |one: &ContainerWire<'_>| {
            one.name == container
                && one
                    .state
                    .as_ref()
                    .is_some_and(|state| state.terminated.is_some())
        };
        !matches!(self.phase.as_deref(), Some("Succeeded" | "Failed"))
            && !containers.iter().any(is_over)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaWire<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    uid: Cow<'a, str>,
    deletion_timestamp: Option<Cow<'a, str>>,
    labels: Option<BTreeMap<String, Cow<'a, str>>>,
    annotations: Option<BTreeMap<String, Cow<'a, str>>>,
}

impl Calls {
    /// Lists the application's kept pods that are not being deleted, in their most recent state. Pods that
    /// no driver of the application kept are left out, whatever their labels.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub async fn list_kept_pods(&self) -> Result<Vec<KeptPod>, Failure> {
        let reader = &self.at.reader;
        let selector = reader.labels.kept_selector(&reader.app_id);
        let read = |item: &str| Ok(read(reader, item));
        self.list_all(&self.pods_path(None), "PodList", &selector, read)
            .await
    }
}

fn read(reader: &PodReader, json: &str) -> Option<KeptPod> {
    let PodWire { metadata, status } = serde_json::from_str(json).ok()?;
    let id = metadata.labels?.remove(reader.labels.keys().executor_id)?;
    let id = ExecutorId::parse(&id).ok()?;
    let named = id_in_pod_name(&reader.prefix, &metadata.name) == Some(id);
    let since = metadata.annotations?.remove(KEPT_SINCE)?.parse().ok()?;
    let ours = (named || reader.of_sets) && metadata.deletion_timestamp.is_none();
    ours.then(|| KeptPod {
        uid: PodUid::from(&*metadata.uid),
        name: Arc::from(&*metadata.name),
        since,
        lives: status.lives(&reader.container),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::LabelScheme;

    fn reader() -> PodReader {
        PodReader {
            app_id: "etl-1".into(),
            prefix: "etl".into(),
            record: "etl-app".into(),
            labels: LabelScheme::Boatswain,
            container: "executor".into(),
            check_all_containers: true,
            of_sets: false,
        }
    }

    fn kept(name: &str, id: &str, since: &str, more: &str) -> Option<KeptPod> {
        let json = format!(
            r#"{{"metadata": {{"name": "{name}", "uid": "u", "labels": {{"boatswain.dev/executor-id": "{id}"}},
            "annotations": {{"boatswain.dev/kept-since": "{since}"}}{more}}}}}"#
        );
        read(&reader(), &json)
    }

    // spec: O-101
    #[test]
    fn a_kept_pod_whose_executor_runs_is_told_from_one_with_other_containers() {
        let lives = |status: &str| {
            let status = format!(r#"}}, "status": {{{status}"#);
            kept("etl-exec-1", "1", SINCE, &status).unwrap().lives
        };
        let of = |name: &str, state: &str| {
            format!(
                r#""phase": "Running", "containerStatuses": [{{"name": "{name}", "state": {{{state}}}}}]"#
            )
        };
        assert!(lives(&of("executor", r#""running": {}"#)));
        assert!(lives(r#""phase": "Pending""#));
        assert!(lives(&of("sidecar", r#""terminated": {"exitCode": 0}"#)));
        assert!(!lives(&of(
            "executor",
            r#""terminated": {"exitCode": 137}"#
        )));
        assert!(!lives(r#""phase": "Failed""#));
    }

    const SINCE: &str = "2026-01-02T00:00:00Z";

    // spec: O-101
    #[test]
    fn only_pods_that_a_driver_kept_are_listed() {
        let pod = kept("etl-exec-1", "1", SINCE, "").unwrap();
        assert_eq!(
            (&*pod.name, pod.since.to_string()),
            ("etl-exec-1", SINCE.to_owned())
        );
        let mistaken = [
            ("etl-exec-1", "2", SINCE, ""),
            ("etl-exec-1", "0x1", SINCE, ""),
            ("another", "1", SINCE, ""),
            ("etl-exec-1", "1", "yesterday", ""),
            (
                "etl-exec-1",
                "1",
                SINCE,
                r#", "deletionTimestamp": "2026-01-03T00:00:00Z""#,
            ),
        ];
        for (name, id, since, more) in mistaken {
            assert_eq!(
                kept(name, id, since, more),
                None,
                "{name} {id} {since} {more}"
            );
        }
        assert_eq!(
            read(
                &reader(),
                r#"{"metadata": {"name": "etl-exec-1", "uid": "u"}}"#
            ),
            None
        );
    }
}
