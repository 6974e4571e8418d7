//! WatchSource: one watch on the application's executor pods, told to the store line by line (spec W-1 to W-6).

mod machine;
pub mod messages;
