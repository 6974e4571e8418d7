//! Limits writes to the time for which this process may write (spec O-91).

use std::time::Duration;

use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep_until};

use super::refusal::{Failure, FailureKind};
use boatswain_model::planted::{self, Planted};

/// How long a request may be in transit before the server's own time limit begins.
pub const TRANSIT: Duration = Duration::from_secs(1);

/// For how long writes are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// From this time on no write is sent.
    pub send_until: Instant,
    /// From this time on no write may be carried out: another process may write.
    pub done_until: Instant,
}

/// Passes writes while there is a [`Permit`], which may be renewed, and lets none be carried out after it. Reads, writes
/// of the lease itself and Kubernetes Events do not pass the gate.
#[derive(Debug, Clone)]
pub struct WriteGate(channel::Receiver<Option<Permit>>);

impl WriteGate {
    pub fn new(permit: channel::Receiver<Option<Permit>>) -> Self {
        Self(permit)
    }

    /// The permit, if a write may be sent now.
    fn open(&self) -> Option<Permit> {
        let permit = (*self.0.borrow())?;
        (Instant::now() < permit.send_until).then_some(permit)
    }

    /// The server's time limit for a write that is sent now: at most `most`.
    pub(super) fn time_limit(&self, most: Duration) -> Duration {
        if planted::is(Planted::LeaseNotChecked) {
            return most;
        }
        let left = |permit: Permit| {
            let left = permit.done_until.saturating_duration_since(Instant::now());
            left.saturating_sub(TRANSIT)
        };
        self.open().map_or(Duration::ZERO, left).min(most)
    }

    /// Sends a write, if that is allowed now. What is not answered when no write may be carried out any more is
    /// abandoned: after a pause of the whole process that is noticed before anything else is sent.
    ///
    /// # Errors
    /// [`FailureKind::Unreachable`] if the write was not sent, [`FailureKind::TimedOut`] if it was abandoned.
    pub(super) async fn pass<T, E: From<Failure>>(
        &self,
        place: &str,
        write: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if planted::is(Planted::LeaseNotChecked) {
            return write.await;
        }
        let Some(permit) = self.open() else {
            let why = format!("{place}: not sent, because this driver does not hold the lease");
            return Err(Failure::new(FailureKind::Unreachable, &why).into());
        };
        tokio::select! {
            biased;
            () = sleep_until(permit.done_until) => {
                let why = format!("{place}: abandoned, because the lease of this driver is over");
                Err(Failure::new(FailureKind::TimedOut, &why).into())
            }
            answer = write => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(10);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn gate(send: u64, done: u64) -> (channel::Sender<Option<Permit>>, WriteGate) {
        let now = Instant::now();
        let permit = Permit {
            send_until: now + seconds(send),
            done_until: now + seconds(done),
        };
        let (sender, receiver) = channel::channel(Some(permit));
        (sender, WriteGate::new(receiver))
    }

    async fn written(gate: &WriteGate, after: Duration) -> Result<(), Failure> {
        let write = async {
            tokio::time::sleep(after).await;
            Ok(())
        };
        gate.pass("POST /x", write).await
    }

    // spec: O-91
    #[tokio::test(start_paused = true)]
    async fn no_write_is_sent_without_a_permit_or_after_it() {
        let (permit, gate) = gate(20, 30);
        assert_eq!(written(&gate, Duration::ZERO).await, Ok(()));
        tokio::time::advance(seconds(20)).await;
        let refused = written(&gate, Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Unreachable);
        assert!(refused.is_refused(), "the write was not sent: {refused}");
        permit.send_replace(None);
        assert!(written(&gate, Duration::ZERO).await.is_err());
        assert_eq!(gate.time_limit(MOST), Duration::ZERO);
    }

    // spec: O-91
    #[tokio::test(start_paused = true)]
    async fn the_servers_time_limit_ends_before_another_process_may_write() {
        let (_permit, gate) = gate(20, 30);
        assert_eq!(gate.time_limit(MOST), MOST);
        tokio::time::advance(seconds(19)).await;
        assert_eq!(gate.time_limit(MOST), MOST);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(gate.time_limit(MOST), Duration::from_millis(9_500));
        assert_eq!(gate.time_limit(seconds(3)), seconds(3));
    }

    // spec: O-91
    #[tokio::test(start_paused = true)]
    async fn after_a_pause_of_the_process_the_end_of_the_lease_is_noticed_before_anything_is_sent()
    {
        let (_permit, gate) = gate(20, 30);
        let sent = std::cell::Cell::new(false);
        let write = async {
            // As if it waited for a connection.
            tokio::time::sleep(seconds(2)).await;
            sent.set(true);
            Ok(())
        };
        let passing = gate.pass::<_, Failure>("POST /x", write);
        tokio::pin!(passing);
        assert!(futures::poll!(passing.as_mut()).is_pending());
        tokio::time::advance(seconds(60)).await;
        let abandoned = passing.await.unwrap_err();
        assert_eq!(abandoned.kind, FailureKind::TimedOut);
        assert!(!sent.get(), "it was polled first");
    }
}
