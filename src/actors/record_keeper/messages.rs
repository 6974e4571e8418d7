//! What RecordKeeper is asked and tells.

use std::sync::Arc;

use actix::Message;

use super::keeping::Over;

/// This driver is over.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct DriverIsOver(pub Over);

/// Write what is not written yet; answered when it is (spec O-10, hand-over).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Flush;

/// The application is over, with this code, and the record says so to successors (spec O-11); answered when it is
/// written.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct FinishRecord {
    /// The code that a successor exits with.
    pub code: u8,
    /// Why the application is over, where that is more than that somebody wanted it.
    pub why: Option<Arc<str>>,
}

/// Delete the record: the application is over (spec O-11); answered when it is deleted.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct DeleteRecord;
