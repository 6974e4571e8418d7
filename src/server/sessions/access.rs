//! Authenticates executors: determines what a token proves (spec O-50, B-5).

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler, Message, ResponseFuture,
    WrapFuture as _,
};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::service_account::{Expected, Trusted};
use crate::actors::executor_registry::registry::Proof;
use crate::clock::Clock;
use crate::kubernetes::{Calls, Failure};
use crate::model::{AppId, Tick};
use crate::secret::seal::Key;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("the token is missing or malformed")]
    NoToken,
    #[error("the token does not prove which executor this is: {0}")]
    Untrue(&'static str),
    #[error("the cluster's keys for verifying the token are unavailable at the moment")]
    NoKeys,
}

/// How executors prove their identity.
#[derive(Clone)]
pub enum Access {
    /// By a token that is derived from a key of the driver's.
    Derived(AppId, Key),
    /// By a token of their pod's service account.
    Kubernetes(Addr<TokenKeys>),
}

impl Access {
    /// What this token proves.
    ///
    /// # Errors
    ///
    /// The token proves nothing.
    pub(super) async fn prove(&self, token: &str) -> Result<Proof, Denied> {
        match self {
            Self::Derived(app, key) => {
                let id = key.open(app, token);
                let untrue = Denied::Untrue("it is not sealed with this application's key");
                id.map(Proof::Executor).ok_or(untrue)
            }
            Self::Kubernetes(keys) => {
                let answer = timeout(ANSWER, keys.send(Prove(Arc::from(token)))).await;
                answer
                    .unwrap_or(Ok(Err(Denied::NoKeys)))
                    .unwrap_or(Err(Denied::NoKeys))
            }
        }
    }
}

/// How long a token waits for keys that are being fetched. Shorter than a connection may stay
/// without proof (spec O-55).
const ANSWER: Duration = Duration::from_secs(3);

/// The least interval between the end of a fetch of the keys and the next one. An unknown key may
/// be a new one, but forged key ids must not cause a request to the cluster each.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The most tokens that wait for a fetch. It exceeds the connections without proof (spec O-55).
const WAITING: usize = 1_024;

/// Caches the keys that the cluster publishes for service account tokens, and fetches them again
/// when a token names an unknown one (spec O-54).
pub struct TokenKeys {
    calls: Calls,
    clock: Clock,
    expected: Expected,
    trusted: Option<Trusted>,
    fetch: Fetch,
}

/// The fetch of the keys.
enum Fetch {
    /// The time at which the last one ended.
    Ended(Option<Tick>),
    /// The tokens that wait for it.
    UnderWay(Vec<Waiting>),
}

struct Waiting {
    token: Arc<str>,
    answer: oneshot::Sender<Result<Proof, Denied>>,
}

impl TokenKeys {
    /// Starts without any keys. `audience` is the one that tokens must be for.
    pub fn new(calls: Calls, clock: Clock, audience: String) -> Self {
        let namespace = calls.namespace().to_owned();
        Self {
            expected: Expected {
                audience,
                namespace,
            },
            calls,
            clock,
            trusted: None,
            fetch: Fetch::Ended(None),
        }
    }

    fn prove(&self, token: &str, now: Timestamp) -> Result<Proof, Denied> {
        let trusted = self.trusted.as_ref().ok_or(Denied::NoKeys)?;
        trusted.prove(token, &self.expected, now)
    }

    /// Whether the keys must be fetched before this token can be verified.
    fn lacks_key_of(&self, token: &str) -> bool {
        (self.trusted.as_ref()).is_none_or(|trusted| !trusted.knows_key_of(token))
    }

    /// Ends a fetch, and answers all tokens that waited for it.
    fn fetched(&mut self, fetched: Result<Option<Trusted>, Failure>) {
        match fetched {
            Ok(Some(trusted)) => self.trusted = Some(trusted),
            Ok(None) => {
                tracing::warn!("the keys that the cluster publishes for tokens could not be parsed")
            }
            Err(failure) => {
                let error = &*failure.message;
                tracing::warn!(error, "the cluster's keys for tokens could not be fetched");
            }
        }
        let now = self.clock.now();
        let fetch = std::mem::replace(&mut self.fetch, Fetch::Ended(Some(now.tick)));
        let Fetch::UnderWay(waiting) = fetch else {
            return;
        };
        for Waiting { token, answer } in waiting {
            // Fails where the client has waited for long enough.
            let _ = answer.send(self.prove(&token, now.wall));
        }
    }
}

impl Actor for TokenKeys {
    type Context = Context<Self>;
}

#[derive(Clone, Message)]
#[rtype(result = "Result<Proof, Denied>")]
pub struct Prove(Arc<str>);

impl Handler<Prove> for TokenKeys {
    type Result = ResponseFuture<Result<Proof, Denied>>;

    /// Only a token whose key is unknown waits for a fetch. At most one is under way.
    fn handle(&mut self, Prove(token): Prove, ctx: &mut Self::Context) -> Self::Result {
        let now = self.clock.now();
        if !self.lacks_key_of(&token) {
            return ready(self.prove(&token, now.wall));
        }
        let (answer, answered) = oneshot::channel();
        let waits = Waiting { token, answer };
        match &mut self.fetch {
            Fetch::UnderWay(waiting) => {
                waiting.retain(|waiting| !waiting.answer.is_closed());
                if waiting.len() >= WAITING {
                    return ready(Err(Denied::NoKeys));
                }
                waiting.push(waits);
            }
            Fetch::Ended(Some(ended)) if now.tick.since(*ended) < ASK_AGAIN => {
                return ready(self.prove(&waits.token, now.wall));
            }
            Fetch::Ended(_) => {
                self.fetch = Fetch::UnderWay(vec![waits]);
                let calls = self.calls.clone();
                let fetching = async move { fetch(&calls).await }.into_actor(self);
                ctx.spawn(fetching.map(|fetched, keys: &mut Self, _| keys.fetched(fetched)));
            }
        }
        Box::pin(async move { answered.await.unwrap_or(Err(Denied::NoKeys)) })
    }
}

fn ready(answer: Result<Proof, Denied>) -> ResponseFuture<Result<Proof, Denied>> {
    Box::pin(std::future::ready(answer))
}

async fn fetch(calls: &Calls) -> Result<Option<Trusted>, Failure> {
    let issuer = calls.token_issuer().await?;
    let keys = calls.token_keys().await?;
    Ok(Trusted::read(&issuer, &keys))
}
