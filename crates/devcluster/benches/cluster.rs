//! Benchmark of the embedded cluster's requests with 10,000 pods, without a network: from the
//! request to the complete answer.
//!
//! The store's task runs on the same thread, so the time is the total CPU time. `create` and
//! `delete` are timed separately. `event_to_10_watchers` is a status patch and what ten watchers
//! then read of it, `status_patch` the patch alone. The difference is the cost of the watchers,
//! which hardly grows with their number, because an event is encoded only once.
#![allow(missing_docs, reason = "criterion's macros define what needs none")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, BodyDataStream};
use criterion::{Criterion, criterion_group, criterion_main};
use devcluster::{self, Options};
use futures::StreamExt as _;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

const PODS: usize = 10_000;
const WATCHERS: usize = 10;
const PATH: &str = "/api/v1/namespaces/default/pods";

struct Cluster {
    runtime: Runtime,
    api: Router,
    written: u64,
}

impl Cluster {
    fn of(pods: usize) -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let cluster = runtime.block_on(async { devcluster::start(Options::default()) });
        let mut cluster = Self {
            runtime,
            api: cluster.router(),
            written: 0,
        };
        for n in 0..pods {
            cluster.create(&format!("pod-{n}"));
        }
        cluster
    }

    fn open(&self, method: Method, path: &str, body: Option<Value>) -> Body {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map_or_else(Body::empty, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body)
            .unwrap();
        let answer = self.runtime.block_on(self.api.clone().oneshot(request));
        let answer = answer.unwrap();
        assert!(matches!(
            answer.status(),
            StatusCode::OK | StatusCode::CREATED
        ));
        answer.into_body()
    }

    fn call(&self, method: Method, path: &str, body: Option<Value>) {
        let answer = self.open(method, path, body).collect();
        self.runtime.block_on(answer).unwrap();
    }

    fn create(&mut self, name: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "bench", "executor": name}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "executor",
                    "image": "registry.example/app:1",
                    "args": ["executor", "--driver", "driver:7078"],
                    "env": [{"name": "CORES", "value": "1"}, {"name": "MEMORY", "value": "1g"}],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
                }],
            },
        });
        self.call(Method::POST, PATH, Some(pod));
    }

    fn delete(&mut self, name: &str) {
        self.call(Method::DELETE, &format!("{PATH}/{name}"), None);
    }

    /// Patches the status of the next pod with a new address.
    fn patch_status(&mut self) {
        self.written += 1;
        let n = self.written;
        let status = json!({"status": {"phase": "Running", "podIP": format!("10.1.{}.{}", n / 250 % 250, n % 250)}});
        let path = format!("{PATH}/pod-{}/status", n % PODS as u64);
        self.call(Method::PATCH, &path, Some(status));
    }

    fn watch(&self) -> BodyDataStream {
        let now = format!("{PATH}?watch=1&resourceVersion=0&sendInitialEvents=false");
        let now = now + "&resourceVersionMatch=NotOlderThan";
        self.open(Method::GET, &now, None).into_data_stream()
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn requests(c: &mut Criterion) {
    let mut cluster = Cluster::of(PODS);
    let mut group = c.benchmark_group("cluster");
    group.bench_function("create", |b| {
        b.iter_custom(|times| {
            (0..times)
                .map(|_| {
                    let spent = timed(|| cluster.create("one-more"));
                    cluster.delete("one-more");
                    spent
                })
                .sum()
        });
    });
    group.bench_function("delete", |b| {
        b.iter_custom(|times| {
            (0..times)
                .map(|_| {
                    cluster.create("one-more");
                    timed(|| cluster.delete("one-more"))
                })
                .sum()
        });
    });
    group.bench_function("status_patch", |b| b.iter(|| cluster.patch_status()));
    group.bench_function("list_page_of_500", |b| {
        b.iter(|| cluster.call(Method::GET, &format!("{PATH}?limit=500"), None));
    });
    let mut watchers: Vec<_> = (0..WATCHERS).map(|_| cluster.watch()).collect();
    group.bench_function("event_to_10_watchers", |b| {
        b.iter(|| {
            cluster.patch_status();
            for watcher in &mut watchers {
                let line = cluster.runtime.block_on(watcher.next());
                assert!(line.is_some_and(|line| line.is_ok()));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
