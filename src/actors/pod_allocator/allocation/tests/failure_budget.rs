use super::*;
use crate::model::news::TargetChange;
use crate::model::pod::{Phase, Restarts};
use crate::model::{Entry, Pod};
use crate::testing::running;

fn allows(max: u32) -> AllocationRules {
    let mut settings = settings();
    settings.failures.max = Some(max);
    settings
}

impl Driver {
    /// Executor `n` exits with this code, reported before or after the allocator's next round.
    fn fails(&mut self, n: u64, code: i32, reported_first: bool) {
        self.scenario.exits(n, code);
        if !reported_first {
            self.round();
        }
        self.scenario.report(n);
        self.round();
    }

    pub(super) fn spent(&self) -> usize {
        let spent = |notice: &&Notice| matches!(notice, Notice::Spent { .. });
        self.said.iter().filter(spent).count()
    }
}

// spec: L-30
#[test]
fn whichever_subscriber_is_first_an_end_counts_once() {
    for reported_first in [false, true] {
        let mut driver = Driver::with(allows(3), Scenario::new(&[("default", 10)]));
        driver.fill();
        driver.all_stay();
        for n in 1..=3 {
            driver.fails(n, 1, reported_first);
        }
        assert_eq!(driver.spent(), 0, "exactly at the limit it goes on");
        driver.fails(4, 0, reported_first);
        assert_eq!(driver.spent(), 0, "a clean exit is no failure");
        driver.fails(5, 1, reported_first);
        assert_eq!(driver.spent(), 1);
    }
}

// spec: A-98, L-30
#[test]
fn early_ends_in_one_backoff_count_once_whichever_subscriber_is_first() {
    for reported_first in [false, true] {
        let mut driver = Driver::with(allows(2), Scenario::new(&[("default", 10)]));
        driver.fill();
        for n in 1..=10 {
            driver.fails(n, 1, reported_first);
        }
        // One tolerated end, and one for all ends of the backoff period.
        assert_eq!(driver.spent(), 0, "{:?}", driver.said);
        // The request sent before the backoff is answered; the next one is the probe.
        driver.answer_all(|_, _| Reply::Created);
        driver.live(1_500, |_| {});
        let probe = driver.flights.keys().last().unwrap().get();
        driver.answer_all(|_, _| Reply::Created);
        driver.scenario.runs(probe);
        driver.round();
        driver.fails(probe, 1, reported_first);
        assert_eq!(driver.spent(), 1, "the probe makes the next step");
    }
}

// spec: L-30, O-30
#[test]
fn failures_are_written_when_they_change() {
    let mut driver = Driver::with(allows(3), Scenario::new(&[("default", 4)]));
    driver.fill();
    driver.all_stay();
    assert!(driver.kept_failures.is_empty());
    driver.fails(1, 1, false);
    driver.live(5_000, |_| {});
    assert_eq!(driver.kept_failures.len(), 1);
    let kept = driver.kept_failures.remove(0);
    let counted = &kept.profiles[&ProfileName::from("default")];
    assert!(kept.counted.contains(id(1)) && counted.times.len() == 1);
    let inherited = Inherited {
        reserved: Some(id(1_000)),
        failures: kept,
        ..Inherited::default()
    };
    let now = driver.scenario.now();
    let scenario = std::mem::replace(&mut driver.scenario, Scenario::new(&[]));
    let again = resuming(allows(0), &inherited, now);
    let mut successor = Driver::of(again, scenario);
    successor.round();
    assert_eq!(
        successor.spent(),
        1,
        "its limit is lower, and the count is known"
    );
}

impl Driver {
    fn failed(&self) -> Vec<&str> {
        let mut failed = Vec::new();
        for notice in &self.said {
            if let Notice::ProfileFailed { profile, .. } = notice {
                failed.push(profile.as_str());
            }
        }
        failed
    }
}

