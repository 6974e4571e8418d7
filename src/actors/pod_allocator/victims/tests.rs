//! Which executors are retired, in which order, and when.

use super::*;
use crate::model::executor::{Bound, Session, State};
use crate::model::pod::{ContainerState, Phase, Pod, Scheduling};
use crate::model::snapshot::Target;
use crate::model::testing::pending;
use crate::model::{Epoch, Incarnation};

const SETTINGS: SurplusRules = SurplusRules {
    cancel_delay: Duration::from_secs(10),
    pending_only: false,
    decommission_timeout: Duration::from_secs(60),
};

fn at(seconds: u64) -> Tick {
    Tick::after_start(Duration::from_secs(seconds))
}

fn profile() -> ProfileName {
    "default".into()
}

struct Fleet(Snapshot);

impl Fleet {
    fn wanting(executors: u32, since: u64) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.targets.insert(
            profile(),
            Target {
                executors,
                since: at(since),
                asked: executors,
                surge: 0,
                is_set: false,
                removed: false,
            },
        );
        Self(snapshot)
    }

    fn with(mut self, id: u64, since: u64, pod: Pod) -> Self {
        self.insert(id, since, Some(pod), Session::default());
        self
    }

    fn insert(&mut self, id: u64, since: u64, pod: Option<Pod>, session: Session) {
        let id = ExecutorId::new(id).unwrap();
        let mut entry =
            Entry::requested(id, profile(), Incarnation(1), at(since), Epoch::default());
        entry.session = session;
        if let Some(pod) = pod {
            entry.state = State::Bound(Bound {
                pod: Arc::new(pod),
                epoch: Epoch::default(),
                bound_at: 1,
                since: at(since),
                running_since: None,
                absent: None,
            });
        }
        self.0.replace(id, Some(entry));
    }

    fn victims(&self, second: u64) -> Vec<u64> {
        self.choose(second)
            .ids
            .into_iter()
            .map(ExecutorId::get)
            .collect()
    }

    fn choose(&self, second: u64) -> Victims {
        choose(&self.0, &profile(), &SETTINGS, at(second))
    }
}

fn unscheduled() -> Pod {
    pending("a", 1, "u", 1)
}

fn scheduled() -> Pod {
    Pod {
        scheduling: Scheduling::Bound,
        ..unscheduled()
    }
}

fn starting() -> Pod {
    let executor = ContainerState::Waiting {
        reason: None,
        message: None,
    };
    Pod {
        executor,
        ..scheduled()
    }
}

fn running() -> Pod {
    Pod {
        phase: Phase::Running,
        executor: ContainerState::Running { started: None },
        ..starting()
    }
}

/// Its container waits to be started again.
fn restarting() -> Pod {
    Pod {
        phase: Phase::Running,
        ..starting()
    }
}

// spec: A-40
#[test]
fn the_least_advanced_is_retired_first_then_the_cheapest_then_the_newest() {
    let fleet = |target| {
        Fleet::wanting(target, 0)
            .with(1, 0, starting())
            .with(2, 0, scheduled())
            .with(3, 0, unscheduled())
            .with(
                4,
                0,
                Pod {
                    deletion_cost: -5,
                    ..scheduled()
                },
            )
            .with(5, 0, scheduled())
    };
    assert_eq!(fleet(4).victims(60), [3]);
    assert_eq!(fleet(3).victims(60), [3, 4]);
    assert_eq!(fleet(1).victims(60), [3, 4, 5, 2]);
    assert_eq!(fleet(0).victims(60), [3, 4, 5, 2, 1]);
    assert_eq!(fleet(5).victims(60), [0u64; 0]);
}

// spec: A-40
#[test]
fn a_young_request_is_retired_later_and_no_other_in_its_place() {
    let fleet = Fleet::wanting(1, 0)
        .with(1, 0, starting())
        .with(2, 0, scheduled())
        .with(3, 55, unscheduled());
    assert_eq!(
        fleet.choose(60),
        Victims {
            ids: vec![ExecutorId::new(2).unwrap()],
            more_at: Some(at(65))
        }
    );
    assert_eq!(fleet.victims(65), [3, 2]);
}

