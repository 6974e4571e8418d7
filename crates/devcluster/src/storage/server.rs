//! The task that owns the state and carries out all writes, one after the other.
//!
//! After each batch of writes it publishes the new state, which is cheap to copy. Lists and watches read the published
//! state without involving the task. A write is answered after its state was published, so a client can read its own
//! writes.

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::publish::{self, Publisher, Reader};
use super::seeds::{self, Seed};
use super::store::State;
use crate::api::status::ApiError;
use crate::changes::write::{Answer, Caller, Write, WriteContext};
use crate::objects::ids::Ids;

/// The capacity of the command queue. Each command belongs to a client that waits for its answer, so the queue is only
/// full with more connections than this; their commands wait.
const QUEUE: usize = 1_024;

/// The most commands between two published states; batches wake watchers less often under load.
const BATCH: usize = 64;

/// The newest state, and what its followers must know.
#[derive(Clone, Debug)]
pub struct Published {
    pub state: State,
    /// How often all watches were ended on request.
    pub cuts: u64,
    /// How often the state was replaced; its followers must then start over.
    pub resets: u64,
    pub stopping: bool,
}

/// The HTTP request that a write came from.
#[derive(Clone, Debug)]
pub struct Origin {
    pub verb: String,
    /// The path and query.
    pub path: String,
    pub user_agent: String,
}

type Reply<T> = oneshot::Sender<T>;

/// An answer, with the warnings for the client.
pub(crate) type AnswerAndWarnings = (Answer, Vec<String>);

pub(crate) enum Command {
    Write {
        write: Box<Write>,
        dry_run: bool,
        /// The write must not be carried out after this.
        deadline: Option<Instant>,
        /// The client that writes; `None` for writes from inside the cluster.
        caller: Option<Caller>,
        origin: Option<Origin>,
        reply: Reply<Result<AnswerAndWarnings, ApiError>>,
    },
    /// A write that was refused before it reached the task.
    Refused {
        origin: Origin,
        code: u16,
    },
    Admin(Admin, Reply<()>),
    Writes {
        reply: Reply<u64>,
    },
}

/// A change of the cluster that is no write of an object.
pub(crate) enum Admin {
    Restore(Box<State>),
    Empty,
    Compact,
    CutWatches,
    Stop,
}

/// A wall clock that advances with the runtime's clock. Under a paused clock, a run always yields the same times.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    began: Instant,
}

impl Clock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            began: Instant::now(),
        }
    }

    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

#[derive(Clone, Debug)]
pub struct Store {
    commands: mpsc::Sender<Command>,
    published: Reader,
    clock: Clock,
}

impl Store {
    /// Carries out a write from inside the cluster.
    pub async fn write(&self, write: Write) -> Result<Answer, ApiError> {
        let answer = self.write_for(write, false, None, None, None).await;
        answer.map(|(answer, _)| answer)
    }

    pub(crate) async fn write_for(
        &self,
        write: Write,
        dry_run: bool,
        deadline: Option<Instant>,
        caller: Option<Caller>,
        origin: Option<Origin>,
    ) -> Result<AnswerAndWarnings, ApiError> {
        let write = Box::new(write);
        self.ask(|reply| Command::Write {
            write,
            dry_run,
            deadline,
            caller,
            origin,
            reply,
        })
        .await
        .unwrap_or_else(|| Err(ApiError::stopping()))
    }

    pub(crate) async fn refused(&self, origin: Origin, code: u16) {
        // If the task is gone, nothing can query the record either.
        let _ = self.commands.send(Command::Refused { origin, code }).await;
    }

