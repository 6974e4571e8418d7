//! API calls that read what the cluster tells operators about a pod: its warnings and the end of its log (spec O-78).

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Calls;
use super::pods::is_missing;
use super::transport::{self, Call, OBJECT_LIMIT, Query, garbage};
use crate::refusal::{Failure, clean};
use crate::wire::ListWire;
use boatswain_model::PodUid;

const WARNINGS: usize = 10;
/// The longest message of a warning, in bytes.
const MESSAGE: usize = 512;
/// The longest reason of a warning, in bytes.
const REASON: usize = 128;
/// What kubelets say of probes for which they kill a container.
const PROBES: [&str; 2] = ["Liveness probe failed", "Startup probe failed"];

/// More events than a pod has: the API server merges those that repeat.
const PAGE: &str = "500";

const LOG_LINES: usize = 20;
/// How much of a log is kept, in bytes.
const LOG: usize = 4 * 1024;
/// How much of a log is read, in bytes. The API server counts from the first of the lines requested, and nodes store
/// lines of at most 16 KiB, so the last line is within it.
const LOG_READ: usize = 512 * 1024;

/// A Kubernetes Event of type Warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// When it was observed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    pub reason: Arc<str>,
    pub message: Arc<str>,
    /// How often it was observed.
    pub count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventWire<'a> {
    #[serde(borrow)]
    involved_object: Option<InvolvedWire<'a>>,
    #[serde(borrow)]
    metadata: Option<MetaWire<'a>>,
    reason: Option<Cow<'a, str>>,
    message: Option<Cow<'a, str>>,
    count: Option<u64>,
    last_timestamp: Option<Cow<'a, str>>,
    event_time: Option<Cow<'a, str>>,
    series: Option<SeriesWire<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaWire<'a> {
    creation_timestamp: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedWire<'a> {
    field_path: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeriesWire<'a> {
    count: Option<u64>,
    last_observed_time: Option<Cow<'a, str>>,
}

impl Calls {
    /// Lists the newest warnings about a pod, newest last. Without a uid they are about all pods that had this name.
    ///
    /// # Errors
    /// Notably [`FailureKind::Rights`](crate::FailureKind::Rights) without the right to list Events.
    pub async fn warnings(&self, pod: &str, uid: Option<&PodUid>) -> Result<Vec<Warning>, Failure> {
        let about = match uid {
            Some(uid) => format!("involvedObject.uid={}", uid.as_str()),
            None => format!("involvedObject.kind=Pod,involvedObject.name={pod}"),
        };
        let (place, body) = self.events(&format!("{about},type=Warning")).await?;
        read_warnings(&body).map_err(|why| garbage(&place, &why))
    }

    /// Reads whether a kubelet killed a pod's executor container because a liveness or startup probe failed; in its own
    /// words.
    ///
    /// # Errors
    /// Notably [`FailureKind::Rights`](crate::FailureKind::Rights) without the right to list Events.
    pub async fn failed_probe(&self, pod: &PodUid) -> Result<Option<Arc<str>>, Failure> {
        let selector = format!("involvedObject.uid={}", pod.as_str());
        let (place, body) = self.events(&selector).await?;
        read_probe(&body, &self.at.reader.container).map_err(|why| garbage(&place, &why))
    }

