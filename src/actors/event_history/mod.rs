//! EventHistory: all events in order, and the history of each executor (spec B-50, B-51).
//!
//! The pure [`history`] makes events from the store's batches. What no snapshot shows is sent as a
//! message: session steps by ExecutorRegistry, all else as [`Happened`]. EventHistory answers the
//! API's queries, and gets sessions from ExecutorRegistry. It uses the messages of the store and of
//! ExecutorRegistry.

pub mod event;
pub mod history;
mod lists;
pub mod messages;
pub mod reader;
pub mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, AsyncContext as _, Context, Handler, MessageResult, Recipient,
    ResponseActFuture, WrapFuture,
};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::actors::executor_registry::messages::{GetSessions, SessionEvent};
use crate::actors::executor_registry::view::SessionView;
use crate::actors::snapshot_store::messages::{Next, Round};
use crate::clock::Clock;
use crate::metrics::{Measure, whole};
use crate::model::recorded_end::RecordedEnd;
use crate::model::{AppId, ExecutorId, Incarnation, ProfileName, Snapshot};

use event::{Step, What};
use history::{History, Reading};
use lists::{FRESH, Lists};
use messages::{
    EventsRead, Explain, Explanation, FollowEvents, Growth, Happened, ListExecutors, ReadEvents,
};
use views::{ExecutorList, ExecutorView, Selection};

pub struct EventHistory {
    history: History,
    /// Steps that wait for the batch that shows their executor, after which they are recorded.
    waiting: Vec<(Timestamp, ExecutorId, ProfileName, Step)>,
    lists: Lists,
    growth: watch::Sender<u64>,
    /// Whether the history has begun, with the adopted executors.
    adopted: watch::Sender<bool>,
    sessions: Recipient<GetSessions>,
    clock: Clock,
}

pub struct Wiring {
    pub app: AppId,
    pub incarnation: Incarnation,
    /// The last ends before this driver's start.
    pub past: Vec<RecordedEnd>,
    /// Answers with the state of sessions.
    pub sessions: Recipient<GetSessions>,
    pub clock: Clock,
}

impl EventHistory {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            history: History::new(wiring.app, wiring.incarnation).with_past(&wiring.past),
            waiting: Vec::new(),
            lists: Lists::default(),
            growth: watch::Sender::new(0),
            adopted: watch::Sender::new(false),
            sessions: wiring.sessions,
            clock: wiring.clock,
        }
    }

    /// Becomes true with the first list of executors (spec B-55).
    pub fn adopted(&self) -> watch::Receiver<bool> {
        self.adopted.subscribe()
    }

    /// Informs the readers that wait for events.
    fn grown(&self) {
        let last = self.history.last().number;
        self.growth.send_if_modified(|number| {
            let grows = *number != last;
            *number = last;
            grows
        });
    }

    fn note(&mut self, what: What) {
        self.history.note(what, self.clock.now().wall);
        self.grown();
    }

    /// Records the waiting steps of the executors that the last batch shows.
    fn take_steps(&mut self) {
        let Some(snapshot) = self.history.snapshot().cloned() else {
            return;
        };
        for (at, id, profile, step) in std::mem::take(&mut self.waiting) {
            match snapshot.entry(id) {
                Some(_) => self.history.step(id, &profile, step, at),
                None if snapshot.ended.contains(id) => {}
                None => self.waiting.push((at, id, profile, step)),
            }
        }
        self.grown();
    }

    /// All live executors of this snapshot, with their sessions.
    fn living(&self, snapshot: Option<Snapshot>) -> ResponseActFuture<Self, ExecutorList> {
        let Some(snapshot) = snapshot else {
            return Box::pin(actix::fut::ready(ExecutorList::default()));
        };
        let sessions = sessions(&self.sessions, None).into_actor(self);
        Box::pin(sessions.map(move |sessions, this: &mut Self, _| {
            let all = Selection::default();
            views::living(&snapshot, &all, sessions, this.clock.now().tick)
        }))
    }

    /// Reads the sessions for the lists that somebody waits for, unless that is under way.
    fn list_next(&mut self, ctx: &mut Context<Self>) {
        if !self.lists.begins() {
            return;
        }
        let sessions = sessions(&self.sessions, None).into_actor(self);
        ctx.spawn(
            sessions.map(|sessions, this: &mut Self, ctx: &mut Context<Self>| {
                this.list(sessions);
                this.list_next(ctx);
                ctx.run_later(FRESH, Self::forget_lists);
            }),
        );
    }

    fn list(&mut self, sessions: BTreeMap<ExecutorId, SessionView>) {
        let now = self.clock.now().tick;
        let snapshot = self.history.snapshot();
        let seq = snapshot.map(|snapshot| snapshot.seq);
        let list = |selection: &Selection| match snapshot {
            Some(snapshot) => views::living(snapshot, selection, sessions, now),
            None => ExecutorList::default(),
        };
        self.lists.render(list, seq, now);
    }

    /// Keeps no text that nobody will be given.
    fn forget_lists(&mut self, _: &mut Context<Self>) {
        let seq = self.history.snapshot().map(|snapshot| snapshot.seq);
        self.lists.forget(seq, self.clock.now().tick);
    }
}

