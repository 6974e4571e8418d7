//! Decides whether the application is still alive: pure (spec B-35).

use std::time::Duration;

use crate::model::Tick;

/// The application's liveness, which each of its calls renews.
#[derive(Debug, Clone)]
pub struct Liveness {
    ttl: Duration,
    renewed: Tick,
    told: Told,
}

/// The consequences that have been returned since the last renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    Held,
    Ended,
}

/// A consequence of silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// Hold the executors.
    Hold,
    /// End the application.
    End,
}

impl Liveness {
    /// Renewed at `now`.
    pub fn new(ttl: Duration, now: Tick) -> Self {
        Self {
            ttl,
            renewed: now,
            told: Told::Nothing,
        }
    }

    pub fn renew(&mut self, now: Tick) {
        (self.renewed, self.told) = (now, Told::Nothing);
    }

    /// The consequence of the silence until now. Each is returned once.
    pub fn lapse(&mut self, now: Tick) -> Option<Lapse> {
        let silent = now.since(self.renewed);
        let (due, lapse) = if silent >= self.ttl * 2 {
            (Told::Ended, Lapse::End)
        } else if silent >= self.ttl {
            (Told::Held, Lapse::Hold)
        } else {
            return None;
        };
        let new = due > self.told;
        self.told = self.told.max(due);
        new.then_some(lapse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    // spec: B-35
    #[test]
    fn silence_holds_the_executors_after_the_ttl_and_ends_the_application_after_twice_that() {
        let mut liveness = Liveness::new(Duration::from_secs(10), at(0));
        assert_eq!(liveness.lapse(at(9_999)), None);
        liveness.renew(at(9_999));
        assert_eq!(liveness.lapse(at(19_998)), None);
        assert_eq!(liveness.lapse(at(19_999)), Some(Lapse::Hold));
        assert_eq!(liveness.lapse(at(29_998)), None);
        assert_eq!(liveness.lapse(at(29_999)), Some(Lapse::End));
        assert_eq!(liveness.lapse(at(99_999)), None);
    }

    // spec: B-35
    #[test]
    fn a_call_restarts_the_ttl() {
        let mut liveness = Liveness::new(Duration::from_secs(10), at(0));
        assert_eq!(liveness.lapse(at(15_000)), Some(Lapse::Hold));
        liveness.renew(at(15_000));
        assert_eq!(liveness.lapse(at(24_999)), None);
        assert_eq!(liveness.lapse(at(25_000)), Some(Lapse::Hold));
    }
}
