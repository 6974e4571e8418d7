//! Tests of the actor between a recording store and a server whose every answer the test gives,
//! with a paused clock.

use actix::Addr;
use futures::StreamExt;
use rand::SeedableRng;
use serde_json::json;
use tokio::time::sleep;

use super::testing::{
    BeginEpoch, Received, Recorder, Server, cluster, create, lister, pod, status, versions,
};
use super::*;
use crate::kubernetes::Clients;
use crate::model::Epoch;

const S: Duration = Duration::from_secs(1);
const BESIDE: Pace = Pace {
    interval: Duration::from_secs(30),
    from_cache: true,
    makes_first_list: false,
};
const ALONE: Pace = Pace {
    makes_first_list: true,
    ..BESIDE
};

struct Rig {
    server: Server,
    store: Addr<Recorder>,
    hears: futures::channel::mpsc::UnboundedReceiver<Received>,
    source: Addr<PollSource>,
}

impl Rig {
    fn started(pace: Pace) -> Self {
        tokio::time::pause();
        let (clients, server) = Server::started();
        let (store, hears) = Recorder::started();
        let lister = lister(clients, &store);
        let source = PollSource::new(lister, pace, StdRng::seed_from_u64(3)).start();
        Self {
            server,
            store,
            hears,
            source,
        }
    }

    async fn received(&mut self) -> Vec<(char, u64)> {
        sleep(Duration::from_millis(10)).await;
        versions(&mut self.hears)
    }
}

// spec: P-1, W-6
#[actix::test]
async fn without_a_watch_the_first_list_is_a_quorum_list_and_later_ones_are_not_older_than_the_highest_version()
 {
    let mut rig = Rig::started(ALONE);
    let first = rig.server.list().await;
    assert!(!first.has("resourceVersionMatch=NotOlderThan"));
    first.page(10, "", &[pod(1, 7)]);
    rig.server.quiet_for(27 * S).await;
    let second = rig.server.list().await;
    assert!(second.has("resourceVersion=10") && second.has("resourceVersionMatch=NotOlderThan"));
    assert!(second.has("limit=500"));
    second.page(12, "next", &[pod(1, 7)]);
    let page = rig.server.list().await;
    assert!(page.has("continue=next") && !page.has("resourceVersion=10"));
    page.page(12, "", &[pod(2, 12)]);
    assert_eq!(
        rig.received().await,
        [('?', 0), ('l', 10), ('?', 0), ('l', 12)]
    );
}

// spec: P-1
#[actix::test]
async fn beside_a_watch_the_first_list_comes_one_interval_after_the_start() {
    let mut rig = Rig::started(BESIDE);
    rig.server.quiet_for(27 * S).await;
    let list = rig.server.list().await;
    assert!(
        !list.has("resourceVersion=0"),
        "where nothing was seen yet, a cache may be as old as it likes"
    );
}

// spec: P-3
#[actix::test]
async fn where_it_is_switched_off_everything_is_still_listed_each_five_minutes() {
    let mut rig = Rig::started(Pace::SWEEP);
    for _ in 0..3 {
        rig.server.quiet_for(270 * S).await;
        let list = tokio::time::timeout(60 * S, rig.server.list())
            .await
            .unwrap();
        assert!(!list.has("resourceVersionMatch=NotOlderThan"));
        list.page(10, "", &[]);
    }
}

// spec: P-1, S-13
#[actix::test]
async fn a_server_that_has_not_reached_the_version_is_asked_for_the_newest_at_once() {
    let mut rig = Rig::started(ALONE);
    rig.server.list().await.page(10, "", &[]);
    let mut refusal = status(504, "Timeout");
    refusal["details"] = json!({"causes": [{"reason": "ResourceVersionTooLarge"}]});
    rig.server.list().await.json(504, &refusal);
    let quorum = tokio::time::timeout(S, rig.server.list()).await.unwrap();
    assert!(!quorum.has("resourceVersionMatch=NotOlderThan"));
    quorum.page(3, "", &[]);
    sleep(S).await;
    let mut lists = Vec::new();
    while let Ok(heard) = rig.hears.try_recv() {
        if let Received::List(list) = heard {
            lists.push((list.version, list.kind));
        }
    }
    assert_eq!(
        lists,
        [
            (10.into(), ListKind::PollNewest),
            (3.into(), ListKind::PollNewest)
        ]
    );
}

