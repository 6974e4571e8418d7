//! EventRecorder: records Kubernetes Events on the driver's pod, for operators (spec O-45).
//!
//! It never blocks other actors: notes that find no room, are repeated too soon or are refused by
//! the server are dropped, since the log contains the same information.

pub mod events;

use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture,
};

use crate::clock::Clock;
use crate::kubernetes::Calls;

use events::{Call, Events, Note};

/// The interval between calls.
const SPACING: Duration = Duration::from_secs(1);

/// Records an event about a lasting condition.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct RecordEvent(pub Note);

/// Records all that waits, because the driver ends. Answered when it is recorded.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct RecordRest;

pub struct EventRecorder {
    events: Events,
    calls: Calls,
    clock: Clock,
    /// Whether a call is in flight, or was made less than [`SPACING`] ago.
    busy: bool,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Next;

impl EventRecorder {
    pub fn new(events: Events, calls: Calls, clock: Clock) -> Self {
        Self {
            events,
            calls,
            clock,
            busy: false,
        }
    }

    fn pump(&mut self, ctx: &mut Context<Self>) {
        if self.busy {
            return;
        }
        let Some(call) = self.events.next(self.clock.now()) else {
            return;
        };
        self.busy = true;
        let recorded = record(self.calls.clone(), call);
        ctx.spawn(recorded.into_actor(self).map(|(), _, ctx| {
            ctx.notify_later(Next, SPACING);
        }));
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

impl Actor for EventRecorder {
    type Context = Context<Self>;
}

impl Handler<RecordEvent> for EventRecorder {
    type Result = ();

    fn handle(&mut self, RecordEvent(note): RecordEvent, ctx: &mut Self::Context) {
        if let Err(note) = self.events.add(note, self.clock.now().tick) {
            let reason = note.reason;
            tracing::debug!(reason, "an event about the driver's pod was dropped");
        }
        self.pump(ctx);
    }
}

impl Handler<Next> for EventRecorder {
    type Result = ();

    fn handle(&mut self, _: Next, ctx: &mut Self::Context) {
        self.busy = false;
        self.pump(ctx);
    }
}

impl Handler<RecordRest> for EventRecorder {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: RecordRest, _: &mut Self::Context) -> Self::Result {
        let (now, calls) = (self.clock.now(), self.calls.clone());
        let rest: Vec<Call> = std::iter::from_fn(|| self.events.next(now)).collect();
        Box::pin(async move {
            for call in rest {
                record(calls.clone(), call).await;
            }
        })
    }
}
