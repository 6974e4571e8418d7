//! Numbers by which outdated answers and alarms are recognised.

/// The serial number of a call or a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Serial(pub u64);

impl Serial {
    /// Raises the number, and returns it.
    pub fn raise(&mut self) -> Self {
        self.0 += 1;
        *self
    }
}
