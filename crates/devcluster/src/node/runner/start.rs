//! Starts the containers of a pod and writes their files.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{Runner, Running};
use crate::node::mount_points::MountError;
use crate::node::mounts;
use crate::node::report::{Container, Termination};
use crate::node::spawn::{self, ContainerPaths};
use crate::node::termination_message;
use crate::objects::object::{list, text};
use crate::storage::store::State;

/// The delay before writing a token is retried.
const RETRY: Duration = Duration::from_secs(60);

impl Runner {
    /// Starts a container. If that fails, returns the state that the container is in then.
    pub(super) async fn start(&self, state: &State, spec: &Value) -> Result<Running, Container> {
        let since = self.store.clock().now();
        let failed = |message: String| {
            Container::Ended(Termination {
                exit_code: 128,
                reason: "StartError",
                message: Some(message),
                started: since,
                finished: since,
            })
        };
        let plan = spawn::plan(state, &self.pod, spec, &self.root(spec)).map_err(&failed)?;
        let paths = ContainerPaths::make(&self.directory, text(spec, &["name"]))
            .map_err(|e| failed(format!("failed to make a working directory: {e}")))?;
        let renew = self.write_files(spec).map_err(|error| match error {
            MountError::Refused(message) => Container::Refused(message),
            MountError::Failed(message) => failed(message),
        })?;
        let message = termination_message::make(spec, &self.root(spec)).map_err(&failed)?;
        let child =
            spawn::start(&plan, &paths).map_err(|e| failed(format!("failed to start: {e}")))?;
        let group = child
            .id()
            .ok_or_else(|| failed("failed to start: it has no id".to_owned()))?;
        self.reaper.began(group).await;
        let pod = text(&self.pod, &["metadata", "name"]);
        tracing::info!(target: "cluster.node", pod, pid = group, "process started");
        let takes_log = text(spec, &["terminationMessagePolicy"]) == "FallbackToLogsOnError";
        Ok(Running {
            child,
            group,
            since,
            message,
            log: takes_log.then_some(paths.log),
            renew: renew.map(|after| Instant::now() + after),
        })
    }

    fn root(&self, spec: &Value) -> PathBuf {
        self.directory.join(text(spec, &["name"]))
    }

    fn write_files(&self, spec: &Value) -> Result<Option<Duration>, MountError> {
        let source = mounts::Source {
            state: &self.store.state(),
            keys: &self.keys,
            pod: &self.pod,
            now: self.store.clock().now(),
        };
        mounts::write(&source, spec, &self.root(spec))
    }

    /// Writes the files of all containers again. Returns when the next renewal is due.
    pub(super) fn renew_files(&self) -> Option<Instant> {
        let mut next: Option<Duration> = None;
        for kind in ["initContainers", "containers"] {
            for spec in list(&self.pod, &["spec", kind]) {
                match self.write_files(spec) {
                    Ok(None) => {}
                    Ok(Some(after)) => next = Some(next.map_or(after, |n| n.min(after))),
                    Err(error) => {
                        tracing::warn!(target: "cluster.node", pod = ?self.key, ?error, "cannot renew the files of a container");
                        next = Some(RETRY);
                    }
                }
            }
        }
        next.map(|after| Instant::now() + after)
    }
}
