//! When the application may begin (spec B-20): pure.

use std::time::Duration;

use crate::model::Tick;

/// What is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// So many in a hundred of those that were wanted at the start.
    pub ratio: u32,
    /// No longer than that.
    pub max_wait: Duration,
    /// Whether they have to have registered; otherwise they have to run.
    pub registered: bool,
}

/// Whether the application is ready. Once it is, it stays so.
#[derive(Debug)]
pub struct Readiness {
    settings: Settings,
    wanted: u32,
    since: Option<Tick>,
    ready: bool,
}

impl Readiness {
    /// Before the driver has taken over; so many executors are wanted at the start.
    pub fn new(settings: Settings, targets: u32) -> Self {
        let share = u64::from(targets) * u64::from(settings.ratio);
        Self {
            settings,
            wanted: u32::try_from(share.div_ceil(100)).unwrap_or(u32::MAX),
            since: None,
            ready: false,
        }
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// How many were waited for.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Whether executors have to have registered to count.
    pub fn counts_registered(&self) -> bool {
        self.settings.registered
    }

    /// So many are there, after the driver has taken over. Tells whether it has become ready.
    pub fn look(&mut self, there: u32, now: Tick) -> bool {
        let since = *self.since.get_or_insert(now);
        let waited = now.since(since) >= self.settings.max_wait;
        let becomes = !self.ready && (there >= self.wanted || waited);
        self.ready |= becomes;
        becomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn readiness(targets: u32) -> Readiness {
        let settings = Settings {
            ratio: 80,
            max_wait: Duration::from_secs(30),
            registered: true,
        };
        Readiness::new(settings, targets)
    }

    // spec: B-20
    #[test]
    fn it_is_ready_once_enough_are_there_and_says_so_once() {
        let mut readiness = readiness(9);
        assert!(!readiness.look(7, at(0)), "7.2 are wanted, so 8");
        assert!(readiness.look(8, at(1)));
        assert!(!readiness.look(9, at(2)) && !readiness.look(0, at(3)));
        assert!(readiness.is_ready());
    }

    // spec: B-20
    #[test]
    fn it_is_ready_after_a_while_however_many_are_there() {
        let mut readiness = readiness(9);
        assert!(!readiness.look(0, at(10_000)) && !readiness.look(0, at(39_999)));
        assert!(readiness.look(0, at(40_000)));
    }

    // spec: B-20
    #[test]
    fn where_nobody_is_wanted_nobody_is_waited_for() {
        assert!(readiness(0).look(0, at(0)));
    }
}
