//! Running executors that are near their memory limit.

use std::num::{NonZeroU32, NonZeroU64};

use super::*;
use crate::model::executor::Session;

const MIB: u64 = MEBIBYTE;

impl Manager {
    fn needs(&mut self, mebibytes: u64) {
        let session = Session {
            memory: NonZeroU64::new(mebibytes * MIB),
            ..Session::open(false)
        };
        self.scenario.tell(News::Session(id(1), session));
    }

    /// Its container has this limit, in mebibytes. `resizes`: its pod's spec has another one.
    fn has(&mut self, limit: u32, resizes: bool) {
        let mut pod = running(self.scenario.pod(1));
        pod.memory_limit = NonZeroU32::new(limit);
        pod.resizes = resizes;
        self.scenario.observe(pod);
    }

    /// The limit, in mebibytes, that is asked for now.
    fn resized_to(&mut self) -> Option<u64> {
        let (batch, now) = (self.scenario.batch(), self.scenario.now());
        let actions = self.pending_actions.decide(&batch, now);
        actions.into_iter().find_map(|action| match action {
            Action::Call(Subject::Memory(_), PodCall::Resize { memory_limit, .. }) => {
                Some(memory_limit / MIB)
            }
            _ => None,
        })
    }

    fn answered(&mut self, succeeded: bool) {
        let now = self.scenario.now().tick;
        self.pending_actions
            .answered(&Subject::Memory(id(1)), succeeded, now);
    }
}

fn running_with(limit: u32) -> Manager {
    let mut manager = Manager::new();
    let profile = "default".into();
    manager.scenario.requested(1, Outcome::Sent { profile });
    manager.scenario.created(1);
    manager.has(limit, false);
    manager
}

// spec: L-44
#[test]
fn a_running_executor_gets_the_memory_that_it_should_have_and_no_more_before_it_has_that() {
    let mut manager = running_with(100);
    assert_eq!(manager.resized_to(), None);
    manager.needs(150);
    assert_eq!(manager.resized_to(), Some(150));
    manager.answered(true);
    manager.has(100, true);
    manager.scenario.pass(600_000);
    assert_eq!(
        manager.resized_to(),
        None,
        "its kubelet has to give it that"
    );
    manager.has(150, false);
    assert_eq!(
        manager.resized_to(),
        None,
        "the last heartbeat was before that"
    );
    manager.needs(225);
    assert_eq!(manager.resized_to(), Some(225));
}

// spec: L-44, L-11
#[test]
fn a_refused_resize_is_tried_again_until_the_executor_leaves() {
    let mut manager = running_with(100);
    manager.needs(150);
    assert_eq!(manager.resized_to(), Some(150));
    manager.answered(false);
    assert_eq!(manager.resized_to(), None, "it waits");
    assert_eq!(
        manager.pending_actions.outstanding(),
        0,
        "nothing waits for it"
    );
    manager.scenario.pass(60_000);
    assert_eq!(manager.resized_to(), Some(150));
    manager.answered(false);
    manager.retire_by(1, LeaveReason::ScaledDown, LeaveMethod::Delete);
    manager.scenario.pass(60_000);
    assert_eq!(manager.resized_to(), None);
}
