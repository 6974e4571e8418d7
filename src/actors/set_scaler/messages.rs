use actix::Message;

/// The application ends: delete the sets once no executor drains. Answered with how many are left.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "usize")]
pub struct EndSets;
