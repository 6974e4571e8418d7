//! Test doubles for the sources: a recording store; the embedded cluster; and a server whose every
//! answer the test gives, for behaviour that a healthy cluster never shows.

use std::convert::Infallible;
use std::time::Duration;

use actix::{Actor, Context, Handler, MessageResult};
use axum::body::Body;
use bytes::Bytes;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::lister::Lister;
use crate::actors::snapshot_store::messages::{BeginList, ListArrived, Tell};
use crate::kubernetes::{Calls, Clients, PodBody};
use crate::model::clock::Tick;
use crate::model::ledger::{ListOutcome, ListVerdict};
use crate::model::news::{ListTicket, Listed, News};
use crate::model::{Epoch, ExecutorId, ResourceVersion};
use crate::testing::calls_to;
use devcluster::{self, DevCluster, Options};

/// What the store received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    News(News),
    Begin,
    List(Listed),
}

/// A store that only records. It gives out tickets of its own epoch and accepts lists of that
/// epoch.
pub(crate) struct Recorder {
    heard: mpsc::UnboundedSender<Received>,
    highest: ResourceVersion,
    epoch: Epoch,
}

impl Recorder {
    pub(crate) fn started() -> (actix::Addr<Self>, mpsc::UnboundedReceiver<Received>) {
        let (heard, hears) = mpsc::unbounded();
        let recorder = Self {
            heard,
            highest: ResourceVersion::ZERO,
            epoch: Epoch(0),
        };
        (recorder.start(), hears)
    }

    fn hear(&mut self, heard: Received) {
        self.heard.unbounded_send(heard).unwrap();
    }
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<Tell> for Recorder {
    type Result = Vec<ExecutorId>;

    fn handle(&mut self, Tell(news): Tell, _: &mut Self::Context) -> Self::Result {
        self.hear(Received::News(news));
        Vec::new()
    }
}

impl Handler<BeginList> for Recorder {
    type Result = MessageResult<BeginList>;

    fn handle(&mut self, _: BeginList, _: &mut Self::Context) -> Self::Result {
        self.hear(Received::Begin);
        MessageResult(ListTicket {
            begun_at: 0,
            tick: Tick::default(),
            highest: self.highest.clone(),
            epoch: self.epoch,
        })
    }
}

impl Handler<ListArrived> for Recorder {
    type Result = MessageResult<ListArrived>;

    fn handle(&mut self, ListArrived(list): ListArrived, _: &mut Self::Context) -> Self::Result {
        let accepted = list.ticket.epoch == self.epoch;
        if accepted {
            self.highest = self.highest.clone().max(list.version.clone());
        }
        self.hear(Received::List(list));
        MessageResult(ListVerdict {
            epoch: self.epoch,
            outcome: match accepted {
                true => ListOutcome::Full,
                false => ListOutcome::Outdated,
            },
        })
    }
}

/// Starts a new epoch.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(crate) struct BeginEpoch(pub(crate) Epoch);

impl Handler<BeginEpoch> for Recorder {
    type Result = ();

    fn handle(&mut self, BeginEpoch(epoch): BeginEpoch, _: &mut Self::Context) {
        self.epoch = epoch;
        self.highest = ResourceVersion::ZERO;
    }
}

/// A lister between these clients and this store.
pub(crate) fn lister(clients: Clients, store: &actix::Addr<Recorder>) -> Lister {
    Lister {
        calls: calls_to(clients),
        begin: store.clone().recipient(),
        arrived: store.clone().recipient(),
        page_size: 500,
        streams: false,
    }
}

/// A request that waits for the test's answer.
pub(crate) struct Asked {
    uri: String,
    answer: oneshot::Sender<Response<Body>>,
}

/// The server side of all connections.
pub(crate) struct Server(mpsc::UnboundedReceiver<Asked>);

impl Server {
    pub(crate) fn started() -> (Clients, Self) {
        let (asked, asks) = mpsc::unbounded();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let mut asked = asked.clone();
            async move {
                let (answer, answered) = oneshot::channel();
                let uri = request.uri().to_string();
                // A test that has ended, or that drops the request, never answers.
                let _ = asked.send(Asked { uri, answer }).await;
                match answered.await {
                    Ok(response) => Ok::<_, Infallible>(response),
                    Err(_) => std::future::pending().await,
                }
            }
        });
        (Clients::in_process(service, "default"), Self(asks))
    }

    /// Waits for the next request.
    pub(crate) async fn asked(&mut self) -> Asked {
        self.0.next().await.unwrap()
    }

    /// Waits for the next request and asserts that it is a watch.
    pub(crate) async fn watch(&mut self, from: u64) -> Asked {
        let asked = self.asked().await;
        assert!(asked.has("watch=true"), "{}", asked.uri);
        assert!(
            asked.has(&format!("resourceVersion={from}")),
            "{}",
            asked.uri
        );
        asked
    }

    /// Waits for the next request and asserts that it is a streamed list.
    pub(crate) async fn stream(&mut self) -> Asked {
        let asked = self.asked().await;
        for part in [
            "watch=true",
            "sendInitialEvents=true",
            "resourceVersionMatch=NotOlderThan",
            "allowWatchBookmarks=true",
        ] {
            assert!(asked.has(part), "{}", asked.uri);
        }
        assert!(!asked.uri.contains("resourceVersion="), "{}", asked.uri);
        asked
    }

    /// Waits for the next request and asserts that it is a list.
    pub(crate) async fn list(&mut self) -> Asked {
        let asked = self.asked().await;
        assert!(!asked.has("watch=true"), "{}", asked.uri);
        asked
    }

    /// Asserts that no request arrives within this time, except from clients that have been
    /// dropped.
    pub(crate) async fn quiet_for(&mut self, time: Duration) {
        if let Ok(Some(asked)) = tokio::time::timeout(time, self.0.next()).await {
            panic!("asked too soon: {}", asked.uri);
        }
    }
}

