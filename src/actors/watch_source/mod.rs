//! WatchSource: watches the application's executor pods, or the cluster's nodes, and sends each line to the store (spec
//! W-1 to W-5, W-15).
//!
//! `machine` makes the decisions; the actor carries them out and feeds the results back.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Recipient, SpawnHandle,
    WrapFuture,
};
use futures::StreamExt;
use futures::stream::{BoxStream, ReadyChunks};
use rand::rngs::StdRng;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use self::machine::{
    Effect, Event, LIST_AGAIN_AFTER, Line, Listing, Machine, Object, Report, Trouble, TroubleKind,
};
use crate::actors::poll_source::lister::{ListError, Lister, TakenIn};
use crate::actors::snapshot_store::messages::{ListAnew, Tell};
use crate::kubernetes::calls::{LeavingRules, ServerIsBack, StopCalling};
use crate::kubernetes::{Calls, Failure, FailureKind, NotStreamed, WatchLine};
use crate::model::news::News;
use crate::model::{Epoch, ResourceVersion, Serial, Tick};

mod machine;

/// The most lines that are read before the store has processed them. Later lines stay in the
/// connection; if too many accumulate, the server closes the watch, which is then resumed (spec
/// W-2). A limit of one would cost a turn of the event loop per line; a much higher one would block
/// other actors while the lines are read.
const LINES_AT_ONCE: usize = 64;
/// Enough for a list of any size; page tokens are not valid for longer.
const LIST_DEADLINE: Duration = Duration::from_secs(5 * 60);

pub struct WatchSource {
    watched: Watched,
    tell: Recipient<Tell>,
    machine: Machine,
    /// The origin of ticks.
    born: Instant,
    /// A list, the opening of a watch, or the wait for its next lines.
    in_flight: Option<SpawnHandle>,
    /// The watch, while the store processes its last lines.
    lines: Option<(Serial, Lines)>,
    /// The news of the lines that were read.
    outbox: Vec<News>,
    timer: Option<SpawnHandle>,
}

type WatchItem = Result<WatchLine<Object>, Failure>;
type Lines = ReadyChunks<BoxStream<'static, WatchItem>>;

/// What is watched.
#[derive(Debug, Clone)]
pub enum Watched {
    /// The application's executor pods.
    Pods(Lister),
    /// The cluster's nodes.
    Nodes {
        calls: Calls,
        rules: Arc<LeavingRules>,
    },
}

impl Watched {
    /// Makes a list and gives it to the store. Also returns why it was not streamed, if that was tried.
    async fn list(
        &self,
        tell: &Recipient<Tell>,
    ) -> (Result<Listing, Trouble>, Option<NotStreamed>) {
        match self {
            Self::Pods(lister) => {
                let (listed, not_streamed) = lister.list_streamed(LIST_DEADLINE).await;
                let listed = listed.map(listing).map_err(|error| trouble_of(&error));
                (listed, not_streamed)
            }
            Self::Nodes { calls, rules } => {
                let listed = timeout(LIST_DEADLINE, calls.list_nodes(rules)).await;
                let listed = match listed {
                    Ok(listed) => listed.map_err(|failure| failed(&failure)),
                    Err(_) => Err(too_long()),
                };
                let (version, nodes) = match listed {
                    Ok(listed) => listed,
                    Err(trouble) => return (Err(trouble), None),
                };
                let objects = nodes.len();
                // The store has stopped only if the driver is ending.
                let _ = tell.send(Tell(News::Nodes(nodes))).await;
                let listing = Listing {
                    version,
                    epoch: Epoch::default(),
                    accepted: true,
                    objects,
                };
                (Ok(listing), None)
            }
        }
    }

    async fn watch(
        &self,
        from: &ResourceVersion,
        timeout_seconds: u32,
    ) -> Result<BoxStream<'static, WatchItem>, Failure> {
        match self {
            Self::Pods(lister) => {
                let lines = lister.calls.watch_pods(from, timeout_seconds).await?;
                Ok(lines
                    .map(|line| line.map(|line| line.map(Object::Pod)))
                    .boxed())
            }
            Self::Nodes { calls, rules } => {
                let lines = calls.watch_nodes(rules, from, timeout_seconds).await?;
                Ok(lines
                    .map(|line| line.map(|line| line.map(Object::Node)))
                    .boxed())
            }
        }
    }
}

impl WatchSource {
    /// A watch that reports to this store. It begins with a list when the actor is started.
    pub fn new(watched: Watched, tell: Recipient<Tell>, rng: StdRng) -> Self {
        let list_again_after = match &watched {
            Watched::Pods(_) => None,
            Watched::Nodes { .. } => Some(LIST_AGAIN_AFTER),
        };
        Self {
            watched,
            tell,
            machine: Machine::new(rng, list_again_after),
            born: Instant::now(),
            in_flight: None,
            lines: None,
            outbox: Vec::new(),
            timer: None,
        }
    }

