//! The messages of RecordKeeper.

use std::sync::Arc;

use actix::Message;

use super::keeping::Over;

#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct DriverIsOver(pub Over);

/// Writes pending changes. Answered when they are written (spec O-10, hand-over).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Flush;

/// Writes to the record that the application has ended, for successors (spec O-11). Answered when
/// it is written.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct FinishRecord {
    /// The exit code of a successor.
    pub code: u8,
    /// The reason, unless the end was requested.
    pub why: Option<Arc<str>>,
}

/// Deletes the record of an application that has ended (spec O-11). Answered when it is deleted.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct DeleteRecord;
