use std::sync::Arc;

use actix::Message;

use crate::model::ProfileName;

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

/// What the record says of profiles from now on. Answered when it says so, of those that the configuration has at once.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub enum RecordProfiles {
    /// The configuration says the targets of these now, also of those that were set at run time (spec C-6).
    Configured(Vec<ProfileName>),
    /// This one is being removed (spec B-52); a successor goes on with that. May be sent twice.
    Removing(ProfileName),
    /// This one was reset (spec L-41).
    Reset(ProfileName),
}