/// The sessions of all executors, or of one. Empty if the registry has stopped with the driver.
fn sessions(
    registry: &Recipient<GetSessions>,
    one: Option<ExecutorId>,
) -> impl Future<Output = BTreeMap<ExecutorId, SessionView>> + use<> {
    let sessions = registry.send(GetSessions(one));
    async move { sessions.await.unwrap_or_default() }
}

impl Actor for EventHistory {
    type Context = Context<Self>;
}

impl Handler<Round> for EventHistory {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Next {
        self.history.round(&batch, self.clock.now());
        self.take_steps();
        self.grown();
        (self.adopted).send_if_modified(|told| !std::mem::replace(told, true));
        Next::default()
    }
}

impl Handler<Happened> for EventHistory {
    type Result = ();

    fn handle(&mut self, Happened(what): Happened, _: &mut Self::Context) {
        self.note(what);
    }
}

impl Handler<SessionEvent> for EventHistory {
    type Result = ();

    fn handle(&mut self, event: SessionEvent, _: &mut Self::Context) {
        match event {
            SessionEvent::Step(id, profile, step) => {
                let at = self.clock.now().wall;
                self.waiting.push((at, id, profile, step.into()));
                self.take_steps();
            }
            SessionEvent::Used(id, usage) => self.history.used(id, usage),
            SessionEvent::Degraded(why) => self.note(What::Degraded {
                why: why.to_string(),
            }),
            SessionEvent::Recovered => self.note(What::Recovered),
        }
    }
}

impl Handler<ListExecutors> for EventHistory {
    type Result = ();

    fn handle(&mut self, asked: ListExecutors, ctx: &mut Self::Context) {
        let seq = self.history.snapshot().map(|snapshot| snapshot.seq);
        self.lists.ask(asked, seq, self.clock.now().tick);
        self.list_next(ctx);
    }
}

impl Handler<Explain> for EventHistory {
    type Result = ResponseActFuture<Self, Option<Explanation>>;

    fn handle(&mut self, Explain(id): Explain, _: &mut Self::Context) -> Self::Result {
        let Some(history) = self.history.history(id).cloned() else {
            return Box::pin(actix::fut::ready(None));
        };
        let living = (self.history.snapshot()).and_then(|snapshot| {
            let entry = snapshot.entry(id).filter(|entry| !entry.has_ended())?;
            Some((Arc::clone(entry), snapshot.nodes.clone()))
        });
        let sessions = sessions(&self.sessions, Some(id)).into_actor(self);
        Box::pin(sessions.map(move |mut sessions, this: &mut Self, _| {
            let now = this.clock.now().tick;
            let view = |(entry, nodes): (Arc<_>, _)| {
                ExecutorView::of(&entry, &nodes, sessions.remove(&id), now)
            };
            Some(Explanation {
                now: living.map(view),
                history,
            })
        }))
    }
}

impl Handler<ReadEvents> for EventHistory {
    type Result = ResponseActFuture<Self, EventsRead>;

    /// A reader that starts anew gets the live executors of the last event's snapshot, so it misses
    /// none.
    fn handle(&mut self, ask: ReadEvents, _: &mut Self::Context) -> Self::Result {
        let reading = self.history.after(ask.after, ask.most);
        let snapshot = match reading {
            Reading::Next(_) => None,
            Reading::Anew { .. } => self.history.snapshot().cloned(),
        };
        let removing = (snapshot.iter().flat_map(Snapshot::removed))
            .map(ProfileName::to_string)
            .collect();
        let failed = (snapshot.iter().flat_map(|snapshot| &snapshot.failed))
            .map(|(profile, why)| (profile.to_string(), why.to_string()))
            .collect();
        let living = self.living(snapshot);
        Box::pin(living.map(|living, this: &mut Self, _| EventsRead {
            reading,
            time: this.clock.now().wall,
            living: living.executors,
            removing,
            failed,
        }))
    }
}

impl Handler<FollowEvents> for EventHistory {
    type Result = MessageResult<FollowEvents>;

    fn handle(&mut self, _: FollowEvents, _: &mut Self::Context) -> Self::Result {
        MessageResult(Growth(self.growth.subscribe()))
    }
}

impl Handler<Measure> for EventHistory {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        let depth = self.waiting.len();
        metrics
            .depths
            .of(["session-events".into()])
            .set(whole(depth));
    }
}

#[cfg(test)]
mod tests;
