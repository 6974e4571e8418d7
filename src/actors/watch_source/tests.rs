//! Tests of the actor between a recording store and a server whose every answer the test gives,
//! with a paused clock.

mod cluster;
mod streamed_list;

use std::time::Duration;

use actix::Addr;
use rand::SeedableRng;
use tokio::time::{Instant, sleep};

use super::*;
use crate::actors::poll_source::testing::{
    BeginEpoch, Received, Recorder, Server, lister, pod, status, versions,
};
use crate::model::Epoch;

const S: Duration = Duration::from_secs(1);

struct Rig {
    server: Server,
    store: Addr<Recorder>,
    hears: futures::channel::mpsc::UnboundedReceiver<Received>,
    source: Addr<WatchSource>,
}

impl Rig {
    fn started() -> Self {
        tokio::time::pause();
        let (clients, server) = Server::started();
        let (store, hears) = Recorder::started();
        let rng = StdRng::seed_from_u64(3);
        let lister = lister(clients, &store);
        let source =
            WatchSource::new(Watched::Pods(lister), store.clone().recipient(), rng).start();
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

// spec: W-1, W-2, W-3
#[actix::test]
async fn every_line_reaches_the_store_in_order_and_a_cut_loses_none() {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[pod(1, 7)]);
    let asked = rig.server.watch(10).await;
    assert!(asked.has("allowWatchBookmarks=true"));
    let lines = asked.lines();
    assert_eq!(rig.received().await, [('?', 0), ('l', 10)]);

    // More lines than are read at once.
    for version in 11..=311 {
        lines.send("MODIFIED", &pod(1, version));
    }
    lines.send("DELETED", &pod(1, 312));
    let expected: Vec<_> = (11..=311).map(|v| ('s', v)).chain([('d', 312)]).collect();
    assert_eq!(rig.received().await, expected);

    lines.bookmark(400);
    // An incomplete line is dropped.
    lines.send_raw("{\"type\":\"ADD");
    drop(lines);
    let lines = rig.server.watch(400).await.lines();
    lines.send("ADDED", &pod(2, 401));
    assert_eq!(rig.received().await, [('b', 400), ('s', 401)]);
}

// spec: W-1
#[actix::test]
async fn pages_are_one_list_and_an_expired_page_token_begins_it_again() {
    let mut rig = Rig::started();
    let first = rig.server.list().await;
    assert!(first.has("limit=500"));
    first.page(10, "token", &[pod(1, 7)]);
    let second = rig.server.list().await;
    assert!(second.has("continue=token"));
    second.refuse(410, "Expired");

    rig.server.list().await.page(20, "token", &[pod(1, 7)]);
    rig.server.list().await.page(20, "", &[pod(2, 8)]);
    rig.server.watch(20).await;
    sleep(S).await;
    let mut lists = Vec::new();
    while let Ok(heard) = rig.hears.try_recv() {
        lists.push(match heard {
            Received::List(list) => list.items.len(),
            _ => 0,
        });
    }
    assert_eq!(lists, [0, 0, 2], "asked for twice, handed over once");
}

// spec: W-2
#[actix::test]
async fn a_410_leads_to_a_new_list_at_the_start_as_in_the_stream() {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[]);
    rig.server.watch(10).await.refuse(410, "Expired");
    rig.server.list().await.page(20, "", &[]);
    let lines = rig.server.watch(20).await.lines();
    lines.send("ERROR", &status(410, "Expired"));
    rig.server.list().await.page(30, "", &[]);
    rig.server.watch(30).await;
}

// spec: W-9
#[actix::test]
async fn a_server_that_ends_every_watch_at_once_is_not_hammered() {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[]);
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < 300 * S {
        drop(rig.server.watch(10).await.lines());
        asked += 1;
    }
    assert!(asked <= 27, "asked {asked} times in five minutes");
}

// spec: W-3
#[actix::test]
async fn a_silent_connection_is_cut_after_150_s_once_bookmarks_came_and_twice_in_a_row_leads_to_a_list()
 {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[]);
    let lines = rig.server.watch(10).await.lines();
    lines.bookmark(20);
    let began = Instant::now();
    let again = rig.server.watch(20).await;
    assert!(lines.is_cut());
    assert_eq!(began.elapsed().as_secs(), 150);

    let silent = again.lines();
    rig.server.list().await.page(15, "", &[]);
    assert!(silent.is_cut());
    assert_eq!(began.elapsed().as_secs(), 300);
    rig.server.watch(15).await;
}

// spec: W-9
#[actix::test]
async fn a_server_that_never_answers_is_given_up_and_asked_again() {
    let mut rig = Rig::started();
    let _unanswered = rig.server.list().await;
    rig.server.list().await.page(10, "", &[]);
    let _unanswered = rig.server.watch(10).await;
    rig.server.watch(10).await;
}

// spec: W-5
#[actix::test]
async fn lines_that_cannot_be_read_do_not_end_the_stream() {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[]);
    let lines = rig.server.watch(10).await.lines();
    lines.send("ADDED", &pod(1, 11));
    lines.send_raw("no json at all\n");
    lines.send("INVENTED", &pod(1, 12));
    lines.send("MODIFIED", &serde_json::json!({"metadata": {"name": 7}}));
    lines.send("MODIFIED", &pod(1, 13));
    assert_eq!(
        rig.received().await,
        [('?', 0), ('l', 10), ('s', 11), ('s', 0), ('s', 13)]
    );
    assert!(!lines.is_cut());
}

// spec: S-13
#[actix::test]
async fn a_new_history_ends_the_watch_and_begins_it_with_a_list() {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[]);
    let lines = rig.server.watch(10).await.lines();
    let epoch = Epoch(1);
    rig.store.send(BeginEpoch(epoch)).await.unwrap();
    rig.source.do_send(ListAnew { epoch });
    rig.server.list().await.page(3, "", &[]);
    assert!(lines.is_cut());
    let lines = rig.server.watch(3).await.lines();
    lines.send("ADDED", &pod(1, 4));
    sleep(S).await;
    let mut last = None;
    while let Ok(heard) = rig.hears.try_recv() {
        last = Some(heard);
    }
    assert!(
        matches!(
            last,
            Some(Received::News(News::Seen {
                epoch: Epoch(1),
                ..
            }))
        ),
        "{last:?}"
    );
}

// spec: S-13
#[actix::test]
async fn a_list_asked_for_in_an_older_history_is_made_again() {
    let mut rig = Rig::started();
    let asked = rig.server.list().await;
    rig.store.send(BeginEpoch(Epoch(1))).await.unwrap();
    asked.page(10, "", &[]);
    rig.server.list().await.page(3, "", &[]);
    rig.server.watch(3).await;
}

#[actix::test]
async fn stop_ends_everything_at_once() {
    let mut rig = Rig::started();
    rig.server.list().await.page(10, "", &[]);
    let lines = rig.server.watch(10).await.lines();
    rig.source.send(StopCalling).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert!(lines.is_cut());
    assert!(!rig.source.connected());
    rig.server.quiet_for(3_600 * S).await;
}
