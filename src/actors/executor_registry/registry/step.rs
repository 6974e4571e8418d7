/// A step in an executor's life that its session shows, and no snapshot.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionStep {
    /// It has an account with the driver (spec B-1).
    Registered {
        /// Where the application reaches it.
        address: String,
        /// How many pieces of work it does at a time.
        slots: u32,
        /// The session's number.
        session: u64,
    },
    /// Its connection is lost, for a reason that is not known yet (spec B-14).
    Disabled,
    /// It is heard of again.
    Enabled,
    /// It has said that it exits.
    Exiting {
        /// With which code.
        code: i32,
        /// Its own words.
        why: String,
    },
}
