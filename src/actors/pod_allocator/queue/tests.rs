use crate::model::executor::Session;
use std::collections::BTreeSet;

use super::*;
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::model::Pod;
use crate::model::news::{News, Outcome};
use crate::model::testing::pending;
use crate::testing::{Scenario, at, id};

mod reading;

const WITHIN: Duration = Duration::from_secs(60);

fn block(number: u32, count: u32, state: BlockState) -> Block {
    Block {
        number,
        profile: "default".into(),
        name: format!("a-default-{number}").into(),
        uid: format!("w{number}").into(),
        version: "1".into(),
        owner: Some("record".into()),
        hash: "now".into(),
        count,
        reclaimed: 0,
        active: true,
        deleting: false,
        state,
        why: "quota is short".into(),
    }
}

fn admitted(pods: u32) -> BlockState {
    BlockState::Admitted {
        pods,
        flavors: BTreeSet::new(),
        placement: Some(Arc::default()),
    }
}

struct World {
    scenario: Scenario,
    queue: Queue,
    retired: Vec<(u64, String, bool)>,
    said: Vec<Notice>,
}

impl World {
    /// With a target, and a profile of which at least so many are admitted together.
    fn new(target: u32, least: u32) -> Self {
        let mut queue = Queue::new(at(0));
        queue.add_profile("default".into(), "now".into(), least);
        Self {
            scenario: Scenario::new(&[("default", target)]),
            queue,
            retired: Vec::new(),
            said: Vec::new(),
        }
    }

    /// The same after these blocks were read.
    fn with(target: u32, blocks: &[Block]) -> Self {
        let mut world = Self::new(target, 0);
        assert_eq!(world.round(), Some(Vec::new()), "it reads first");
        world.read(blocks);
        world
    }

    /// Returns the writes, or `None` if nothing is written or read.
    fn round(&mut self) -> Option<Vec<Write>> {
        let mut decision = Decision::default();
        let now = self.scenario.now().tick;
        let latest = self.scenario.current().clone();
        self.queue.decide(&latest, WITHIN, now, &mut decision);
        let mut writes = None;
        for action in decision.actions {
            match action {
                Action::Queue(these) => writes = Some(these),
                Action::Retire(ids, why, how) => {
                    let drained = matches!(how, LeaveMethod::Drain { within } if within == WITHIN);
                    let of = ids.iter().map(|id| (id.get(), why.to_string(), drained));
                    self.retired.extend(of);
                    let aim = crate::model::news::TargetChange::Stay;
                    self.scenario.tell(News::Retire { ids, aim, why, how });
                }
                Action::Say(notice) => self.said.push(notice),
                other => panic!("{other:?}"),
            }
        }
        writes
    }

    /// The writes of a round a second later.
    fn writes(&mut self) -> Vec<Write> {
        self.scenario.pass(1_000);
        let writes = self.round();
        if writes.as_ref().is_some_and(Vec::is_empty) {
            // It only reads, and nothing has changed.
            self.answer(self.queue.blocks.clone(), None);
        }
        writes.unwrap_or_default()
    }

    fn read(&mut self, blocks: &[Block]) {
        let blocks = Some(blocks.to_vec());
        self.answer(blocks, None);
    }

    fn answer(&mut self, blocks: Option<Vec<Block>>, trouble: Option<&str>) {
        let quota = Cause::Refused(RefusalKind::Quota);
        let trouble = trouble.map(|why| match why.contains("quota") {
            true => (quota, Arc::from(why)),
            false => (Cause::Queued, Arc::from(why)),
        });
        let now = self.scenario.now().tick;
        self.said
            .extend(self.queue.read(Read { blocks, trouble }, now));
    }

    /// How many executors may be requested.
    fn free(&mut self) -> u32 {
        self.round();
        let mut demands = [Demand {
            profile: "default".into(),
            repeats: Vec::new(),
            new: 100,
        }];
        self.queue.limit(&mut demands);
        demands[0].new
    }

