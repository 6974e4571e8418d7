//! The registry: which executors have an account with the driver, and which are given up (spec B-1
//! to B-16, B-20, B-21, A-44, A-52). Pure: inputs return effects for ExecutorRegistry to carry out.
//!
//! What each input does in each state of an executor's account:
//!
//! | | none | connected | asking | lost |
//! |---|---|---|---|---|
//! | register, over a connection | account, connected | the older session is superseded; connected | connected | enabled; connected |
//! | register, by request | account, asking | the older session is superseded; asking | a newer session | enabled; asking |
//! | anything else, newest session | – | sign of life | sign of life | sign of life, by request: enabled |
//! | anything else, older session | "register" | "superseded" | "superseded" | "superseded" |
//! | any message, more often than the rate allows | – | refused | refused | refused |
//! | its connection ends | – | lost: disabled | – | – |
//! | an older connection ends | – | nothing | nothing | nothing |
//! | its pod has ended, or is another | – | ordered to exit; no account | no account | no account |
//! | an order to leave | the order is kept | sent | sent with the next answer | sent when it is back |
//! | no sign of life within the timeout | – | given up | given up | given up, sooner |
//!
//! `admission` decides whether a registration is valid, `doubt` whether the driver suspects itself.

mod account;
mod admission;
mod doubt;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod ledger;
mod liveness;
mod openings;
mod record_check;
mod references;
mod registration;
mod spares;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use account::{About, Account, Reach};
pub use admission::Proof;
pub use doubt::{NoKeys, WhyDoubt};
pub use step::SessionStep;

use super::rate::Rate;
use crate::config::Config;
use crate::model::executor::{LeaveReason, Session};
use crate::model::failures::Growth;
use crate::model::{AppId, ExecutorId, Incarnation, ProfileName, Snapshot, Tick};
use boatswain_agent::protocol::{FromExecutor, Order, ToExecutor, Usage};

use account::StandingOrder;
use doubt::{Doubt, Patience};
use openings::Openings;
use record_check::RecordCheck;

/// The number that ExecutorRegistry gave a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

pub(crate) use ConnectionId as ConnId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Connection(ConnId),
    /// As one request, which the driver can only answer.
    Request,
}

/// The interval between two checks for silent executors (spec B-12).
pub const LOOK: Duration = Duration::from_secs(1);

/// The most messages of an executor at once.
const BURST: u32 = 20;

/// After that many, one each quarter of a heartbeat's interval, or more often (spec O-56).
const MESSAGE: Duration = Duration::from_secs(1);

/// Kubernetes' default termination grace.
const USUAL_GRACE: Duration = Duration::from_secs(30);

/// The code of the answer to a message that exceeds an executor's rate (spec O-56).
pub const TOO_MANY: &str = "too-many-messages";

/// The session numbers of an incarnation start at this multiple, so that none is used twice.
const SESSIONS: u64 = 1_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Send(ConnId, ToExecutor),
    /// Close the connection after the messages that were sent.
    Close(ConnId),
    /// Report the state of a session to the ledger.
    Session(ExecutorId, Session),
    Retire(ExecutorId, LeaveReason),
    /// Find out whether the record is still this driver's, and call [`Registry::record_read`].
    ReadRecord,
    /// An executor requests to be drained, for this reason.
    AsksToGo(ExecutorId, String),
    /// Report a step of a session to the event history.
    Happened(ExecutorId, ProfileName, SessionStep),
    /// Report to the event history what the container of an executor used that has ended.
    Used(ExecutorId, Usage),
    /// The driver suspects itself.
    Degraded(WhyDoubt),
    Recovered,
}

/// What the registry knows of a profile.
#[derive(Debug, Clone, Copy)]
pub struct OfProfile {
    /// The termination grace of its pods.
    grace: Duration,
    /// How the memory of its executors may grow while they run, if it may (spec L-44).
    growth: Option<Growth>,
}

impl OfProfile {
    /// `grace`: `None` if its template decides. `growth`: how the memory of its executors may grow at all.
    pub fn new(grace: Option<Duration>, growth: Option<Growth>) -> Self {
        Self {
            grace: grace.unwrap_or(USUAL_GRACE),
            growth: growth.filter(|growth| growth.in_place),
        }
    }
}