    fn is_of_pods(&self) -> bool {
        matches!(self.watched, Watched::Pods(_))
    }

    fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        let now = Tick::after_start(self.born.elapsed());
        for effect in self.machine.step(event, now) {
            self.carry_out(effect, ctx);
        }
    }

    fn carry_out(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::List { call } => self.list(call, ctx),
            Effect::Watch {
                call,
                from,
                timeout_seconds,
            } => self.watch(call, from, timeout_seconds, ctx),
            Effect::Cut => {
                self.lines = None;
                if let Some(call) = self.in_flight.take() {
                    ctx.cancel_future(call);
                }
            }
            Effect::Arm { timer, after } => {
                let alarm = Event::Alarm { timer };
                let armed = ctx.run_later(after, |this, ctx| this.step(alarm, ctx));
                if let Some(before) = self.timer.replace(armed) {
                    ctx.cancel_future(before);
                }
            }
            // That of the nodes' watch says nothing about pods.
            Effect::Tell(News::Bookmark { .. }) if !self.is_of_pods() => {}
            Effect::Tell(news) => self.outbox.push(news),
            Effect::Report(report) => log(!self.is_of_pods(), &report),
        }
    }

    fn list(&mut self, call: Serial, ctx: &mut Context<Self>) {
        let (watched, tell) = (self.watched.clone(), self.tell.clone());
        let list = async move { watched.list(&tell).await };
        let list = list
            .into_actor(self)
            .map(move |(outcome, not_streamed), act, ctx| {
                act.in_flight = None;
                match not_streamed {
                    Some(NotStreamed::Refused(why)) => {
                        if let Watched::Pods(lister) = &mut act.watched {
                            lister.streams = false;
                        }
                        info!(%why, "the server does not support streamed lists: using pages from now on");
                    }
                    Some(NotStreamed::Cut(why)) => {
                        debug!(%why, "a streamed list failed: it was repeated in pages");
                    }
                    Some(NotStreamed::Failed(_)) | None => {}
                }
                act.step(Event::Listed { call, outcome }, ctx);
            });
        self.in_flight = Some(ctx.spawn(list));
    }

    fn watch(
        &mut self,
        call: Serial,
        from: ResourceVersion,
        timeout_seconds: u32,
        ctx: &mut Context<Self>,
    ) {
        let watched = self.watched.clone();
        let open = async move { watched.watch(&from, timeout_seconds).await };
        let open = open.into_actor(self).map(move |outcome, act, ctx| {
            act.in_flight = None;
            match outcome {
                Ok(stream) => {
                    act.step(Event::Opened { call }, ctx);
                    act.read(call, stream.ready_chunks(LINES_AT_ONCE), ctx);
                }
                Err(failure) => {
                    let why = failed(&failure);
                    act.step(Event::Ended { call, why }, ctx);
                }
            }
        });
        self.in_flight = Some(ctx.spawn(open));
    }

    fn read(&mut self, call: Serial, mut lines: Lines, ctx: &mut Context<Self>) {
        let read = async move { (lines.next().await, lines) };
        let read = read
            .into_actor(self)
            .map(move |(chunk, lines), act, ctx| act.came(call, chunk, lines, ctx));
        self.in_flight = Some(ctx.spawn(read));
    }

    fn came(
        &mut self,
        call: Serial,
        chunk: Option<Vec<WatchItem>>,
        lines: Lines,
        ctx: &mut Context<Self>,
    ) {
        self.in_flight = None;
        self.lines = Some((call, lines));
        for event in chunk.map_or_else(
            || vec![ended(call)],
            |items| items.into_iter().map(|item| event(call, item)).collect(),
        ) {
            let over = matches!(event, Event::Ended { .. });
            self.step(event, ctx);
            if over {
                self.lines = None;
                break;
            }
        }
        self.flush(call, ctx);
    }

    /// Sends the news, and reads on when the store has processed the last of it.
    fn flush(&mut self, call: Serial, ctx: &mut Context<Self>) {
        let last = self.outbox.pop();
        for news in self.outbox.drain(..) {
            self.tell.do_send(Tell(news));
        }
        let Some(last) = last else {
            return self.read_on(call, ctx);
        };
        // Spawned independently of the watch, so that nothing is lost if the watch is cancelled
        // meanwhile.
        let heard = self.tell.send(Tell(last)).into_actor(self);
        ctx.spawn(heard.map(move |heard, act, ctx| match heard {
            Ok(_) => act.read_on(call, ctx),
            Err(error) => {
                debug!(%error, "the snapshot store has stopped: no longer reading the watch")
            }
        }));
    }

    fn read_on(&mut self, call: Serial, ctx: &mut Context<Self>) {
        if let Some((_, lines)) = self.lines.take_if(|(current, _)| *current == call) {
            self.read(call, lines, ctx);
        }
    }
}

