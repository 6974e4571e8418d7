//! The executors' pods that an end leaves.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::kubernetes::{Calls, Failure};
use crate::model::PodUid;
use crate::model::pod::{Pod, PodIdentity, Sighting};

/// The most pods and nodes that are named in a line of the log.
const NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Left {
    /// The pods that nobody has deleted, by name.
    pub undeleted: BTreeMap<String, Option<PodUid>>,
    /// Those that are being deleted, with the nodes that have to end them.
    terminating: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// When the last of them is to have ended, by the API server's clock.
    until: Option<Timestamp>,
}

impl Left {
    /// Lists what is left of an application.
    pub async fn of(calls: &Calls, page_size: u32) -> Result<Self, Failure> {
        let mut left = Self::default();
        calls.for_each_pod(page_size, |pod| left.add(pod)).await?;
        Ok(left)
    }

    pub fn is_empty(&self) -> bool {
        self.undeleted.is_empty() && self.terminating.is_empty()
    }

    fn add(&mut self, sighting: &Sighting) {
        match sighting {
            Sighting::Read(pod) => match pod.identity {
                PodIdentity::Executor { .. } | PodIdentity::UnassignedPod { .. } => {
                    self.add_pod(pod)
                }
                _ => {}
            },
            Sighting::Unreadable(part) => {
                let name = part.name.as_ref().map(ToString::to_string);
                (self.undeleted).extend(name.map(|name| (name, part.uid.clone())));
            }
        }
    }

    fn add_pod(&mut self, pod: &Pod) {
        let Some(deletion) = &pod.deletion else {
            (self.undeleted).insert(pod.name.to_string(), Some(pod.uid.clone()));
            return;
        };
        self.terminating.insert(pod.name.to_string());
        self.nodes
            .extend(pod.node.as_ref().map(ToString::to_string));
        self.until = self.until.max(deletion.deadline);
    }

    /// Says which pods terminate still. A time that is over tells that their node does not answer, or that a finalizer
    /// holds them.
    pub fn log_what_terminates(&self) {
        if self.terminating.is_empty() {
            return;
        }
        let until = self.until.map(|until| until.to_string());
        tracing::warn!(
            count = self.terminating.len(),
            pods = first(self.terminating.iter()),
            nodes = first(self.nodes.iter()),
            until,
            "executors were deleted and terminate still: their ends were not waited for"
        );
    }
}

/// The first of these names.
pub(super) fn first<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).take(NAMED).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::config::LogFormat;
    use crate::model::pod::Deletion;
    use crate::telemetry::testing::logged;
    use crate::testing::pending;

    /// A pod on a node that has to be gone by this second, if it is being deleted.
    fn pod(n: u64, node: &str, until: Option<i64>) -> Sighting {
        let deletion = until.map(|second| Deletion {
            deadline: Timestamp::from_second(second).ok(),
            grace: Some(Duration::from_secs(30)),
        });
        Sighting::Read(Arc::new(Pod {
            node: Some(node.into()),
            deletion,
            ..pending("etl", n, &format!("u{n}"), 1)
        }))
    }

    fn left(pods: &[Sighting]) -> Left {
        let mut left = Left::default();
        pods.iter().for_each(|pod| left.add(pod));
        left
    }

    // spec: O-11
    #[test]
    fn what_terminates_is_said_with_its_number_its_nodes_and_until_when_at_the_latest() {
        let mut pods: Vec<Sighting> = (1..=6).map(|n| pod(n, "node-a", Some(100))).collect();
        pods.push(pod(7, "node-b", Some(160)));
        pods.push(pod(8, "node-c", None));
        let left = left(&pods);
        let line = logged(LogFormat::Json, || left.log_what_terminates());
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            line["message"],
            "executors were deleted and terminate still: their ends were not waited for"
        );
        assert_eq!(line["level"], "warn");
        assert_eq!(line["count"], 7);
        assert_eq!(
            line["pods"], "etl-exec-1, etl-exec-2, etl-exec-3, etl-exec-4, etl-exec-5",
            "the first of them"
        );
        assert_eq!(line["nodes"], "node-a, node-b");
        assert_eq!(line["until"], "1970-01-01T00:02:40Z");
        assert_eq!(left.undeleted.keys().collect::<Vec<_>>(), ["etl-exec-8"]);
    }

    // spec: O-11
    #[test]
    fn nothing_is_said_of_what_terminates_where_nothing_does() {
        let left = left(&[pod(1, "node-a", None)]);
        assert_eq!(logged(LogFormat::Json, || left.log_what_terminates()), "");
    }
}
