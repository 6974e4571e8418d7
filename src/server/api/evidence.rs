//! What the cluster knows of an executor's pod, read when an explanation is requested (spec O-78).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::actors::event_history::history::KnownPod;
use crate::kubernetes::calls::Warning;
use crate::kubernetes::{Calls, Failure};
use crate::model::pod::Sighting;

/// Few, because the driver's own requests share the API server's patience with them.
const AT_ONCE: usize = 4;
/// How long an explanation waits for it.
const LIMIT: Duration = Duration::from_secs(2);

/// Reads evidence, for a few explanations at a time.
#[derive(Clone)]
pub struct EvidenceReader {
    calls: Calls,
    places: Arc<Semaphore>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Evidence {
    pod: Arc<str>,
    /// Newest last.
    warnings: Vec<Warning>,
    /// The last lines of the executor container's log.
    log: Vec<String>,
    /// Whether the log is that of the container's run before the present one.
    log_of_previous_run: bool,
    /// What could not be read, and why.
    missing: Vec<String>,
}

#[derive(Debug, Default)]
struct Log {
    lines: Vec<String>,
    of_previous_run: bool,
}

/// Why something could not be read.
#[derive(Debug)]
enum Unread {
    Late,
    Gone,
    /// Pods of sets have names that are used again.
    UnknownUid,
    Failed(Failure),
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late => write!(f, "no answer within {} s", LIMIT.as_secs()),
            Self::Gone => f.write_str("the pod is gone"),
            Self::UnknownUid => f.write_str("an earlier driver has not recorded the pod's uid"),
            Self::Failed(failure) => f.write_str(&failure.explained()),
        }
    }
}

impl EvidenceReader {
    pub fn new(calls: Calls) -> Self {
        Self {
            calls,
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    pub(super) async fn read(&self, pod: &KnownPod) -> Evidence {
        let until = Instant::now() + LIMIT;
        let Ok(Ok(_place)) = timeout_at(until, self.places.acquire()).await else {
            return evidence(pod, Err(Unread::Late), Err(Unread::Late));
        };
        if pod.uid.is_none() && self.calls.reader().of_sets {
            return evidence(pod, Err(Unread::UnknownUid), Err(Unread::UnknownUid));
        }
        let (warnings, log) = tokio::join!(
            timeout_at(until, self.warnings(pod)),
            timeout_at(until, self.log(pod)),
        );
        let warnings = warnings.unwrap_or(Err(Unread::Late));
        let log = log.unwrap_or(Err(Unread::Late));
        evidence(pod, warnings, log)
    }

    async fn warnings(&self, pod: &KnownPod) -> Result<Vec<Warning>, Unread> {
        let read = self.calls.warnings(&pod.name, pod.uid.as_ref()).await;
        read.map_err(Unread::Failed)
    }

    async fn log(&self, pod: &KnownPod) -> Result<Log, Unread> {
        let seen = self.calls.get_pod(&pod.name).await?;
        let is_it = |seen: &Sighting| pod.uid.is_none() || seen.uid() == pod.uid.as_ref();
        let seen = seen.filter(is_it).ok_or(Unread::Gone)?;
        let of_previous_run = matches!(&seen, Sighting::Read(seen) if seen.restart_count() > 0);
        let lines = self
            .calls
            .last_log_lines(&pod.name, of_previous_run)
            .await?;
        Ok(Log {
            lines: lines.ok_or(Unread::Gone)?,
            of_previous_run,
        })
    }
}

fn evidence(
    pod: &KnownPod,
    warnings: Result<Vec<Warning>, Unread>,
    log: Result<Log, Unread>,
) -> Evidence {
    let mut missing = Vec::new();
    let warnings = warnings.unwrap_or_else(|why| {
        missing.push(format!("warnings: {why}"));
        Vec::new()
    });
    let log = log.unwrap_or_else(|why| {
        missing.push(format!("log: {why}"));
        Log::default()
    });
    Evidence {
        pod: Arc::clone(&pod.name),
        warnings,
        log: log.lines,
        log_of_previous_run: log.of_previous_run,
        missing,
    }
}
