//! Tests of streamed lists (spec W-4), with a server whose every answer the test gives, and with
//! the embedded cluster.

use std::time::Duration;

use actix::Addr;
use rand::SeedableRng;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::super::*;
use crate::actors::poll_source::testing::{
    Received, Recorder, Server, cluster, create, lister, pod, status,
};
use crate::kubernetes::Clients;
use crate::model::news::Listed;

const S: Duration = Duration::from_secs(1);

struct Rig {
    server: Server,
    hears: futures::channel::mpsc::UnboundedReceiver<Received>,
    /// Kept so that it lives as long as the rig.
    _source: Addr<WatchSource>,
}

fn source(
    clients: Clients,
) -> (
    Addr<WatchSource>,
    futures::channel::mpsc::UnboundedReceiver<Received>,
) {
    let (store, hears) = Recorder::started();
    let lister = Lister {
        streams: true,
        ..lister(clients, &store)
    };
    let rng = StdRng::seed_from_u64(3);
    (
        WatchSource::new(Watched::Pods(lister), store.recipient(), rng).start(),
        hears,
    )
}

impl Rig {
    fn started() -> Self {
        tokio::time::pause();
        Self::another()
    }

    /// Another server and source, with the clock already paused.
    fn another() -> Self {
        let (clients, server) = Server::started();
        let (source, hears) = source(clients);
        Self {
            server,
            hears,
            _source: source,
        }
    }

    /// The lists that the store has received.
    async fn lists(&mut self) -> Vec<Listed> {
        sleep(Duration::from_millis(10)).await;
        let mut lists = Vec::new();
        while let Ok(heard) = self.hears.try_recv() {
            if let Received::List(list) = heard {
                lists.push(list);
            }
        }
        lists
    }

    /// Makes the watch start again with a list.
    async fn expire(&mut self, from: u64) {
        self.server.watch(from).await.refuse(410, "Expired");
    }
}

fn seen(list: &Listed) -> Vec<(Option<&str>, Option<String>)> {
    let versions = |item: &crate::model::pod::Sighting| item.version().map(ToString::to_string);
    let items = list.items.iter();
    items
        .map(|item| (item.name().map(|name| &**name), versions(item)))
        .collect()
}

// spec: W-4, S-15
#[actix::test]
async fn a_streamed_list_is_handed_over_whole_at_the_version_of_its_end() {
    let mut rig = Rig::started();
    let lines = rig.server.stream().await.lines();
    for id in 1..=4 {
        lines.send("ADDED", &pod(id, id));
    }
    lines.send(
        "ADDED",
        &json!({"metadata": {"name": "a-exec-5", "uid": 7}}),
    );
    lines.bookmark(6);
    // Pods keep changing until the end of the list.
    lines.send("MODIFIED", &pod(2, 7));
    lines.send("DELETED", &pod(3, 8));
    lines.send("ADDED", &pod(6, 9));
    assert!(
        rig.lists().await.is_empty(),
        "a list without an end is none"
    );
    lines.end_of_list(10);
    let lists = rig.lists().await;
    assert_eq!(lists.len(), 1);
    assert!(lists[0].kind.is_newest());
    assert_eq!(lists[0].version, 10.into());
    let version = |n: u64| Some(n.to_string());
    let expected = [
        (Some("a-exec-1"), version(1)),
        (Some("a-exec-2"), version(7)),
        (Some("a-exec-4"), version(4)),
        (Some("a-exec-5"), None),
        (Some("a-exec-6"), version(9)),
    ];
    assert_eq!(seen(&lists[0]), expected);
    assert!(lines.is_cut());
    rig.server.watch(10).await;
}

// spec: W-4
#[actix::test]
async fn an_unreadable_pod_that_goes_before_the_end_is_not_in_the_list() {
    let mut rig = Rig::started();
    let lines = rig.server.stream().await.lines();
    lines.send(
        "ADDED",
        &json!({"metadata": {"name": "a-exec-5", "uid": 7}}),
    );
    lines.send("ADDED", &pod(1, 1));
    lines.send(
        "DELETED",
        &json!({"metadata": {"name": "a-exec-1", "uid": 7}}),
    );
    lines.send("DELETED", &pod(5, 5));
    lines.end_of_list(10);
    let lists = rig.lists().await;
    assert!(lists[0].items.is_empty(), "{lists:?}");
}

