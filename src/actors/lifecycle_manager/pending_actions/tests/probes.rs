//! Ends that a probe may have caused.

use super::super::probes::Answer;
use super::*;

fn reads_events() -> Manager {
    let settings = PodRules {
        reads_events: true,
        ..settings()
    };
    Manager::with(settings, Scenario::new(&[("default", 9)]))
}

impl Manager {
    fn probed(&mut self, n: u64, code: i32) {
        self.start(n);
        self.round();
        let pod = Pod {
            probed: true,
            ..crate::testing::exited(self.scenario.pod(n), code)
        };
        self.scenario.observe(pod);
        self.rounds();
    }

    fn told(&mut self, n: u64, answer: Answer) {
        let now = self.scenario.now().tick;
        self.pending_actions.probe_told(id(n), answer, now);
        self.rounds();
    }
}

// spec: L-20
#[test]
fn the_events_of_a_probed_executor_decide_its_reason_before_it_is_reported() {
    let words = "Container executor failed liveness probe";
    for (answer, class, said) in [
        (
            Answer::ProbeFailed(words.into()),
            LossClass::ProbeFailed,
            "Container executor failed liveness probe: it ended with exit 0",
        ),
        (
            Answer::NoProbeFailed,
            LossClass::Exited,
            "ended with exit 0",
        ),
    ] {
        let mut manager = reads_events();
        manager.probed(1, 0);
        assert_eq!(manager.asked, [(1, manager.scenario.pod(1).uid)]);
        manager.seconds(2);
        assert_eq!(manager.reported, []);
        manager.told(1, answer);
        assert_eq!(manager.reported, [(1, class)]);
        assert_eq!(manager.said, [said]);
        // The pod goes, and shows no more than before.
        manager.scenario.terminates(1);
        manager.scenario.goes(1);
        manager.rounds();
        assert_eq!((manager.corrected.len(), manager.reported.len()), (0, 1));
    }
}

// spec: L-20, L-1
#[test]
fn events_that_cannot_be_read_delay_a_report_for_three_seconds_at_most() {
    for answer in [None, Some(Answer::Unknown)] {
        let mut manager = reads_events();
        manager.probed(1, 143);
        if let Some(answer) = answer.clone() {
            manager.told(1, answer);
        } else {
            manager.seconds(2);
            assert_eq!(manager.reported, []);
            manager.seconds(1);
        }
        assert_eq!(manager.reported, [(1, LossClass::Exited)], "{answer:?}");
        assert!(manager.said[0].ends_with("only the Events of its pod say so"));
        // Too late.
        manager.told(1, Answer::ProbeFailed("late".into()));
        manager.seconds(10);
        assert_eq!(manager.reported.len(), 1);
    }
}

// spec: L-20
#[test]
fn nothing_is_asked_where_no_probe_can_be_the_cause_or_no_event_may_be_read() {
    let mut manager = reads_events();
    manager.probed(1, 3);
    manager.start(2);
    manager.round();
    manager.scenario.exits(2, 0);
    manager.rounds();
    manager.start(3);
    manager.retire(3, LeaveReason::ScaledDown);
    manager.probed(3, 0);
    assert_eq!(manager.asked, []);
    assert_eq!(manager.reported.len(), 3);
    let mut without_rights = Manager::new();
    without_rights.probed(1, 0);
    assert_eq!(without_rights.asked, []);
    assert_eq!(without_rights.reported, [(1, LossClass::Exited)]);
}
