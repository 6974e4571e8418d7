//! The section `[nodes]`: the cluster's nodes, and executors on those that are about to leave (spec W-15, B-71).

use std::time::Duration;

use super::declare::section;
use super::kinds::{Flag, Whole, span};
use super::notes::Notes;
use super::profile::{MOST_EXECUTORS, QUALIFIED};
use super::sections::{DAY, secs};
use super::{ClusterMode, Config, Strategy};

section! {
    /// `[nodes]`: nodes that are about to leave.
    pub struct Nodes {
        /// Whether autoscalers of the cluster leave the pods of executors alone that have work.
        pub protect_busy: bool = value(Flag) or false;
        /// Whether nodes are watched. Without the right to it, the driver goes on without.
        pub watch: bool = value(Flag) or false;
        /// Keys of taints that say that a node is about to leave, in addition to the known ones.
        pub leaving_taints: Vec<String> = list(QUALIFIED);
        /// Whether a cordoned node is about to leave.
        pub cordoned: bool = value(Flag) or false;
        /// How long a node that is about to leave stays at least. After half of that time its executors are
        /// decommissioned, whether their replacements run or not.
        pub notice: Duration = value(span(secs(1)..=DAY)) or secs(120);
        /// The most executors of a profile that are wanted beyond its target, as replacements of those that are about
        /// to leave.
        pub max_surge: u32 = value(Whole(0..=MOST_EXECUTORS)) or 100;
    }
}

const WATCH: &str = "nodes.watch";

pub(super) fn check(config: &Config, notes: &mut Notes) {
    if config.nodes.protect_busy && config.backend.sessions.listen.is_none() {
        notes.contradict(
            &["nodes.protect_busy", "backend.listen"],
            "found true, and without sessions no executor says whether it has work",
            "set backend.listen, or remove nodes.protect_busy",
        );
    }
    if !config.nodes.watch {
        return;
    }
    if config.allocation.strategy != Strategy::Direct {
        notes.contradict(
            &[WATCH, "allocation.strategy"],
            "found true, and a set decides which of its executors leave",
            "remove it, or set allocation.strategy = \"direct\"",
        );
    }
    if config.cluster.mode == ClusterMode::Embedded {
        notes.contradict(
            &[WATCH, "cluster.mode"],
            "found true, and the embedded cluster's node does not leave",
            "remove it, or set cluster.mode = \"kubernetes\"",
        );
    }
}
