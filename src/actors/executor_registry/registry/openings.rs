//! The connections that were opened and have not registered (spec O-116).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ConnId, Effect, Proof, Registry};

/// At most one connection for each identity.
#[derive(Debug, Default)]
pub(super) struct Openings {
    newest: BTreeMap<Arc<Proof>, ConnId>,
    proofs: BTreeMap<ConnId, Arc<Proof>>,
}

impl Openings {
    /// The older connection of the same identity, which the new one replaces.
    fn open(&mut self, connection: ConnId, proof: Arc<Proof>) -> Option<ConnId> {
        self.proofs.insert(connection, Arc::clone(&proof));
        let older = self.newest.insert(proof, connection)?;
        self.proofs.remove(&older);
        Some(older)
    }

    /// The connection has registered, or is gone.
    pub(super) fn close(&mut self, connection: ConnId) {
        if let Some(proof) = self.proofs.remove(&connection) {
            self.newest.remove(&proof);
        }
    }
}

impl Registry {
    /// Handles a new connection. An older one of the same executor that has not registered is
    /// closed; one that has registered stays until the new one registers (spec B-2).
    pub fn opened(&mut self, connection: ConnId, proof: Arc<Proof>, effects: &mut Vec<Effect>) {
        let older = self.openings.open(connection, proof);
        effects.extend(older.map(Effect::Close));
    }
}