    /// Lists Events by a field selector. Returns what was asked and the answer.
    async fn events(&self, selector: &str) -> Result<(String, String), Failure> {
        let query = Query::default()
            .with("fieldSelector", selector)
            .with("limit", PAGE);
        let call = Call {
            method: Method::GET,
            path: self.core_path("events", None),
            query,
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        let body = self.answer(&self.clients().reads, call).await;
        let body = body.map_err(|rejection| rejection.failure)?;
        Ok((place, transport::text(&body).into_owned()))
    }

    /// Reads the last lines that a pod's executor container wrote, or those of its previous run; `None` if the pod does
    /// not exist.
    ///
    /// # Errors
    /// Notably [`FailureKind::Rights`](crate::FailureKind::Rights) without the right to read logs.
    pub async fn last_log_lines(
        &self,
        pod: &str,
        of_previous_run: bool,
    ) -> Result<Option<Vec<String>>, Failure> {
        let query = Query::default()
            .with("container", &self.at.reader.container)
            .with("tailLines", &LOG_LINES.to_string())
            .with("limitBytes", &LOG_READ.to_string())
            .with("previous", if of_previous_run { "true" } else { "false" });
        let call = self.log_call(pod, query, LOG_READ);
        match self.answer(&self.clients().reads, call).await {
            Ok(log) => Ok(Some(last_lines(&log))),
            Err(rejection) if is_missing(&rejection, "pods", pod) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }
}

/// The newest warnings of a list of Events, newest last. An Event that cannot be decoded does not affect the others.
fn read_warnings(list: &str) -> Result<Vec<Warning>, String> {
    let list: ListWire<'_, &RawValue> =
        serde_json::from_str(list).map_err(|error| error.to_string())?;
    let items = list.items.unwrap_or_default();
    let events = items.iter().map(|item| serde_json::from_str(item.get()));
    let mut warnings: Vec<Warning> = events.flatten().map(warning).collect();
    warnings.sort_by_key(|warning| warning.time);
    Ok(warnings.split_off(warnings.len().saturating_sub(WARNINGS)))
}

/// The kubelet's words about the failed probe for which it killed this container; `None`: it did not. Where it starts the
/// container again it says why it kills it, where not only that a probe failed and that it stops it.
fn read_probe(list: &str, container: &str) -> Result<Option<Arc<str>>, String> {
    let list: ListWire<'_, &RawValue> =
        serde_json::from_str(list).map_err(|error| error.to_string())?;
    let items = list.items.unwrap_or_default();
    let path = format!("spec.containers{{{container}}}");
    let events = (items.iter()).filter_map(|item| serde_json::from_str(item.get()).ok());
    let (mut was_killed, mut failed) = (false, None);
    for event in events {
        let EventWire {
            involved_object: Some(involved),
            reason: Some(reason),
            message: Some(message),
            ..
        } = event
        else {
            continue;
        };
        if involved.field_path.as_deref() != Some(&*path) {
            continue;
        }
        was_killed |= reason == "Killing";
        let is_probe = PROBES.iter().any(|probe| message.starts_with(probe));
        if reason == "Unhealthy" && is_probe {
            failed = Some(clean(message.trim_end_matches([' ', ':']), MESSAGE));
        }
    }
    Ok(failed.filter(|_| was_killed))
}

fn warning(event: EventWire<'_>) -> Warning {
    let (counted, observed) = match event.series {
        Some(series) => (series.count, series.last_observed_time),
        None => (None, None),
    };
    let created = event.metadata.and_then(|meta| meta.creation_timestamp);
    let times = [observed, event.last_timestamp, event.event_time, created];
    let mut times = times.into_iter().flatten();
    Warning {
        time: times.find_map(|time| time.parse().ok()),
        reason: clean(&event.reason.unwrap_or_default(), REASON),
        message: clean(&event.message.unwrap_or_default(), MESSAGE),
        count: counted.or(event.count).unwrap_or(1).max(1),
    }
}

fn last_lines(log: &[u8]) -> Vec<String> {
    let dropped = log.len().saturating_sub(LOG);
    let text = String::from_utf8_lossy(&log[dropped..]);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(first) = lines.first_mut().filter(|_| dropped > 0) {
        first.insert(0, '…');
    }
    lines.split_off(lines.len().saturating_sub(LOG_LINES))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // spec: L-20
    #[test]
    fn a_probes_kill_is_read_from_the_events_of_the_executors_container() {
        let event = |container: &str, reason: &str, message: &str| {
            json!({"reason": reason, "message": message,
                "involvedObject": {"fieldPath": format!("spec.containers{{{container}}}")}})
        };
        let of = |items: serde_json::Value| {
            let list = json!({"kind": "EventList", "items": items}).to_string();
            let said = read_probe(&list, "executor").unwrap();
            said.map(|said| said.to_string())
        };
        // As kubelet 1.36 writes them.
        let stopping = event("executor", "Killing", "Stopping container executor");
        let failed = event("executor", "Unhealthy", "Liveness probe failed: ");
        let not_ready = event("executor", "Unhealthy", "Readiness probe failed: ");
        let again = "Container executor failed liveness probe, will be restarted";
        let again = event("executor", "Killing", again);
        let said = Some("Liveness probe failed".to_owned());
        assert_eq!(of(json!([failed, stopping])), said);
        assert_eq!(of(json!([again, failed])), said);
        let startup = event(
            "executor",
            "Unhealthy",
            "Startup probe failed: dial: refused",
        );
        let told = of(json!([startup, stopping]));
        assert_eq!(told.as_deref(), Some("Startup probe failed: dial: refused"));
        // It failed less often than it may, and nobody killed the container.
        assert_eq!(of(json!([failed])), None);
        assert_eq!(of(json!([stopping, not_ready])), None);
        let of_another = event("proxy", "Unhealthy", "Liveness probe failed: ");
        assert_eq!(of(json!([of_another, stopping, 7, {}])), None);
        assert!(read_probe("[]", "executor").is_err());
    }

    // spec: O-78
    #[test]
    fn the_newest_warnings_come_last_whatever_their_order_and_form() {
        let mut items = vec![
            json!({"reason": "FailedMount", "message": "no\u{1b}[2J volume", "count": 3,
                "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": "2026-01-01T00:09:00Z"}),
            json!({"reason": "FailedScheduling", "message": "m".repeat(600), "lastTimestamp": null,
                "eventTime": "2026-01-01T00:00:01.000000Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-01T00:10:00.000000Z"}}),
            json!({"reason": 7}),
            json!("nothing"),
            json!({}),
        ];
        items.extend((0..9).map(
            |n| json!({"reason": "BackOff", "lastTimestamp": format!("2026-01-01T00:0{n}:00Z")}),
        ));
        let list = json!({"kind": "EventList", "items": items}).to_string();
        let warnings = read_warnings(&list).unwrap();
        assert_eq!(warnings.len(), WARNINGS);
        let [.., mount, scheduling] = warnings.as_slice() else {
            panic!("{warnings:?}");
        };
        assert_eq!((&*mount.reason, mount.count), ("FailedMount", 3));
        assert_eq!(&*mount.message, "no [2J volume");
        assert_eq!(
            (&*scheduling.reason, scheduling.count),
            ("FailedScheduling", 7)
        );
        assert!(scheduling.message.len() <= MESSAGE + '…'.len_utf8());
        assert!(read_warnings("[]").is_err());
    }

    // spec: O-78
    #[test]
    fn the_end_of_a_log_has_few_lines_and_few_bytes() {
        let many: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        let lines = last_lines(many.as_bytes());
        assert_eq!(lines.len(), LOG_LINES);
        assert_eq!((&*lines[0], &*lines[19]), ("line 11", "line 30"));
        let long = format!("{}\nthe end", "x".repeat(10_000));
        let lines = last_lines(long.as_bytes());
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("…x") && lines[0].len() < LOG,
            "{lines:?}"
        );
        assert_eq!(lines[1], "the end");
        assert_eq!(last_lines(b"a\xff\r\nb"), ["a\u{fffd}", "b"]);
        assert!(last_lines(b"").is_empty());
    }
}
