//! The types of the bodies and answers of the HTTP API.
//!
//! Made from the driver's OpenAPI document. Do not edit: see CONTRIBUTING.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::words::*;

/// By the names of the status: one number for each time, 0 where there was no such profile.
pub type Columns = BTreeMap<String, Vec<u64>>;

/// Everyone who was named, in one of four places.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// They were going already; one that was given time is hurried by a kill.
    pub already_leaving: Vec<Id>,
    /// They have something to do and were spared.
    pub busy: Vec<Id>,
    /// They go because of it.
    pub leaving: Vec<Id>,
    pub targets: TargetMap,
    /// There are none, or not any more.
    pub unknown: Vec<Id>,
}

/// What an executor is made of, in the terms of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Container {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// By resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, String>>,
    /// By resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<BTreeMap<String, String>>,
}

/// The numbers of the status every 10 s, of the last hour, since the driver's start at most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CountsHistory {
    pub profiles: BTreeMap<String, Columns>,
    /// The oldest first.
    pub times: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decommission {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Who,
    pub executors: Vec<Id>,
    /// Whether others take their place; their targets fall otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
    /// How long they may take, as 30s or 1h 30m; backend.decommission_timeout otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

/// That the driver has reason to doubt itself, and gives nobody up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Degraded {
    pub for_seconds: u64,
    pub why: String,
}

/// Which program the driver is, and where its executors are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Driver {
    /// The URL of the Kubernetes API server, or `in this process`.
    pub api_server: String,
    pub namespace: String,
    /// Since its process was started.
    pub up_seconds: u64,
    pub version: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// What the driver exits with, where nothing goes wrong.
    pub exit_code: u64,
}

/// Something that happened. What more it has follows from its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Where the application reaches the executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How many executors the driver has found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted: Option<u64>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether the application caused the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_application: Option<bool>,
    /// How its node is paid for, such as spot, if nodes are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<PauseCause>,
    /// The exit code that an executor has announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Id>,
    /// How many executors there are when the application may begin; `living`, the first message of
    /// a stream, lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executors: Option<Value>,
    /// Of an executor, or of the driver that ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether the end counts as a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<bool>,
    pub id: String,
    /// Of this executor, or of a profile's new ones, as a Kubernetes quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
    /// The state in which the executor was adopted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetMap>,
    pub time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// How many were waited for then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u64>,
    /// The reason as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its node's zone, if nodes are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The other keys.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What the cluster knows of the executor's pod; null without api.evidence, or without a pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Its last lines.
    pub log: Vec<String>,
    /// Whether the log is that of the container's run before the present one.
    pub log_of_previous_run: bool,
    /// What could not be read, and why.
    pub missing: Vec<String>,
    pub pod: String,
    pub warnings: Vec<PodWarning>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// For how long this driver has known of it.
    pub age_seconds: u64,
    /// How its node is paid for, such as spot, if nodes are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    pub executor: Id,
    /// Which start of the driver asked for it.
    pub incarnation: u64,
    /// Its pod's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How it is known that its node is about to leave the cluster, if nodes are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_leaves: Option<String>,
    /// Whether its node is ready, if nodes are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ready: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    pub profile: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    pub state: String,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its node's zone, if nodes are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutorHistory {
    pub events: Vec<Event>,
    pub evidence: Option<Evidence>,
    pub executor: Id,
    pub left_out_after_the_first: u64,
    pub now: Option<Executor>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Executors {
    pub executors: Vec<Executor>,
    /// Only if there are more: the last one, for `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_after: Option<Id>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub held: Holding,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Who,
}

/// That the executors are held, and what is wanted again when they are not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// Who asked for it; missing where the application was silent for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub targets: TargetMap,
}

/// An executor's id.
pub type Id = u64;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kill {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Who,
    pub executors: Vec<Id>,
    /// Whether those that have something to do are killed as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Whether others take their place; their targets fall otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    pub executor: Id,
    pub profile: String,
    pub reason: Reason,
    pub time: String,
    pub why: String,
}

