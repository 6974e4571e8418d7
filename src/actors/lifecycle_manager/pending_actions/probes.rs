//! Ends that a liveness or startup probe may have caused. The pod does not show it, only the kubelet's Events do, so they
//! are read before the end is reported (spec L-20).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::reasoning::{by_probe, may_be_a_probes, not_by_probe};
use crate::model::{Ending, ExecutorId, LossClass, PodUid, Tick};

/// For this long a report waits for the Events.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the Events of a pod say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// In the kubelet's words.
    ProbeFailed(Arc<str>),
    NoProbeFailed,
    /// They could not be read.
    Unknown,
}

#[derive(Debug)]
struct Asked {
    ending: Ending,
    until: Tick,
    answer: Option<Answer>,
}

/// The questions that are open.
#[derive(Debug)]
pub(super) struct Probes {
    /// Whether this driver may read Events.
    asks: bool,
    asked: BTreeMap<ExecutorId, Asked>,
}

/// What happens to an end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Report(Ending),
    /// Ask for the Events of this pod.
    Ask(PodUid, Tick),
    /// They have not been read yet.
    Wait(Tick),
}

impl Probes {
    pub(super) fn new(asks: bool) -> Self {
        Self {
            asks,
            asked: BTreeMap::new(),
        }
    }

    pub(super) fn next(&mut self, ending: Ending, now: Tick) -> Next {
        let id = ending.entry.id;
        if let Some(asked) = self.asked.get(&id) {
            if asked.answer.is_none() && now < asked.until {
                return Next::Wait(asked.until);
            }
            return Next::Report(match self.asked.remove(&id) {
                Some(asked) => asked.told(),
                None => ending,
            });
        }
        let pod = ending
            .entry
            .pod()
            .filter(|_| self.asks && ending.reason.class == LossClass::Exited);
        let Some(pod) = pod.filter(|pod| may_be_a_probes(pod)) else {
            return Next::Report(ending);
        };
        let (uid, until) = (pod.uid.clone(), now + PATIENCE);
        let answer = None;
        self.asked.insert(
            id,
            Asked {
                ending,
                until,
                answer,
            },
        );
        Next::Ask(uid, until)
    }

    /// Takes over an answer; returns whether it was waited for.
    pub(super) fn told(&mut self, id: ExecutorId, answer: Answer) -> bool {
        let asked = self.asked.get_mut(&id);
        asked.map(|asked| asked.answer = Some(answer)).is_some()
    }

    pub(super) fn removed(&mut self, id: ExecutorId) {
        self.asked.remove(&id);
    }
}

impl Asked {
    fn told(self) -> Ending {
        let Ending { entry, reason } = self.ending;
        let reason = match self.answer {
            Some(Answer::ProbeFailed(words)) => Arc::new(by_probe(&reason, &words)),
            Some(Answer::NoProbeFailed) => Arc::new(not_by_probe(&reason)),
            Some(Answer::Unknown) | None => reason,
        };
        Ending { entry, reason }
    }
}
