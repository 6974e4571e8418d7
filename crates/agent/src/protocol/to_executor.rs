//! The messages from the driver to executors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToExecutor {
    /// The executor is registered.
    Registered(Registered),
    /// The driver is still reading the cluster's state; the executor should register again after
    /// this time.
    Later {
        /// In milliseconds.
        in_ms: u64,
    },
    /// The executor is not registered.
    Refused {
        /// A machine-readable code.
        code: String,
        /// A human-readable description.
        message: String,
        /// Whether the executor must exit. If not, another attempt may succeed.
        exit: bool,
    },
    /// The executor is not registered and must register first.
    Register,
    /// A newer session of the same executor has replaced this one.
    Superseded,
    /// The executor must exit.
    Stop {
        /// The deadline, in milliseconds from now.
        deadline_ms: u64,
        /// A human-readable reason.
        why: String,
    },
    /// The executor must finish running tasks, accept no more, and exit.
    Decommission {
        /// The deadline, in milliseconds from now.
        deadline_ms: u64,
        /// A human-readable reason.
        why: String,
    },
    /// The message was accepted, and there is no other answer.
    Ack,
    /// The message was refused; the session continues.
    Problem {
        /// A machine-readable code.
        code: String,
        /// A human-readable description.
        message: String,
        /// The field of the message that is wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
}

/// The answer to a successful registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    pub executor: u64,
    /// The number of the session. A session with a higher number replaces it.
    pub session: u64,
    pub profile: String,
    pub heartbeat_interval_ms: u64,
    /// An executor that is silent for this long is lost.
    pub heartbeat_timeout_ms: u64,
    /// The application's properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// The body of an answer over plain HTTP: messages for the executor, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice<'a> {
    /// At least one message.
    pub messages: &'a [ToExecutor],
}

impl ToExecutor {
    /// The code with which a message was refused, if this is a refusal.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } | Self::Problem { code, .. } => Some(code),
            Self::Later { .. } => Some("later"),
            Self::Register => Some("register"),
            Self::Superseded => Some("superseded"),
            Self::Registered(_) | Self::Stop { .. } | Self::Decommission { .. } | Self::Ack => None,
        }
    }

    /// Refuses a registration; the executor must exit.
    pub fn exit(code: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            code: code.to_owned(),
            message: message.into(),
            exit: true,
        }
    }

    /// Refuses a registration for now.
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            code: code.to_owned(),
            message: message.into(),
            exit: false,
        }
    }

    /// Refuses a message.
    pub fn problem(code: &str, message: impl Into<String>) -> Self {
        Self::Problem {
            code: code.to_owned(),
            message: message.into(),
            field: None,
        }
    }
}