/// A profile by the keys of [profiles.NAME] in the configuration. It is kept in the application
/// record, a ConfigMap: no place for secrets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NewProfile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Without a request that renews it for so long, such as 1m, the profile is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// The other keys.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// That no more are asked for, though they are wanted, or one at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// When one is tried again; missing while one is, and while it waits for its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_in_seconds: Option<u64>,
    pub cause: PauseCause,
    pub for_seconds: u64,
    /// A refusal is in the API server's words.
    pub why: String,
}

/// A Kubernetes Event of type Warning about the pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PodWarning {
    pub count: u64,
    pub message: String,
    pub reason: String,
    /// When it was observed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// One target over several profiles.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// The preferred one first.
    pub profiles: Vec<PoolProfile>,
    /// How many of all its profiles are wanted.
    pub target: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolProfile {
    /// Until more of it are tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_in_seconds: Option<u64>,
    /// How many would be, if there were room for all.
    pub preferred: u64,
    pub profile: String,
    /// How many are requested of it.
    pub target: u64,
    /// How many are tried in addition, to learn whether there is room again.
    pub trying: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Why the profile has failed, until it is reset or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// To how much the memory limit of new executors has grown after OomKilled, as a Kubernetes
    /// quantity; until the profile is reset or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grown_memory: Option<String>,
    /// How many are on their way out; they do not count.
    pub leaving: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// How many have a pod that does not run yet.
    pub pending: u64,
    /// How many have an account with the driver.
    pub registered: u64,
    /// Whether the profile is being removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing: Option<bool>,
    /// How many were asked for and have no pod yet.
    pub requested: u64,
    pub running: u64,
    /// How many are wanted.
    pub target: u64,
    /// How many were asked for without an answer.
    pub unanswered: u64,
    /// Of how many it cannot be told at the moment whether they run.
    pub uncertain: u64,
    pub waiting_for: Vec<Waiting>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileDemand {
    /// The nodes that executors requested from now on prefer, with weights, such as how much of the
    /// work has its data there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeMap<String, u64>>,
    /// Work that waits for a slot.
    pub pending: u64,
    /// Work that has one.
    pub running: u64,
}

/// That the API server refuses writes of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RefusedWrite {
    pub for_seconds: u64,
    /// With its subresource, such as `workloads/status`.
    pub resource: String,
    pub verb: String,
    /// The API server's words, or the right that is missing and the rule that would grant it.
    pub why: String,
}

/// What an executor that has registered says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Where the application reaches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
    /// How many of its slots have work; null if it has not said.
    pub busy_slots: Option<u64>,
    pub heard_seconds_ago: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_url: Option<String>,
    /// Its own figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BTreeMap<String, f64>>,
    /// Its number.
    pub session: u64,
    /// How many pieces of work it does at a time.
    pub slots: u64,
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Whether the driver has taken over, and knows what is there.
    pub adopted: bool,
    /// The application's id.
    pub app: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Degraded>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Holding>,
    /// Which start of the driver this is.
    pub incarnation: u64,
    /// The executors that ended last, the newest first.
    pub losses: Vec<Loss>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<BTreeMap<String, Pool>>,
    pub profiles: BTreeMap<String, Profile>,
    /// Whether the application may begin.
    pub ready: bool,
    /// What the API server has refused for long, and is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_writes: Option<Vec<RefusedWrite>>,
    pub time: String,
}

/// How many executors of each profile are wanted.
pub type TargetMap = BTreeMap<String, u64>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    pub targets: TargetMap,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenRight {
    pub right: String,
}

/// What an executor's container uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// On average since the heartbeat before; missing in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// Without the page cache that the kernel takes back first.
    pub memory_bytes: u64,
    /// Beyond it the container is killed; missing without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// What 99 % of the heartbeats had as cores or fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_cpu_cores: Option<f64>,
    /// The highest memory of all heartbeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
}

/// How many executors wait for the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub executors: u64,
    pub why: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    pub wanted: TargetMap,
}

/// Who asks, for people: it is in logs, events and loss reasons.
pub type Who = Option<String>;
