//! Keeps the agent's session with the driver: opens it, and reopens it for as long as the child
//! runs (spec O-122, B-10, B-11).

mod connection;

use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Ended;
use super::identity::Identity;
use super::status::Status;
use crate::backoff::Backoff;
use crate::protocol::{Exiting, FromExecutor, Registered, ToExecutor};
use crate::state::is_away;

use connection::{ANSWER, Over, Socket, connect, hear, in_time, say};

/// What the agent must react to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Received {
    /// The driver has registered the executor: a spare is one no more.
    Registered,
    /// The driver orders the executor to exit.
    Stop { within: Duration },
    /// The driver orders the executor to finish its work and exit.
    Decommission { within: Duration },
    /// The driver refuses the executor for good.
    Unwanted,
    /// The driver was unreachable for too long.
    DriverGone,
}

/// The delays between attempts to connect.
const RECONNECT: Backoff = Backoff {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(10),
};

/// A driver that expects heartbeats often gives up silent executors soon, and gives them that time again when the path
/// to it was broken.
fn reconnect(interval: Duration) -> Backoff {
    Backoff {
        max: interval.clamp(RECONNECT.initial, RECONNECT.max),
        ..RECONNECT
    }
}

/// The agent's session with the driver, across reconnections.
pub(super) struct Conversation {
    identity: Identity,
    /// The busy slots and metrics that the child reports.
    status: Status,
    driver_timeout: Option<Duration>,
    /// When the driver was last heard, or when the agent started.
    last_heard: Instant,
    /// Whether the driver's name was ever resolved. Right after a Service is created its name does
    /// not exist yet.
    resolved: bool,
    failures: u32,
    reconnect: Backoff,
    /// Whether one of these failures needs an operator.
    needs_operator: bool,
    rng: StdRng,
}

impl Conversation {
    pub(super) fn new(
        identity: Identity,
        status: Status,
        driver_timeout: Option<Duration>,
    ) -> Self {
        Self {
            identity,
            status,
            driver_timeout,
            last_heard: Instant::now(),
            resolved: false,
            failures: 0,
            reconnect: RECONNECT,
            needs_operator: false,
            rng: rand::make_rng(),
        }
    }

