//! Updates the registry from the ledger: executors that ended, are leaving, or should register.

use super::{Effect, Reach, Registry};
use crate::model::executor::{Class, Session};
use crate::model::pod::PendingStage;
use crate::model::{Batch, Entry, ExecutorId, Tick};
use boatswain_agent::protocol::ToExecutor;

impl Registry {
    /// Processes a batch. `first`: all entries are new, because it is the first after adoption.
    /// O(changes).
    pub fn round(&mut self, batch: &Batch, now: Tick, effects: &mut Vec<Effect>) {
        let latest = batch.latest();
        for id in batch.changed_executors() {
            match latest.entry(id) {
                Some(entry) => self.entry(entry, now, effects),
                None => self.has_ended(id, "it has ended", effects),
            }
        }
    }

    fn entry(&mut self, entry: &Entry, now: Tick, effects: &mut Vec<Effect>) {
        let id = entry.id;
        if entry.has_ended() {
            return self.has_ended(id, "its pod has ended", effects);
        }
        self.let_begin(entry, effects);
        let account = self.accounts.get(&id);
        if let (Some(account), Some(uid)) = (account, entry.uid())
            && account.uid != *uid
        {
            let why = "the executor of this id runs in another pod";
            self.close(id, "another-pod", why, effects);
            effects.push(Effect::Session(id, Session::default()));
            self.entry(entry, now, effects);
            return;
        }
        if entry.class() == Class::Pending(PendingStage::Restarting) {
            return self.begins_to_restart(id);
        }
        self.has_restarted(entry, now);
        let account = self.accounts.get(&id);
        match &entry.leaving {
            // LifecycleManager sends the order.
            Some(_) => {
                self.stop_waiting_for(id);
                self.is_going(id);
            }
            None if account.is_none() && entry.class() == Class::Running => {
                self.wait_for(entry, now);
            }
            None => {}
        }
    }

    fn has_ended(&mut self, id: ExecutorId, why: &str, effects: &mut Vec<Effect>) {
        let usage = self.accounts.get(&id).and_then(|account| account.usage);
        effects.extend(usage.map(|usage| Effect::Used(id, usage)));
        self.close(id, "ended", why, effects);
    }

    /// Closes the account of an executor that has ended, or that turned out to run in another pod.
    fn close(&mut self, id: ExecutorId, code: &str, why: &str, effects: &mut Vec<Effect>) {
        self.orders.remove(&id);
        if let Some(connection) = self.held_back.remove(&id) {
            effects.push(Effect::Send(connection, ToExecutor::exit(code, why)));
            effects.push(Effect::Close(connection));
        }
        self.stop_waiting_for(id);
        self.restarting.remove(&id);
        let Some(account) = self.accounts.remove(&id) else {
            return;
        };
        if let Some(registered) = self.registered.get_mut(&account.profile) {
            *registered = registered.saturating_sub(1);
        }
        if let Some(due) = account.due {
            self.due.remove(&(due, id));
        }
        if let Reach::Connected(connection) = account.reach {
            effects.push(Effect::Send(connection, ToExecutor::exit(code, why)));
            effects.push(Effect::Close(connection));
        }
    }
}