// spec: P-1
#[actix::test]
async fn an_expired_page_token_starts_the_list_again_but_not_for_ever() {
    let mut rig = Rig::started(ALONE);
    for _ in 0..4 {
        rig.server.list().await.page(10, "token", &[]);
        rig.server.list().await.refuse(410, "Expired");
    }
    rig.server.quiet_for(Duration::from_millis(400)).await;
    assert_eq!(rig.received().await, [('?', 0); 4]);
    rig.server.list().await.page(20, "", &[]);
    assert_eq!(rig.received().await, [('?', 0), ('l', 20)]);
}

// spec: P-2
#[actix::test]
async fn a_poll_without_end_ends_at_its_deadline() {
    let mut rig = Rig::started(ALONE);
    rig.server.list().await.page(10, "", &[]);
    let began = rig.server.list().await;
    let since = Instant::now();
    began.page(11, "more", &[]);
    loop {
        sleep(S).await;
        let asked = rig.server.list().await;
        if !asked.has("continue=more") {
            break;
        }
        asked.page(11, "more", &[]);
    }
    let between = since.elapsed();
    assert!(
        (87 * S..=95 * S).contains(&between),
        "60 s and an interval, not {between:?}"
    );
}

// spec: P-2
#[actix::test]
async fn a_failed_poll_tells_the_store_nothing_and_waits_for_the_next_interval() {
    let mut rig = Rig::started(ALONE);
    rig.server.list().await.page(10, "", &[]);
    rig.server.list().await.refuse(500, "InternalError");
    rig.server.quiet_for(27 * S).await;
    assert_eq!(rig.received().await, [('?', 0), ('l', 10), ('?', 0)]);
    rig.server.list().await;
}

// spec: S-13
#[actix::test]
async fn a_list_asked_for_in_an_older_history_is_made_again_at_once() {
    let mut rig = Rig::started(ALONE);
    let asked = rig.server.list().await;
    rig.store.send(BeginEpoch(Epoch(1))).await.unwrap();
    asked.page(10, "", &[]);
    tokio::time::timeout(S, rig.server.list()).await.unwrap();
}

#[actix::test]
async fn the_end_of_the_driver_ends_everything_at_once() {
    let mut rig = Rig::started(ALONE);
    let asked = rig.server.list().await;
    rig.source.send(StopCalling).await.unwrap();
    asked.page(10, "", &[]);
    rig.server.quiet_for(3_600 * S).await;
    assert_eq!(rig.received().await, [('?', 0)]);
}

// spec: P-1
#[actix::test]
async fn all_pages_of_a_cluster_make_one_list_as_of_the_first_page() {
    tokio::time::pause();
    let cluster = cluster();
    let (store, mut hears) = Recorder::started();
    let mut lister = lister(Clients::in_process(cluster.router(), "default"), &store);
    lister.page_size = 2;
    for id in 1..=5 {
        create(&lister.calls, id).await;
    }
    let _source = PollSource::new(lister.clone(), ALONE, StdRng::seed_from_u64(3)).start();
    for round in 0..3 {
        let list = loop {
            if let Some(Received::List(list)) = hears.next().await {
                break list;
            }
        };
        assert_eq!(list.kind.is_newest(), round == 0);
        let listed: Vec<_> = list.items.iter().filter_map(|pod| pod.version()).collect();
        assert_eq!(listed.len(), 5 + round);
        assert_eq!(listed.last(), Some(&&list.version));
        create(&lister.calls, 6 + round as u64).await;
    }
}
