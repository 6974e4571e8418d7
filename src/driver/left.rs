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
