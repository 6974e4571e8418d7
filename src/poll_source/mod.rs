//! PollSource: a list at each interval, whatever the watch says (spec P-1 to P-3).

pub mod messages;