    /// Requests these executors, and they run.
    fn run(&mut self, executors: std::ops::RangeInclusive<u64>) {
        for n in executors {
            assert!(self.free() > 0, "{n}");
            self.queue.give(id(n), &"default".into());
            let profile = "default".into();
            self.scenario.requested(n, Outcome::Sent { profile });
            self.scenario.created(n);
            self.scenario.runs(n);
        }
    }

    /// An executor's pod is gone, and everybody knows.
    fn bury(&mut self, n: u64) {
        self.scenario.goes(n);
        self.scenario.report(n);
        let _ = self.scenario.batch();
        self.scenario.release();
        assert!(self.scenario.entry(n).is_none());
        self.queue.removed(id(n));
    }

    fn numbers(&self) -> Vec<u64> {
        self.retired.iter().map(|(n, ..)| *n).collect()
    }
}

fn create(number: u32, size: Size) -> Write {
    Write::Create {
        number,
        profile: "default".into(),
        size,
    }
}

// spec: A-90
#[test]
fn a_target_becomes_one_block_once_the_blocks_were_read() {
    let mut world = World::new(3, 0);
    assert_eq!(world.round(), Some(Vec::new()), "it reads first");
    assert_eq!(world.round(), None, "one at a time");
    world.read(&[]);
    assert_eq!(world.round(), Some(vec![create(1, (3, 1))]));
    assert_eq!(world.free(), 0);
    let mut gang = World::new(3, 2);
    gang.round();
    gang.read(&[]);
    assert_eq!(gang.round(), Some(vec![create(1, (3, 2))]));
}

// spec: A-107
#[test]
fn no_more_executors_are_requested_than_pods_are_admitted() {
    let mut world = World::with(4, &[block(1, 4, BlockState::Queued)]);
    assert_eq!(world.free(), 0);
    world.read(&[block(1, 4, BlockState::Reserved(4))]);
    assert_eq!(world.free(), 0, "admission checks are not ready");
    let unplaced = BlockState::Admitted {
        pods: 4,
        flavors: BTreeSet::new(),
        placement: None,
    };
    world.read(&[block(1, 4, unplaced)]);
    assert_eq!(world.free(), 0, "the flavors are not read");
    world.read(&[block(1, 4, admitted(3))]);
    assert_eq!(world.free(), 3);
    world.run(1..=2);
    assert_eq!(world.free(), 1);
    world.scenario.terminates(1);
    assert_eq!(world.free(), 1, "its pod still uses the quota");
    world.bury(1);
    assert_eq!(world.free(), 2);
}

// spec: A-91
#[test]
fn a_successor_counts_adopted_executors_by_the_labels_of_their_pods() {
    let pods = [1, 2].map(|n| Pod {
        block: Some(7),
        ..crate::testing::running(pending("a", n, &format!("u{n}"), n))
    });
    let targets = [("default", 4)];
    let mut scenario = Scenario::before_adoption(&targets, Default::default());
    scenario.list(pods.to_vec());
    let mut world = World::new(4, 0);
    world.scenario = scenario;
    world.round();
    world.read(&[block(7, 3, admitted(3))]);
    assert_eq!(world.writes(), [create(8, (1, 1))]);
    world.read(&[block(7, 3, admitted(3)), block(8, 1, BlockState::Queued)]);
    assert_eq!(world.free(), 1);
    assert_eq!(world.retired, []);
}

// spec: A-92
#[test]
fn a_rising_target_enlarges_the_block_that_has_no_quota_or_makes_another() {
    let queued = block(1, 2, BlockState::Queued);
    let mut world = World::with(2, std::slice::from_ref(&queued));
    world.scenario.want("default", 5);
    assert_eq!(world.writes(), [Write::Resize(queued, (5, 1))]);
    world.read(&[block(1, 5, admitted(3))]);
    assert_eq!(world.writes(), [create(2, (2, 1))], "two are not admitted");
    world.read(&[
        block(1, 5, admitted(3)),
        block(2, 2, BlockState::Reserved(2)),
    ]);
    assert_eq!(world.writes(), []);
    world.scenario.want("default", 6);
    assert_eq!(world.writes(), [create(3, (1, 1))]);
}