    /// Runs until the child has ended and this was reported to the driver, or could not be.
    pub(super) async fn run(
        mut self,
        heard: mpsc::Sender<Received>,
        mut ended: watch::Receiver<Option<Ended>>,
    ) {
        loop {
            let heard_before = self.last_heard;
            let over = match self.open(&heard).await {
                Ok((socket, registered)) => {
                    tell(&heard, Received::Registered).await;
                    self.hold(socket, registered, &heard, &mut ended).await
                }
                Err(over) => over,
            };
            if ended.borrow().is_some() {
                return;
            }
            self.failures += 1;
            self.over(&over);
            self.log(&over);
            if self.is_away(heard_before) {
                tracing::error!(
                    "the driver has been unreachable for too long: stopping the command"
                );
                self.driver_timeout = None;
                tell(&heard, Received::DriverGone).await;
            }
            let pause = match over {
                Over::Superseded => RECONNECT.max,
                _ => self.reconnect.jittered(self.failures, self.rng.random()),
            };
            tokio::select! {
                biased;
                _ = ended.changed() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// The time in which the driver's name was never resolved does not count towards the driver's
    /// timeout.
    fn over(&mut self, over: &Over) {
        match over {
            Over::Unresolved(_) if !self.resolved => self.last_heard = Instant::now(),
            Over::Unresolved(_) | Over::Token(..) => {}
            // It is there, and cannot tell yet whose token this is.
            Over::Deferred(_) => (self.resolved, self.last_heard) = (true, Instant::now()),
            _ => self.resolved = true,
        }
    }

    fn is_away(&self, heard_before: Instant) -> bool {
        let now = Instant::now();
        is_away(self.driver_timeout, heard_before, self.last_heard, now)
    }

    /// Opens a session and registers.
    async fn open(&mut self, heard: &mpsc::Sender<Received>) -> Result<(Socket, Registered), Over> {
        let token = &self.identity.token;
        let read = token.read().await;
        let token = read.map_err(|error| Over::Token(token.place(), error))?;
        let mut socket = in_time(connect(&self.identity, &token)).await??;
        loop {
            let registration = FromExecutor::Register(self.identity.registration.clone());
            say(&mut socket, &registration).await?;
            let answer = in_time(hear(&mut socket)).await??;
            self.last_heard = Instant::now();
            match answer {
                ToExecutor::Registered(registered) => return Ok((socket, registered)),
                ToExecutor::Later { in_ms } => {
                    let wait = Duration::from_millis(in_ms).min(RECONNECT.max);
                    wait_to_register(&mut socket, wait).await?;
                }
                ToExecutor::Refused {
                    code,
                    message,
                    exit,
                } => {
                    if exit {
                        tracing::warn!(
                            code,
                            message,
                            "the driver refuses this executor: it must exit"
                        );
                        tell(heard, Received::Unwanted).await;
                    }
                    return Err(Over::Refused(message));
                }
                other => return Err(Over::Refused(format!("unexpected answer {other:?}"))),
            }
        }
    }

    /// Runs a session until it breaks or the child ends.
    async fn hold(
        &mut self,
        mut socket: Socket,
        registered: Registered,
        heard: &mpsc::Sender<Received>,
        ended: &mut watch::Receiver<Option<Ended>>,
    ) -> Over {
        let (executor, session) = (registered.executor, registered.session);
        tracing::info!(executor, session, "registered with the driver");
        self.failures = 0;
        self.needs_operator = false;
        let interval = Duration::from_millis(registered.heartbeat_interval_ms.max(1));
        self.reconnect = reconnect(interval);
        // The first heartbeat is sent at once: until then the driver does not know the busy slots.
        let mut beat_at = Instant::now();
        // The deadline of the answer, while one is outstanding.
        let mut answer_by = None;
        loop {
            let silent_at = answer_by.unwrap_or(beat_at);
            let went = tokio::select! {
                biased;
                _ = ended.changed() => {
                    let Some(end) = *ended.borrow_and_update() else {
                        return Over::Done;
                    };
                    return self.last_word(&mut socket, session, end).await;
                }
                message = hear(&mut socket) => match message {
                    Ok(message) => {
                        self.last_heard = Instant::now();
                        answer_by = None;
                        self.heard(message, &mut socket, heard).await
                    }
                    Err(over) => Err(over),
                },
                () = sleep_until(silent_at), if answer_by.is_some() => Err(Over::Silence),
                () = sleep_until(beat_at), if answer_by.is_none() => {
                    let jitter = 0.9 + 0.2 * self.rng.random::<f64>();
                    beat_at = Instant::now() + interval.mul_f64(jitter);
                    answer_by = Some(Instant::now() + ANSWER);
                    let slots = self.identity.registration.slots;
                    let heartbeat = self.status.heartbeat(session, slots);
                    say(&mut socket, &FromExecutor::Heartbeat(heartbeat)).await
                }
            };
            if let Err(over) = went {
                return over;
            }
        }
    }

    async fn heard(
        &self,
        message: ToExecutor,
        socket: &mut Socket,
        heard: &mpsc::Sender<Received>,
    ) -> Result<(), Over> {
        match message {
            ToExecutor::Stop { deadline_ms, why } => {
                tracing::info!(deadline_ms, why, "the driver orders this executor to stop");
                let within = Duration::from_millis(deadline_ms);
                tell(heard, Received::Stop { within }).await;
                Ok(())
            }
            ToExecutor::Decommission { deadline_ms, why } => {
                tracing::info!(deadline_ms, why, "the driver orders this executor to drain");
                let within = Duration::from_millis(deadline_ms);
                tell(heard, Received::Decommission { within }).await;
                Ok(())
            }
            ToExecutor::Refused { message, exit, .. } => {
                if exit {
                    tell(heard, Received::Unwanted).await;
                }
                Err(Over::Refused(message))
            }
            ToExecutor::Register => {
                let registration = self.identity.registration.clone();
                say(socket, &FromExecutor::Register(registration)).await
            }
            ToExecutor::Superseded => Err(Over::Superseded),
            ToExecutor::Problem { code, message, .. } => {
                tracing::warn!(code, message, "the driver refused a message");
                Ok(())
            }
            ToExecutor::Ack | ToExecutor::Later { .. } | ToExecutor::Registered(_) => Ok(()),
        }
    }

    /// Logs as warnings the first of consecutive failures and, because the first may only be the end of a connection, the
    /// first one that needs an operator.
    fn log(&mut self, over: &Over) {
        let error = over as &dyn std::error::Error;
        let failures = self.failures;
        if failures == 1 || (over.needs_operator() && !self.needs_operator) {
            tracing::warn!(error, "no session with the driver: retrying");
        } else {
            tracing::debug!(error, failures, "no session with the driver");
        }
        self.needs_operator |= over.needs_operator();
    }

    async fn last_word(&self, socket: &mut Socket, session: u64, end: Ended) -> Over {
        let exiting = FromExecutor::Exiting(Exiting {
            session: Some(session),
            code: i32::from(end.code()),
            why: String::new(),
        });
        // The answer confirms that the message arrived. It is not needed: the container's state
        // shows the same exit code.
        if say(socket, &exiting).await.is_ok() {
            let _ = in_time(hear(socket)).await;
        }
        let _ = socket.close(None).await;
        Over::Done
    }
}

/// Waits for this time, or until the driver says that the executor is to register now.
async fn wait_to_register(socket: &mut Socket, wait: Duration) -> Result<(), Over> {
    let until = Instant::now() + wait;
    loop {
        tokio::select! {
            () = sleep_until(until) => return Ok(()),
            message = hear(socket) => if message? == ToExecutor::Register {
                return Ok(());
            },
        }
    }
}

/// The agent receives at once; if it has stopped, this task ends too.
async fn tell(heard: &mpsc::Sender<Received>, what: Received) {
    let _ = heard.send(what).await;
}

#[cfg(test)]
mod tests;
