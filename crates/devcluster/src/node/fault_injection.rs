//! Fault injection for the node: the faults that can be injected, and the channels that carry them to the node.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

/// How many injected faults may be queued; further senders wait.
const QUEUE: usize = 16;

/// Whether the node is available to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It works normally.
    #[default]
    Up,
    /// The API server does not hear from it, nor it from the API server.
    NotReady {
        /// Evicts its pods after this time, unless their tolerations end earlier.
        evict_after: Option<Duration>,
    },
    Gone,
}

/// The lasting faults of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFaults {
    pub node_state: NodeState,
    /// The images that it cannot pull.
    pub missing_images: BTreeSet<String>,
}

impl NodeFaults {
    pub(super) fn is_up(&self) -> bool {
        self.node_state == NodeState::Up
    }
}

/// A fault of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They are OOM-killed.
    OutOfMemory,
    /// They exit with this code.
    Crash(u8),
    /// The node evicts the pod because it is low on resources.
    Eviction,
}

#[derive(Clone, Debug)]
pub struct FaultInjector {
    name: Arc<str>,
    injected: watch::Sender<NodeFaults>,
    faults: mpsc::Sender<(String, Fault)>,
}

impl FaultInjector {
    pub(crate) fn new(name: &str) -> (Self, FaultReceiver) {
        let (injected, seen) = watch::channel(NodeFaults::default());
        let (faults, fault_receiver) = mpsc::channel(QUEUE);
        let fault_injector = Self {
            name: name.into(),
            injected,
            faults,
        };
        let fault_receiver = FaultReceiver {
            injected: seen,
            faults: fault_receiver,
        };
        (fault_injector, fault_receiver)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn injected(&self) -> NodeFaults {
        self.injected.borrow().clone()
    }

    pub fn change(&self, change: impl FnOnce(&mut NodeFaults)) {
        self.injected.send_modify(change);
    }

    /// Injects a fault into the pod with this uid. The node ignores it if it does not run that pod.
    pub async fn inject(&self, uid: String, fault: Fault) {
        // If the node has stopped, there is no pod left.
        let _ = self.faults.send((uid, fault)).await;
    }
}

#[derive(Debug)]
pub(crate) struct FaultReceiver {
    injected: watch::Receiver<NodeFaults>,
    faults: mpsc::Receiver<(String, Fault)>,
}

#[derive(Debug)]
pub(super) enum FaultMessage {
    /// The lasting faults have changed.
    Changed,
    /// A fault of the pod with this uid.
    Fault(String, Fault),
}

impl FaultReceiver {
    /// The lasting faults, for other tasks to observe.
    pub(crate) fn injected(&self) -> watch::Receiver<NodeFaults> {
        self.injected.clone()
    }

    pub(super) fn node_state(&self) -> NodeState {
        self.injected.borrow().node_state
    }

    /// The next message to the node. Cancel-safe.
    pub(super) async fn next(&mut self) -> FaultMessage {
        tokio::select! {
            biased;
            () = changed(&mut self.injected) => FaultMessage::Changed,
            fault = self.faults.recv() => match fault {
                Some((uid, fault)) => FaultMessage::Fault(uid, fault),
                None => pending().await,
            },
        }
    }

    pub(super) async fn changed(&mut self) {
        changed(&mut self.injected).await;
    }
}

/// Waits until the lasting faults change; for ever if the handle is gone.
pub(super) async fn changed(injected: &mut watch::Receiver<NodeFaults>) {
    if injected.changed().await.is_err() {
        pending().await
    }
}