// spec: A-106
#[test]
fn writes_are_at_least_a_second_apart_however_often_targets_change() {
    let mut world = World::with(1, &[]);
    assert_eq!(world.round(), Some(vec![create(1, (1, 1))]));
    world.read(&[block(1, 1, BlockState::Queued)]);
    world.scenario.want("default", 9);
    assert_eq!(world.round(), None);
    assert_eq!(world.writes().len(), 1);
}

// spec: A-108
#[test]
fn a_falling_target_gives_back_what_is_queued_then_whole_blocks_then_parts_of_them() {
    let blocks = [
        block(1, 5, admitted(3)),
        block(2, 2, admitted(2)),
        block(3, 4, BlockState::Queued),
    ];
    let mut world = World::with(9, &blocks);
    world.run(1..=2);
    world.scenario.want("default", 7);
    let smaller = Write::Resize(blocks[2].clone(), (2, 1));
    assert_eq!(world.writes(), [smaller]);
    world.read(&blocks);
    world.scenario.want("default", 2);
    // Of block 1 five were asked for, three admitted, and two run: Kueue counts from what was asked for.
    let partly = Write::Reclaim(blocks[0].clone(), 3);
    let whole = [2, 1].map(|n| Write::Delete(blocks[n].clone()));
    assert_eq!(world.writes(), [whole.as_slice(), &[partly]].concat());
    world.read(&[Block {
        reclaimed: 3,
        ..blocks[0].clone()
    }]);
    assert_eq!(world.writes(), []);
    assert_eq!(world.free(), 0, "the rest was given back");
}

// spec: A-108
#[test]
fn what_is_given_back_is_not_requested_before_the_answer() {
    let mut world = World::with(3, &[block(1, 3, admitted(3))]);
    world.run(1..=1);
    world.scenario.want("default", 1);
    assert!(matches!(world.writes()[..], [Write::Reclaim(_, 2)]));
    world.scenario.want("default", 3);
    assert_eq!(world.free(), 0);
}

// spec: A-107
#[test]
fn executors_that_leave_keep_their_place_until_their_pods_are_gone() {
    let mut world = World::with(2, &[block(1, 2, admitted(2))]);
    world.run(1..=2);
    world.scenario.want("default", 1);
    assert_eq!(world.writes(), [], "both run");
    world.scenario.terminates(2);
    assert_eq!(world.writes(), []);
    world.bury(2);
    assert!(matches!(world.writes()[..], [Write::Reclaim(_, 1)]));
}

// spec: A-107
#[test]
fn executors_from_before_the_queue_count_and_are_left_alone() {
    let mut world = World::new(3, 0);
    for n in [1, 2] {
        let profile = "default".into();
        world.scenario.requested(n, Outcome::Sent { profile });
        world.scenario.created(n);
    }
    world.round();
    world.read(&[]);
    assert_eq!(world.writes(), [create(1, (1, 1))]);
    assert_eq!(world.retired, []);
}

// spec: A-93
#[test]
fn executors_of_an_evicted_block_leave_and_another_block_is_made() {
    let mut world = World::with(2, &[block(1, 2, admitted(2))]);
    world.run(1..=2);
    let session = News::Session(id(2), Session::open(false));
    world.scenario.tell(session);
    let evicted = block(1, 2, BlockState::Evicted);
    world.read(std::slice::from_ref(&evicted));
    assert_eq!(world.writes(), [create(2, (2, 1))]);
    let why = "its queue took the quota that it had: quota is short".to_owned();
    assert_eq!(world.retired, [(1, why.clone(), false), (2, why, true)]);
    let both = [evicted.clone(), block(2, 2, BlockState::Queued)];
    world.read(&both);
    assert_eq!(world.writes(), [], "their pods have the quota");
    world.bury(1);
    assert_eq!(world.writes(), []);
    world.bury(2);
    assert_eq!(world.writes(), [Write::Delete(evicted)]);
    assert_eq!(world.numbers(), [1, 2]);
}