impl Asked {
    /// Whether the query contains this part.
    pub(crate) fn has(&self, part: &str) -> bool {
        let query = self.uri.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|has| has == part)
    }

    pub(crate) fn json(self, code: u16, body: &Value) {
        let response = Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        // The client may have disconnected.
        let _ = self.answer.send(response);
    }

    pub(crate) fn refuse(self, code: u16, reason: &str) {
        self.json(code, &status(code, reason));
    }

    pub(crate) fn page(self, version: u64, continue_token: &str, pods: &[Value]) {
        self.json(
            200,
            &json!({
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": version.to_string(), "continue": continue_token},
                "items": pods,
            }),
        );
    }

    /// Answers with a stream of lines, which ends when the returned value is dropped.
    pub(crate) fn lines(self) -> Lines {
        let (lines, sent) = mpsc::unbounded();
        let body = Body::from_stream(sent.map(Ok::<Bytes, Infallible>));
        let _ = self.answer.send(Response::new(body));
        Lines(lines)
    }
}

/// The server side of a watch.
pub(crate) struct Lines(mpsc::UnboundedSender<Bytes>);

impl Lines {
    pub(crate) fn send(&self, kind: &str, object: &Value) {
        let line = json!({"type": kind, "object": object});
        let _ = self.0.unbounded_send(Bytes::from(format!("{line}\n")));
    }

    pub(crate) fn bookmark(&self, version: u64) {
        let version = version.to_string();
        let object = json!({"kind": "Pod", "metadata": {"resourceVersion": version}});
        self.send("BOOKMARK", &object);
    }

    /// The bookmark that ends a streamed list.
    pub(crate) fn end_of_list(&self, version: u64) {
        let metadata = json!({
            "resourceVersion": version.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"},
        });
        self.send("BOOKMARK", &json!({"kind": "Pod", "metadata": metadata}));
    }

    pub(crate) fn send_raw(&self, text: &'static str) {
        let _ = self.0.unbounded_send(Bytes::from_static(text.as_bytes()));
    }

    /// Whether the client has closed the stream.
    pub(crate) fn is_cut(&self) -> bool {
        self.0.is_closed()
    }
}

pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
}

pub(crate) fn pod(id: u64, version: u64) -> Value {
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": format!("a-exec-{id}"),
            "namespace": "default",
            "uid": format!("uid-{id}"),
            "resourceVersion": version.to_string(),
            "labels": {
                "boatswain.dev/app-id": "app",
                "boatswain.dev/role": "executor",
                "boatswain.dev/executor-id": id.to_string(),
            },
        },
        "spec": {"containers": [{"name": "executor"}]},
        "status": {"phase": "Pending"},
    })
}

/// The versions of all news received so far, in order; 0 for unreadable ones.
pub(crate) fn versions(hears: &mut mpsc::UnboundedReceiver<Received>) -> Vec<(char, u64)> {
    let number = |version: Option<&ResourceVersion>| {
        version.map_or(0, |version| version.to_string().parse().unwrap())
    };
    let mut versions = Vec::new();
    while let Ok(heard) = hears.try_recv() {
        versions.push(match heard {
            Received::News(News::Seen { pod, .. }) => ('s', number(pod.version())),
            Received::News(News::Deleted { pod, .. }) => ('d', number(pod.version())),
            Received::News(News::Bookmark { version, .. }) => ('b', number(Some(&version))),
            Received::News(other) => panic!("no news of a source: {other:?}"),
            Received::Begin => ('?', 0),
            Received::List(list) => ('l', number(Some(&list.version))),
        });
    }
    versions
}

/// An embedded cluster without a node and without randomness.
pub(crate) fn cluster() -> DevCluster {
    devcluster::start(Options {
        wall_clock_start: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        ..Options::default()
    })
}

/// Creates the pod of this executor, and returns its version.
pub(crate) async fn create(calls: &Calls, id: u64) -> u64 {
    let mut pod = pod(id, 0);
    let metadata = pod["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    metadata.remove("uid");
    pod["spec"]["containers"][0]["image"] = json!("busybox");
    let body = PodBody {
        name: format!("a-exec-{id}").into(),
        json: Bytes::from(pod.to_string()),
    };
    let pod = calls.create_pod(&body).await.unwrap();
    pod.version().unwrap().to_string().parse().unwrap()
}
