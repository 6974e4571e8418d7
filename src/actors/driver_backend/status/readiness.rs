//! Decides when the application is ready: pure (spec B-20).

use std::sync::Arc;

use crate::config::Config;
use crate::model::{ProfileName, Tick};

/// Whether the application is ready. Once it is, it stays ready.
#[derive(Debug)]
pub struct Readiness {
    /// As at the start.
    config: Arc<Config>,
    targets: u32,
    wanted: u32,
    since: Option<Tick>,
    ready: bool,
}

impl Readiness {
    /// `targets` is the sum of the targets at the start.
    pub fn new(config: Arc<Config>, targets: u32) -> Self {
        let share = u64::from(targets) * u64::from(config.app.min_registered_ratio);
        Self {
            config,
            targets,
            wanted: u32::try_from(share.div_ceil(100)).unwrap_or(u32::MAX),
            since: None,
            ready: false,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The sum of the targets at the start.
    pub fn targets(&self) -> u32 {
        self.targets
    }

    /// The number of executors that must be there.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Whether only registered executors count.
    pub fn counts_registered(&self) -> bool {
        self.config.must_register()
    }

    /// Evaluates the conditions after adoption: `there` executors in total, `of` each profile.
    /// Returns whether the application has just become ready.
    pub fn look(&mut self, there: u32, of: impl Fn(&ProfileName) -> u32, now: Tick) -> bool {
        let since = *self.since.get_or_insert(now);
        let waited = now.since(since) >= self.config.app.max_wait;
        let gangs = (self.config.profiles.iter())
            .filter(|(_, profile)| self.config.scheduling.gang.is_on() && profile.executors > 0);
        let complete = || { gangs }.all(|(name, profile)| of(name) >= profile.min_executors);
        let becomes = !self.ready && (there >= self.wanted || waited) && complete();
        self.ready |= becomes;
        becomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Gang, Profile, Registration};
    use crate::testing::at;

    fn config() -> Config {
        let mut config = Config::default();
        config.backend.sessions.registration = Some(Registration::Required);
        config
    }

    fn readiness(targets: u32) -> Readiness {
        Readiness::new(Arc::new(config()), targets)
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
        let mut config = config();
        config.scheduling.gang = Gang::On;
        let profile = |(name, least): (&str, u32)| {
            let profile = Profile {
                min_executors: least,
                ..Profile::default()
            };
            (name.into(), profile)
        };
        config.profiles = [("cpu", 2), ("gpu", 4)].map(profile).into();
        let mut readiness = Readiness::new(Arc::new(config), 9);
        let mut look = |cpu, gpu, millis| {
            let of = |profile: &ProfileName| if profile.as_str() == "cpu" { cpu } else { gpu };
            readiness.look(cpu + gpu, of, at(millis))
        };
        assert!(!look(9, 3, 0) && !look(9, 3, 3_600_000));
        assert!(!look(1, 8, 3_600_001));
        assert!(look(2, 4, 3_600_002));
    }
}
