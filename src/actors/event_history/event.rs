//! Events that the API reports (spec B-50).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::actors::executor_registry::registry::SessionStep;
use crate::model::Ending;
use crate::model::executor::{Class, GoneEvidence};
use crate::model::node::Nodes;
use crate::model::quantity::{MEBIBYTE, memory_text};
use crate::model::recorded_end::RecordedEnd;
use crate::model::{Entry, ExecutorId, Incarnation, LossClass, ProfileName, State};
use boatswain_agent::protocol::Usage;

/// An event's id. The events of an incarnation are numbered from 1 (spec B-50).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId {
    pub incarnation: Incarnation,
    /// 0 stands for the position before the first event.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.incarnation.0, self.number)
    }
}

/// The text is not an event id.
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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub id: EventId,
    /// When the driver learnt of it.
    pub time: Timestamp,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// A driver has taken over.
    Began {
        /// The application's id.
        app: String,
        /// The number of executors that it found.
        adopted: usize,
        /// By profile.
        targets: BTreeMap<String, u32>,
    },
    TargetChanged {
        profile: String,
        target: u32,
    },
    /// No request has renewed a profile for its ttl: it is removed.
    Silent {
        profile: String,
        why: String,
    },
    /// A profile is being removed: its executors are to terminate.
    Removing {
        profile: String,
    },
    /// A profile is removed, and one of its name may be added again.
    Removed {
        profile: String,
    },
    /// A profile has failed too often: its target is 0 until it is reset.
    Failed {
        profile: String,
        why: String,
    },
    /// Executors were killed because their memory was exhausted: new ones have this limit, a Kubernetes quantity.
    MemoryGrown {
        profile: String,
        memory_limit: String,
    },
    /// The requested target of a failed profile applies again, and the configured memory.
    Reset {
        profile: String,
    },
    /// The application is ready: enough executors are there, or the wait has timed out.
    Ready {
        /// The number of executors that are there.
        executors: u32,
        /// The number that was waited for.
        wanted: u32,
    },
    /// The driver suspects itself, and gives up no executor.
    Degraded {
        why: String,
    },
    /// The driver no longer suspects itself.
    Recovered,
    /// Executors of a profile are missing but not requested, or only one at a time.
    Paused {
        profile: String,
        /// The reason in one word.
        cause: &'static str,
        /// The reason as text.
        why: String,
    },
    /// Executors of the profile are requested again.
    Unpaused {
        profile: String,
    },
    /// All executors are decommissioned, and the targets are kept for a resume.
    Held {
        /// The requester; `None` if the application was silent for too long.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The targets from before the hold are restored.
    Resumed,
    /// The application ends.
    Ending {
        exit_code: u8,
        /// What has failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    #[serde(untagged)]
    Executor {
        executor: u64,
        profile: String,
        #[serde(flatten)]
        step: Step,
    },
}

/// A step in an executor's life.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Step {
    /// It existed when this driver took over.
    Adopted {
        /// Its state then.
        state: &'static str,
        /// Its pod's name, if it had a pod.
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
    },
    Requested,
    /// Its pod exists and does not run yet.
    Pending {
        pod: String,
        /// What the pod waits for.
        why: String,
    },
    Running {
        pod: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Its node's zone, and how that is paid for, if nodes are watched.
        #[serde(skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        capacity_type: Option<String>,
        /// That of its container, a Kubernetes quantity. The event is repeated when it has grown (spec L-44).
        #[serde(skip_serializing_if = "Option::is_none")]
        memory_limit: Option<String>,
    },
    /// It was a spare, and is one of this profile from now on. Its program begins.
    Promoted,
    /// It has an account with the driver.
    Registered {
        /// Where the application reaches it.
        #[serde(skip_serializing_if = "String::is_empty")]
        address: String,
        /// The number of tasks that it runs at a time.
        slots: u32,
        session: u64,
    },
    /// Its connection is lost for a reason that is not known yet.
    Disabled,
    /// A message arrived from it again.
    Enabled,
    /// It has reported that it exits.
    Exiting {
        code: i32,
        /// The executor's own words.
        #[serde(skip_serializing_if = "String::is_empty")]
        why: String,
    },
    /// Whether it runs is unknown at present.
    Uncertain {
        why: String,
    },
    /// It is marked as leaving, or its pod is being deleted.
    Leaving {
        why: String,
    },
    /// No pod was created for it.
    NotCreated {
        why: String,
    },
    Ended {
        /// The class of the reason.
        reason: LossClass,
        /// Its exit code, if one was reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Whether the end counts as a failure.
        failure: bool,
        /// Whether the application caused the end.
        by_application: bool,
        /// The reason as text.
        why: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// What its container used, by its last heartbeat.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
}

/// Of each kind the same number of ends is kept, so that many of one kind displace none of another (spec B-51).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindOfEnd {
    Failure,
    Disruption,
    /// No pod was created for it.
    NotCreated,
    /// The driver ended it, or it had done its work.
    Planned,
}

