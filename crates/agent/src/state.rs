//! Decides how the agent reacts to the driver's orders and to signals: pure.
//!
//! Who deletes a pod makes its kubelet send SIGTERM as well, so whoever the driver orders to stop would be told twice,
//! and a program may take the second time as "abort".

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::conversation::Received;

/// What remains of the pod's termination grace after a drain: for the report of the child's end.
const AFTER_DRAIN: Duration = Duration::from_secs(3);

/// An action on the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Signal(Signal),
    /// Run the shell command for decommissioning.
    Run {
        command: String,
        /// The remaining time.
        left: Duration,
    },
}

/// The state of the child's termination.
#[derive(Debug)]
pub(super) struct ChildState {
    decommission_command: Option<String>,
    grace: Duration,
    drains: bool,
    /// Whether the child has got SIGTERM.
    stops: bool,
    /// Whether that was on an order, so that the kubelet's SIGTERM is still to come and says nothing new.
    kubelet_follows: bool,
    /// Whether the child got SIGTERM from outside, before any order.
    terminated_unordered: bool,
    /// Whether the child was stopped because no driver answered, and nothing else.
    driver_gone: bool,
    /// The deadline by which the child must have exited.
    by: Option<Instant>,
}

impl ChildState {
    /// The state of a running child that has no order to exit.
    pub(super) fn new(decommission_command: Option<String>, grace: Duration) -> Self {
        Self {
            decommission_command,
            grace,
            drains: false,
            stops: false,
            kubelet_follows: false,
            terminated_unordered: false,
            driver_gone: false,
            by: None,
        }
    }

    /// When the child will be killed, if it has an order to exit.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.by
    }

    /// Reacts to an order, or to the loss of the driver.
    pub(super) fn heard(&mut self, heard: Received, now: Instant) -> Vec<Action> {
        match heard {
            Received::Registered => Vec::new(),
            Received::Stop { within } => self.stop(now + within),
            Received::Unwanted => self.stop(now + self.grace),
            Received::DriverGone => {
                self.driver_gone = !self.stops && !self.drains;
                self.stop(now + self.grace)
            }
            Received::Decommission { within } => self.drain(within, now),
        }
    }

    /// Reacts to a signal from outside: from the kubelet, or from a person.
    pub(super) fn signalled(&mut self, signal: Signal, now: Instant) -> Vec<Action> {
        if signal == Signal::TERM {
            if std::mem::take(&mut self.kubelet_follows) {
                return Vec::new();
            }
            let is_first = !self.stops && !self.drains;
            self.terminated_unordered |= is_first;
            let within = self.grace.saturating_sub(AFTER_DRAIN);
            if is_first && self.decommission_command.is_some() && !within.is_zero() {
                return self.drain(within, now);
            }
            self.stops = true;
        }
        vec![Action::Signal(signal)]
    }

    /// The command for decommissioning could not be started.
    pub(super) fn command_failed(&mut self) -> Vec<Action> {
        self.terminate()
    }

    pub(super) fn driver_gone(&self) -> bool {
        self.driver_gone
    }

    /// Whether something other than an order of the driver terminated the child first.
    pub(super) fn terminated_unordered(&self) -> bool {
        self.terminated_unordered
    }

    /// Reacts to the passing of the deadline.
    pub(super) fn too_late(&mut self) -> Vec<Action> {
        self.by = None;
        vec![Action::Signal(Signal::KILL)]
    }

    fn stop(&mut self, by: Instant) -> Vec<Action> {
        self.by = Some(self.by.map_or(by, |earlier| earlier.min(by)));
        self.terminate()
    }

    /// The child gets SIGTERM on an order, unless it has got it already.
    fn terminate(&mut self) -> Vec<Action> {
        if std::mem::replace(&mut self.stops, true) {
            return Vec::new();
        }
        self.kubelet_follows = true;
        vec![Action::Signal(Signal::TERM)]
    }

    fn drain(&mut self, within: Duration, now: Instant) -> Vec<Action> {
        if self.stops {
            return Vec::new();
        }
        let Some(command) = self.decommission_command.clone() else {
            return self.stop(now + within);
        };
        let by = now + within;
        self.by = Some(self.by.map_or(by, |earlier| earlier.min(by)));
        match std::mem::replace(&mut self.drains, true) {
            true => Vec::new(),
            false => vec![Action::Run {
                command,
                left: within,
            }],
        }
    }
}

