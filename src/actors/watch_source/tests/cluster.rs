//! Tests of the actor between a recording store and the embedded cluster, with a paused clock.

use std::collections::BTreeSet;
use std::time::Duration;

use actix::Addr;
use rand::SeedableRng;
use tokio::time::sleep;

use super::super::*;
use crate::actors::poll_source::testing::{Received, Recorder, cluster, create, lister, versions};
use crate::kubernetes::{Calls, Clients};
use devcluster::DevCluster;

const S: Duration = Duration::from_secs(1);

struct Rig {
    cluster: DevCluster,
    calls: Calls,
    hears: futures::channel::mpsc::UnboundedReceiver<Received>,
    /// Kept so that it lives as long as the rig.
    _source: Addr<WatchSource>,
}

impl Rig {
    async fn started() -> Self {
        tokio::time::pause();
        let cluster = cluster();
        let clients = Clients::in_process(cluster.router(), "default");
        let (store, hears) = Recorder::started();
        let lister = lister(clients, &store);
        let calls = lister.calls.clone();
        let rng = StdRng::seed_from_u64(3);
        let source = WatchSource::new(Watched::Pods(lister), store.recipient(), rng).start();
        let mut rig = Self {
            cluster,
            calls,
            hears,
            _source: source,
        };
        assert!(matches!(rig.received().await[..], [('?', 0), ('l', _)]));
        rig
    }

    async fn received(&mut self) -> Vec<(char, u64)> {
        sleep(S).await;
        versions(&mut self.hears)
    }

    async fn create(&self, id: u64) -> u64 {
        create(&self.calls, id).await
    }
}

// spec: W-2
#[actix::test]
async fn a_watch_that_is_cut_again_and_again_loses_no_event_and_repeats_none() {
    let mut rig = Rig::started().await;
    let mut expected = Vec::new();
    for id in 1..=200 {
        expected.push(('s', rig.create(id).await));
        if id % 3 == 0 {
            rig.cluster.cut_watches().await;
        }
        if id % 7 == 0 {
            sleep(Duration::from_millis(300)).await;
        }
    }
    sleep(60 * S).await;
    let heard: Vec<_> = rig
        .received()
        .await
        .into_iter()
        .filter(|(what, _)| *what != 'b')
        .collect();
    assert_eq!(heard, expected);
}

// spec: W-2
#[actix::test]
async fn history_forgotten_while_the_watch_was_away_leads_to_a_new_list() {
    let mut rig = Rig::started().await;
    rig.cluster.cut_watches().await;
    let version = rig.create(1).await;
    rig.create(2).await;
    rig.cluster.compact().await;
    sleep(10 * S).await;
    let after = rig.create(3).await;
    let heard = rig.received().await;
    assert_eq!(heard, [('?', 0), ('l', version + 1), ('s', after)]);
}

// spec: W-3
#[actix::test]
async fn a_quiet_cluster_is_watched_for_hours_without_another_list() {
    let mut rig = Rig::started().await;
    sleep(6 * 3_600 * S).await;
    let kinds: BTreeSet<_> = rig
        .received()
        .await
        .into_iter()
        .map(|(what, _)| what)
        .collect();
    assert_eq!(kinds, BTreeSet::from(['b']));
    let version = rig.create(1).await;
    assert_eq!(rig.received().await, [('s', version)]);
}

// spec: W-3
#[actix::test]
async fn a_server_put_back_to_an_earlier_state_is_listed_after_two_silences() {
    let mut rig = Rig::started().await;
    let before = rig.cluster.state().await;
    for id in 1..=20 {
        rig.create(id).await;
    }
    sleep(70 * S).await;
    rig.received().await;
    rig.cluster.restore(before).await;
    let restored = rig.create(1).await;
    sleep(310 * S).await;
    assert_eq!(rig.received().await[..2], [('?', 0), ('l', restored)]);
    let version = rig.create(2).await;
    assert_eq!(rig.received().await, [('s', version)]);
}
