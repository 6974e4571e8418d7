//! Authenticates executors, and callers of the API that are service accounts: determines what a
//! token proves (spec O-50, O-64, B-5).

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler, Message,
    ResponseActFuture, ResponseFuture, WrapFuture as _,
};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::reviews::{Reviews, Verdict};
use super::service_account::{Expected, Trusted};
use crate::actors::executor_registry::registry::Proof;
use crate::clock::Clock;
use crate::kubernetes::server_clock::{Change, Comparison};
use crate::kubernetes::{Calls, Failure, Kind};
use crate::model::{AppId, Tick};
use crate::planted::{self, Planted};
use crate::secret::seal::Key;
use crate::telemetry::millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("the token is missing or malformed")]
    NoToken,
    #[error("the token does not prove who this is: {0}")]
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
                let untrue = Denied::Untrue("it is not signed with this application's key");
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
    trusted: Option<Arc<Trusted>>,
    fetch: Fetch,
    clocks: Comparison,
    /// What the API server says of callers' tokens.
    reviews: Reviews,
}

/// The fetch of the keys.
enum Fetch {
    /// The time at which the last one ended.
    Ended(Option<Tick>),
    /// The tokens that wait for it.
    UnderWay(Vec<Waiting>),
}

type Waiting = oneshot::Sender<Known>;

