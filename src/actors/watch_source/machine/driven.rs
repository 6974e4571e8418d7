//! Drives the machine by hand, for its tests.

use rand::SeedableRng;

use super::*;
use crate::model::pod::Sighting;
use crate::model::testing::pending;

pub(super) fn machine() -> Machine {
    Machine::new(StdRng::seed_from_u64(11), None)
}

pub(super) fn at(seconds: u64) -> Tick {
    Tick::after_start(Duration::from_secs(seconds))
}

pub(super) fn seen(version: u64) -> Line {
    Line::Seen(Object::Pod(Sighting::Read(Arc::new(pending(
        "a", 1, "u", version,
    )))))
}

pub(super) fn bookmark(version: u64) -> Line {
    Line::Bookmark(version.into())
}

pub(super) fn trouble_of_kind(kind: TroubleKind) -> Trouble {
    Trouble {
        kind,
        error: Arc::from("trouble"),
        retry_after: None,
    }
}

pub(super) fn list(version: u64, epoch: u64) -> Result<Listing, Trouble> {
    Ok(Listing {
        version: version.into(),
        epoch: Epoch(epoch),
        accepted: true,
        objects: 3,
    })
}

/// What the actor keeps: the call in flight and the armed timer.
#[derive(Default)]
pub(super) struct Shell {
    pub(super) call: Option<Serial>,
    pub(super) timer: Option<(Serial, Duration)>,
}

impl Shell {
    pub(super) fn carry_out(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::List { call } | Effect::Watch { call, .. } => self.call = Some(*call),
                Effect::Cut => self.call = None,
                Effect::Arm { timer, after } => self.timer = Some((*timer, *after)),
                Effect::Tell(_) | Effect::Report(_) => {}
            }
        }
    }
}

/// A machine with the state that the actor would keep.
pub(super) struct Driven {
    pub(super) machine: Machine,
    pub(super) shell: Shell,
    pub(super) now: Tick,
}

impl Driven {
    pub(super) fn begun() -> Self {
        let mut driven = Self {
            machine: machine(),
            shell: Shell::default(),
            now: at(0),
        };
        driven.step(Event::Begin);
        driven
    }

    /// A machine that watches from version 10 in epoch 0.
    pub(super) fn watching() -> Self {
        let mut driven = Self::begun();
        driven.listed(list(10, 0));
        driven.opened();
        driven
    }

    pub(super) fn step(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.machine.step(event, self.now);
        self.shell.carry_out(&effects);
        effects
    }

    pub(super) fn call(&self) -> Serial {
        self.shell.call.unwrap()
    }

    pub(super) fn listed(&mut self, outcome: Result<Listing, Trouble>) -> Vec<Effect> {
        let call = self.call();
        self.step(Event::Listed { call, outcome })
    }

    pub(super) fn opened(&mut self) -> Vec<Effect> {
        let call = self.call();
        self.step(Event::Opened { call })
    }

    pub(super) fn line(&mut self, line: Line) -> Vec<Effect> {
        let call = self.call();
        self.step(Event::Line { call, line })
    }

    pub(super) fn ended(&mut self, kind: TroubleKind) -> Vec<Effect> {
        let call = self.call();
        let why = trouble_of_kind(kind);
        self.step(Event::Ended { call, why })
    }

    /// Advances the time until the timer rings.
    pub(super) fn alarm(&mut self) -> Vec<Effect> {
        let (timer, after) = self.shell.timer.unwrap();
        self.now = self.now + after;
        self.step(Event::Alarm { timer })
    }

    pub(super) fn armed(&self) -> Duration {
        self.shell.timer.unwrap().1
    }
}
