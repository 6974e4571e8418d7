//! The registry: who has an account with the driver, and who is given up (spec B-1 to B-15, B-20, B-21, A-44, A-52). Pure:
//! each input changes its state and leaves effects for ExecutorRegistry to carry out.
//!
//! What each message does in each state of an executor's account:
//!
//! | | none | connected | asking | lost |
//! |---|---|---|---|---|
//! | register, over a connection | account, connected | the older session is superseded; connected | connected | enabled; connected |
//! | register, by request | account, asking | the older session is superseded; asking | a newer session | enabled; asking |
//! | anything else, newest session | – | sign of life | sign of life | sign of life, by request: enabled |
//! | anything else, older session | "register" | "superseded" | "superseded" | "superseded" |
//! | its connection ends | – | lost: disabled | – | – |
//! | an older connection ends | – | nothing | nothing | nothing |
//! | its pod has ended, or is another | – | told to exit; no account | no account | no account |
//! | it is to go | the order waits | told | told with the next answer | told when it is back |
//! | no sign of life for too long | – | given up | given up | given up, sooner |
//!
//! Whether a registration is sound is `admission`'s to say, whether the driver doubts itself `doubt`'s.

mod account;
mod admission;
mod doubt;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod ledger;
mod liveness;
mod registration;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use account::{About, Account, Reach};
pub use admission::Proof;
pub use doubt::WhyDoubt;
pub use step::SessionStep;

use crate::model::executor::Why;
use crate::model::{AppId, ExecutorId, Incarnation, ProfileName, Snapshot, Tick};
use boatswain_agent::protocol::{FromExecutor, Order, ToExecutor};

use account::Standing;
use doubt::{Doubt, Patience};

/// A connection, by the number that ExecutorRegistry gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

pub(crate) use ConnectionId as ConnId;

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Over a connection that stays open.
    Connection(ConnId),
    /// As a request of its own; the driver can only answer.
    Request,
}

/// From one look at who is silent to the next (spec B-12).
pub const LOOK: Duration = Duration::from_secs(1);

/// What the registry has to know beforehand.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The application.
    pub app: AppId,
    /// What its pods' names begin with.
    pub prefix: String,
    /// Which start of the driver this is; sessions are numbered from it.
    pub incarnation: Incarnation,
    /// From one heartbeat to the next (spec B-10).
    pub heartbeat_interval: Duration,
    /// Without a sign of life for so long an executor is given up (spec B-12).
    pub heartbeat_timeout: Duration,
    /// A lost connection has so long to be explained (spec B-15).
    pub loss_reason_timeout: Duration,
    /// More silent ones than so many in a hundred, at the same time, and the driver doubts itself (spec B-13).
    pub mass_loss: u32,
    /// Within this time an executor that runs has to register, where it has to (spec A-52).
    pub registration_timeout: Option<Duration>,
    /// So long nothing that was adopted is given up for want of a session (spec A-44).
    pub adoption_grace: Duration,
    /// What every executor is told when it registers (spec B-1).
    pub properties: BTreeMap<String, String>,
    /// How long the pods of each profile may take to end.
    pub graces: BTreeMap<ProfileName, Duration>,
}

/// A pod has so long to end where nothing else is said, as in Kubernetes.
const USUAL_GRACE: Duration = Duration::from_secs(30);

/// Sessions of an incarnation are numbered from its own number times this, so that none is used twice.
const SESSIONS: u64 = 1_000_000_000;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Say this over that connection.
    Send(ConnId, ToExecutor),
    /// End that connection, after what was said.
    Close(ConnId),
    /// Tell the ledger how an executor's session stands.
    Session {
        /// Whose.
        id: ExecutorId,
        /// Whether it has an account.
        registered: bool,
        /// Whether it has nothing to do.
        idle: bool,
    },
    /// Give an executor up.
    Retire(ExecutorId, Why),
    /// An executor asks to be drained, for this reason (spec B-30).
    AsksToGo(ExecutorId, String),
    /// Report a step in an executor's life.
    Happened(ExecutorId, ProfileName, SessionStep),
    /// The driver doubts itself.
    Degraded(WhyDoubt),
    /// It no longer does.
    Recovered,
}

