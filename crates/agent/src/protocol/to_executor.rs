//! What the driver says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A message of the driver's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToExecutor {
    /// It has an account now.
    Registered(Registered),
    /// The driver does not know yet who is there: to be asked again after that time (spec B-3).
    Later {
        /// In milliseconds.
        in_ms: u64,
    },
    /// It gets no account (spec B-3, B-4).
    Refused {
        /// Why, in one word.
        code: String,
        /// Why, for people.
        message: String,
        /// Whether it is to exit; otherwise another try may succeed.
        exit: bool,
    },
    /// It has no account: it is to register (spec B-11).
    Register,
    /// There is a newer session of the same executor; this one is over (spec B-2).
    Superseded,
    /// It is to exit.
    Stop {
        /// By when, in milliseconds from now.
        deadline_ms: u64,
        /// Why, for people.
        why: String,
    },
    /// It is to finish what is under way, take on nothing more, and exit.
    Decommission {
        /// By when, in milliseconds from now.
        deadline_ms: u64,
        /// Why, for people.
        why: String,
    },
    /// The message was taken in, and there is nothing to say.
    Ack,
    /// The message could not be taken in; the session goes on.
    Problem {
        /// What it is, in one word.
        code: String,
        /// What it is, for people.
        message: String,
        /// Where in the message it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The executor's id.
    pub executor: u64,
    /// The session's number; a later one supersedes it.
    pub session: u64,
    /// The executor's profile.
    pub profile: String,
    /// From one heartbeat to the next, in milliseconds.
    pub heartbeat_interval_ms: u64,
    /// Without a sign of life for so long it is given up, in milliseconds.
    pub heartbeat_timeout_ms: u64,
    /// The application's properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// The body of an answer over plain HTTP: what the driver has to say, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice<'a> {
    /// At least one message.
    pub messages: &'a [ToExecutor],
}

/// The same, as a client reads it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Said {
    /// At least one message.
    pub messages: Vec<ToExecutor>,
}

impl ToExecutor {
    /// Why a message was not taken in, in one word, where this says so.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } | Self::Problem { code, .. } => Some(code),
            Self::Later { .. } => Some("later"),
            Self::Register => Some("register"),
            Self::Superseded => Some("superseded"),
            Self::Registered(_) | Self::Stop { .. } | Self::Decommission { .. } | Self::Ack => None,
        }
    }

    /// That it gets no account, and is to exit.
    pub fn exit(code: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            code: code.to_owned(),
            message: message.into(),
            exit: true,
        }
    }

    /// That it gets no account as things are.
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::Refused {
            code: code.to_owned(),
            message: message.into(),
            exit: false,
        }
    }

    /// That a message could not be taken in.
    pub fn problem(code: &str, message: impl Into<String>) -> Self {
        Self::Problem {
            code: code.to_owned(),
            message: message.into(),
            field: None,
        }
    }
}
