//! Objects that only some clusters need: who may connect, what Prometheus scrapes, how nodes are drained (spec O-74).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{Options, Unfit, WorkloadKind, workload};
use crate::config::{Config, Labels};

/// The ports at which API servers listen. A policy sees the port behind a Service's address.
const API_SERVER: [u16; 2] = [443, 6443];

pub(super) fn objects(config: &Config, options: &Options) -> Result<Vec<Value>, Unfit> {
    let labels = workload::labels(config, options);
    let mut objects = Vec::new();
    // With one driver a budget would only block drains.
    if config.ha.lease && options.kind != WorkloadKind::Job {
        objects.push(budget(&labels));
    }
    if options.network_policy {
        objects.push(network_policy(config, &labels));
    }
    if options.pod_monitor {
        objects.push(pod_monitor(config, &labels)?);
    }
    Ok(objects)
}

/// Nodes are drained one after the other: a standby is ready, so it counts.
fn budget(labels: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels},
        },
    })
}

fn network_policy(config: &Config, labels: &BTreeMap<String, String>) -> Value {
    let role = match config.executors.labels {
        Labels::Boatswain => "boatswain.dev/role",
        Labels::Spark => "spark-role",
    };
    let executors = json!({"podSelector": {"matchLabels": {role: "executor"}}});
    let sessions = config.backend.sessions.listen;
    // Prometheus and the kubelet are wherever the cluster has them; who calls the API has its token.
    let listeners = [
        (sessions, Some(executors)),
        (config.api.listen, None),
        (config.metrics.listen, None),
        (config.probes.listen, None),
    ];
    let ingress: Vec<Value> = (listeners.into_iter())
        .filter_map(|(listen, from)| Some((open(listen)?, from)))
        .map(|(port, from)| {
            let mut rule = json!({"ports": [tcp(port)]});
            if let Some(from) = from {
                rule["from"] = json!([from]);
            }
            rule
        })
        .collect();
    let dns = json!({"ports": [{"protocol": "UDP", "port": 53}, tcp(53)]});
    let api_server = json!({"ports": API_SERVER.map(tcp)});
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "spec": {
            "podSelector": {"matchLabels": labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": [dns, api_server],
        },
    })
}

/// The port of a listener that other machines can reach.
fn open(listen: Option<SocketAddr>) -> Option<u16> {
    listen
        .filter(|address| !address.ip().is_loopback())
        .map(|address| address.port())
}

fn tcp(port: u16) -> Value {
    json!({"protocol": "TCP", "port": port})
}

/// A PodMonitor, because the driver's metrics have no Service.
fn pod_monitor(config: &Config, labels: &BTreeMap<String, String>) -> Result<Value, Unfit> {
    if open(config.metrics.listen).is_none() {
        return Err(Unfit(
            "--pod-monitor needs metrics.listen at an address that Prometheus reaches, such as \"0.0.0.0:9090\"".to_owned(),
        ));
    }
    if config.metrics.token_file.is_some() {
        return Err(Unfit(
            "--pod-monitor cannot hand the token of metrics.token_file to Prometheus, because that file may \
             contain several: leave metrics.token_file out, or write the PodMonitor by hand"
                .to_owned(),
        ));
    }
    Ok(json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor",
        "spec": {
            "selector": {"matchLabels": labels},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
        },
    }))
}
