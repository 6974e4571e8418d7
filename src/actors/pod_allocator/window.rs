//! How many requests may be in flight: a slow start, and what the API server bears beyond it (spec A-6).

use std::time::Duration;

use crate::config::Allocation;
use crate::model::Tick;

/// As congestion control does it: while answers take no longer than alone, more requests at a time are answered sooner.
#[derive(Debug)]
pub struct Window {
    size: u32,
    most: u32,
    /// How fast an answer came at best since the burst began.
    shortest: Option<Duration>,
    /// What the API server has not borne: from here on the window grows by one with each round of answers.
    borne: u32,
    /// Answers since the window last grew by one with a round of them.
    answers: u32,
    /// When it last shrank: what was sent before says nothing of the window since.
    shrank: Option<Tick>,
}

impl Window {
    pub fn new(most: u32) -> Self {
        Self {
            size: 1,
            most: most.max(1),
            shortest: None,
            borne: u32::MAX,
            answers: 0,
            shrank: None,
        }
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// The next burst starts slowly again, and measures anew.
    pub fn rest(&mut self) {
        *self = Self::new(self.most);
    }

    /// A request was refused for a reason of its own: the others may have the same.
    pub fn refused(&mut self) {
        self.size = 1;
    }

    /// The API server asked to wait, or failed.
    pub fn overloaded(&mut self) {
        // Requests that were in flight together fail together: only the first tells the size.
        if self.size > self.usual() {
            self.borne = self.usual().max(self.size / 2);
        }
        self.size = 1;
    }

    /// A request that was sent at `sent` was carried out; with it, `in_flight` were in flight.
    pub fn answered(&mut self, sent: Tick, in_flight: u32, now: Tick) {
        let took = now.since(sent);
        let shortest = self.shortest.map_or(took, |shortest| shortest.min(took));
        self.shortest = Some(shortest);
        if self.size < self.usual() {
            self.size += 1;
        } else if self.shrank.is_some_and(|shrank| sent < shrank) {
            return;
        } else if took > 2 * shortest {
            self.size = self.usual().max(self.size - self.size / 4);
            self.shrank = Some(now);
        } else if took <= shortest * 3 / 2 && 2 * in_flight >= self.size {
            self.grow();
        }
        self.size = self.size.min(self.most);
    }

    fn grow(&mut self) {
        self.answers += 1;
        if self.size < self.borne || self.answers >= self.size {
            self.size += 1;
            self.answers = 0;
        }
    }

    fn usual(&self) -> u32 {
        self.most.min(Allocation::USUAL_IN_FLIGHT)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A server that works on this many requests at a time, each for `alone`; the others wait for their turn.
    struct Server {
        at_a_time: usize,
        alone: Duration,
    }

    impl Server {
        /// The window after as many answers, while more is always wanted.
        fn answers(&self, window: &mut Window, count: usize) -> u32 {
            self.sizes(window, count).last().copied().unwrap()
        }

        /// The window after each answer.
        fn sizes(&self, window: &mut Window, count: usize) -> Vec<u32> {
            let mut sizes = Vec::new();
            let mut workers = vec![Tick::default(); self.at_a_time];
            let mut in_flight = VecDeque::new();
            let mut now = Tick::default();
            for _ in 0..count {
                while in_flight.len() < window.size() as usize {
                    let free = workers.iter_mut().min().unwrap();
                    *free = now.max(*free) + self.alone;
                    in_flight.push_back((now, *free));
                }
                let at_once = in_flight.len() as u32;
                let (sent, answered) = in_flight.pop_front().unwrap();
                now = answered;
                window.answered(sent, at_once, now);
                sizes.push(window.size());
            }
            sizes
        }
    }

    /// Each of its answers waits for a webhook.
    const WEBHOOK: Server = Server {
        at_a_time: 1_000,
        alone: Duration::from_millis(500),
    };

    // spec: A-6
    #[test]
    fn while_answers_wait_for_something_else_the_window_grows_to_the_limit() {
        let mut window = Window::new(256);
        assert_eq!(WEBHOOK.answers(&mut window, 31), 32);
        assert_eq!(WEBHOOK.answers(&mut window, 300), 256);
    }

    // spec: A-6
    #[test]
    fn a_server_at_its_limit_gets_no_more_than_32_at_a_time() {
        let server = Server {
            at_a_time: 1,
            alone: Duration::from_millis(2),
        };
        assert_eq!(server.answers(&mut Window::new(256), 1_000), 32);
    }

    // spec: A-6
    #[test]
    fn a_server_that_works_on_100_at_a_time_is_kept_busy() {
        let server = Server {
            at_a_time: 100,
            alone: Duration::from_millis(500),
        };
        let sizes = server.sizes(&mut Window::new(1_000), 10_000);
        let (least, most) = (sizes[1_000..].iter().min(), sizes.iter().max());
        // Its answers come by the hundred, and each says what was so a round before.
        assert!(
            least >= Some(&100) && most <= Some(&300),
            "{least:?} {most:?}"
        );
    }

    // spec: A-6
    #[test]
    fn answers_that_take_over_twice_as_long_bring_the_window_back_to_32() {
        let mut window = Window::new(256);
        WEBHOOK.answers(&mut window, 400);
        let slow = Server {
            alone: 3 * WEBHOOK.alone,
            ..WEBHOOK
        };
        assert_eq!(slow.answers(&mut window, 2_000), 32);
    }

    // spec: A-6
    #[test]
    fn after_an_overload_the_window_grows_fast_to_half_and_then_by_one_a_round() {
        let mut window = Window::new(256);
        WEBHOOK.answers(&mut window, 400);
        (0..256).for_each(|_| window.overloaded());
        assert_eq!(window.size(), 1);
        assert_eq!(WEBHOOK.answers(&mut window, 127), 128);
        let later = WEBHOOK.answers(&mut window, 3 * 128);
        assert!((129..=131).contains(&later), "{later}");
        window.rest();
        WEBHOOK.answers(&mut window, 400);
        assert_eq!(window.size(), 256, "the next burst measures anew");
    }

    // spec: A-6
    #[test]
    fn requests_that_are_few_do_not_widen_the_window() {
        let mut window = Window::new(256);
        let answered = Tick::default() + WEBHOOK.alone;
        (0..1_000).for_each(|_| window.answered(Tick::default(), 1, answered));
        assert_eq!(window.size(), 32);
    }

    // spec: A-6
    #[test]
    fn a_limit_below_32_is_kept() {
        assert_eq!(WEBHOOK.answers(&mut Window::new(8), 1_000), 8);
    }
}