fn listing(list: TakenIn) -> Listing {
    Listing {
        version: list.version,
        epoch: list.verdict.epoch,
        accepted: list.verdict.is_taken_in(),
        objects: list.pods,
    }
}

fn too_long() -> Trouble {
    Trouble {
        kind: TroubleKind::Broke,
        error: ListError::TooLong(LIST_DEADLINE).text(),
        retry_after: None,
    }
}

fn trouble_of(error: &ListError) -> Trouble {
    Trouble {
        kind: TroubleKind::Broke,
        error: error.text(),
        retry_after: error.retry_after(),
    }
}

fn failed(failure: &Failure) -> Trouble {
    Trouble {
        kind: match failure.kind {
            FailureKind::Expired => TroubleKind::Expired,
            _ => TroubleKind::Broke,
        },
        error: Arc::clone(&failure.message),
        retry_after: failure.retry_after,
    }
}

fn ended(call: Serial) -> Event {
    let why = Trouble {
        kind: TroubleKind::Ended,
        error: Arc::from("the server ended the watch"),
        retry_after: None,
    };
    Event::Ended { call, why }
}

fn event(call: Serial, item: WatchItem) -> Event {
    let line = match item {
        Ok(WatchLine::Seen(object)) => Line::Seen(object),
        Ok(WatchLine::Deleted(object)) => Line::Deleted(object),
        Ok(WatchLine::Bookmark(version)) => Line::Bookmark(version),
        Ok(WatchLine::UnknownType(kind)) => {
            Line::Garbage(Arc::from(format!("an event of unknown type {kind:?}")))
        }
        Err(failure) if failure.kind == FailureKind::Garbage => Line::Garbage(failure.message),
        Ok(WatchLine::Expired) => {
            let why = Trouble {
                kind: TroubleKind::Expired,
                error: Arc::from("the server no longer knows the version"),
                retry_after: None,
            };
            return Event::Ended { call, why };
        }
        Ok(WatchLine::Error(failure)) | Err(failure) => {
            let why = failed(&failure);
            return Event::Ended { call, why };
        }
    };
    Event::Line { call, line }
}

/// `of_nodes`: whether nodes are watched, not pods.
fn log(of_nodes: bool, report: &Report) {
    let what = of_nodes.then_some("nodes");
    match report {
        Report::Synced { first, objects } => {
            let (pods, nodes) = match of_nodes {
                false => (Some(objects), None),
                true => (None, Some(objects)),
            };
            match first {
                true => info!(
                    pods,
                    nodes, "first list completed, watching from its version"
                ),
                false => debug!(pods, nodes, "list completed, watching from its version"),
            }
        }
        Report::Trouble {
            first,
            error,
            from,
            wait,
        } => {
            let from_version = from.as_ref().map(tracing::field::display);
            let backoff_ms = wait.as_millis();
            if *first {
                warn!(what, %error, from_version, backoff_ms, "watch failed");
            } else {
                debug!(what, %error, from_version, backoff_ms, "watch failed again");
            }
        }
        Report::Again { error, from, wait } => {
            let from_version = from.as_ref().map(tracing::field::display);
            let backoff_ms = wait.as_millis();
            debug!(what, %error, from_version, backoff_ms, "watch resumed");
        }
        Report::Recovered => info!(what, "watch works again"),
        Report::Unreadable { count: 1, error } => {
            warn!(%error, "a line of the watch cannot be parsed and is skipped; further ones are logged at debug level");
        }
        Report::Unreadable { count, error } => {
            debug!(%error, count, "a line of the watch cannot be parsed");
        }
    }
}

impl Actor for WatchSource {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.step(Event::Begin, ctx);
    }
}

impl Handler<ListAnew> for WatchSource {
    type Result = ();

    fn handle(&mut self, ListAnew { epoch }: ListAnew, ctx: &mut Self::Context) {
        self.step(Event::Anew { epoch }, ctx);
    }
}

impl Handler<ServerIsBack> for WatchSource {
    type Result = ();

    fn handle(&mut self, ServerIsBack { after }: ServerIsBack, ctx: &mut Self::Context) {
        self.step(Event::ServerIsBack { after }, ctx);
    }
}

impl Handler<StopCalling> for WatchSource {
    type Result = ();

    fn handle(&mut self, _: StopCalling, ctx: &mut Self::Context) {
        self.step(Event::Stop, ctx);
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