#[derive(Debug)]
pub struct Registry {
    app: AppId,
    /// The prefix of pod names.
    prefix: String,
    config: Arc<Config>,
    profiles: BTreeMap<ProfileName, OfProfile>,
    accounts: BTreeMap<ExecutorId, Account>,
    /// The number of accounts of each profile.
    registered: BTreeMap<ProfileName, u32>,
    /// The executor and session that last used each connection that has registered.
    connections: BTreeMap<ConnId, (ExecutorId, u64)>,
    openings: Openings,
    /// The connections over which spares asked to register. One may be gone; its executor asks over another one.
    held_back: BTreeMap<ExecutorId, ConnId>,
    /// How often each executor may send a message.
    rate: Rate,
    /// The orders of executors that have not ended.
    orders: BTreeMap<ExecutorId, StandingOrder>,
    /// Running executors that have not registered, with their next check.
    awaited: BTreeMap<ExecutorId, liveness::Awaited>,
    /// Executors whose containers wait to be started again. That explains their silence.
    restarting: BTreeSet<ExecutorId>,
    /// All checks by time. A check that comes up is moved if a message arrived since.
    due: BTreeSet<(Tick, ExecutorId)>,
    doubt: Doubt,
    record_check: RecordCheck,
    /// When the record was last read in a doubt.
    read_in_doubt_at: Option<Tick>,
    last_sign: Option<Tick>,
    /// When the silence of the executor that was given up last began.
    given_up_since: Option<Tick>,
    sessions: u64,
}

impl Registry {
    /// `incarnation`: the number of this start, from which session numbers derive.
    pub fn new(app: AppId, prefix: String, incarnation: Incarnation, config: Arc<Config>) -> Self {
        let sessions = &config.backend.sessions;
        let patience = Patience {
            interval: sessions.heartbeat_interval,
            timeout: sessions.heartbeat_timeout,
            mass_loss: sessions.mass_loss,
            look: LOOK,
        };
        let rate = Rate {
            burst: BURST,
            interval: MESSAGE.min(sessions.heartbeat_interval / 4),
        };
        let profiles = config.profiles.iter();
        let profiles = profiles.map(|(name, profile)| {
            let of = OfProfile::new(Some(profile.termination_grace), profile.growth());
            (name.clone(), of)
        });
        Self {
            sessions: incarnation.0.saturating_mul(SESSIONS),
            profiles: profiles.collect(),
            app,
            prefix,
            config,
            accounts: BTreeMap::new(),
            registered: BTreeMap::new(),
            connections: BTreeMap::new(),
            openings: Openings::default(),
            held_back: BTreeMap::new(),
            rate,
            orders: BTreeMap::new(),
            awaited: BTreeMap::new(),
            restarting: BTreeSet::new(),
            due: BTreeSet::new(),
            doubt: Doubt::new(patience),
            record_check: RecordCheck::default(),
            read_in_doubt_at: None,
            last_sign: None,
            given_up_since: None,
        }
    }

    /// The time limit of a decommissioning that an executor requests (spec B-30).
    pub fn decommission_timeout(&self) -> Duration {
        self.config.backend.decommission_timeout
    }

    pub fn account(&self, id: ExecutorId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    /// Whether the snapshot contains the executor of this proof, or the proof is of no executor.
    pub fn knows(&self, proof: &Proof, snapshot: &Snapshot) -> bool {
        if snapshot.of_sets {
            return match proof {
                Proof::Executor(id) => snapshot.entry(*id).is_some(),
                Proof::Pod { uid, .. } => snapshot.by_uid.contains_key(uid),
            };
        }
        let id = proof.executor(&self.prefix, Some(snapshot));
        id.is_none_or(|id| snapshot.entry(id).is_some())
    }

    pub fn accounts(&self) -> impl ExactSizeIterator<Item = (ExecutorId, &Account)> {
        self.accounts.iter().map(|(id, account)| (*id, account))
    }

    /// Adds a profile (spec B-26).
    pub fn add_profile(&mut self, name: ProfileName, profile: OfProfile) {
        self.profiles.insert(name, profile);
    }

    /// Forgets a removed profile (spec B-57).
    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.profiles.remove(profile);
    }