/// Whether the driver is considered away after a try to reach it. `before` is when it was last heard before the try. A
/// session that broke is no failed try: the driver may have been silent because nothing was due.
pub(super) fn is_away(
    timeout: Option<Duration>,
    before: Instant,
    last_heard: Instant,
    now: Instant,
) -> bool {
    let for_long = |timeout| now.saturating_duration_since(last_heard) >= timeout;
    before == last_heard && timeout.is_some_and(for_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const TERM: [Action; 1] = [Action::Signal(Signal::TERM)];

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    // spec: O-123
    #[test]
    fn a_driver_is_away_only_after_a_try_in_which_it_was_not_heard() {
        let start = Instant::now();
        let at = |n| start + seconds(n);
        let timeout = Some(seconds(60));
        assert!(!is_away(timeout, at(0), at(0), at(59)));
        assert!(is_away(timeout, at(0), at(0), at(60)));
        // A session was open, and broke long after the last answer.
        assert!(!is_away(timeout, at(0), at(10), at(90)));
        assert!(is_away(timeout, at(10), at(10), at(91)));
        assert!(!is_away(None, at(0), at(0), at(9_999)));
    }

    // spec: O-121
    #[test]
    fn whoever_wants_its_end_the_child_gets_one_sigterm_and_then_a_deadline() {
        let now = Instant::now();
        for (heard, within) in [
            (Received::Stop { within: seconds(5) }, seconds(5)),
            (
                Received::Decommission {
                    within: seconds(60),
                },
                seconds(60),
            ),
            (Received::Unwanted, GRACE),
            (Received::DriverGone, GRACE),
        ] {
            let mut state = ChildState::new(None, GRACE);
            assert_eq!(state.deadline(), None);
            assert_eq!(state.heard(heard.clone(), now), TERM, "{heard:?}");
            assert_eq!(state.deadline(), Some(now + within));
            assert_eq!(state.heard(heard, now), []);
            assert_eq!(state.too_late(), [Action::Signal(Signal::KILL)]);
        }
    }

    // spec: O-123
    #[test]
    fn only_a_child_that_nothing_else_stops_is_stopped_for_want_of_a_driver() {
        let now = Instant::now();
        let within = seconds(5);
        for (before, gone) in [
            (None, true),
            (Some(Received::Stop { within }), false),
            (Some(Received::Decommission { within }), false),
            (Some(Received::Unwanted), false),
        ] {
            let mut state = ChildState::new(None, GRACE);
            for heard in before.into_iter().chain([Received::DriverGone]) {
                state.heard(heard, now);
            }
            assert_eq!(state.driver_gone(), gone);
        }
    }

    /// What happens to the agent.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Stop,
        Decommission,
        FromOutside(Signal),
        CommandFails,
    }

    /// The signals that the child gets.
    fn got(command: Option<&str>, events: &[Event]) -> (Vec<Signal>, ChildState) {
        let now = Instant::now();
        let mut state = ChildState::new(command.map(str::to_owned), GRACE);
        let actions = events.iter().flat_map(|event| match event {
            Event::Stop => state.heard(Received::Stop { within: seconds(5) }, now),
            Event::Decommission => {
                let within = seconds(60);
                state.heard(Received::Decommission { within }, now)
            }
            Event::FromOutside(signal) => state.signalled(*signal, now),
            Event::CommandFails => state.command_failed(),
        });
        let signals = actions.filter_map(|action| match action {
            Action::Signal(signal) => Some(signal),
            Action::Run { .. } => None,
        });
        (signals.collect(), state)
    }

    // spec: O-121
    #[test]
    fn order_and_kubelet_give_one_sigterm_in_either_order() {
        use Event::{CommandFails, Decommission, FromOutside, Stop};
        let kubelet = FromOutside(Signal::TERM);
        for events in [
            &[Stop, kubelet][..],
            &[kubelet, Stop],
            // The order was lost.
            &[kubelet],
            &[Decommission, kubelet],
            &[kubelet, Decommission],
            &[Decommission, Stop, kubelet],
            &[Stop, Stop, kubelet],
        ] {
            assert_eq!(got(None, events).0, [Signal::TERM], "{events:?}");
        }
        for events in [
            &[Decommission, Stop, kubelet][..],
            &[Decommission, kubelet, Stop],
            // Somebody deletes the pod while it drains.
            &[Decommission, kubelet],
            &[kubelet, Stop],
            &[kubelet, CommandFails],
            &[Decommission, CommandFails, kubelet],
            &[Decommission, kubelet, CommandFails],
        ] {
            assert_eq!(got(Some("drain"), events).0, [Signal::TERM], "{events:?}");
        }
    }

    // spec: O-121
    #[test]
    fn a_sigterm_before_any_order_begins_a_drain_within_the_pods_grace_where_there_is_a_command() {
        let now = Instant::now();
        let command = || Some("drain".to_owned());
        let mut state = ChildState::new(command(), GRACE);
        let run = [Action::Run {
            command: "drain".to_owned(),
            left: seconds(27),
        }];
        assert_eq!(state.signalled(Signal::TERM, now), run);
        assert_eq!(state.deadline(), Some(now + seconds(27)));
        assert!(state.terminated_unordered());
        // An order that comes later gives no more time, and a second signal is a person's.
        let within = seconds(60);
        assert_eq!(state.heard(Received::Decommission { within }, now), []);
        assert_eq!(state.deadline(), Some(now + seconds(27)));
        assert_eq!(state.signalled(Signal::TERM, now), TERM);
        // There is no time for it.
        let mut hurried = ChildState::new(command(), AFTER_DRAIN);
        assert_eq!(hurried.signalled(Signal::TERM, now), TERM);
    }

    // spec: O-121
    #[test]
    fn a_person_who_insists_is_heard_and_other_signals_always_pass() {
        use Event::{FromOutside, Stop};
        let term = FromOutside(Signal::TERM);
        assert_eq!(got(None, &[term, term]).0, [Signal::TERM; 2]);
        assert_eq!(got(None, &[Stop, term, term]).0, [Signal::TERM; 2]);
        // A late order is no third time, and the kubelet came before it.
        assert_eq!(got(None, &[term, Stop, term]).0, [Signal::TERM; 2]);
        for other in [Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1] {
            let (signals, state) = got(None, &[Stop, FromOutside(other), term]);
            assert_eq!(signals, [Signal::TERM, other]);
            assert!(!state.terminated_unordered());
        }
        assert_eq!(
            got(None, &[FromOutside(Signal::INT), Stop, term]).0,
            [Signal::INT, Signal::TERM],
            "an interrupt need not end it"
        );
    }

    // spec: O-121
    #[test]
    fn only_a_sigterm_before_any_order_came_without_one() {
        use Event::{Decommission, FromOutside, Stop};
        let term = FromOutside(Signal::TERM);
        let unordered = |events: &[Event]| got(Some("drain"), events).1.terminated_unordered();
        assert!(unordered(&[term]));
        assert!(unordered(&[term, Stop]));
        assert!(!unordered(&[Stop, term, term]));
        assert!(!unordered(&[Decommission, term]));
        assert!(!unordered(&[FromOutside(Signal::INT)]));
    }

    // spec: O-121, B-30
    #[test]
    fn a_decommission_command_takes_the_place_of_the_signal_until_it_is_to_stop() {
        let now = Instant::now();
        let mut state = ChildState::new(Some("drain".to_owned()), GRACE);
        let within = seconds(60);
        let command = "drain".to_owned();
        let run = [Action::Run {
            command,
            left: within,
        }];
        assert_eq!(state.heard(Received::Decommission { within }, now), run);
        assert_eq!(state.heard(Received::Decommission { within }, now), []);
        // A later deadline does not extend the first one; an earlier one replaces it.
        let later = Received::Stop {
            within: seconds(90),
        };
        assert_eq!(state.heard(later, now), TERM);
        assert_eq!(state.deadline(), Some(now + within));
        state.heard(Received::Stop { within: seconds(5) }, now);
        assert_eq!(state.deadline(), Some(now + seconds(5)));
        assert_eq!(state.heard(Received::Decommission { within }, now), []);
    }
}