// spec: A-40, E-17
#[test]
fn one_that_waits_to_restart_is_retired_after_those_that_never_ran_and_before_those_that_run() {
    let fleet = |target| {
        Fleet::wanting(target, 0)
            .with(1, 0, starting())
            .with(2, 0, restarting())
            .with(3, 0, running())
    };
    assert_eq!(fleet(2).victims(60), [1]);
    assert_eq!(fleet(1).victims(60), [1, 2]);
}

// spec: A-40
#[test]
fn a_request_in_flight_is_not_chosen() {
    let mut fleet = Fleet::wanting(0, 0).with(1, 0, scheduled());
    fleet.insert(2, 0, None, Session::default());
    assert_eq!(fleet.victims(60), [1]);
}

// spec: A-41
#[test]
fn running_executors_are_retired_only_beyond_a_target_that_is_unchanged_for_a_while() {
    let fleet = Fleet::wanting(1, 50)
        .with(1, 0, running())
        .with(2, 0, running())
        .with(3, 0, running())
        .with(4, 0, starting());
    assert_eq!(
        fleet.victims(59),
        [4],
        "1 wanted, 4 live: the pending one goes at once"
    );
    assert_eq!(fleet.choose(59).more_at, Some(at(60)));
    assert_eq!(fleet.victims(60), [4, 3, 2]);
}

// spec: A-41
#[test]
fn unregistered_executors_are_retired_first_then_idle_then_busy_ones() {
    let mut fleet = Fleet::wanting(0, 0);
    let session = |registered, idle| Session {
        registered,
        ..Session::open(idle)
    };
    fleet.insert(1, 0, Some(running()), session(false, false));
    fleet.insert(2, 0, Some(running()), session(true, false));
    fleet.insert(3, 0, Some(running()), session(true, true));
    fleet.insert(4, 0, Some(running()), session(true, true));
    assert_eq!(fleet.victims(60), [1, 4, 3, 2]);
}

// spec: A-41
#[test]
fn pending_only_spares_running_executors() {
    let fleet = Fleet::wanting(0, 0)
        .with(1, 0, running())
        .with(2, 0, starting());
    let settings = SurplusRules {
        pending_only: true,
        ..SETTINGS
    };
    let victims = choose(&fleet.0, &profile(), &settings, at(60));
    assert_eq!(victims.ids, [ExecutorId::new(2).unwrap()]);
}

// spec: A-45
#[test]
fn another_profiles_executors_are_never_chosen() {
    let mut fleet = Fleet::wanting(1, 0)
        .with(1, 0, running())
        .with(2, 0, running());
    let other: ProfileName = "big".into();
    for id in 3..9 {
        let id = ExecutorId::new(id).unwrap();
        let entry = Entry::requested(id, other.clone(), Incarnation(1), at(0), Epoch::default());
        fleet.0.replace(id, Some(entry));
    }
    assert_eq!(fleet.victims(60), [2]);
    assert!(
        choose(&fleet.0, &other, &SETTINGS, at(60)).ids.is_empty(),
        "all in flight"
    );
}

// spec: B-52, A-41
#[test]
fn running_executors_of_a_profile_that_is_being_removed_are_not_spared() {
    let mut fleet = Fleet::wanting(0, 0).with(1, 0, running());
    let spared = SurplusRules {
        pending_only: true,
        ..SETTINGS
    };
    let victims = |fleet: &Fleet| choose(&fleet.0, &profile(), &spared, at(60)).ids;
    assert_eq!(victims(&fleet), []);
    let removed = crate::model::snapshot::Target::removed(at(0));
    fleet.0.targets.insert(profile(), removed);
    assert_eq!(victims(&fleet), [ExecutorId::FIRST]);
}
