//! The faults that the simulated nodes inject into pods, and the pace of pods without faults.

use std::time::Duration;

/// How fast the pods of a run are processed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The longest time from a pod's creation to its binding.
    pub bind: Duration,
    /// The longest time from its binding to its running.
    pub start: Duration,
    /// The longest time from its deletion to its removal; never more than its grace period.
    pub stop: Duration,
}

/// How a running pod ends, or appears to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodFault {
    /// The container exits with this code.
    Exit(i32),
    /// The kernel kills the container for lack of memory.
    OutOfMemory,
    /// The node evicts the pod.
    Evicted,
    /// The scheduler preempts the pod.
    Preempted,
    /// The taint manager deletes the pod because of a taint on its node.
    TaintManager,
    /// The node shuts down gracefully.
    NodeShutdown,
    /// The node is lost, and the pod is garbage-collected.
    NodeLost,
    /// Another container of the pod exits with this code.
    Sidecar(i32),
    /// The pod's phase is `Unknown` for a while.
    PhaseUnknown,
}

/// A fault of pods that are created while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupFault {
    /// No node accepts the pod.
    Unschedulable,
    /// The image cannot be pulled.
    NoImage,
    /// The configuration that the container refers to is missing.
    BadConfig,
    /// The node rejects the pod.
    Rejected,
    /// A volume cannot be mounted.
    NoVolume,
    /// The start takes long.
    Slow,
    /// The container's command cannot be started.
    Unstartable,
}