/// Who has an account.
#[derive(Debug)]
pub struct Registry {
    settings: Settings,
    accounts: BTreeMap<ExecutorId, Account>,
    /// How many accounts there are of each profile.
    registered: BTreeMap<ProfileName, u32>,
    /// Who spoke last over each connection that has ever registered, with which session.
    connections: BTreeMap<ConnId, (ExecutorId, u64)>,
    /// Orders of executors that have not ended.
    orders: BTreeMap<ExecutorId, Standing>,
    /// Executors that run and have not registered, and when that is looked at next (spec A-52).
    awaited: BTreeMap<ExecutorId, liveness::Awaited>,
    /// When whom is to be looked at. Heartbeats do not touch it: who was heard of since is put off when its time comes.
    due: BTreeSet<(Tick, ExecutorId)>,
    doubt: Doubt,
    last_sign: Option<Tick>,
    sessions: u64,
}

impl Registry {
    /// With nobody in it.
    pub fn new(settings: Settings) -> Self {
        let patience = Patience {
            interval: settings.heartbeat_interval,
            timeout: settings.heartbeat_timeout,
            mass_loss: settings.mass_loss,
            look: LOOK,
        };
        Self {
            sessions: settings.incarnation.0.saturating_mul(SESSIONS),
            settings,
            accounts: BTreeMap::new(),
            registered: BTreeMap::new(),
            connections: BTreeMap::new(),
            orders: BTreeMap::new(),
            awaited: BTreeMap::new(),
            due: BTreeSet::new(),
            doubt: Doubt::new(patience),
            last_sign: None,
        }
    }

