//! The cluster's nodes, as they are told (spec W-15).

use std::sync::Arc;

use crate::Now;
use crate::node::{Learnt, Node};

use super::{Draft, Ledger, PLAUSIBLE_ID};

impl Ledger {
    pub(super) fn list_nodes(&mut self, nodes: Vec<Node>, now: Now, draft: &mut Draft) {
        let now = self.learnt(now);
        draft.other |= self.current.nodes.list(nodes, now);
    }

    pub(super) fn see_node(&mut self, node: Node, now: Now, draft: &mut Draft) {
        let now = self.learnt(now);
        draft.other |= self.current.nodes.see(node, now);
    }

    pub(super) fn node_is_gone(&mut self, name: &Arc<str>, now: Now, draft: &mut Draft) {
        let now = self.learnt(now);
        draft.other |= self.current.nodes.remove(name, now);
    }

    fn learnt(&self, now: Now) -> Learnt {
        let of_entries = (self.current.entries.keys().rev()).find(|id| id.get() < PLAUSIBLE_ID);
        Learnt {
            at: now.tick,
            newest: of_entries.max(self.current.ended.last_below(PLAUSIBLE_ID)),
        }
    }
}
