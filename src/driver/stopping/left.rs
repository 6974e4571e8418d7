//! The executors' pods that an end leaves.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::actors::api_health::refused_writes::RefusedWrite;
use crate::driver::actors::Actors;
use crate::kubernetes::{Failure, ListQuery};
use crate::model::pod::{Pod, PodIdentity, Sighting};

/// The most pods and nodes that are named in a line of the log.
const NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Left {
    /// The pods that nobody has deleted.
    pub undeleted: BTreeSet<String>,
    /// Those that are being deleted, with the nodes that have to end them.
    terminating: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// When the last of them is to have ended, by the API server's clock.
    until: Option<Timestamp>,
}

impl Left {
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
                self.undeleted
                    .extend(part.name.as_ref().map(ToString::to_string));
            }
        }
    }

    fn add_pod(&mut self, pod: &Pod) {
        let Some(deletion) = &pod.deletion else {
            self.undeleted.insert(pod.name.to_string());
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
            pods = first(&self.terminating),
            nodes = first(&self.nodes),
            until,
            "executors were deleted and terminate still: their ends were not waited for"
        );
    }
}

fn first(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).take(NAMED).collect();
    names.join(", ")
}

impl Actors {
    pub(super) async fn list_left(&self) -> Result<Left, Failure> {
        let mut left = Left::default();
        let mut query = ListQuery {
            limit: Some(self.page_size),
            ..ListQuery::default()
        };
        loop {
            let page = self.calls.list_pods(&query).await?;
            page.items.iter().for_each(|pod| left.add(pod));
            match page.continue_token {
                Some(token) => {
                    (query.continue_token, query.limit) = (Some(token), page.limit);
                }
                None => return Ok(left),
            }
        }
    }

    /// `undeleted`: the names of the pods that nobody has deleted; `None` if they are not known.
    pub(super) fn log_what_is_left(
        &self,
        undeleted: Option<&BTreeSet<String>>,
        record_closed: bool,
    ) {
        let namespace = self.calls.namespace();
        let selector = self.calls.selector();
        let clean = format!("kubectl -n {namespace} delete pods -l '{selector}'");
        let refused = self.health.borrow().refused.clone();
        let refused = refused.first().map(|write| {
            let RefusedWrite {
                verb,
                resource,
                why,
                ..
            } = write;
            format!("{verb} {resource}: {why}")
        });
        tracing::error!(
            count = undeleted.map(BTreeSet::len),
            pods = undeleted.map_or_else(|| "unknown".to_owned(), first),
            record_closed,
            refused,
            clean,
            "the time to end is over and not everything is gone"
        );
    }
}
