use actix::Message;

/// The application ends: the sets are deleted once no executor drains. Answered with the number of
/// sets left.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "usize")]
pub struct EndSets;
