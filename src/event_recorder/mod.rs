//! Records Kubernetes Events on the driver's pod, for operators (spec O-45).
//!
//! It delays nobody: notes that find no room, are repeated too soon or are refused by the server are dropped, since the
//! log contains the same information.

pub mod events;

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::clock::Clock;
use crate::kubernetes::Calls;

use events::{Call, Events, Note};

/// The interval between calls.
const SPACING: Duration = Duration::from_secs(1);

/// The most notes that are not looked at yet.
const QUEUED: usize = 64;

/// Takes notes for a task, which ends with the last clone of this.
#[derive(Clone)]
pub struct EventRecorder(mpsc::Sender<Input>);

enum Input {
    Note(Note),
    /// Record all that waits, because the driver ends.
    Rest(oneshot::Sender<()>),
}

impl EventRecorder {
    pub fn start(events: Events, calls: Calls, clock: Clock) -> Self {
        let (inputs, queue) = mpsc::channel(QUEUED);
        actix::spawn(run(events, calls, clock, queue));
        Self(inputs)
    }

    /// Records an event about a lasting condition.
    pub fn record(&self, note: Note) {
        let reason = note.reason;
        if self.0.try_send(Input::Note(note)).is_err() {
            dropped(reason);
        }
    }

    /// Waits until all that waits is recorded, because the driver ends.
    pub async fn record_rest(&self) {
        let (done, recorded) = oneshot::channel();
        if self.0.send(Input::Rest(done)).await.is_ok() {
            let _ = recorded.await;
        }
    }
}

fn dropped(reason: &str) {
    tracing::debug!(reason, "an event about the driver's pod was dropped");
}

async fn run(mut events: Events, calls: Calls, clock: Clock, mut queue: mpsc::Receiver<Input>) {
    // The call that is in flight or was made less than `SPACING` ago.
    let mut last: Option<JoinHandle<()>> = None;
    loop {
        if last.is_none()
            && let Some(call) = events.next(clock.now())
        {
            let recorded = record(calls.clone(), call);
            last = Some(actix::spawn(async {
                recorded.await;
                sleep(SPACING).await;
            }));
        }
        tokio::select! {
            biased;
            input = queue.recv() => match input {
                Some(Input::Note(note)) => {
                    if let Err(note) = events.add(note, clock.now().tick) {
                        dropped(note.reason);
                    }
                }
                Some(Input::Rest(done)) => {
                    while let Some(call) = events.next(clock.now()) {
                        record(calls.clone(), call).await;
                    }
                    let _ = done.send(());
                }
                None => return,
            },
            Some(_) = async { Some(last.as_mut()?.await) } => last = None,
        }
    }
}

/// Makes the call. Its failure is only logged.
async fn record(calls: Calls, call: Call) {
    let answer = match call {
        Call::Create(event) => calls.create_event(&event).await,
        Call::Update(name, patch) => calls.patch_event(&name, &patch).await,
    };
    if let Err(failure) = answer {
        let error = &failure.message;
        tracing::debug!(%error, "an event about the driver's pod could not be recorded");
    }
}