// spec: W-4
#[actix::test]
async fn a_server_that_refuses_streams_is_listed_in_pages_and_not_asked_again() {
    let sorry = [
        (400, "BadRequest", "no"),
        (422, "Invalid", "no"),
        (
            403,
            "Forbidden",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        ),
    ];
    tokio::time::pause();
    for (code, reason, message) in sorry {
        let mut rig = Rig::another();
        let mut refusal = status(code, reason);
        refusal["message"] = message.into();
        rig.server.stream().await.json(code, &refusal);
        rig.server.list().await.page(10, "", &[pod(1, 7)]);
        rig.expire(10).await;
        rig.server.list().await.page(20, "", &[]);
        rig.expire(20).await;
        rig.server.list().await.page(30, "", &[]);
        let lists = rig.lists().await;
        assert_eq!(lists.len(), 3, "{code}");
        assert_eq!(lists[0].items.len(), 1);
    }
}

// spec: W-4
#[actix::test]
async fn a_stream_that_is_cut_before_its_end_says_nothing_and_the_list_comes_in_pages() {
    let mut rig = Rig::started();
    for (version, way) in ["cut", "half", "garbage", "unknown", "error", "5xx"]
        .into_iter()
        .enumerate()
    {
        let asked = rig.server.stream().await;
        if way == "5xx" {
            asked.refuse(500, "InternalError");
        } else {
            let lines = asked.lines();
            lines.send("ADDED", &pod(1, 1));
            match way {
                "cut" => {}
                "half" => lines.send_raw("{\"type\":\"BOOK"),
                "garbage" => lines.send_raw("no json at all\n"),
                "unknown" => lines.send("INVENTED", &pod(2, 2)),
                _ => lines.send("ERROR", &status(500, "InternalError")),
            }
        }
        let version = version as u64 + 10;
        rig.server
            .list()
            .await
            .page(version, "", &[pod(1, 1), pod(2, 2)]);
        let lists = rig.lists().await;
        assert_eq!(lists.len(), 1, "{way}");
        assert_eq!(
            (lists[0].items.len(), &lists[0].version),
            (2, &version.into()),
            "{way}"
        );
        // The next stream may work again.
        rig.expire(version).await;
    }
    rig.server.stream().await.lines().end_of_list(30);
    assert_eq!(rig.lists().await.len(), 1);
}

// spec: W-4
#[actix::test]
async fn a_stream_whose_end_never_comes_is_given_up_and_not_asked_for_again() {
    let mut rig = Rig::started();
    let lines = rig.server.stream().await.lines();
    let began = Instant::now();
    lines.send("ADDED", &pod(1, 1));
    lines.bookmark(5);
    rig.server.list().await.page(10, "", &[pod(1, 1)]);
    assert!(lines.is_cut());
    assert_eq!(began.elapsed().as_secs(), 11, "a request's time");
    rig.expire(10).await;
    rig.server.list().await.page(20, "", &[]);
    assert_eq!(rig.lists().await.len(), 2);
}

// spec: W-4, A-20
#[actix::test]
async fn a_server_that_asks_to_be_left_alone_is_not_asked_for_pages_instead() {
    let mut rig = Rig::started();
    rig.server.stream().await.refuse(429, "TooManyRequests");
    rig.server.stream().await.lines().end_of_list(10);
    rig.server.watch(10).await;
}

// spec: W-4
#[actix::test]
async fn a_long_list_is_streamed_whole() {
    let mut rig = Rig::started();
    let lines = rig.server.stream().await.lines();
    for id in 1..=20_000 {
        lines.send("ADDED", &pod(id, id));
    }
    lines.end_of_list(20_000);
    let lists = rig.lists().await;
    assert_eq!(lists[0].items.len(), 20_000);
}

// spec: W-4, W-1
#[actix::test]
async fn the_embedded_cluster_streams_and_the_watch_goes_on_where_the_list_ends() {
    tokio::time::pause();
    let cluster = cluster();
    let clients = Clients::in_process(cluster.router(), "default");
    let (store, _ignored) = Recorder::started();
    let calls = lister(clients.clone(), &store).calls;
    let last = create(&calls, 1).await.max(create(&calls, 2).await);
    let (_source, mut hears) = source(clients);
    sleep(S).await;
    let third = create(&calls, 3).await;
    sleep(S).await;
    let mut heard = Vec::new();
    while let Ok(next) = hears.try_recv() {
        heard.push(next);
    }
    let [
        Received::Begin,
        Received::List(list),
        Received::News(News::Seen { pod, .. }),
    ] = &heard[..]
    else {
        panic!("{heard:?}");
    };
    assert_eq!((list.items.len(), &list.version), (2, &last.into()));
    assert_eq!(pod.version(), Some(&third.into()));
}
