/// A step of an executor's session that no snapshot shows.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionStep {
    /// It has an account with the driver.
    Registered {
        /// Where the application reaches the executor.
        address: String,
        /// The number of tasks that it runs at a time.
        slots: u32,
        session: u64,
    },
    /// Its connection is lost for a reason that is not known yet.
    Disabled,
    /// A message arrived from it again.
    Enabled,
    /// It has reported that it exits.
    Exiting {
        code: i32,
        /// The executor's own words.
        why: String,
    },
}
