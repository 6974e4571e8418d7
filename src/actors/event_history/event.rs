//! What happened, as the application and its operators are told (spec B-50).

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::actors::executor_registry::registry::SessionStep;
use crate::model::Ending;
use crate::model::executor::{Class, HowGone};
use crate::model::{Entry, ExecutorId, Incarnation, LossClass, ProfileName, State};

/// An event's place: within an incarnation events are numbered from 1 (spec B-50).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId {
    /// Of which incarnation.
    pub incarnation: Incarnation,
    /// Which one of it; 0 stands before the first.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.incarnation.0, self.number)
    }
}

/// A text that is no event's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event's id is two numbers with a dash between them, as 3-17")]
pub struct NoEventId;

impl FromStr for EventId {
    type Err = NoEventId;

    fn from_str(text: &str) -> Result<Self, NoEventId> {
        let (incarnation, number) = text.split_once('-').ok_or(NoEventId)?;
        let number_of = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().map_err(|_| NoEventId),
            false => Err(NoEventId),
        };
        Ok(Self {
            incarnation: Incarnation(number_of(incarnation)?),
            number: number_of(number)?,
        })
    }
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its place.
    pub id: EventId,
    /// When the driver learnt of it.
    pub time: Timestamp,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A driver has taken over, with what it found.
    Began {
        /// How many executors were there already.
        adopted: usize,
    },
    /// How many executors of a profile are wanted has changed.
    TargetChanged {
        /// Which profile.
        profile: String,
        /// How many are wanted now.
        target: u32,
    },
    /// Enough executors are there to begin with, or have been waited for long enough (spec B-20).
    Ready {
        /// So many are there.
        executors: u32,
        /// So many were waited for.
        wanted: u32,
    },
    /// The driver has reason to doubt itself, and gives nobody up (spec B-13).
    Degraded {
        /// Which.
        why: String,
    },
    /// It no longer has.
    Recovered,
    /// No executors of a profile are asked for, though they are wanted, or one at a time (spec A-31).
    Paused {
        /// Which profile.
        profile: String,
        /// Why, in one word.
        cause: &'static str,
        /// Why, for people.
        why: String,
    },
    /// They are asked for again.
    Unpaused {
        /// Which profile.
        profile: String,
    },
    /// All executors are to go, and how many were wanted is remembered (spec B-31).
    Held {
        /// Who asked for it; nobody, where the application has been silent for too long.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// What was wanted before is wanted again.
    Resumed,
    /// The application ends.
    Ending {
        /// With this exit code.
        exit_code: u8,
    },
    /// Something happened to an executor.
    #[serde(untagged)]
    Executor {
        /// Which one.
        executor: u64,
        /// Of which profile.
        profile: String,
        /// What it was.
        #[serde(flatten)]
        step: Step,
    },
}