/// The keys that are known; `None` before the first fetch has succeeded.
type Known = Option<Arc<Trusted>>;

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
            clocks: Comparison::default(),
            reviews: Reviews::default(),
        }
    }

    /// Logs if this machine's clock differs from the API server's, and when it does so no longer.
    fn compare_clocks(&mut self) {
        let own = self.clock.now().wall;
        let server = self.calls.server_time().unwrap_or(own);
        match self.clocks.compare(server, own) {
            None => {}
            Some(Change::Differs(by)) => tracing::warn!(
                duration_ms = millis(by),
                server_time = %server,
                hint = "synchronise the clocks of the nodes; tokens are verified by the API server's",
                "this machine's clock differs from the API server's"
            ),
            Some(Change::Agrees) => {
                tracing::info!("this machine's clock agrees with the API server's again")
            }
        }
    }

    /// A clock that says whether a token is valid now: the API server's, which has issued it.
    fn now(&self) -> impl Fn() -> Timestamp + use<> {
        let (calls, clock) = (self.calls.clone(), self.clock);
        move || {
            let server = calls.server_time();
            server
                .filter(|_| !planted::is(Planted::OwnClockForTokens))
                .unwrap_or_else(|| clock.now().wall)
        }
    }

    /// Whether the keys must be fetched before this token can be verified.
    fn lacks_key_of(&self, token: &str) -> bool {
        (self.trusted.as_ref()).is_none_or(|trusted| !trusted.knows_key_of(token))
    }

    /// Ends a fetch, and answers all tokens that waited for it.
    fn fetched(&mut self, fetched: Result<Option<Trusted>, Failure>) {
        match fetched {
            Ok(Some(trusted)) => self.trusted = Some(Arc::new(trusted)),
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
        for answer in waiting {
            // Fails where the client has waited for long enough.
            let _ = answer.send(self.trusted.clone());
        }
    }

    /// The keys with which this token can be verified. Only a token whose key is unknown waits for a
    /// fetch. At most one is under way.
    fn keys_for(
        &mut self,
        token: &str,
        ctx: &mut Context<Self>,
    ) -> impl Future<Output = Result<Arc<Trusted>, Denied>> + use<> {
        let (answer, answered) = oneshot::channel();
        let now = self.clock.now();
        let lacks_key = self.lacks_key_of(token);
        match &mut self.fetch {
            _ if !lacks_key => drop(answer.send(self.trusted.clone())),
            Fetch::UnderWay(waiting) => {
                waiting.retain(|waiting| !waiting.is_closed());
                if waiting.len() < WAITING {
                    waiting.push(answer);
                }
            }
            Fetch::Ended(Some(ended)) if now.tick.since(*ended) < ASK_AGAIN => {
                drop(answer.send(self.trusted.clone()));
            }
            Fetch::Ended(_) => {
                self.fetch = Fetch::UnderWay(vec![answer]);
                let calls = self.calls.clone();
                let fetching = async move { fetch(&calls).await }.into_actor(self);
                ctx.spawn(fetching.map(|fetched, keys: &mut Self, _| keys.fetched(fetched)));
            }
        }
        async move { answered.await.ok().flatten().ok_or(Denied::NoKeys) }
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

    fn handle(&mut self, Prove(token): Prove, ctx: &mut Self::Context) -> Self::Result {
        self.compare_clocks();
        let keys = self.keys_for(&token, ctx);
        let (now, expected) = (self.now(), self.expected.clone());
        Box::pin(async move { keys.await?.prove(&token, &expected, now()) })
    }
}

/// Asks which service account a token of this audience was issued for, as `namespace/name`.
#[derive(Clone, Message)]
#[rtype(result = "Result<String, Denied>")]
struct ProveAccount {
    token: Arc<str>,
    audience: Arc<str>,
}

impl Handler<ProveAccount> for TokenKeys {
    type Result = ResponseActFuture<Self, Result<String, Denied>>;

    fn handle(&mut self, asked: ProveAccount, ctx: &mut Self::Context) -> Self::Result {
        self.compare_clocks();
        let (keys, now) = (self.keys_for(&asked.token, ctx), self.now());
        // Only tokens whose signature is right cause a call.
        let proven = async move {
            let account = keys.await?.account(&asked.token, &asked.audience, now())?;
            Ok((account, asked))
        };
        let reviewed = proven.into_actor(self).then(|proven, this, _| {
            let unreviewed = proven.and_then(|(account, asked)| {
                match this.reviews.verdict(&asked.token, this.clock.now().tick) {
                    Verdict::Accepted => Ok((account, None)),
                    Verdict::Revoked => Err(REVOKED),
                    Verdict::Unknown => Ok((account, Some(asked))),
                }
            });
            let calls = this.calls.clone();
            let reviewed = async move {
                let (account, asked) = unreviewed?;
                let answer = match asked {
                    Some(asked) => Some((review(&calls, &asked).await, asked.token)),
                    None => None,
                };
                Ok((account, answer))
            };
            reviewed.into_actor(this)
        });
        Box::pin(reviewed.map(|reviewed, this, _| {
            let (account, answer) = reviewed?;
            let now = this.clock.now().tick;
            match answer {
                Some((answer, token)) if !this.reviews.learn(&token, &answer, now) => Err(REVOKED),
                _ => Ok(account),
            }
        }))
    }
}

const REVOKED: Denied =
    Denied::Untrue("the API server accepts it no more: its account or its pod may be deleted");

/// How long a review may take. Shorter than [`ANSWER`], because without an answer the keys decide.
const REVIEW: Duration = Duration::from_secs(2);

/// Asks the API server whether it accepts a token for an audience.
async fn review(calls: &Calls, asked: &ProveAccount) -> Result<bool, Failure> {
    let review = calls.review_token(&asked.token, &asked.audience);
    let late = || {
        Err(Failure::new(
            Kind::TimedOut,
            "the review of a token took too long",
        ))
    };
    timeout(REVIEW, review).await.unwrap_or_else(|_| late())
}

/// Which service account a token of this audience was issued for, as `namespace/name`.
///
/// # Errors
///
/// The token proves nothing.
pub async fn account(
    keys: &Addr<TokenKeys>,
    token: &str,
    audience: &Arc<str>,
) -> Result<String, Denied> {
    let asked = ProveAccount {
        token: Arc::from(token),
        audience: Arc::clone(audience),
    };
    let answer = timeout(ANSWER, keys.send(asked)).await;
    answer
        .unwrap_or(Ok(Err(Denied::NoKeys)))
        .unwrap_or(Err(Denied::NoKeys))
}

async fn fetch(calls: &Calls) -> Result<Option<Trusted>, Failure> {
    let issuer = calls.token_issuer().await?;
    let keys = calls.token_keys().await?;
    Ok(Trusted::read(&issuer, &keys))
}
