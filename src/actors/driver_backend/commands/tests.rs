use std::time::Duration;

use super::*;
use crate::model::snapshot::plain_targets;
use crate::testing::{Scenario, at, id, profiles};

const MINUTE: Duration = Duration::from_secs(60);

struct World {
    scenario: Scenario,
    commands: Commands,
    profiles: Profiles,
}

/// Three running executors, which are wanted.
fn world(ttl: Option<Duration>) -> World {
    let mut scenario = Scenario::new(&[("default", 3)]);
    for n in 1..=3 {
        let profile = "default".into();
        scenario.requested(n, crate::model::news::Outcome::Sent { profile });
        scenario.created(n);
        scenario.runs(n);
    }
    let mut config = Config::default();
    config.app.ttl = ttl;
    World {
        scenario,
        commands: Commands::new(Arc::new(config), at(0)),
        profiles: profiles(&[("default", 3)]),
    }
}

fn of(target: u32) -> BTreeMap<ProfileName, u32> {
    BTreeMap::from([("default".into(), target)])
}

impl World {
    /// What is recorded, once the ledger has the news.
    fn carry_out(&mut self, plan: Plan) -> Vec<What> {
        plan.news
            .into_iter()
            .for_each(|news| self.scenario.tell(news));
        plan.events
    }

    fn command(&mut self, command: Command, millis: u64) -> Result<Vec<What>, Refused> {
        let latest = self.scenario.current();
        let decided = (self.commands).decide(command, latest, &self.profiles, at(millis));
        let (_, plan) = decided?;
        Ok(self.carry_out(plan))
    }

    fn reconfigure(&mut self, most: u32, targets: BTreeMap<ProfileName, u32>) {
        self.profiles.limit(&of(most));
        let (latest, config) = (self.scenario.current(), Arc::default());
        let plan = (self.commands).reconfigure(config, targets, latest, &self.profiles);
        self.carry_out(plan);
    }

    fn wanted(&self) -> BTreeMap<ProfileName, u32> {
        plain_targets(&self.scenario.current().targets)
    }

    fn held(&self) -> Option<BTreeMap<ProfileName, u32>> {
        Held::of(self.scenario.current()).map(|held| held.targets)
    }
}

// spec: B-31
#[test]
fn a_hold_sets_the_targets_to_zero_and_a_resume_restores_them_with_later_changes() {
    let mut world = world(None);
    let by: Option<Arc<str>> = Some("me".into());
    let hold = || Command::Hold { by: by.clone() };
    let held = What::Held {
        by: Some("me".to_owned()),
    };
    assert_eq!(world.command(hold(), 0), Ok(vec![held]));
    assert_eq!((world.wanted(), world.held()), (of(0), Some(of(3))));
    assert_eq!(world.command(hold(), 1), Ok(Vec::new()), "held already");
    world.command(Command::SetTargets(of(5)), 2).unwrap();
    assert_eq!((world.wanted(), world.held()), (of(0), Some(of(5))));
    let resumed = world.command(Command::Resume, 3);
    assert_eq!(resumed, Ok(vec![What::Resumed]));
    assert_eq!((world.wanted(), world.held()), (of(5), None));
    assert_eq!(world.command(Command::Resume, 4), Ok(Vec::new()));
}

// spec: B-25
#[test]
fn a_target_of_an_unknown_profile_and_one_beyond_its_bound_are_refused() {
    let mut world = world(None);
    let mut set = |profile: &str, target| {
        let targets = BTreeMap::from([("default".into(), 1), (profile.into(), target)]);
        world.command(Command::SetTargets(targets), 0)
    };
    let (profile, known) = ("other".into(), "default".to_owned());
    let unknown = Refused::UnknownProfile { profile, known };
    assert_eq!(set("other", 1), Err(unknown));
    let too_many = Refused::TooMany {
        profile: "default".into(),
        target: 1_001,
        most: 1_000,
    };
    assert_eq!(set("default", 1_001), Err(too_many));
    assert_eq!(set("default", 1_000), Ok(Vec::new()));
    assert_eq!(world.wanted(), of(1_000), "the others changed nothing");
}

// spec: O-80
#[test]
fn targets_of_the_configuration_are_set_and_those_above_the_limit_lowered_also_in_a_hold() {
    let mut world = world(None);
    world.command(Command::SetTargets(of(5)), 0).unwrap();
    world.reconfigure(9, BTreeMap::new());
    assert_eq!(world.wanted(), of(5), "as it was set at run time");
    world.reconfigure(9, of(7));
    assert_eq!(world.wanted(), of(7));
    let targets = &world.scenario.current().targets;
    let is_set = targets.get("default").unwrap().is_set;
    assert!(!is_set, "a successor reads it in the configuration");
    world.reconfigure(6, BTreeMap::new());
    assert_eq!(world.wanted(), of(6));
    assert!(world.command(Command::SetTargets(of(7)), 1).is_err());
    world.command(Command::Hold { by: None }, 2).unwrap();
    world.reconfigure(9, of(8));
    assert_eq!((world.wanted(), world.held()), (of(0), Some(of(8))));
    world.command(Command::Resume, 3).unwrap();
    assert_eq!(world.wanted(), of(8));
}

// spec: B-28, B-31
#[test]
fn executors_that_are_not_known_yet_are_neither_killed_nor_held() {
    let mut world = world(None);
    let unread = Snapshot::default();
    let kill = Command::Retire {
        ids: BTreeSet::from([id(1)]),
        replace: true,
        way: Way::Kill { force: true },
        by: "me".into(),
    };
    for command in [kill, Command::Hold { by: None }] {
        let decided = (world.commands).decide(command, &unread, &world.profiles, at(0));
        assert_eq!(decided, Err(Refused::BeforeAdoption));
    }
}

// spec: B-35
#[test]
fn a_renewal_ends_the_hold_of_silence_and_no_other() {
    let mut world = world(Some(MINUTE));
    let plan = (world.commands).check_liveness(world.scenario.current(), at(60_000));
    assert_eq!(world.carry_out(plan), [What::Held { by: None }]);
    assert_eq!(world.held(), Some(of(3)));
    let renewed = world.command(Command::Renew, 61_000);
    assert_eq!(renewed, Ok(vec![What::Resumed]));
    let by = Some("me".into());
    world.command(Command::Hold { by }, 62_000).unwrap();
    assert_eq!(world.command(Command::Renew, 63_000), Ok(Vec::new()));
    assert_eq!(world.held(), Some(of(3)));
}

// spec: B-35, O-10
#[test]
fn silence_for_twice_the_ttl_ends_the_application_unless_it_ends_already() {
    for ends_already in [false, true] {
        let mut world = world(Some(MINUTE));
        if ends_already {
            let plan = world.commands.stop(Stop::HandOver);
            assert_eq!(plan.stop, Some(Stop::HandOver));
        }
        let plan = (world.commands).check_liveness(world.scenario.current(), at(120_000));
        let exit_code = ABANDONED;
        let stop = Stop::End { exit_code };
        assert_eq!(plan.stop, (!ends_already).then_some(stop));
    }
}