/// A step in the life of an executor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Step {
    /// It was there when this driver took over.
    Adopted {
        /// How it was then.
        state: &'static str,
        /// Its pod, if it had one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
    },
    /// It was asked for.
    Requested,
    /// Its pod is there and does not run yet.
    Pending {
        /// Its pod.
        pod: String,
        /// What it waits for.
        why: String,
    },
    /// It runs.
    Running {
        /// Its pod.
        pod: String,
        /// The node it runs on.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// It has an account with the driver (spec B-1).
    Registered {
        /// Where the application reaches it.
        #[serde(skip_serializing_if = "String::is_empty")]
        address: String,
        /// How many pieces of work it does at a time.
        slots: u32,
        /// The session's number.
        session: u64,
    },
    /// Its connection is lost, and why is not known yet (spec B-14).
    Disabled,
    /// It is heard of again.
    Enabled,
    /// It has said that it exits.
    Exiting {
        /// With which code.
        code: i32,
        /// Why, as it says.
        #[serde(skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// What it does cannot be told at the moment.
    InDoubt {
        /// Why not.
        why: String,
    },
    /// It is to go, or somebody has deleted its pod.
    Leaving {
        /// Why.
        why: String,
    },
    /// No pod was ever made for it.
    NotCreated {
        /// Why not.
        why: String,
    },
    /// It has ended.
    Ended {
        /// Why, in one word (spec L-20).
        reason: LossClass,
        /// Its exit code, where one was reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Whether that counts as a failure.
        failure: bool,
        /// Whether the application caused it.
        by_application: bool,
        /// Why, for people.
        why: String,
        /// Its pod.
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
        /// The node it ran on.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
}

impl Step {
    /// How far an executor has come; nothing where another event tells its end.
    pub fn of(entry: &Entry) -> Option<Self> {
        let pod = || {
            entry
                .pod()
                .map_or_else(String::new, |pod| pod.name.to_string())
        };
        Some(match entry.class() {
            Class::Sent | Class::Unknown => Self::Requested,
            Class::Pending(_) => Self::Pending {
                pod: pod(),
                why: entry
                    .pod()
                    .and_then(|pod| pod.why_pending())
                    .unwrap_or_default(),
            },
            Class::Running => Self::Running {
                pod: pod(),
                node: entry
                    .pod()
                    .and_then(|pod| pod.node.as_deref())
                    .map(str::to_owned),
            },
            Class::Odd => Self::InDoubt {
                why: "its pod's phase is missing or unknown".to_owned(),
            },
            Class::Absent => Self::InDoubt {
                why: "its pod is missing in a list".to_owned(),
            },
            Class::Leaving | Class::Terminating => Self::Leaving {
                why: why_leaving(entry),
            },
            Class::Finished => return None,
            Class::Gone => match &entry.state {
                State::Gone(gone) => match &gone.how {
                    HowGone::NotCreated(why) => Self::NotCreated {
                        why: why.to_string(),
                    },
                    _ => return None,
                },
                State::Sent(_) | State::Unknown(_) | State::Bound(_) => return None,
            },
        })
    }

    /// The end of an executor.
    pub fn end(ending: &Ending) -> Self {
        let Ending { entry, reason } = ending;
        Self::Ended {
            reason: reason.class,
            exit_code: reason.exit_code,
            failure: reason.failure,
            by_application: reason.by_application,
            why: reason.message.clone(),
            pod: entry.pod().map(|pod| pod.name.to_string()),
            node: reason.evidence.node.as_deref().map(str::to_owned),
        }
    }

    /// Whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::NotCreated { .. } | Self::Ended { .. })
    }
}

impl From<SessionStep> for Step {
    fn from(step: SessionStep) -> Self {
        match step {
            SessionStep::Registered {
                address,
                slots,
                session,
            } => Self::Registered {
                address,
                slots,
                session,
            },
            SessionStep::Disabled => Self::Disabled,
            SessionStep::Enabled => Self::Enabled,
            SessionStep::Exiting { code, why } => Self::Exiting { code, why },
        }
    }
}

fn why_leaving(entry: &Entry) -> String {
    match &entry.leaving {
        None => "somebody has deleted its pod".to_owned(),
        Some(leaving) => leaving.why.to_string(),
    }
}

impl What {
    /// A step of that executor.
    pub fn step(id: ExecutorId, profile: &ProfileName, step: Step) -> Self {
        Self::Executor {
            executor: id.get(),
            profile: profile.to_string(),
            step,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: B-50
    #[test]
    fn an_events_id_is_read_as_it_is_written() {
        let id = EventId {
            incarnation: Incarnation(3),
            number: 17,
        };
        assert_eq!(id.to_string(), "3-17");
        assert_eq!("3-17".parse(), Ok(id));
        for bad in [
            "",
            "3",
            "-",
            "3-",
            "-17",
            "3-17-1",
            "+3-17",
            "3-x",
            "99999999999999999999-1",
        ] {
            assert_eq!(bad.parse::<EventId>(), Err(NoEventId), "{bad}");
        }
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let event = Event {
            id: EventId {
                incarnation: Incarnation(1),
                number: 2,
            },
            time: Timestamp::UNIX_EPOCH,
            what: What::Executor {
                executor: 5,
                profile: "default".to_owned(),
                step: Step::Running {
                    pod: "app-exec-5".to_owned(),
                    node: None,
                },
            },
        };
        let want = serde_json::json!({
            "id": "1-2", "time": "1970-01-01T00:00:00Z", "event": "running",
            "executor": 5, "profile": "default", "pod": "app-exec-5",
        });
        assert_eq!(serde_json::to_value(event).unwrap(), want);
    }
}
