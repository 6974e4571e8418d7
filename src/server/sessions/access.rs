//! Authenticates executors: determines what a token proves (spec O-50, B-5).

use std::sync::Arc;
use std::time::Duration;

use actix::ActorFutureExt as _;
use actix::{Actor, Addr, AtomicResponse, Context, Handler, Message, WrapFuture};
use jiff::Timestamp;

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
                let answer = keys.send(Prove(Arc::from(token))).await;
                answer.unwrap_or(Err(Denied::NoKeys))
            }
        }
    }
}

/// The least interval between fetches of the keys. An unknown key may be a new one, but forged key
/// ids must not cause a request to the cluster each.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Caches the keys that the cluster publishes for service account tokens, and fetches them again
/// when a token names an unknown one.
pub struct TokenKeys {
    calls: Calls,
    clock: Clock,
    expected: Expected,
    trusted: Option<Trusted>,
    asked: Option<Tick>,
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
            asked: None,
        }
    }

    fn prove(&self, token: &str, now: Timestamp) -> Result<Proof, Denied> {
        let trusted = self.trusted.as_ref().ok_or(Denied::NoKeys)?;
        trusted.prove(token, &self.expected, now)
    }

    /// Whether the keys must be fetched before this token can be verified.
    fn asks(&self, token: &str, now: Tick) -> bool {
        let known = (self.trusted.as_ref()).is_some_and(|trusted| trusted.knows_key_of(token));
        let long_ago = self.asked.is_none_or(|asked| now.since(asked) >= ASK_AGAIN);
        !known && long_ago
    }

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
    }
}

impl Actor for TokenKeys {
    type Context = Context<Self>;
}

#[derive(Clone, Message)]
#[rtype(result = "Result<Proof, Denied>")]
pub struct Prove(Arc<str>);

impl Handler<Prove> for TokenKeys {
    type Result = AtomicResponse<Self, Result<Proof, Denied>>;

    /// While keys are fetched all other requests wait, because they need the same keys. This takes
    /// at most the timeout of one call.
    fn handle(&mut self, Prove(token): Prove, _: &mut Self::Context) -> Self::Result {
        let now = self.clock.now();
        let calls = self.asks(&token, now.tick).then(|| self.calls.clone());
        if calls.is_some() {
            self.asked = Some(now.tick);
        }
        let fetching = async move {
            match calls {
                Some(calls) => Some(fetch(&calls).await),
                None => None,
            }
        };
        let proving = fetching
            .into_actor(self)
            .map(move |fetched, keys: &mut Self, _| {
                if let Some(fetched) = fetched {
                    keys.fetched(fetched);
                }
                keys.prove(&token, keys.clock.now().wall)
            });
        AtomicResponse::new(Box::pin(proving))
    }
}

async fn fetch(calls: &Calls) -> Result<Option<Trusted>, Failure> {
    let issuer = calls.token_issuer().await?;
    let keys = calls.token_keys().await?;
    Ok(Trusted::read(&issuer, &keys))
}
