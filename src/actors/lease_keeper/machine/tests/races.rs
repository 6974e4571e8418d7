//! Several machines and one server, with clocks of different rates, lost and late answers, pauses and ends.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::kubernetes::gate::TRANSIT;

const STEP: u64 = 50;

/// Clocks run at most this much too fast or too slow, in thousandths.
const RATE: u64 = 15;

/// After this time a call without an answer is given up.
const TIMEOUT: u64 = 5_000;

struct Driver {
    machine: Machine,
    /// How many of its milliseconds pass in 1,000.
    rate: u64,
    paused_until: u64,
    call: Option<Call>,
    /// Since when it may write, on its own clock; `None`: it may not.
    since: Option<Tick>,
}

struct Call {
    op: Op,
    given_up_at: u64,
    /// When the server carries it out.
    reaches: u64,
    /// When the answer arrives; `None`: never.
    answered: Option<u64>,
    answer: Option<Answer>,
}

impl Driver {
    fn now(&self, real: u64) -> Now {
        now(real * self.rate / 1000)
    }

    /// Whether a write that it has sent may still be carried out.
    fn may_write(&self, real: u64) -> bool {
        let last = |since: Tick| since + (DURATION - TRANSIT);
        self.since
            .is_some_and(|since| self.now(real).tick < last(since))
    }
}

struct World {
    rng: StdRng,
    real: u64,
    lease: Option<Lease>,
    version: u64,
    /// When the Lease was last deleted.
    deleted: u64,
    drivers: Vec<Driver>,
    taken: usize,
}

impl World {
    fn start(&mut self) {
        let start = format!("d{}", self.drivers.len());
        let driver = Driver {
            machine: machine(&start),
            rate: self.rng.random_range(1000 - RATE..=1000 + RATE),
            paused_until: 0,
            call: None,
            since: None,
        };
        self.drivers.push(driver);
    }

    fn carried_out(&mut self, op: &Op) -> Answer {
        let (spec, succeeds) = match op {
            Op::Get => return Answer::Got(self.lease.clone()),
            Op::Create(spec) => (spec, self.lease.is_none()),
            Op::Replace(spec, _, version) => {
                let there = self.lease.as_ref();
                (spec, there.is_some_and(|lease| lease.version == *version))
            }
        };
        if !succeeds {
            return failed(FailureKind::Conflict);
        }
        self.version += 1;
        let lease = Lease {
            uid: "u".into(),
            version: self.version.into(),
            spec: spec.clone(),
        };
        self.lease = Some(lease.clone());
        Answer::Written(lease)
    }

    fn step(&mut self) {
        self.real += STEP;
        for n in 0..self.drivers.len() {
            self.serve(n);
            self.run(n);
        }
        let picked = self.rng.random_range(0..self.drivers.len());
        match self.rng.random_range(0..4_000) {
            // Who has not seen the Lease cannot know that there was one.
            0 if self.drivers.len() < 12 && self.lease.is_some() => self.start(),
            1 if self.real > self.deleted + 30_000
                && self.drivers.iter().all(|one| one.machine.seen.is_some()) =>
            {
                (self.lease, self.deleted) = (None, self.real);
            }
            2..6 => {
                let time = self.rng.random_range(0..90_000);
                self.drivers[picked].paused_until = self.real + time;
            }
            6 if self.drivers[picked].paused_until <= self.real => {
                let driver = &mut self.drivers[picked];
                drop(driver.machine.release());
                driver.since = None;
            }
            _ => {}
        }
    }

    fn serve(&mut self, n: usize) {
        let call = self.drivers[n].call.as_ref();
        let due = call.filter(|call| call.answer.is_none() && self.real >= call.reaches);
        let Some(op) = due.map(|call| call.op.clone()) else {
            return;
        };
        let answer = self.carried_out(&op);
        if let Some(call) = &mut self.drivers[n].call {
            call.answer = Some(answer);
        }
    }

    fn run(&mut self, n: usize) {
        let real = self.real;
        let driver = &mut self.drivers[n];
        if driver.paused_until > real {
            return;
        }
        let now = driver.now(real);
        let mut effects = driver.machine.tick(now);
        let answer = driver.call.as_mut().and_then(|call| match call.answered {
            Some(at) if real >= at => call.answer.take(),
            _ if real >= call.given_up_at => Some(failed(FailureKind::TimedOut)),
            _ => None,
        });
        if let Some(answer) = answer {
            driver.call = None;
            effects.extend(driver.machine.answered(answer, now));
        }
        if driver.call.is_none()
            && let Some(op) = driver.machine.next(now)
        {
            let reaches = real + self.rng.random_range(0..1_500);
            let answered = reaches + self.rng.random_range(0..1_500);
            driver.call = Some(Call {
                op,
                given_up_at: real + TIMEOUT,
                reaches,
                answered: self.rng.random_ratio(9, 10).then_some(answered),
                answer: None,
            });
        }
        if self.rng.random_ratio(1, 2) && driver.machine.wants_watch() {
            drop(driver.machine.watched(self.lease.clone(), now));
        }
        for effect in effects {
            match effect {
                Effect::Held { since } => self.held(n, since),
                Effect::Lost(_) | Effect::Released => self.drivers[n].since = None,
                _ => {}
            }
        }
    }

    fn held(&mut self, n: usize, since: Tick) {
        let first = self.drivers[n].since.replace(since).is_none();
        self.taken += usize::from(first);
        for (other, driver) in self.drivers.iter().enumerate() {
            assert!(
                other == n || !driver.may_write(self.real),
                "driver {n} may write at {} ms, and so may {other}",
                self.real
            );
        }
    }
}

// spec: O-32, O-92, I-10
#[test]
fn at_most_one_driver_may_write_whatever_is_lost_late_or_paused() {
    let mut taken = 0;
    for seed in 0..300 {
        let mut world = World {
            rng: StdRng::seed_from_u64(seed),
            real: 0,
            lease: None,
            version: 0,
            deleted: 0,
            drivers: Vec::new(),
            taken: 0,
        };
        world.start();
        world.start();
        for _ in 0..8_000 {
            world.step();
        }
        taken += world.taken;
    }
    assert!(taken > 500, "the lease has changed hands {taken} times");
}
