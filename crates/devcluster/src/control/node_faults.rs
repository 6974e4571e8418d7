//! Fault injection commands for the node and its pods, as the control socket accepts them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DevCluster;
use crate::node::fault_injection::{Fault, FaultInjector, NodeFaults, NodeState};
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
    Crash {
        pod: PodName,
        code: u8,
    },
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
pub(crate) async fn inject(cluster: &DevCluster, request: NodeRequest) -> Result<(), String> {
    let Some(fault_injector) = &cluster.fault_injector else {
        return Err("the cluster has no node: it was started with `--node none`".to_owned());
    };
    let set_state = |name: Option<String>, node_state: NodeState| {
        if let Some(name) = name.filter(|name| name != fault_injector.name()) {
            return Err(format!(
                "there is no node {name}: the only one is {}",
                fault_injector.name()
            ));
        }
        fault_injector.change(|injected| injected.node_state = node_state);
        Ok(())
    };
    match request {
        NodeRequest::NotReady { name, evict_after } => {
            if fault_injector.injected().node_state == NodeState::Gone {
                return Err(format!(
                    "the node {} is gone: `ctl node ready` brings it back first",
                    fault_injector.name()
                ));
            }
            set_state(name, NodeState::NotReady { evict_after })
        }
        NodeRequest::Ready(name) => set_state(name, NodeState::Up),
        NodeRequest::Gone(name) => set_state(name, NodeState::Gone),
        NodeRequest::ImageMissing { image, off: false } => {
            fault_injector.change(|injected| {
                injected.missing_images.insert(image);
            });
            Ok(())
        }
        NodeRequest::ImageMissing { image, off: true } => {
            if !fault_injector.injected().missing_images.contains(&image) {
                return Err(format!(
                    "the image {image} is not missing: `ctl status` names those that are"
                ));
            }
            fault_injector.change(|injected| {
                injected.missing_images.remove(&image);
            });
            Ok(())
        }
        NodeRequest::OutOfMemory(pod) => {
            inject_into_pod(cluster, fault_injector, &pod, Fault::OutOfMemory).await
        }
        NodeRequest::Crash { pod, code } => {
            inject_into_pod(cluster, fault_injector, &pod, Fault::Crash(code)).await
        }
        NodeRequest::Evict(pod) => {
            inject_into_pod(cluster, fault_injector, &pod, Fault::Eviction).await
        }
    }
}

async fn inject_into_pod(
    cluster: &DevCluster,
    fault_injector: &FaultInjector,
    pod: &PodName,
    fault: Fault,
) -> Result<(), String> {
    let PodName { namespace, name } = pod;
    if fault_injector.injected().node_state != NodeState::Up {
        return Err(format!(
            "the node {} does not report: `ctl node ready` brings it back first",
            fault_injector.name()
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
    if text(found.value(), &["spec", "nodeName"]) != fault_injector.name() {
        return Err(format!(
            "the pod {name} is not on the node {}",
            fault_injector.name()
        ));
    }
    let phase = text(found.value(), &["status", "phase"]);
    if phase != "Running" {
        return Err(format!("the pod {name} does not run: it is {phase}"));
    }
    fault_injector.inject(found.uid().to_owned(), fault).await;
    Ok(())
}

/// Ends all lasting faults of the node.
pub(crate) fn clear_faults(cluster: &DevCluster) {
    if let Some(fault_injector) = &cluster.fault_injector {
        fault_injector.change(|injected| *injected = NodeFaults::default());
    }
}

/// The active faults of the node, one line each.
pub(crate) fn status(cluster: &DevCluster) -> Vec<String> {
    let Some(fault_injector) = &cluster.fault_injector else {
        return Vec::new();
    };
    let NodeFaults {
        node_state,
        missing_images,
    } = fault_injector.injected();
    let name = fault_injector.name();
    let node_state = match node_state {
        NodeState::Up => None,
        NodeState::Gone => Some(format!("the node {name} is gone")),
        NodeState::NotReady { evict_after: None } => Some(format!("the node {name} is not ready")),
        NodeState::NotReady {
            evict_after: Some(after),
        } => Some(format!(
            "the node {name} is not ready: pods are evicted after {} at the latest",
            humantime::format_duration(after)
        )),
    };
    let images = missing_images
        .into_iter()
        .map(|image| format!("the image {image} is missing"));
    node_state.into_iter().chain(images).collect()
}