    pub(crate) async fn administer(&self, change: Admin) {
        self.ask(|reply| Command::Admin(change, reply)).await;
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    /// A reader of the newest and all later states.
    pub fn published(&self) -> Reader {
        self.published.clone()
    }

    pub fn state(&self) -> State {
        self.published.borrow().state.clone()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }
}

pub(crate) fn start(
    seed: u64,
    log_limit: usize,
    clock: Clock,
    has_controllers: bool,
    roles: Option<Vec<Seed>>,
) -> Store {
    let mut ids = Ids::new(seed);
    let fresh = seeds::fresh(log_limit, clock.now(), &mut ids, roles);
    let first = Published {
        state: fresh.clone(),
        cuts: 0,
        resets: 0,
        stopping: false,
    };
    let (publish, published) = publish::publish(first.clone());
    let (commands, inbox) = mpsc::channel(QUEUE);
    let task = Task {
        now: first,
        fresh,
        ids,
        clock,
        publish,
        has_controllers,
        writes: 0,
    };
    tokio::spawn(task.run(inbox));
    Store {
        commands,
        published,
        clock,
    }
}

struct Task {
    now: Published,
    fresh: State,
    ids: Ids,
    clock: Clock,
    publish: Publisher,
    /// Whether this cluster does what a controller manager does.
    has_controllers: bool,
    writes: u64,
}

/// An answer that is sent once its state is published.
type Answered = (
    Reply<Result<AnswerAndWarnings, ApiError>>,
    Result<AnswerAndWarnings, ApiError>,
);

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut commands = Vec::with_capacity(BATCH);
        while inbox.recv_many(&mut commands, BATCH).await > 0 {
            let mut answers: Vec<Answered> = Vec::new();
            let mut done: Vec<Reply<()>> = Vec::new();
            for command in commands.drain(..) {
                self.handle(command, &mut answers, &mut done);
            }
            self.publish.put(self.now.clone());
            // A client that has gone away needs no answer.
            for (reply, answer) in answers {
                let _ = reply.send(answer);
            }
            for reply in done {
                let _ = reply.send(());
            }
        }
    }

    fn handle(&mut self, command: Command, answers: &mut Vec<Answered>, done: &mut Vec<Reply<()>>) {
        match command {
            Command::Write {
                write,
                dry_run,
                deadline,
                caller,
                origin,
                reply,
            } => {
                let answer = if deadline.is_some_and(|at| Instant::now() >= at) {
                    Err(ApiError::deadline_passed())
                } else {
                    let mut context = WriteContext::new(self.clock.now(), &mut self.ids);
                    context.caller = caller.as_ref();
                    context.has_controllers = self.has_controllers;
                    let answer = self.now.state.write(*write, dry_run, &mut context);
                    answer.map(|answer| (answer, context.warnings))
                };
                if let Some(origin) = origin {
                    self.record(origin, code(answer.as_ref().map(|(answer, _)| answer)));
                }
                answers.push((reply, answer));
            }
            Command::Refused { origin, code } => self.record(origin, code),
            Command::Admin(change, reply) => {
                self.administer(change);
                done.push(reply);
            }
            Command::Writes { reply } => {
                let _ = reply.send(self.writes);
            }
        }
    }

    fn administer(&mut self, change: Admin) {
        match change {
            Admin::Restore(state) => self.reset(*state),
            Admin::Empty => self.reset(self.fresh.clone()),
            Admin::Compact => self.now.state.compact(),
            Admin::CutWatches => self.now.cuts += 1,
            Admin::Stop => self.now.stopping = true,
        }
    }

    fn reset(&mut self, state: State) {
        self.now.state = state;
        self.now.resets += 1;
        self.now.cuts += 1;
    }

    fn record(&mut self, origin: Origin, code: u16) {
        let Origin {
            verb,
            path,
            user_agent,
        } = origin;
        let resource_version = self.now.state.resource_version();
        tracing::info!(target: "apiserver.write", verb, path, code, user_agent, resource_version, "write");
        self.writes += 1;
    }
}

pub(crate) fn code(answer: Result<&Answer, &ApiError>) -> u16 {
    match answer {
        Ok(Answer::Object(_, true)) => 201,
        Ok(Answer::Object(_, false) | Answer::Deleted { .. }) => 200,
        Ok(Answer::Status(code, _)) => *code,
        Err(error) => error.code,
    }
}
