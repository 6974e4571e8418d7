//! Decides when the application is ready: pure (spec B-20).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{ProfileName, Tick};

/// The conditions of readiness.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The percentage of the targets at the start that must be there.
    pub ratio: u32,
    /// The longest wait for that percentage.
    pub max_wait: Duration,
    /// The number of executors that each of these profiles must have; without a time limit.
    pub gangs: BTreeMap<ProfileName, u32>,
    /// Whether only registered executors count; otherwise running ones do.
    pub registered: bool,
}

/// Whether the application is ready. Once it is, it stays ready.
#[derive(Debug)]
pub struct Readiness {
    settings: Settings,
    wanted: u32,
    since: Option<Tick>,
    ready: bool,
}

impl Readiness {
    /// `targets` is the sum of the targets at the start.
    pub fn new(settings: Settings, targets: u32) -> Self {
        let share = u64::from(targets) * u64::from(settings.ratio);
        Self {
            settings,
            wanted: u32::try_from(share.div_ceil(100)).unwrap_or(u32::MAX),
            since: None,
            ready: false,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The number of executors that must be there.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Whether only registered executors count.
    pub fn counts_registered(&self) -> bool {
        self.settings.registered
    }

    /// Evaluates the conditions after adoption: `there` executors in total, `of` each profile.
    /// Returns whether the application has just become ready.
    pub fn look(&mut self, there: u32, of: impl Fn(&ProfileName) -> u32, now: Tick) -> bool {
        let since = *self.since.get_or_insert(now);
        let waited = now.since(since) >= self.settings.max_wait;
        let complete =
            || (self.settings.gangs.iter()).all(|(profile, least)| of(profile) >= *least);
        let becomes = !self.ready && (there >= self.wanted || waited) && complete();
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
            gangs: BTreeMap::new(),
            registered: true,
        };
        Readiness::new(settings, targets)
    }

    // spec: B-20
    #[test]
    fn the_application_becomes_ready_once_when_enough_executors_are_there() {
        let mut readiness = readiness(9);
        let mut look = |there, millis| readiness.look(there, |_| 0, at(millis));
        assert!(!look(7, 0), "7.2 are wanted, so 8");
        assert!(look(8, 1));
        assert!(!look(9, 2) && !look(0, 3));
        assert!(readiness.is_ready());
    }

    // spec: B-20
    #[test]
    fn the_application_becomes_ready_when_the_wait_times_out() {
        let mut readiness = readiness(9);
        let mut look = |millis| readiness.look(0, |_| 0, at(millis));
        assert!(!look(10_000) && !look(39_999));
        assert!(look(40_000));
    }

    // spec: B-20
    #[test]
    fn without_targets_the_application_is_ready_at_once() {
        assert!(readiness(0).look(0, |_| 0, at(0)));
    }

    // spec: B-63
    #[test]
    fn a_gang_is_waited_for_however_long_it_takes() {
        let mut readiness = readiness(9);
        let gangs = [("cpu", 2), ("gpu", 4)];
        readiness.settings.gangs = gangs.map(|(name, n)| (name.into(), n)).into();
        let mut look = |cpu, gpu, millis| {
            let of = |profile: &ProfileName| if profile.as_str() == "cpu" { cpu } else { gpu };
            readiness.look(cpu + gpu, of, at(millis))
        };
        assert!(!look(9, 3, 0) && !look(9, 3, 3_600_000));
        assert!(!look(1, 8, 3_600_001));
        assert!(look(2, 4, 3_600_002));
    }
}
