//! Registration: opens an account, or begins a new session of one (spec B-1, B-2).

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::rate::Used;
use super::account::{Account, Reach, StandingOrder};
use super::admission::{self, Proof};
use super::{Effect, Registry, SessionStep, Via, references};
use crate::model::{Entry, ExecutorId, PodUid, Snapshot, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::protocol::{Register, Registered, ToExecutor};

/// How long an executor waits whose properties refer to what the driver does not know of its pod yet.
const POD_UNSEEN: Duration = Duration::from_secs(1);

impl Registry {
    pub(super) fn register(
        &mut self,
        proof: &Proof,
        via: Via,
        register: &Register,
        snapshot: Option<&Snapshot>,
        now: Tick,
        effects: &mut Vec<Effect>,
    ) -> Vec<ToExecutor> {
        // An earlier driver may have sent the order to drain, or this answer does (spec B-30).
        let drains = |entry: &Entry| {
            let order = self.orders.get(&entry.id);
            order.is_some_and(StandingOrder::is_drain) || entry.drains_at(now)
        };
        let admitted =
            admission::admit((&self.app, &self.prefix), proof, register, snapshot, drains);
        let (id, uid, entry) = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => return vec![refused],
        };
        if entry.is_spare() && !planted::is(Planted::SparesBegin) {
            return vec![self.hold_back(entry, via, now)];
        }
        // Registered before the driver has seen its pod on a node.
        let Some(properties) = references::resolve(&self.config.app.properties, entry) else {
            return vec![later(POD_UNSEEN)];
        };
        let (before, messages) = match self.earlier(id, &uid, now) {
            Ok(earlier) => earlier,
            Err(refused) => return vec![refused],
        };
        self.sessions += 1;
        let session = self.sessions;
        let profile = entry.profile.clone();
        if let Some(Reach::Connected(older)) = before.as_ref().map(|before| before.reach)
            && via != Via::Connection(older)
        {
            effects.push(Effect::Send(older, ToExecutor::Superseded));
            effects.push(Effect::Close(older));
        }
        let reach = match via {
            Via::Connection(connection) => {
                self.openings.close(connection);
                self.connections.insert(connection, (id, session));
                Reach::Connected(connection)
            }
            Via::Request => Reach::Asking,
        };
        let busy_slots = before.as_ref().and_then(|before| before.busy_slots);
        let account = Account {
            profile: profile.clone(),
            uid,
            session,
            reach,
            last_sign: now,
            about: register.into(),
            busy_slots: busy_slots.filter(|busy| *busy <= register.slots),
            metrics: BTreeMap::new(),
            usage: None,
            growth: self.profiles.get(&profile).and_then(|of| of.growth),
            is_exiting: false,
            has_asked_to_go: before.as_ref().is_some_and(|before| before.has_asked_to_go),
            messages,
            is_going: entry.leaving.is_some(),
            due: before.as_ref().and_then(|before| before.due),
        };
        let (was, is) = (before.as_ref().map(Account::session), account.session());
        self.last_sign = Some(now);
        self.stop_waiting_for(id);
        self.accounts.insert(id, account);
        if before.is_none() {
            *self.registered.entry(profile.clone()).or_default() += 1;
        }
        self.watch_over(id, now);
        let step = step(before.as_ref(), register, session);
        effects.extend((was != Some(is)).then_some(Effect::Session(id, is)));
        let registered = Registered {
            executor: id.get(),
            session,
            profile: profile.to_string(),
            heartbeat_interval_ms: in_ms(self.config.backend.sessions.heartbeat_interval),
            heartbeat_timeout_ms: in_ms(self.config.backend.sessions.heartbeat_timeout),
            properties,
        };
        effects.extend(step.map(|step| Effect::Happened(id, profile, step)));
        let mut answer = vec![ToExecutor::Registered(registered)];
        // Includes an order that was given before it registered (spec B-30).
        answer.extend(self.orders.get(&id).map(|order| order.message(now)));
        answer
    }
}

impl Registry {
    /// Takes out the account that a registration continues, and what is used of its rate.
    fn earlier(
        &mut self,
        id: ExecutorId,
        uid: &PodUid,
        now: Tick,
    ) -> Result<(Option<Account>, Used), ToExecutor> {
        let Some(before) = self.accounts.get(&id) else {
            return Ok((None, Used::default()));
        };
        if before.uid != *uid {
            // No pod is bound yet, so either may be the right one; the first stays until then.
            let message = format!("executor {id} has registered from another pod");
            return Err(ToExecutor::refused("another-pod", message));
        }
        let mut messages = before.messages;
        self.rate.take(&mut messages, now).map_err(later)?;
        Ok((self.accounts.remove(&id), messages))
    }
}

/// Asks for another registration after this time.
pub(super) fn later(wait: Duration) -> ToExecutor {
    ToExecutor::Later {
        in_ms: in_ms(wait).max(1),
    }
}

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The session step of a registration; `None` if the registration changes nothing.
fn step(before: Option<&Account>, register: &Register, session: u64) -> Option<SessionStep> {
    match before {
        Some(before) if before.is_disabled() && !before.is_exiting && !before.is_going => {
            Some(SessionStep::Enabled)
        }
        Some(_) => None,
        None => Some(SessionStep::Registered {
            address: register.address.clone(),
            slots: register.slots,
            session,
        }),
    }
}
