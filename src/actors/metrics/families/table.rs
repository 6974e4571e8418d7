//! The names, helps and units of the metrics.

use prometheus_client::registry::Unit;

use super::{Families, Line};

const SECONDS: Option<Unit> = Some(Unit::Seconds);

impl Families {
    /// All metrics except `build`, which has no value.
    pub(super) fn table(&self) -> Vec<Line> {
        let lines = [self.of_executors(), self.of_work(), self.of_the_ledger()];
        lines.into_iter().flatten().collect()
    }

    fn of_executors(&self) -> Vec<Line> {
        vec![
            (
                "target_executors",
                "How many executors are wanted",
                None,
                Box::new(self.targets.clone()),
            ),
            (
                "executors",
                "How many executors there are, by state",
                None,
                Box::new(self.executors.clone()),
            ),
            (
                "executors_ended",
                "Executors that have ended, by reason",
                None,
                Box::new(self.ended.clone()),
            ),
            (
                "executor_start",
                "Time from the request for an executor until it runs",
                SECONDS,
                Box::new(self.starts.clone()),
            ),
            (
                "executor_registration",
                "Time from the request for an executor until it registers",
                SECONDS,
                Box::new(self.registrations.clone()),
            ),
            (
                "tls_certificate_expiration_timestamp",
                "When the certificate of API and sessions expires, in seconds since 1970",
                SECONDS,
                Box::new(self.certificate.clone()),
            ),
            (
                "sessions",
                "Sessions of executors, by state",
                None,
                Box::new(self.sessions.clone()),
            ),
            (
                "degraded",
                "Whether no executor is given up for its silence, by why that is so",
                None,
                Box::new(self.degraded.clone()),
            ),
            (
                "session_messages",
                "Messages from executors, including heartbeats",
                None,
                Box::new(self.messages.clone()),
            ),
            (
                "session_messages_refused",
                "Messages to the sessions' endpoints that were refused",
                None,
                Box::new(self.refused.clone()),
            ),
        ]
    }

    fn of_work(&self) -> Vec<Line> {
        vec![
            (
                "queue_depth",
                "Work that is queued or in progress, by queue",
                None,
                Box::new(self.depths.clone()),
            ),
            (
                "mailbox_wait",
                "How long an actor took to answer a message that needs no work",
                SECONDS,
                Box::new(self.mailboxes.clone()),
            ),
            (
                "api_calls",
                "Calls to the API server, by outcome",
                None,
                Box::new(self.calls.clone()),
            ),
            (
                "api_call",
                "How long calls to the API server took",
                SECONDS,
                Box::new(self.call_times.clone()),
            ),
            (
                "round",
                "How long a subscriber took to decide on a batch",
                SECONDS,
                Box::new(self.rounds.clone()),
            ),
        ]
    }

    fn of_the_ledger(&self) -> Vec<Line> {
        vec![
            (
                "orphans",
                "Orphan pods of this application, which are being deleted",
                None,
                Box::new(self.orphans.clone()),
            ),
            (
                "snapshot_entries",
                "Entries in the ledger, including executors that ended recently",
                None,
                Box::new(self.entries.clone()),
            ),
            (
                "snapshot_age",
                "Time since the last change in the ledger",
                SECONDS,
                Box::new(self.snapshot_age.clone()),
            ),
            (
                "snapshots_waiting",
                "The largest number of snapshots that wait for a subscriber",
                None,
                Box::new(self.waiting.clone()),
            ),
            (
                "adopted",
                "Whether this driver has taken over: 0 or 1",
                None,
                Box::new(self.adopted.clone()),
            ),
            (
                "watch_drifts",
                "Changes that a list showed and the watch missed",
                None,
                Box::new(self.drifts.clone()),
            ),
            (
                "watch_bookmark_age",
                "Time since the last bookmark of the watch, which the server sends about every minute",
                SECONDS,
                Box::new(self.bookmark_age.clone()),
            ),
            (
                "full_list_age",
                "Time since the start of the last list that proves which pods do not exist",
                SECONDS,
                Box::new(self.list_age.clone()),
            ),
        ]
    }
}
