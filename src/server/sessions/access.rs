//! Authenticates executors, and callers of the API that are service accounts: determines what a
//! token proves (spec O-50, O-112, O-64, B-5).

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler, Message, Recipient,
    ResponseActFuture, ResponseFuture, SpawnHandle, WrapFuture as _,
};
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::published::{ASK_AGAIN, Published, Way, trouble_of};
use super::reviews::{Reviews, Verdict};
use super::service_account::{Expected, Trusted};
use crate::actors::executor_registry::messages::TokensVerified;
use crate::actors::executor_registry::registry::{NoKeys, Proof};
use crate::clock::Clock;
use crate::kubernetes::server_clock::{Change, Comparison};
use crate::kubernetes::{Calls, Failure, FailureKind};
use crate::model::AppId;
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
    #[error("the API server does not say at the moment whether the token's account still exists")]
    NoReview,
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

/// The most tokens that wait for a fetch. It exceeds the connections without proof (spec O-55).
const WAITING: usize = 1_024;

/// Caches the keys that the cluster publishes for service account tokens, and fetches them again
/// when a token names an unknown one, and after a while (spec O-54).
pub struct TokenKeys {
    calls: Calls,
    clock: Clock,
    expected: Expected,
    published: Published,
    /// The tokens that wait for the fetch that is under way.
    waiting: Vec<oneshot::Sender<Result<Arc<Trusted>, Denied>>>,
    /// The number of fetches that were begun, and the timer of the next one.
    fetches: u64,
    next: Option<SpawnHandle>,
    /// Who is told that tokens cannot be verified, and what it was told last.
    told: Option<(Recipient<TokensVerified>, TokensVerified)>,
    clocks: Comparison,
    /// What the API server says of callers' tokens.
    reviews: Reviews,
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
            published: Published::default(),
            waiting: Vec::new(),
            fetches: 0,
            next: None,
            told: None,
            clocks: Comparison::default(),
            reviews: Reviews::default(),
        }
    }

    /// Tells this recipient when executors' tokens cannot be verified, and when they can be again.
    pub fn telling(mut self, recipient: Recipient<TokensVerified>) -> Self {
        self.told = Some((recipient, TokensVerified(None)));
        self
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

    fn tell(&mut self) {
        let now = TokensVerified(self.published.lacking());
        if let Some((recipient, told)) = &mut self.told
            && *told != now
        {
            *told = now;
            recipient.do_send(now);
        }
    }

    fn begin_fetch(&mut self, ctx: &mut Context<Self>) {
        self.fetches += 1;
        let (number, calls) = (self.fetches, self.calls.clone());
        let fetching = async move { fetch(&calls).await }.into_actor(self);
        ctx.spawn(fetching.map(|fetched, keys: &mut Self, ctx| keys.fetched(fetched, ctx)));
        ctx.run_later(ASK_AGAIN, move |keys, _| {
            // The tokens that waited were answered "try again" meanwhile.
            if keys.fetches == number && !keys.waiting.is_empty() {
                let before = keys.published.trouble();
                keys.published.overdue();
                log(before, keys.published.trouble(), "no answer yet");
                keys.tell();
            }
        });
    }

    /// Ends a fetch, and answers all tokens that waited for it.
    fn fetched(&mut self, fetched: Result<Option<Trusted>, Failure>, ctx: &mut Context<Self>) {
        let error = match &fetched {
            Ok(Some(_)) => String::new(),
            Ok(None) => NoKeys::Unusable.to_string(),
            Err(failure) => failure.message.to_string(),
        };
        let fetched = fetched.map_err(|failure| trouble_of(&failure));
        let fetched = fetched.and_then(|trusted| trusted.ok_or(NoKeys::Unusable));
        let before = self.published.trouble();
        let (waiting, now) = (std::mem::take(&mut self.waiting), self.clock.now().tick);
        let (answer, next) = (self.published).fetched(fetched, !waiting.is_empty(), now);
        log(before, self.published.trouble(), &error);
        for waiting in waiting {
            // Fails where the client has waited for long enough.
            let _ = waiting.send(answer.clone());
        }
        self.tell();
        if let Some(earlier) = self.next.take() {
            ctx.cancel_future(earlier);
        }
        self.next = Some(ctx.run_later(next, |keys, ctx| {
            if keys.published.refresh(keys.clock.now().tick) {
                keys.begin_fetch(ctx);
            }
        }));
    }

    /// The keys with which this token can be verified. Only a token whose key is unknown waits for a
    /// fetch. At most one is under way.
    fn keys_for(
        &mut self,
        token: &str,
        ctx: &mut Context<Self>,
    ) -> impl Future<Output = Result<Arc<Trusted>, Denied>> + use<> {
        let (answer, answered) = oneshot::channel();
        let way = self.published.way(token, self.clock.now().tick);
        match way {
            Way::Verify(trusted) => drop(answer.send(Ok(trusted))),
            Way::Deny(denied) => drop(answer.send(Err(denied))),
            Way::Wait => {
                // One that was answered "try again" meanwhile still shows that the keys are lacking.
                if self.waiting.len() >= WAITING {
                    self.waiting.retain(|waiting| !waiting.is_closed());
                }
                if self.waiting.len() < WAITING {
                    self.waiting.push(answer);
                }
            }
            Way::Fetch => {
                self.waiting.push(answer);
                self.begin_fetch(ctx);
            }
        }
        self.tell();
        async move { answered.await.unwrap_or(Err(Denied::NoKeys)) }
    }
}

/// Logs that the keys cannot be read, once for each cause, and that they can be again.
fn log(before: Option<NoKeys>, now: Option<NoKeys>, error: &str) {
    match now {
        _ if now == before => {}
        Some(NoKeys::Refused(401 | 403)) => tracing::warn!(
            error,
            hint = "the driver needs the ClusterRole system:service-account-issuer-discovery, which service accounts \
                    have, but not every user of a kubeconfig",
            "the cluster's keys for tokens cannot be read: tokens that need them cannot be verified"
        ),
        Some(_) => tracing::warn!(
            error,
            "the cluster's keys for tokens cannot be read: tokens that need them cannot be verified"
        ),
        None => tracing::info!("the cluster's keys for tokens can be read again"),
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
            let account = (keys.await?).account(&asked.token, &asked.audience, now())?;
            Ok((account, asked))
        };
        let reviewed = proven.into_actor(self).then(|proven, this, _| {
            let unreviewed = proven.and_then(|(account, asked)| {
                let now = this.clock.now().tick;
                match this.reviews.verdict(&asked.token, account.age, now) {
                    Verdict::Accepted => Ok((account, None)),
                    Verdict::Denied(denied) => Err(denied),
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
            if let Some((answer, token)) = answer {
                this.reviews.learn(&token, account.age, &answer, now)?;
            }
            Ok(account.name)
        }))
    }
}

/// How long a review may take. Shorter than [`ANSWER`], because without an answer the keys decide.
const REVIEW: Duration = Duration::from_secs(2);

/// Asks the API server whether it accepts a token for an audience.
async fn review(calls: &Calls, asked: &ProveAccount) -> Result<bool, Failure> {
    let review = calls.review_token(&asked.token, &asked.audience);
    let late = || {
        Err(Failure::new(
            FailureKind::TimedOut,
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
