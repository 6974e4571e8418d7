//! The task that owns the store: every write goes through it, one after the other.
//!
//! After each handful of writes it publishes the new state, a value that is cheap to copy; lists and watches read
//! that and never trouble the task. A write is answered after its state was published, so who wrote reads it.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::keep::Keeper;
use super::publish::{self, Publisher, Reader};
use super::seeds::{self, Seed};
use super::store::State;
use crate::api::status::ApiError;
use crate::changes::write::{Answer, Caller, Moment, Write};
use crate::objects::ids::Ids;

/// Requests on their way to the task. Each belongs to a client that waits for it, so more than this means more
/// than so many connections, and those wait a little longer.
const QUEUE: usize = 1_024;

/// How many requests are carried out before their state is published: enough to wake watchers seldom under load.
const BATCH: usize = 64;

/// How many writes are remembered for tests to look at.
const REMEMBERED_WRITES: usize = 10_000;

/// What everybody may read: the newest state, and what those who follow it must know.
#[derive(Clone, Debug)]
pub struct Published {
    /// Everything, as of now.
    pub state: State,
    /// How often all watches were cut off.
    pub cuts: u64,
    /// How often the state was put in place of another one, so that what followed it must start over.
    pub resets: u64,
    /// Whether the cluster is being stopped.
    pub stopping: bool,
}

/// A write as it came and was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    /// The HTTP method.
    pub verb: String,
    /// The path, and the query if there was one.
    pub path: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The store's version after it.
    pub resource_version: u64,
}

/// Where a write came from, as far as it came over HTTP.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The HTTP method.
    pub verb: String,
    /// The path, and the query if there was one.
    pub path: String,
    /// What the client calls itself.
    pub user_agent: String,
}

type Reply<T> = oneshot::Sender<T>;

/// An answer, and what the client shall be warned of.
pub(crate) type Warned = (Answer, Vec<String>);

pub(crate) enum Command {
    Write {
        write: Box<Write>,
        dry_run: bool,
        /// After this it may not be carried out any more.
        deadline: Option<Instant>,
        /// The client that asks, if it is one.
        caller: Option<Caller>,
        origin: Option<Origin>,
        reply: Reply<Result<Warned, ApiError>>,
    },
    /// A write that was refused before it came here.
    Refused {
        origin: Origin,
        code: u16,
    },
    Restore {
        state: Box<State>,
        reply: Reply<()>,
    },
    Empty {
        reply: Reply<()>,
    },
    Compact {
        reply: Reply<()>,
    },
    CutWatches {
        reply: Reply<()>,
    },
    Writes {
        reply: Reply<(u64, Vec<WriteRecord>)>,
    },
    Stop {
        reply: Reply<()>,
    },
}

/// The wall clock: where it began, and how long the runtime's clock has run since. Under a paused clock the same run
/// tells the same times.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    began: Instant,
}

impl Clock {
    /// A clock that tells `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            began: Instant::now(),
        }
    }

    /// The wall clock.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// How to reach the store from anywhere.
#[derive(Clone, Debug)]
pub struct Store {
    commands: mpsc::Sender<Command>,
    published: Reader,
    clock: Clock,
}

impl Store {
    /// Carries a write out on behalf of what runs inside the cluster.
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
    ) -> Result<Warned, ApiError> {
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
        // Nothing is lost if the task is gone: then nobody can ask for the record either.
        let _ = self.commands.send(Command::Refused { origin, code }).await;
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    /// The newest state and all that follows.
    pub fn published(&self) -> Reader {
        self.published.clone()
    }

    /// The newest state.
    pub fn state(&self) -> State {
        self.published.borrow().state.clone()
    }

    /// The wall clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// Starts the task.
pub(crate) fn start(
    seed: u64,
    log_limit: usize,
    clock: Clock,
    has_controllers: bool,
    roles: Option<Vec<Seed>>,
    keeper: Option<Keeper>,
    kept: Option<State>,
) -> Store {
    // What went on from the same seed as before would hand out the same uids again.
    let lived = kept.as_ref().map_or(0, State::resource_version);
    let mut ids = Ids::new(seed.wrapping_add(lived));
    let fresh = seeds::fresh(log_limit, clock.now(), &mut ids, roles);
    let first = Published {
        state: kept.unwrap_or_else(|| fresh.clone()),
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
        keeper,
        has_controllers,
        writes: 0,
        records: VecDeque::new(),
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
    /// Where the state is kept, if it is.
    keeper: Option<Keeper>,
    /// Whether what controllers do in a real cluster is done here.
    has_controllers: bool,
    writes: u64,
    records: VecDeque<WriteRecord>,
}

/// An answer that waits until the state it came from is published.
type Answered = (Reply<Result<Warned, ApiError>>, Result<Warned, ApiError>);

impl Task {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut commands = Vec::with_capacity(BATCH);
        while inbox.recv_many(&mut commands, BATCH).await > 0 {
            let mut answers: Vec<Answered> = Vec::new();
            let mut done: Vec<Reply<()>> = Vec::new();
            for command in commands.drain(..) {
                self.handle(command, &mut answers, &mut done);
            }
            self.keep(&mut answers).await;
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

    /// Writes down what was done, before anybody is told of it. What cannot be written down was not done for those who
    /// ask, and nothing more is.
    async fn keep(&mut self, answers: &mut [Answered]) {
        let Some(keeper) = self.keeper.take() else {
            return;
        };
        match keeper.keep(&self.now).await {
            Ok(keeper) => self.keeper = Some(keeper),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(tracing::field::display);
                tracing::error!(target: "apiserver.data", %error, cause, "the cluster stops");
                self.now.stopping = true;
                for (_, answer) in answers {
                    *answer = Err(ApiError::stopping());
                }
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
                    let mut moment = Moment::new(self.clock.now(), &mut self.ids);
                    moment.caller = caller.as_ref();
                    moment.has_controllers = self.has_controllers;
                    let answer = self.now.state.write(*write, dry_run, &mut moment);
                    answer.map(|answer| (answer, moment.warnings))
                };
                if let Some(origin) = origin {
                    self.record(origin, code(answer.as_ref().map(|(answer, _)| answer)));
                }
                answers.push((reply, answer));
            }
            Command::Refused { origin, code } => self.record(origin, code),
            Command::Restore { state, reply } => {
                self.now.state = *state;
                self.now.resets += 1;
                self.now.cuts += 1;
                done.push(reply);
            }
            Command::Empty { reply } => {
                self.now.state = self.fresh.clone();
                self.now.resets += 1;
                self.now.cuts += 1;
                done.push(reply);
            }
            Command::Compact { reply } => {
                self.now.state.compact();
                done.push(reply);
            }
            Command::CutWatches { reply } => {
                self.now.cuts += 1;
                done.push(reply);
            }
            Command::Writes { reply } => {
                let _ = reply.send((self.writes, self.records.iter().cloned().collect()));
            }
            Command::Stop { reply } => {
                self.now.stopping = true;
                done.push(reply);
            }
        }
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
        if self.records.len() == REMEMBERED_WRITES {
            self.records.pop_front();
        }
        self.records.push_back(WriteRecord {
            verb,
            path,
            user_agent,
            code,
            resource_version,
        });
    }
}

/// The HTTP status of an answer.
pub(crate) fn code(answer: Result<&Answer, &ApiError>) -> u16 {
    match answer {
        Ok(Answer::Object(_, true)) => 201,
        Ok(Answer::Object(_, false) | Answer::Deleted { .. }) => 200,
        Ok(Answer::Status(code, _)) => *code,
        Err(error) => error.code,
    }
}
