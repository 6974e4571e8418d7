//! What an executor says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A message of an executor's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromExecutor {
    /// It is there, and wants an account with the driver (spec B-1).
    Register(Register),
    /// It is alive, and this is how busy it is (spec B-10).
    Heartbeat(Heartbeat),
    /// It has to go soon, and asks to be drained (spec B-30).
    DecommissionMe(AskToGo),
    /// Its work is over, and this process will end with that code.
    Exiting(Exiting),
}

/// Who registers. One of `executor` and `pod` is needed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Register {
    /// The application's id.
    pub app: String,
    /// The executor's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<u64>,
    /// The name of its pod, for one that does not know its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The uid of its pod.
    pub pod_uid: String,
    /// Where the application can reach it; the driver only hands it on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// How many pieces of work it does at a time.
    #[serde(default = "one_slot")]
    pub slots: u32,
    /// Whatever else the application wants to know of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Where its log can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_url: Option<String>,
}

fn one_slot() -> u32 {
    1
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The session; on a connection it may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// How many of its slots have work.
    pub busy_slots: u32,
    /// Figures of its own; only the last ones are kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

/// It asks to be drained, as before a node's maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AskToGo {
    /// The session; on a connection it may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// It ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exiting {
    /// The session; on a connection it may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// With which exit code.
    pub code: i32,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl FromExecutor {
    /// Its type, as it is written.
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
