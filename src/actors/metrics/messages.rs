use std::collections::BTreeMap;

use actix::{Message, MessageResponse};

/// Requests all metrics in the text format of Prometheus.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Result<String, std::fmt::Error>")]
pub struct Scrape;

/// Requests the depths of an actor's queues. The time until the answer shows how long messages wait
/// in its mailbox.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Depths")]
pub struct AskDepths;

/// The name and depth of each queue of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Default, MessageResponse)]
pub struct Depths(pub Vec<(&'static str, usize)>);

#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "SessionMeasures")]
pub struct MeasureSessions;

/// When the certificate of the driver's listeners expires.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct CertificateExpires(pub jiff::Timestamp);

/// The number of sessions by state, and the messages received since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, MessageResponse)]
pub struct SessionMeasures {
    pub connected: usize,
    /// Sessions of executors that use single requests.
    pub asking: usize,
    /// Sessions whose connection was lost for a reason that is not known yet (spec B-14).
    pub disabled: usize,
    pub unregistered: usize,
    /// Messages by type.
    pub heard: BTreeMap<&'static str, u64>,
    /// Refused messages by code.
    pub refused: BTreeMap<String, u64>,
    /// Each reason for which the driver can be degraded, and whether it is (spec B-13).
    pub degraded: Vec<(&'static str, bool)>,
}
