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

/// Forgets the targets of these profiles that were set at run time: the configuration says them now (spec C-6).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ForgetTargets(pub Vec<ProfileName>);

/// A profile is being removed (spec B-52). May be sent twice. Answered when the record says so: only then a successor
/// goes on with the removal.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ProfileRemoved(pub ProfileName);

/// A profile was reset (spec L-41). Answered when the record says so.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ProfileReset(pub ProfileName);
