//! EventRecorder: records Kubernetes Events on the driver's pod, for operators (spec O-45).
//!
//! It never blocks other actors: notes that find no room, are repeated too soon or are refused by
//! the server are dropped, since the log contains the same information.

pub mod events;

use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};

use crate::clock::Clock;
use crate::kubernetes::Calls;

use events::{Call, Events, Note};

/// The interval between calls.
const SPACING: Duration = Duration::from_secs(1);

/// Records an event about a lasting condition.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct RecordEvent(pub Note);

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
        let calls = self.calls.clone();
        let made = async move {
            match call {
                Call::Create(event) => calls.create_event(&event).await,
                Call::Update(name, patch) => calls.patch_event(&name, &patch).await,
            }
        };
        ctx.spawn(made.into_actor(self).map(|answer, _, ctx| {
            if let Err(failure) = answer {
                let error = &failure.message;
                tracing::debug!(%error, "an event about the driver's pod could not be recorded");
            }
            ctx.notify_later(Next, SPACING);
        }));
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