    /// An executor's account.
    pub fn account(&self, id: ExecutorId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    /// Whether the executor that this proves is in the snapshot, or nobody's is proved.
    pub fn knows(&self, proof: &Proof, snapshot: &Snapshot) -> bool {
        if snapshot.of_sets {
            return match proof {
                Proof::Executor(id) => snapshot.entry(*id).is_some(),
                Proof::Pod { uid, .. } => snapshot.by_uid.contains_key(uid),
            };
        }
        let id = proof.executor(&self.settings.prefix, Some(snapshot));
        id.is_none_or(|id| snapshot.entry(id).is_some())
    }

    /// Everyone who has an account.
    pub fn accounts(&self) -> impl ExactSizeIterator<Item = (ExecutorId, &Account)> {
        self.accounts.iter().map(|(id, account)| (*id, account))
    }

    /// There is a new profile, whose pods may take so long to end (spec B-26).
    pub fn know(&mut self, profile: ProfileName, grace: Duration) {
        self.settings.graces.insert(profile, grace);
    }

    /// How many executors of each profile have an account.
    pub fn registered(&self) -> &BTreeMap<ProfileName, u32> {
        &self.registered
    }

    /// Why the driver doubts itself, and since when (spec B-13).
    pub fn doubt(&self) -> Option<(WhyDoubt, Tick)> {
        self.doubt.current()
    }

    /// A message of an executor's: what it is answered, at least one thing. O(log n), whatever the fleet's size.
    ///
    /// `snapshot` is the newest one; none before adoption.
    pub fn said(
        &mut self,
        proof: &Proof,
        via: Via,
        message: &FromExecutor,
        snapshot: Option<&Snapshot>,
        now: Tick,
        effects: &mut Vec<Effect>,
    ) -> Vec<ToExecutor> {
        if let FromExecutor::Register(register) = message {
            return self.register(proof, via, register, snapshot, now, effects);
        }
        let id = match self.speaker(proof, via, message, snapshot) {
            Ok(id) => id,
            Err(answer) => return vec![answer],
        };
        self.sign_of_life(id, via, now, effects);
        let mut answer = Vec::new();
        let Some(account) = self.accounts.get_mut(&id) else {
            return vec![ToExecutor::Register];
        };
        match message {
            FromExecutor::Heartbeat(heartbeat) => {
                let slots = account.about.slots;
                if heartbeat.busy_slots > slots {
                    let message = format!("it registered with {slots} slots");
                    answer.push(ToExecutor::Problem {
                        code: "bad-message".to_owned(),
                        message,
                        field: Some("busy_slots".to_owned()),
                    });
                } else {
                    let was_idle = account.is_idle();
                    account.beat(heartbeat);
                    let idle = account.is_idle();
                    if idle != was_idle {
                        let registered = true;
                        effects.push(Effect::Session {
                            id,
                            registered,
                            idle,
                        });
                    }
                }
            }
            FromExecutor::DecommissionMe(ask) => {
                effects.push(Effect::AsksToGo(id, ask.why.clone()));
            }
            FromExecutor::Exiting(exiting) => {
                let (code, why) = (exiting.code, exiting.why.clone());
                account.is_exiting = true;
                let profile = account.profile.clone();
                effects.push(Effect::Happened(
                    id,
                    profile,
                    SessionStep::Exiting { code, why },
                ));
            }
            FromExecutor::Register(_) => {}
        }
        self.add_order(id, via, now, &mut answer);
        if answer.is_empty() {
            answer.push(ToExecutor::Ack);
        }
        answer
    }

    /// Over a request nothing can be told later, so an order that stands comes with each answer.
    fn add_order(&self, id: ExecutorId, via: Via, now: Tick, answer: &mut Vec<ToExecutor>) {
        if let (Via::Request, Some(order)) = (via, self.orders.get(&id)) {
            answer.push(order.message(now));
        }
    }

    /// Whose account a message is about, where it speaks for the newest session.
    fn speaker(
        &self,
        proof: &Proof,
        via: Via,
        message: &FromExecutor,
        snapshot: Option<&Snapshot>,
    ) -> Result<ExecutorId, ToExecutor> {
        let session = message.session();
        let (id, session) = match via {
            Via::Connection(connection) => {
                let registered = self.connections.get(&connection);
                let (id, registered) = registered.ok_or(ToExecutor::Register)?;
                if session.is_some_and(|session| session != *registered) {
                    let message = "another session registered over this connection";
                    return Err(ToExecutor::problem("another-session", message));
                }
                (*id, *registered)
            }
            Via::Request => {
                let id = proof.executor(&self.settings.prefix, snapshot);
                let id = id.ok_or(ToExecutor::Register)?;
                // A preStop hook is no part of the session, and knows its number from nowhere.
                let hook = matches!(message, FromExecutor::DecommissionMe(_));
                let newest = (self.accounts.get(&id)).map(|account| account.session);
                let message = "a request of its own has to name its session";
                let named = session.or(newest.filter(|_| hook));
                (
                    id,
                    named.ok_or_else(|| ToExecutor::problem("no-session", message))?,
                )
            }
        };
        let account = self.accounts.get(&id).ok_or(ToExecutor::Register)?;
        if let Proof::Pod { uid, .. } = proof
            && *uid != account.uid
        {
            return Err(ToExecutor::Register);
        }
        match session.cmp(&account.session) {
            std::cmp::Ordering::Less => Err(ToExecutor::Superseded),
            std::cmp::Ordering::Equal => Ok(id),
            std::cmp::Ordering::Greater => Err(ToExecutor::Register),
        }
    }

    /// A connection has ended; one that never registered is nobody's.
    pub fn lost(&mut self, connection: ConnId, now: Tick, effects: &mut Vec<Effect>) {
        let Some((id, _)) = self.connections.remove(&connection) else {
            return;
        };
        let Some(account) = self.accounts.get_mut(&id) else {
            return;
        };
        if account.reach != Reach::Connected(connection) {
            return;
        }
        account.reach = Reach::Lost(now);
        // Of one that has said that it exits, or was told to, the end of its connection is no news.
        let told = account.is_exiting || account.is_going;
        let disabled = (!told).then(|| account.profile.clone());
        effects
            .extend(disabled.map(|profile| Effect::Happened(id, profile, SessionStep::Disabled)));
        // It is given up sooner now.
        self.watch_over(id, now);
    }

    /// Gives an order, which stands until the executor ends; a weaker one than it has changes nothing. One without a time
    /// has the time that its pod has.
    pub fn order(&mut self, id: ExecutorId, order: Order, now: Tick, effects: &mut Vec<Effect>) {
        let account = self.accounts.get(&id);
        let order = match order.within {
            // What is deleted has its pod's own grace.
            Duration::ZERO => Order {
                within: self.grace(account),
                ..order
            },
            _ => order,
        };
        let order = Standing::new(order, now);
        let earlier = self.orders.get(&id);
        if earlier.is_none_or(|earlier| order.outdoes(earlier)) {
            if let Some(Reach::Connected(connection)) = account.map(|account| account.reach) {
                effects.push(Effect::Send(connection, order.message(now)));
            }
            self.orders.insert(id, order);
        }
    }

    /// How long the executor's pod may take to end.
    fn grace(&self, account: Option<&Account>) -> Duration {
        let grace = account.and_then(|account| self.settings.graces.get(&account.profile));
        grace.copied().unwrap_or(USUAL_GRACE)
    }

    /// A call to the API server was answered, or was not (spec B-13).
    pub fn call(&mut self, answered: bool, now: Tick) {
        self.doubt.call(answered, now);
    }
}

#[cfg(test)]
mod tests;
