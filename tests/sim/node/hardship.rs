//! What befalls pods, and how fast all goes where nothing does.

use std::time::Duration;

/// How the pods of this run behave where nothing is done to them.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From a pod's creation to its binding, at most.
    pub bind: Duration,
    /// From its binding to its running, at most.
    pub start: Duration,
    /// From its deletion to its being gone, at most; never longer than its grace.
    pub stop: Duration,
}

/// How a pod that runs comes to an end, or to something that looks like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Its container ends by itself, with this code.
    Exit(i32),
    /// The kernel ends it for want of memory.
    OutOfMemory,
    /// The node evicts it.
    Evicted,
    /// The scheduler wants its place.
    Preempted,
    /// Its node has a taint now.
    TaintManager,
    /// Its node is shut down in good order.
    NodeShutdown,
    /// Its node is gone, and somebody cleans up.
    NodeLost,
    /// Another container of the pod ends, with this code.
    Sidecar(i32),
    /// Nobody knows how it is, for a while.
    PhaseUnknown,
}

/// What befalls pods that are created while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plague {
    /// No node takes them.
    Unschedulable,
    /// Their image is not there.
    NoImage,
    /// What they are configured with is not there.
    BadConfig,
    /// Their node refuses them.
    Rejected,
    /// They take long to start.
    Slow,
    /// Their command cannot be started.
    Unstartable,
}
