//! The embedded cluster's router behind a network that a test can slow down or interrupt.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use boatswain::clock::Clock;
use boatswain::config::Config;
use boatswain::driver::Environment;
use boatswain::kubernetes::Clients;
use devcluster::{DevCluster, NodeKind, Options, SimulatedNode};
use http::Request;
use http::request::Parts;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::{BoxError, ServiceExt, service_fn};

use crate::cluster;

/// Whether and how the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Works = 0,
    /// Connections are refused, and open watches end.
    Refuses = 1,
    /// Requests are never answered, and open watches stay open.
    Silent = 2,
    /// The server works, and does not have Kueue's kinds.
    WithoutKueue = 3,
    /// The driver may do nothing any more; open watches stay open.
    Forbids = 4,
    /// A webhook for pods fails whenever a pod is changed.
    FailsForPods = 5,
    /// A limit refuses the pods of the profile `big`.
    RefusesBig = 6,
    /// The driver may delete no pods.
    KeepsPods = 7,
    /// The driver may change no pods.
    LeavesPods = 8,
    /// The driver may create no PodDisruptionBudgets.
    RefusesBudgets = 9,
}

/// A request that the server has answered, or that was refused.
#[derive(Debug)]
pub struct Seen {
    pub at: Instant,
    pub answered: bool,
    /// The method, the path and the query.
    pub line: String,
}

pub struct Server {
    pub cluster: DevCluster,
    network: Arc<AtomicU8>,
    latency_ms: Arc<AtomicU64>,
    log: mpsc::UnboundedSender<Seen>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Server {
    pub fn start() -> Self {
        Self::of(cluster())
    }

    /// One whose executors terminate for longer than an end waits.
    pub fn with_slow_ends() -> Self {
        let node = NodeKind::Simulated(SimulatedNode {
            stop_delay: Duration::from_secs(25),
            ..SimulatedNode::default()
        });
        Self::of(devcluster::start(Options {
            node,
            ..Options::default()
        }))
    }

    /// A network of its own to this cluster.
    pub fn of(cluster: DevCluster) -> Self {
        let (log, seen) = mpsc::unbounded_channel();
        Self {
            cluster,
            network: Arc::new(AtomicU8::new(Network::Works as u8)),
            latency_ms: Arc::new(AtomicU64::new(0)),
            log,
            seen,
        }
    }

    /// A driver's environment in which this server is the API server.
    pub fn environment(&self, holder: u64) -> Environment {
        let router = self.cluster.router();
        let (network, latency) = (Arc::clone(&self.network), Arc::clone(&self.latency_ms));
        let log = self.log.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (router, log) = (router.clone(), log.clone());
            let down = network.load(Ordering::Relaxed);
            let latency = Duration::from_millis(latency.load(Ordering::Relaxed));
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                let note = |answered| {
                    let at = Instant::now();
                    let _ = log.send(Seen { at, answered, line });
                };
                if down == Network::Silent as u8 {
                    return std::future::pending().await;
                }
                if down == Network::Refuses as u8 {
                    note(false);
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
                }
                tokio::time::sleep(latency).await;
                let of_kueue = request.uri().path().starts_with("/apis/kueue.x-k8s.io/");
                if down == Network::WithoutKueue as u8 && of_kueue {
                    let body = Body::from("404 page not found\n");
                    return Ok(http::Response::builder().status(404).body(body)?);
                }
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                if let Some((code, reason, message)) = refusal(down, &parts, &body) {
                    note(true);
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "code": code, "reason": reason, "message": message,
                    });
                    let answer = http::Response::builder().status(code);
                    let answer = answer.header("content-type", "application/json");
                    return Ok(answer.body(Body::from(status.to_string()))?);
                }
                let request = Request::from_parts(parts, Body::from(body));
                let answer = router.oneshot(request).await?;
                note(true);
                Ok::<_, BoxError>(answer)
            }
        });
        Environment {
            clients: Clients::in_process(service, "default"),
            clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
            seed: holder,
            holder,
        }
    }

    /// Each answer takes this long.
    pub fn set_latency(&self, latency: Duration) {
        let ms = u64::try_from(latency.as_millis()).unwrap();
        self.latency_ms.store(ms, Ordering::Relaxed);
    }

    pub async fn set_network(&self, network: Network) {
        self.network.store(network as u8, Ordering::Relaxed);
        if network == Network::Refuses {
            self.cluster.cut_watches().await;
        }
    }

    /// The requests since the last call.
    pub fn take_seen(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }

    /// The uids of all pods, by name.
    pub async fn pods(&self) -> Vec<(String, String)> {
        let state = self.cluster.state().await;
        let text = |pod: &Value, key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
        (state.pods("default"))
            .map(|pod| (text(pod, "name"), text(pod, "uid")))
            .collect()
    }

    /// Whether there is an application record.
    pub async fn has_record(&self) -> bool {
        let state = self.cluster.state().await;
        state.config_maps("default").next().is_some()
    }
}

/// How this request is refused: code, reason and message.
fn refusal(down: u8, request: &Parts, body: &[u8]) -> Option<(u16, &'static str, &'static str)> {
    let is_of_pods = request.uri.path().contains("/pods");
    let is_of_budgets = request.uri.path().contains("/poddisruptionbudgets");
    let is_big = String::from_utf8_lossy(body).contains(r#""boatswain.dev/profile":"big""#);
    let forbidden = |why| Some((403, "Forbidden", why));
    match down {
        _ if down == Network::Forbids as u8 => forbidden(
            r#"it is forbidden: User "driver" cannot get resource "pods" in API group "" in the namespace "default""#,
        ),
        _ if down == Network::FailsForPods as u8 && is_of_pods && request.method == "PATCH" => {
            Some((
                500,
                "InternalError",
                "Internal error occurred: failed calling webhook \"pods.example.com\": connection refused",
            ))
        }
        _ if down == Network::KeepsPods as u8 && is_of_pods && request.method == "DELETE" => {
            forbidden(
                r#"pods is forbidden: User "driver" cannot delete resource "pods" in API group "" in the namespace "default""#,
            )
        }
        _ if down == Network::LeavesPods as u8 && is_of_pods && request.method == "PATCH" => {
            forbidden(
                r#"pods is forbidden: User "driver" cannot patch resource "pods" in API group "" in the namespace "default""#,
            )
        }
        _ if down == Network::RefusesBudgets as u8 && is_of_budgets && request.method == "POST" => {
            forbidden(
                r#"poddisruptionbudgets.policy is forbidden: User "driver" cannot create resource "poddisruptionbudgets" in API group "policy" in the namespace "default""#,
            )
        }
        _ if down == Network::RefusesBig as u8 && is_big && request.method == "POST" => forbidden(
            "pods is forbidden: maximum memory usage per Container is 512Mi, but limit is 1Gi",
        ),
        _ => None,
    }
}

/// An application with this many executors.
pub fn config(executors: u32, on_signal: &str, more: &[&str]) -> Config {
    let mut sets = vec![
        "profiles.default.image=none".to_owned(),
        format!("profiles.default.executors={executors}"),
        format!("shutdown.on_signal={on_signal}"),
    ];
    sets.extend(more.iter().map(|set| (*set).to_owned()));
    Config::from_toml("", "none.toml", [], &sets).unwrap()
}
