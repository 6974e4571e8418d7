//! Fault injection for the node: the faults that can be injected, and the channels that carry them to the node.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

/// How many injected faults may be queued; further senders wait.
const BLOWS: usize = 16;

/// Whether the node is available to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It works normally.
    #[default]
    Up,
    /// The API server does not hear from it, nor it from the API server.
    NotReady {
        /// Evicts its pods after this time, unless their tolerations end earlier.
        evict_after: Option<Duration>,
    },
    /// The node is deleted.
    Gone,
}

/// The lasting faults of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardship {
    pub standing: Standing,
    /// The images that it cannot pull.
    pub missing_images: BTreeSet<String>,
}

impl Hardship {
    pub(super) fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }
}

/// A fault of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// They are OOM-killed.
    OutOfMemory,
    /// They exit with this code.
    Crash(u8),
    /// The node evicts the pod because it is low on resources.
    Eviction,
}

/// The handle that injects faults into a node.
#[derive(Clone, Debug)]
pub struct Levers {
    name: Arc<str>,
    hardship: watch::Sender<Hardship>,
    blows: mpsc::Sender<(String, Blow)>,
}

impl Levers {
    /// The handle for a node of this name, and the receiver for the node.
    pub(crate) fn new(name: &str) -> (Self, Suffered) {
        let (hardship, seen) = watch::channel(Hardship::default());
        let (blows, dealt) = mpsc::channel(BLOWS);
        let levers = Self {
            name: name.into(),
            hardship,
            blows,
        };
        let suffered = Suffered {
            hardship: seen,
            blows: dealt,
        };
        (levers, suffered)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current lasting faults.
    pub fn hardship(&self) -> Hardship {
        self.hardship.borrow().clone()
    }

    /// Changes the lasting faults.
    pub fn change(&self, change: impl FnOnce(&mut Hardship)) {
        self.hardship.send_modify(change);
    }

    /// Injects a fault into the pod with this uid. The node ignores it if it does not run that pod.
    pub async fn strike(&self, uid: String, blow: Blow) {
        // If the node has stopped, there is no pod left.
        let _ = self.blows.send((uid, blow)).await;
    }
}

/// The node's receiver of faults.
#[derive(Debug)]
pub(crate) struct Suffered {
    hardship: watch::Receiver<Hardship>,
    blows: mpsc::Receiver<(String, Blow)>,
}

/// A message to the node.
#[derive(Debug)]
pub(super) enum Told {
    /// The lasting faults have changed.
    Changed,
    /// A fault of the pod with this uid.
    Blow(String, Blow),
}

impl Suffered {
    /// The lasting faults, for other tasks to observe.
    pub(crate) fn hardship(&self) -> watch::Receiver<Hardship> {
        self.hardship.clone()
    }

    pub(super) fn standing(&self) -> Standing {
        self.hardship.borrow().standing
    }

    /// The next message to the node. Cancel-safe.
    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            () = changed(&mut self.hardship) => Told::Changed,
            blow = self.blows.recv() => match blow {
                Some((uid, blow)) => Told::Blow(uid, blow),
                None => pending().await,
            },
        }
    }

    /// Waits until the lasting faults change.
    pub(super) async fn changed(&mut self) {
        changed(&mut self.hardship).await;
    }
}

/// Waits until the lasting faults change; for ever if the handle is gone.
pub(super) async fn changed(hardship: &mut watch::Receiver<Hardship>) {
    if hardship.changed().await.is_err() {
        pending().await
    }
}
