//! PollSource: a list at each interval, whatever the watch says (spec P-1 to P-3).

use std::time::Duration;

mod machine;
pub mod messages;

/// How often and how is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From the end of one list to the next one's beginning, ± 10 %.
    pub interval: Duration,
    /// Whether the server may answer from its cache (spec P-1).
    pub from_cache: bool,
    /// Whether there is no watch, so that the poll makes the first list, and at once (spec W-6).
    pub makes_first_list: bool,
}
