//! Tests of whole drivers against the embedded cluster's router, with a paused clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disruption_budgets;
mod drains;
mod kept_pods;
mod kubernetes_events;
mod lease;
mod outage;
mod queue;
mod record_watch;
mod refused_claims;
mod refused_profile;
mod refused_writes;
mod rejecting_node;
mod rights_gone;
mod server;
mod session;
mod sets;
mod slow_start;
mod start_after_end;
mod stopping;
mod two_pods;

use std::time::Duration;

use devcluster::{DevCluster, NodeKind, Options, SimulatedNode};

/// A cluster whose pods run at once.
fn cluster() -> DevCluster {
    devcluster::start(Options {
        node: NodeKind::Simulated(SimulatedNode::default()),
        ..Options::default()
    })
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}
