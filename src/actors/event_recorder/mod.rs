//! Announcer: Kubernetes Events on the driver's pod, for what an operator would look for there (spec O-45).
//!
//! It is never in anybody's way: what finds no room, comes too often or is not taken by the server is dropped with a line
//! at debug, and the log says all of it in any case.

pub mod events;

use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};

use crate::clock::Clock;
use crate::kubernetes::Calls;

use events::{Call, Events, Note};

/// From one call to the next.
const SPACING: Duration = Duration::from_secs(1);

/// Something that lasts has happened.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct RecordEvent(pub Note);

/// Writes events about the driver's pod.
pub struct EventRecorder {
    events: Events,
    calls: Calls,
    clock: Clock,
    /// A call is under way, or one was a moment ago.
    busy: bool,
}

/// The next call may be made.
#[derive(Message)]
#[rtype(result = "()")]
struct Next;

impl EventRecorder {
    /// With nothing announced yet.
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
                tracing::debug!(%error, "an event about the driver's pod was not taken");
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