impl Step {
    /// The latest step of an executor; `None` if another event reports its end.
    pub fn of(entry: &Entry, nodes: &Nodes) -> Option<Self> {
        let text = |text: &Arc<str>| text.to_string();
        let node = || nodes.of(entry);
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
                zone: node().and_then(|node| node.zone.as_ref().map(text)),
                capacity_type: node().and_then(|node| node.capacity_type.as_ref().map(text)),
                memory_limit: (entry.pod())
                    .and_then(|pod| pod.memory_limit)
                    .map(|limit| memory_text(u64::from(limit.get()) * MEBIBYTE)),
            },
            Class::Odd => Self::Uncertain {
                why: "its pod's phase is missing or unknown".to_owned(),
            },
            Class::Absent => Self::Uncertain {
                why: "its pod is missing in a list".to_owned(),
            },
            Class::Leaving | Class::Terminating => Self::Leaving {
                why: why_leaving(entry),
            },
            Class::Finished => return None,
            Class::Gone => match &entry.state {
                State::Gone(gone) => match &gone.how {
                    GoneEvidence::NotCreated(why) => Self::NotCreated {
                        why: why.to_string(),
                    },
                    _ => return None,
                },
                State::Sent(_) | State::Unknown(_) | State::Bound(_) => return None,
            },
        })
    }

    pub fn end(ending: &Ending, usage: Option<Usage>) -> Self {
        let Ending { entry, reason } = ending;
        Self::Ended {
            reason: reason.class,
            exit_code: reason.exit_code,
            failure: reason.failure,
            by_application: reason.by_application,
            why: reason.message.clone(),
            pod: entry.pod().map(|pod| pod.name.to_string()),
            node: reason.evidence.node.as_deref().map(str::to_owned),
            usage,
        }
    }

    /// How the executor ended; `None` if this is no end.
    pub fn kind_of_end(&self) -> Option<KindOfEnd> {
        match self {
            Self::NotCreated { .. } => Some(KindOfEnd::NotCreated),
            Self::Ended { failure: true, .. } => Some(KindOfEnd::Failure),
            Self::Ended { reason, .. } if reason.is_disruption() => Some(KindOfEnd::Disruption),
            Self::Ended { .. } => Some(KindOfEnd::Planned),
            _ => None,
        }
    }
}

impl From<&RecordedEnd> for Step {
    fn from(end: &RecordedEnd) -> Self {
        let reason = end.loss_reason();
        Self::Ended {
            reason: reason.class,
            exit_code: reason.exit_code,
            failure: reason.failure,
            by_application: reason.by_application,
            why: reason.message,
            pod: end.pod.as_deref().map(str::to_owned),
            node: end.node.as_deref().map(str::to_owned),
            usage: None,
        }
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
    /// How an executor ended; `None` if this is no end.
    pub fn kind_of_end(&self) -> Option<KindOfEnd> {
        match self {
            Self::Executor { step, .. } => step.kind_of_end(),
            _ => None,
        }
    }

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
                    zone: None,
                    capacity_type: None,
                    memory_limit: None,
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