// spec: A-93
#[test]
fn executors_whose_workload_was_deleted_or_lost_its_admission_leave() {
    let blocks = [block(1, 1, admitted(1)), block(2, 1, admitted(1))];
    let mut world = World::with(2, &blocks);
    world.run(1..=2);
    let cleared = block(1, 1, BlockState::Queued);
    world.read(std::slice::from_ref(&cleared));
    let enlarged = Write::Resize(cleared, (2, 1));
    assert_eq!(world.writes(), [enlarged]);
    assert_eq!(world.numbers(), [2, 1]);
    assert!(
        world.retired[0].1.contains("was deleted"),
        "{:?}",
        world.retired
    );
}

// spec: A-107
#[test]
fn executors_whose_workload_is_gone_take_places_of_another_block_until_their_pods_are_gone() {
    let mut world = World::with(3, &[block(1, 3, admitted(3))]);
    world.run(1..=3);
    world.read(&[]);
    assert_eq!(world.writes(), [create(2, (3, 1))]);
    world.read(&[block(2, 3, admitted(3))]);
    assert_eq!(world.free(), 0, "Kueue has given their quota away already");
    world.bury(1);
    assert_eq!(world.free(), 1);
    world.bury(2);
    world.bury(3);
    assert_eq!(world.free(), 3);
}

// spec: A-93
#[test]
fn a_deactivated_block_gives_its_quota_back_and_none_is_made_in_its_place() {
    let mut world = World::with(1, &[block(1, 1, admitted(1))]);
    world.run(1..=1);
    let stopped = Block {
        active: false,
        ..block(1, 1, BlockState::Evicted)
    };
    world.read(std::slice::from_ref(&stopped));
    assert_eq!(world.writes(), []);
    assert_eq!(world.numbers(), [1]);
    world.bury(1);
    assert_eq!(world.writes(), [Write::Reclaim(stopped.clone(), 1)]);
    let given_back = Block {
        reclaimed: 1,
        ..stopped
    };
    world.read(std::slice::from_ref(&given_back));
    assert_eq!(world.writes(), []);
    world.scenario.want("default", 0);
    assert_eq!(world.writes(), [Write::Delete(given_back)]);
}

// spec: A-108
#[test]
fn a_block_of_an_earlier_template_keeps_its_executors_and_gets_no_more() {
    let old = |reclaimed| Block {
        hash: "before".into(),
        reclaimed,
        ..block(1, 3, admitted(3))
    };
    let mut world = World::with(3, &[block(1, 3, admitted(3))]);
    world.run(1..=1);
    world.read(&[old(0)]);
    assert_eq!(world.free(), 0);
    assert_eq!(world.retired, []);
    world.read(&[old(0)]);
    let give_back = Write::Reclaim(old(0), 2);
    assert_eq!(world.writes(), [give_back, create(2, (2, 1))]);
    world.read(&[old(2), block(2, 2, admitted(2))]);
    world.run(2..=3);
    world.bury(1);
    assert_eq!(
        world.writes(),
        [Write::Delete(old(2)), create(3, (1, 1))],
        "the executor that ended is replaced"
    );
}

// spec: A-95
#[test]
fn blocks_get_the_record_that_was_created_again_as_their_owner() {
    let other = Block {
        owner: None,
        ..block(1, 1, admitted(1))
    };
    let mut world = World::with(1, std::slice::from_ref(&other));
    assert_eq!(world.writes(), [Write::Own(other)]);
}

// spec: A-108, B-52
#[test]
fn what_is_left_of_a_removed_profile_is_given_back() {
    let left = block(1, 2, admitted(2));
    let mut world = World::with(2, std::slice::from_ref(&left));
    world.scenario.want("default", 0);
    world.queue.remove_profile(&"default".into());
    assert_eq!(world.writes(), [Write::Delete(left)]);
}
