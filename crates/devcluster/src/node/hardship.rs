//! What somebody has a node suffer, to see what others make of it, and how the node hears of that.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

/// So many blows wait for the node at most; who deals one more waits until it has taken one.
const BLOWS: usize = 16;

/// How a node stands to its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It does what it is there for.
    #[default]
    Up,
    /// Nobody hears from it, and it hears from nobody.
    NotReady {
        /// Its pods are evicted after this time, where they do not want to be earlier.
        evict_after: Option<Duration>,
    },
    /// There is no such node any more.
    Gone,
}

/// What a node suffers until that is ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardship {
    /// How it stands to its cluster.
    pub standing: Standing,
    /// The images that it cannot get.
    pub missing_images: BTreeSet<String>,
}

impl Hardship {
    /// Whether it does what it is there for.
    pub(super) fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }
}

/// What befalls the containers of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// They are killed for want of memory.
    OutOfMemory,
    /// They exit with this code.
    Crash(u8),
    /// The node runs short and ends the pod.
    Eviction,
}

/// The hand that a node is in.
#[derive(Clone, Debug)]
pub struct Levers {
    name: Arc<str>,
    hardship: watch::Sender<Hardship>,
    blows: mpsc::Sender<(String, Blow)>,
}

impl Levers {
    /// The levers of a node of that name, and what the node looks at.
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

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it suffers now.
    pub fn hardship(&self) -> Hardship {
        self.hardship.borrow().clone()
    }

    /// Changes what it suffers.
    pub fn change(&self, change: impl FnOnce(&mut Hardship)) {
        self.hardship.send_modify(change);
    }

    /// Deals a blow to the pod of that uid. The node ignores one for a pod that it does not run.
    pub async fn strike(&self, uid: String, blow: Blow) {
        // Where the node has stopped there is nothing left to be struck.
        let _ = self.blows.send((uid, blow)).await;
    }
}

/// What a node looks at.
#[derive(Debug)]
pub(crate) struct Suffered {
    hardship: watch::Receiver<Hardship>,
    blows: mpsc::Receiver<(String, Blow)>,
}

/// What a node is told.
#[derive(Debug)]
pub(super) enum Told {
    /// What it suffers is another thing now.
    Changed,
    /// A pod of this uid is struck.
    Blow(String, Blow),
}

impl Suffered {
    /// What is suffered, for others to follow.
    pub(crate) fn hardship(&self) -> watch::Receiver<Hardship> {
        self.hardship.clone()
    }

    pub(super) fn standing(&self) -> Standing {
        self.hardship.borrow().standing
    }

    /// What the node is told next. May be dropped and called again.
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

    /// Waits until what is suffered is another thing.
    pub(super) async fn changed(&mut self) {
        changed(&mut self.hardship).await;
    }
}

/// Waits until what is suffered is another thing: for ever where nobody is left to change it.
pub(super) async fn changed(hardship: &mut watch::Receiver<Hardship>) {
    if hardship.changed().await.is_err() {
        pending().await
    }
}
