//! Fault injection commands for the node and its pods, as the control socket accepts them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DevCluster;
use crate::node::fault_injection::{Fault, Injected, Levers, Standing};
use crate::objects::object::{Key, text};
use crate::objects::resource::Resource;

/// A fault to inject into the node or a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRequest {
    /// The node stops reporting to the API server.
    NotReady {
        /// The node's name; may be omitted, as the cluster has only one node.
        name: Option<String>,
        /// Evicts the node's pods after this time, unless their tolerations end earlier.
        evict_after: Option<Duration>,
    },
    /// The node reports again.
    Ready(Option<String>),
    /// The node is deleted.
    Gone(Option<String>),
    /// The node cannot pull an image.
    ImageMissing {
        /// The image, as pods name it.
        image: String,
        /// Whether it can be pulled again.
        off: bool,
    },
    /// OOM-kills a pod's containers.
    OutOfMemory(PodName),
    /// A pod's containers exit.
    Crash { pod: PodName, code: u8 },
    /// Evicts a pod because the node is low on resources.
    Evict(PodName),
}

/// The namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
}

/// Injects a fault into the node, or returns why it cannot.
pub(crate) async fn obey(cluster: &DevCluster, request: NodeRequest) -> Result<(), String> {
    let Some(levers) = &cluster.levers else {
        return Err("the cluster has no node: it was started with `--node none`".to_owned());
    };
    let stand = |name: Option<String>, standing: Standing| {
        if let Some(name) = name.filter(|name| name != levers.name()) {
            return Err(format!(
                "there is no node {name}: the only one is {}",
                levers.name()
            ));
        }
        levers.change(|injected| injected.standing = standing);
        Ok(())
    };
    match request {
        NodeRequest::NotReady { name, evict_after } => {
            if levers.injected().standing == Standing::Gone {
                return Err(format!(
                    "the node {} is gone: `ctl node ready` brings it back first",
                    levers.name()
                ));
            }
            stand(name, Standing::NotReady { evict_after })
        }
        NodeRequest::Ready(name) => stand(name, Standing::Up),
        NodeRequest::Gone(name) => stand(name, Standing::Gone),
        NodeRequest::ImageMissing { image, off: false } => {
            levers.change(|injected| {
                injected.missing_images.insert(image);
            });
            Ok(())
        }
        NodeRequest::ImageMissing { image, off: true } => {
            if !levers.injected().missing_images.contains(&image) {
                return Err(format!(
                    "the image {image} is not missing: `ctl status` names those that are"
                ));
            }
            levers.change(|injected| {
                injected.missing_images.remove(&image);
            });
            Ok(())
        }
        NodeRequest::OutOfMemory(pod) => strike(cluster, levers, &pod, Fault::OutOfMemory).await,
        NodeRequest::Crash { pod, code } => strike(cluster, levers, &pod, Fault::Crash(code)).await,
        NodeRequest::Evict(pod) => strike(cluster, levers, &pod, Fault::Eviction).await,
    }
}

async fn strike(
    cluster: &DevCluster,
    levers: &Levers,
    pod: &PodName,
    fault: Fault,
) -> Result<(), String> {
    let PodName { namespace, name } = pod;
    if levers.injected().standing != Standing::Up {
        return Err(format!(
            "the node {} would not tell of it: `ctl node ready` brings it back first",
            levers.name()
        ));
    }
    let state = cluster.state().await;
    let found = state
        .get(&Key::new(Resource::Pods, namespace, name))
        .ok_or_else(|| {
            format!(
                "there is no pod {name} in the namespace {namespace}: `--namespace` names another"
            )
        })?;
    if text(found.value(), &["spec", "nodeName"]) != levers.name() {
        return Err(format!(
            "the pod {name} is not on the node {}",
            levers.name()
        ));
    }
    let phase = text(found.value(), &["status", "phase"]);
    if phase != "Running" {
        return Err(format!("the pod {name} does not run: it is {phase}"));
    }
    levers.strike(found.uid().to_owned(), fault).await;
    Ok(())
}

/// Ends all lasting faults of the node.
pub(crate) fn relieve(cluster: &DevCluster) {
    if let Some(levers) = &cluster.levers {
        levers.change(|injected| *injected = Injected::default());
    }
}

/// The active faults of the node, one line each.
pub(crate) fn status(cluster: &DevCluster) -> Vec<String> {
    let Some(levers) = &cluster.levers else {
        return Vec::new();
    };
    let Injected {
        standing,
        missing_images,
    } = levers.injected();
    let name = levers.name();
    let standing = match standing {
        Standing::Up => None,
        Standing::Gone => Some(format!("the node {name} is gone")),
        Standing::NotReady { evict_after: None } => Some(format!("the node {name} is not ready")),
        Standing::NotReady {
            evict_after: Some(after),
        } => Some(format!(
            "the node {name} is not ready: pods are evicted after {} at the latest",
            humantime::format_duration(after)
        )),
    };
    let images = missing_images
        .into_iter()
        .map(|image| format!("the image {image} is missing"));
    standing.into_iter().chain(images).collect()
}
