//! Starts a cluster in this process, creates a Deployment, and waits until its pods run.

use devcluster::{NodeKind, Options, SimulatedNode};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = devcluster::start(Options {
        node: NodeKind::Simulated(SimulatedNode::default()),
        ..Options::default()
    });
    let client = kube::Client::new(cluster.router(), "default");

    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let web = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))?;
    deployments.create(&PostParams::default(), &web).await?;

    let params = WatchParams::default();
    let mut events = deployments.watch(&params, "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        let (WatchEvent::Added(web) | WatchEvent::Modified(web)) = event else {
            continue;
        };
        let ready = web.status.and_then(|status| status.ready_replicas);
        println!("{} of 3 pods are ready", ready.unwrap_or_default());
        if ready == Some(3) {
            break;
        }
    }
    cluster.shutdown().await;
    Ok(())
}