// spec: L-40, L-41
#[test]
fn a_profile_that_was_added_fails_alone_until_it_is_reset() {
    let targets = [("default", 3), ("added", 2)];
    let mut driver = Driver::with(allows(1), Scenario::new(&targets));
    driver.fill();
    driver.all_stay();
    let of_added = |driver: &Driver| {
        let of = |entry: &&Arc<Entry>| entry.profile.as_str() == "added" && entry.class().is_live();
        let entries = driver.scenario.current().entries.values();
        entries
            .filter(of)
            .map(|entry| entry.id.get())
            .collect::<Vec<_>>()
    };
    let first = of_added(&driver);
    driver.fails(first[0], 1, true);
    driver.settle(|_, _| Reply::Created);
    let asked = driver.left.len();
    driver.fails(first[1], 1, true);
    assert_eq!(driver.failed(), ["added"]);
    driver.live(20_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(driver.left.len(), asked, "none of it is requested");
    assert_eq!((driver.live_of("default"), driver.live_of("added")), (3, 0));
    assert_eq!((driver.failed().len(), driver.spent()), (1, 0));
    driver.scenario.tell(News::Reset("added".into()));
    driver.live(1_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!((driver.live_of("default"), driver.live_of("added")), (3, 2));
}

// spec: A-23, L-30
#[test]
fn a_refused_template_counts_once_per_wait() {
    let mut driver = Driver::with(allows(2), Scenario::new(&[("ok", 1), ("refused", 9)]));
    let reply = |_: u64, profile: &ProfileName| match profile.as_str() {
        "ok" => Reply::Created,
        _ => Reply::Refused(RefusalKind::Blocked),
    };
    driver.live(299_000, |driver| driver.answer_all(reply));
    assert_eq!(driver.spent(), 0);
    driver.live(302_000, |driver| driver.answer_all(reply));
    assert_eq!(driver.spent(), 1, "the third block, after ten minutes");
}

// spec: L-32
#[test]
fn a_node_with_many_failures_is_avoided_before_the_next_request() {
    let mut settings = allows(100);
    settings.failures.node_max = Some(2);
    let mut driver = Driver::with(settings, Scenario::new(&[("default", 4)]));
    driver.fill();
    for (n, node) in [(1, "bad"), (2, "bad"), (3, "good"), (4, "good")] {
        let pod = Pod {
            node: Some(Arc::from(node)),
            ..running(driver.scenario.pod(n))
        };
        driver.scenario.observe(pod);
    }
    driver.all_stay();
    driver.fails(1, 1, true);
    assert!(driver.avoids.is_empty());
    driver.fails(2, 1, true);
    let never = Avoid {
        never: vec!["bad".into()],
        ..Avoid::default()
    };
    assert_eq!(driver.avoids, [never]);
}

impl Driver {
    /// This node's kubelet does not admit the pod of executor `n`. That is not reported yet.
    fn is_rejected(&mut self, n: u64, node: &str) {
        let pod = Pod {
            node: Some(Arc::from(node)),
            phase: Phase::Failed,
            reason: Some(Arc::from("UnexpectedAdmissionError")),
            ..self.scenario.pod(n)
        };
        self.scenario.observe(pod);
        self.round();
    }
}

// spec: L-45
#[test]
fn a_node_that_rejects_executors_is_avoided_before_they_are_reported_and_counts_each_once() {
    let mut driver = Driver::with(allows(0), Scenario::new(&[("default", 9)]));
    driver.settle(|_, _| Reply::Created);
    for n in 1..=2 {
        driver.is_rejected(n, "bad");
        driver.scenario.report(n);
        driver.round();
    }
    assert!(driver.avoids.is_empty());
    driver.is_rejected(3, "bad");
    let rejecting = Avoid {
        rejecting: vec!["bad".into()],
        ..Avoid::default()
    };
    assert_eq!(driver.avoids, [rejecting]);
    driver.scenario.report(3);
    driver.scenario.pass(60_000);
    driver.round();
    let is_over = driver.avoids.last().is_some_and(Avoid::is_empty);
    assert!(is_over && driver.avoids.len() == 2, "{:?}", driver.avoids);
    assert_eq!(driver.spent(), 0, "it is nobody's failure");
}

impl Driver {
    /// The container of executor `n` has been restarted this often, after it ended with this code.
    fn restarts(&mut self, n: u64, count: u32, code: i32) {
        let last = Some(crate::model::testing::ended(code));
        let pod = Pod {
            restarts: Some(Arc::new(Restarts { count, last })),
            ..running(self.scenario.pod(n))
        };
        self.scenario.observe(pod);
        self.round();
    }
}

// spec: A-84, L-30
#[test]
fn restarts_by_a_containers_own_policy_count_as_failures_and_end_no_executor() {
    let mut driver = Driver::with(allows(3), Scenario::new(&[("default", 2)]));
    driver.fill();
    driver.all_stay();
    driver.restarts(1, 2, 143);
    driver.restarts(1, 2, 143);
    driver.restarts(1, 3, 0);
    assert_eq!(driver.spent(), 0, "a clean exit is none");
    let told = |notice: &&Notice| matches!(notice, Notice::Restarted(..));
    assert_eq!(driver.said.iter().filter(told).count(), 2);
    driver.restarts(2, 2, 3);
    assert_eq!(driver.spent(), 1);
    assert_eq!(driver.live_of("default"), 2);
}

// spec: A-84, B-30
#[test]
fn a_draining_executor_whose_program_exits_is_not_waited_for() {
    let mut driver = Driver::with(allows(3), Scenario::new(&[("default", 2)]));
    driver.fill();
    driver.all_stay();
    driver.scenario.tell(News::Retire {
        ids: vec![id(1)],
        aim: TargetChange::Stay,
        why: LeaveReason::Decommissioned("somebody".into()),
        how: LeaveMethod::Drain {
            within: Duration::from_secs(600),
        },
    });
    driver.restarts(1, 1, 0);
    let leaving = driver
        .scenario
        .entry(1)
        .and_then(|entry| entry.leaving.as_ref());
    assert!(
        matches!(leaving.unwrap().how, LeaveMethod::Kill { .. }),
        "{leaving:?}"
    );
    assert_eq!(driver.spent(), 0);
}
