//! Executors that run out of memory.

use std::num::NonZeroU32;

use super::crash_loops::backoffs;
use super::*;
use crate::model::Pod;
use crate::model::failures::Growth;
use crate::model::pod::ContainerState;
use crate::testing::{ended, exited, running};

const MIB: u64 = 1 << 20;

/// Executors' memory grows from 100 MiB to at most 300, and no failure is allowed.
fn driver() -> Driver {
    let mut settings = settings();
    settings.failures.max = Some(0);
    let growth = Growth {
        from: 100 * MIB,
        max: 300 * MIB,
        thousandths: 2_000,
        in_place: false,
    };
    settings.failures.growth = BTreeMap::from([("default".into(), growth)]);
    Driver::with(settings, Scenario::new(&[("default", 20)]))
}

impl Driver {
    fn limit(&self) -> u64 {
        let limit = self.memory_limits.get(&ProfileName::from("default"));
        limit.copied().unwrap_or(100 * MIB)
    }

    /// The pods of all requests are created with the limit that new ones have, and all that need more are killed.
    fn all_run(&mut self, need: u64) {
        let limit = self.limit();
        for n in self.flights.keys().map(|id| id.get()).collect::<Vec<_>>() {
            self.answer(n, Reply::Created);
            let mut pod = Pod {
                memory_limit: NonZeroU32::new(u32::try_from(limit / MIB).unwrap()),
                ..running(self.scenario.pod(n))
            };
            if limit < need {
                let mut end = ended(137);
                end.reason = Some("OOMKilled".into());
                pod = exited(pod, 137);
                pod.executor = ContainerState::Terminated(end);
            }
            self.scenario.observe(pod);
        }
    }

    fn report_ends(&mut self) {
        let ended = self.scenario.current().entries.values();
        let ended: Vec<u64> = (ended.filter(|entry| entry.has_ended()))
            .map(|entry| entry.id.get())
            .collect();
        ended.into_iter().for_each(|n| self.scenario.report(n));
        self.round();
    }
}

// spec: L-43, A-30
#[test]
fn executors_that_run_out_of_memory_are_replaced_at_once_by_larger_ones() {
    for (need, steps) in [(100, 0), (101, 1), (300, 2)] {
        let mut driver = driver();
        driver.round();
        for _ in 0..20 {
            driver.all_run(need * MIB);
            driver.round();
        }
        assert_eq!(driver.scenario.counts("default").running, 20, "{need}");
        assert_eq!(driver.limit() / MIB, [100, 200, 300][steps]);
        assert_eq!(backoffs(&driver.said), (0, 0));
        let said = |notice: &&Notice| matches!(notice, Notice::Grown { .. });
        assert_eq!(driver.said.iter().filter(said).count(), steps, "once each");
        driver.report_ends();
        assert_eq!(driver.spent(), 0);
    }
}

// spec: L-43, L-41
#[test]
fn what_becomes_of_the_dead_does_not_undo_a_reset() {
    let mut driver = driver();
    driver.round();
    driver.all_run(200 * MIB);
    driver.round();
    driver.report_ends();
    assert_eq!(driver.limit(), 200 * MIB);
    driver.scenario.tell(News::Reset("default".into()));
    let dead = driver.ids_where(|class| class == Class::Finished);
    assert!(!dead.is_empty());
    dead.into_iter().for_each(|n| driver.scenario.terminates(n));
    driver.round();
    assert_eq!(driver.limit(), 100 * MIB);
}

// spec: L-43, L-30
#[test]
fn with_all_that_is_allowed_it_is_a_crash_loop_as_before() {
    let mut driver = driver();
    driver.round();
    for _ in 0..20 {
        driver.all_run(301 * MIB);
        driver.round();
    }
    assert_eq!(driver.limit(), 300 * MIB);
    assert_eq!(backoffs(&driver.said), (1, 0));
    driver.report_ends();
    assert_eq!(driver.spent(), 1);
}
