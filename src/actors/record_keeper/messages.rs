use std::sync::Arc;

use actix::Message;

/// Writes pending changes. Answered when written (spec O-106), with `false` if the record may not be written.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "bool")]
pub struct Flush;

/// Records for successors that the application has ended (spec O-108). Answered when written.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct FinishRecord {
    /// The exit code of a successor.
    pub code: u8,
    /// The reason, unless the end was requested.
    pub why: Option<Arc<str>>,
}

/// Deletes an ended application's record (spec O-108). Answered when deleted.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct DeleteRecord;