    /// The number of accounts of each profile.
    pub fn registered(&self) -> &BTreeMap<ProfileName, u32> {
        &self.registered
    }

    /// Why the driver suspects itself, and since when (spec B-13).
    pub fn doubt(&self) -> Option<(WhyDoubt, Tick)> {
        self.doubt.current()
    }

    /// Answers a message of an executor, with at least one message. O(log n). `snapshot` is the
    /// newest one; `None` before adoption.
    pub fn receive(
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
        if self.rate.take(&mut account.messages, now).is_err() {
            let message = "messages come too fast: this one was ignored";
            return vec![ToExecutor::problem(TOO_MANY, message)];
        }
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
                    let before = account.session();
                    account.beat(heartbeat);
                    let session = account.session();
                    if session != before {
                        effects.push(Effect::Session(id, session));
                    }
                }
            }
            FromExecutor::DecommissionMe(_) if account.has_asked_to_go => {}
            FromExecutor::DecommissionMe(ask) => {
                account.has_asked_to_go = true;
                effects.push(Effect::AsksToGo(id, ask.why.clone()));
            }
            FromExecutor::Exiting(_) if account.is_exiting => {}
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

    /// Without a connection an order can only be sent with an answer, so each answer includes it.
    fn add_order(&self, id: ExecutorId, via: Via, now: Tick, answer: &mut Vec<ToExecutor>) {
        if let (Via::Request, Some(order)) = (via, self.orders.get(&id)) {
            answer.push(order.message(now));
        }
    }

    /// The executor whose account a message is about, if it belongs to the newest session.
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
                let id = proof.executor(&self.prefix, snapshot);
                let id = id.ok_or(ToExecutor::Register)?;
                // A preStop hook is not part of the session, and does not know its number.
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

    /// Handles the end of a connection. A connection that never registered is ignored.
    pub fn lost(&mut self, connection: ConnId, now: Tick, effects: &mut Vec<Effect>) {
        self.openings.close(connection);
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
        // Expected after the executor has reported that it exits, or was ordered to.
        let told = account.is_exiting || account.is_going;
        let disabled = (!told).then(|| account.profile.clone());
        effects
            .extend(disabled.map(|profile| Effect::Happened(id, profile, SessionStep::Disabled)));
        // Its time limit is now earlier.
        self.watch_over(id, now);
    }

    /// Records an order, which stays valid until the executor ends, unless a stricter one exists.
    pub fn order(&mut self, id: ExecutorId, order: Order, now: Tick, effects: &mut Vec<Effect>) {
        let account = self.accounts.get(&id);
        let order = match order.within {
            // Zero stands for the grace of the pod, which is being deleted.
            Duration::ZERO => Order {
                within: self.grace(account),
                ..order
            },
            _ => order,
        };
        let order = StandingOrder::new(order, now);
        let earlier = self.orders.get(&id);
        if earlier.is_none_or(|earlier| order.outdoes(earlier)) {
            if let Some(Reach::Connected(connection)) = account.map(|account| account.reach) {
                effects.push(Effect::Send(connection, order.message(now)));
            }
            self.orders.insert(id, order);
        }
    }

    /// The termination grace of the executor's pod.
    fn grace(&self, account: Option<&Account>) -> Duration {
        let profile = account.and_then(|account| self.profiles.get(&account.profile));
        profile.map_or(USUAL_GRACE, |profile| profile.grace)
    }

    /// Since when no API call was answered (spec B-13).
    pub fn unanswered(&mut self, since: Option<Tick>) {
        self.doubt.unanswered(since);
    }

    /// Executors' tokens cannot be verified for this reason, or can be again (spec B-13).
    pub fn tokens(&mut self, no_keys: Option<NoKeys>) {
        self.doubt.tokens(no_keys);
    }
}

#[cfg(test)]
mod tests;
