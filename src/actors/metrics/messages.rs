//! What the meter is told and asked.

use std::collections::BTreeMap;

use actix::{Message, MessageResponse};

/// All that was counted, as Prometheus reads it.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Result<String, std::fmt::Error>")]
pub struct Scrape;

/// How much waits to be done? By the time that the answer takes is seen how long a message waits in the actor's mailbox.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Depths")]
pub struct AskDepths;

/// What waits to be done by an actor: the name of each of its queues, and how long that is.
#[derive(Debug, Clone, PartialEq, Eq, Default, MessageResponse)]
pub struct Depths(pub Vec<(&'static str, usize)>);

/// How do sessions stand?
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "SessionMeasures")]
pub struct MeasureSessions;

/// How sessions stand, and what was said over them since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, MessageResponse)]
pub struct SessionMeasures {
    /// Sessions over a connection that is open.
    pub connected: usize,
    /// Sessions of executors that only ask.
    pub asking: usize,
    /// Sessions whose connection is lost, and why is not known yet (spec B-14).
    pub disabled: usize,
    /// Connections over which nobody has registered.
    pub unregistered: usize,
    /// Messages, by their type.
    pub heard: BTreeMap<&'static str, u64>,
    /// Messages that were not taken in, by why.
    pub refused: BTreeMap<String, u64>,
}
