//! The messages from executors to the driver.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromExecutor {
    /// Registers the executor.
    Register(Register),
    /// Reports that the executor is alive, and its busy slots.
    Heartbeat(Heartbeat),
    /// Asks for the executor to be decommissioned, because it has to exit soon.
    DecommissionMe(AskToGo),
    /// Announces that the executor exits with this code.
    Exiting(Exiting),
}

/// Registers an executor. Either `executor` or `pod` is required.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Register {
    pub app: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<u64>,
    /// The name of the executor's pod, if the executor does not know its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    pub pod_uid: String,
    /// The address at which the application can reach the executor. The driver only passes it on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// How many tasks the executor runs at the same time.
    #[serde(default = "one_slot")]
    pub slots: u32,
    /// Further information for the application.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// The URL of the executor's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_url: Option<String>,
}

fn one_slot() -> u32 {
    1
}

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The session; optional on a WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    pub busy_slots: u32,
    /// Metrics of the executor; only the latest are kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// What the executor's container uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The memory and CPU that an executor's container uses.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Without the page cache that the kernel takes back first.
    pub memory_bytes: u64,
    /// The limit beyond which the container is killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// On average since the heartbeat before; missing in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// The highest memory of all heartbeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// What 99 % of the heartbeats had as cores or fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_cpu_cores: Option<f64>,
}

/// A request to be decommissioned, for example before the maintenance of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AskToGo {
    /// The session; optional on a WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// A human-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The executor is exiting.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exiting {
    /// The session; optional on a WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The exit code.
    pub code: i32,
    /// A human-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl FromExecutor {
    /// The value of the field `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Register(_) => "register",
            Self::Heartbeat(_) => "heartbeat",
            Self::DecommissionMe(_) => "decommission-me",
            Self::Exiting(_) => "exiting",
        }
    }

    /// The session that the message names.
    pub fn session(&self) -> Option<u64> {
        match self {
            Self::Register(_) => None,
            Self::Heartbeat(heartbeat) => heartbeat.session,
            Self::DecommissionMe(ask) => ask.session,
            Self::Exiting(exiting) => exiting.session,
        }
    }
}
