//! What the watch does next: a function of its state, an event and the time (spec W-1 to W-3).
//!
//! There is at most one call in flight and one timer armed; each has a number of its own, and the answer
//! of a call or the alarm of a timer that is no longer the current one changes nothing.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::kubernetes::backoff::{LONGEST, WATCH};
use crate::model::news::News;
use crate::model::{Epoch, ResourceVersion, Tick};
use crate::planted::{self, Planted};

mod values;

pub(super) use self::values::{Effect, Event, Line, Listing, Report, Serial, Setback, SetbackKind};

/// How long the server is asked to keep a watch open, in seconds; drawn anew each time, so that the watches of
/// many drivers do not all end together (spec W-3).
const TIMEOUT_SECONDS: std::ops::RangeInclusive<u32> = 300..=600;
/// Bookmarks come about each minute: where they come at all, two missed ones mean a dead connection (spec W-3).
const SILENCE_WITH_BOOKMARKS: Duration = Duration::from_secs(150);
/// Without bookmarks only the end of the watch itself can be missed; this much later it is (spec W-3).
const SILENCE_AFTER_TIMEOUT: Duration = Duration::from_secs(10);
/// A version from the future is silent for ever: after so many silences in a row it is doubted (spec W-3).
const SILENCES_BEFORE_LIST: u32 = 2;
/// A watch that opens, shows nothing and breaks may break on what comes next, every time: after so many in a row the
/// list goes around it.
const BREAKS_BEFORE_LIST: u32 = 5;

/// The point in history from which to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    version: ResourceVersion,
    epoch: Epoch,
}

/// How far the watch has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Not begun.
    Idle,
    /// A list is being made; it has its own deadline.
    Listing { call: Serial },
    /// A watch is asked for; opening it has its own deadline.
    Opening {
        call: Serial,
        from: Point,
        timeout: Duration,
    },
    /// Lines come in.
    Watching(Watching),
    /// Until the timer's alarm. `next` is where the watch resumes; without one, it lists.
    Waiting { timer: Serial, next: Option<Point> },
    /// The driver stops.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Watching {
    call: Serial,
    /// Moves on with each line that bears a version.
    from: Point,
    timeout: Duration,
    opened: Tick,
    last_line: Tick,
    received: Received,
    /// Armed for the earliest instant at which the silence may be too long.
    timer: Serial,
}

/// What came over a watch so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Received {
    Nothing,
    /// Lines that could not be read.
    Unreadable,
    /// Events or bookmarks.
    Readable,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    rng: StdRng,
    /// Failures in a row.
    failures: u32,
    last_serial: Serial,
    /// The newest history heard of: a list of an older one is made again.
    epoch: Epoch,
    /// Whether this server, in this history, sends bookmarks.
    bookmarks: bool,
    /// Watches in a row that were silent.
    silences: u32,
    /// Watches in a row that opened, showed nothing and broke.
    breaks: u32,
    synced: bool,
    in_trouble: bool,
    unreadable: u64,
}

impl Machine {
    pub(super) fn new(rng: StdRng) -> Self {
        Self {
            phase: Phase::Idle,
            rng,
            failures: 0,
            last_serial: Serial::default(),
            epoch: Epoch::default(),
            bookmarks: false,
            silences: 0,
            breaks: 0,
            synced: false,
            in_trouble: false,
            unreadable: 0,
        }
    }

    /// One step. Every state meets every event; where they have nothing to do with one another, nothing changes.
    pub(super) fn step(&mut self, event: Event, now: Tick) -> Vec<Effect> {
        let mut out = Vec::new();
        let phase = std::mem::replace(&mut self.phase, Phase::Stopped);
        self.phase = self.next(phase, event, now, &mut out);
        out
    }

    fn next(&mut self, phase: Phase, event: Event, now: Tick, out: &mut Vec<Effect>) -> Phase {
        match (phase, event) {
            (Phase::Stopped, _) => Phase::Stopped,
            (_, Event::Stop) => {
                out.push(Effect::Cut);
                Phase::Stopped
            }
            (phase, Event::Anew { epoch }) => self.anew(phase, epoch, out),

            (Phase::Idle, Event::Begin) => self.list(out),

            (Phase::Listing { call: current }, Event::Listed { call, outcome })
                if call == current =>
            {
                self.listed(outcome, now, out)
            }

            (
                Phase::Opening {
                    call,
                    from,
                    timeout,
                },
                Event::Opened { call: opened },
            ) if opened == call => self.opened(call, from, timeout, now, out),
            (Phase::Opening { call, from, .. }, Event::Ended { call: ended, why })
                if ended == call =>
            {
                self.over(why, Some(from), None, now, out)
            }

            (Phase::Watching(watching), Event::Line { call, line }) if call == watching.call => {
                self.line(watching, line, now, out)
            }
            (Phase::Watching(watching), Event::Ended { call, why }) if call == watching.call => {
                self.doubt(&watching, why.kind, now);
                self.over(why, Some(watching.from.clone()), Some(&watching), now, out)
            }
            (Phase::Watching(watching), Event::Alarm { timer }) if timer == watching.timer => {
                self.silence(watching, now, out)
            }

            (Phase::Waiting { timer, next }, Event::Alarm { timer: rung }) if rung == timer => {
                match next {
                    Some(from) => self.watch(from, out),
                    None => self.list(out),
                }
            }

            // What is left is begun already, or the answer of a call or the alarm of a timer that was given up.
            (
                phase @ (Phase::Idle
                | Phase::Listing { .. }
                | Phase::Opening { .. }
                | Phase::Watching(_)
                | Phase::Waiting { .. }),
                Event::Begin
                | Event::Listed { .. }
                | Event::Opened { .. }
                | Event::Line { .. }
                | Event::Ended { .. }
                | Event::Alarm { .. },
            ) => phase,
        }
    }

    /// A new history (spec S-13): what is watched of an older one is given up. A list that is being made may
    /// be of either: the store's verdict on it says so.
    fn anew(&mut self, phase: Phase, epoch: Epoch, out: &mut Vec<Effect>) -> Phase {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.bookmarks = false;
        }
        let newest = self.epoch;
        match phase {
            Phase::Opening { from, .. } | Phase::Watching(Watching { from, .. })
                if from.epoch < newest =>
            {
                out.push(Effect::Cut);
                self.list(out)
            }
            Phase::Waiting { timer, next } => Phase::Waiting {
                timer,
                next: next.filter(|from| from.epoch >= newest),
            },
            phase => phase,
        }
    }

    fn list(&mut self, out: &mut Vec<Effect>) -> Phase {
        let call = self.serial();
        out.push(Effect::List { call });
        Phase::Listing { call }
    }

    fn listed(
        &mut self,
        outcome: Result<Listing, Setback>,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        let list = match outcome {
            Ok(list) => list,
            Err(why) => return self.over(why, None, None, now, out),
        };
        // The news of a newer history may have overtaken the verdict.
        if !list.accepted || list.epoch < self.epoch {
            let why = Setback {
                kind: SetbackKind::Outdated,
                error: Arc::from("the list was asked for in an older history"),
                retry_after: None,
            };
            return self.over(why, None, None, now, out);
        }
        if list.epoch > self.epoch {
            self.epoch = list.epoch;
            self.bookmarks = false;
        }
        self.silences = 0;
        self.breaks = 0;
        out.push(Effect::Report(Report::Synced {
            first: !self.synced,
            pods: list.pods,
        }));
        self.synced = true;
        let from = Point {
            version: list.version,
            epoch: list.epoch,
        };
        self.watch(from, out)
    }

    fn watch(&mut self, from: Point, out: &mut Vec<Effect>) -> Phase {
        let call = self.serial();
        let timeout_seconds = self.rng.random_range(TIMEOUT_SECONDS);
        out.push(Effect::Watch {
            call,
            from: from.version.clone(),
            timeout_seconds,
        });
        Phase::Opening {
            call,
            from,
            timeout: Duration::from_secs(u64::from(timeout_seconds)),
        }
    }

    fn opened(
        &mut self,
        call: Serial,
        from: Point,
        timeout: Duration,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        Phase::Watching(Watching {
            call,
            from,
            timeout,
            opened: now,
            last_line: now,
            received: Received::Nothing,
            timer: self.arm(self.longest_silence(timeout), out),
        })
    }

    fn line(
        &mut self,
        mut watching: Watching,
        line: Line,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        watching.last_line = now;
        self.silences = 0;
        let epoch = watching.from.epoch;
        let (version, news) = match line {
            Line::Garbage(error) => {
                watching.received = watching.received.max(Received::Unreadable);
                self.unreadable += 1;
                let count = self.unreadable;
                out.push(Effect::Report(Report::Unreadable { count, error }));
                return Phase::Watching(watching);
            }
            Line::Seen(pod) => (pod.version().cloned(), News::Seen { pod, epoch }),
            Line::Deleted(pod) => (pod.version().cloned(), News::Deleted { pod, epoch }),
            Line::Bookmark(version) => {
                if !self.bookmarks {
                    self.bookmarks = true;
                    watching.timer = self.arm(SILENCE_WITH_BOOKMARKS, out);
                }
                (Some(version.clone()), News::Bookmark { version, epoch })
            }
        };
        if let Some(version) = version
            && version > watching.from.version
        {
            watching.from.version = version;
        }
        watching.received = Received::Readable;
        self.breaks = 0;
        self.failures = 0;
        if std::mem::take(&mut self.in_trouble) {
            out.push(Effect::Report(Report::Recovered));
        }
        let ignored = matches!(news, News::Deleted { .. }) && planted::is(Planted::DeletedIgnored);
        if !ignored {
            out.push(Effect::Tell(news));
        }
        Phase::Watching(watching)
    }

    /// The timer is not set again with each line, so it may ring too early.
    fn silence(&mut self, mut watching: Watching, now: Tick, out: &mut Vec<Effect>) -> Phase {
        let longest = self.longest_silence(watching.timeout);
        let silence = now.since(watching.last_line);
        if silence < longest {
            watching.timer = self.arm(longest.saturating_sub(silence), out);
            return Phase::Watching(watching);
        }
        out.push(Effect::Cut);
        self.doubt(&watching, SetbackKind::Silent, now);
        let why = Setback {
            kind: SetbackKind::Silent,
            error: Arc::from(format!("nothing came for {} s", silence.as_secs())),
            retry_after: None,
        };
        self.over(why, Some(watching.from.clone()), Some(&watching), now, out)
    }

    /// Counts what speaks against the version that was watched from.
    fn doubt(&mut self, watching: &Watching, kind: SetbackKind, now: Tick) {
        let lived = now.since(watching.opened);
        match kind {
            SetbackKind::Silent => self.silences += 1,
            // Where no bookmarks come, the server's own end comes before the silence is too long.
            SetbackKind::Ended
                if watching.received == Received::Nothing
                    && lived + SILENCE_AFTER_TIMEOUT >= watching.timeout =>
            {
                self.silences += 1;
            }
            SetbackKind::Broke if watching.received != Received::Readable => self.breaks += 1,
            SetbackKind::Ended
            | SetbackKind::Broke
            | SetbackKind::Expired
            | SetbackKind::Outdated => {}
        }
    }

    fn longest_silence(&self, timeout: Duration) -> Duration {
        if self.bookmarks {
            SILENCE_WITH_BOOKMARKS
        } else {
            timeout + SILENCE_AFTER_TIMEOUT
        }
    }

    /// Something is over; what comes next comes after the backoff (spec W-2). That is reckoned from when the watch
    /// opened, where it did: one that had lived for minutes is resumed at once, one that ends at once is not.
    fn over(
        &mut self,
        why: Setback,
        resume: Option<Point>,
        watched: Option<&Watching>,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        if why.kind == SetbackKind::Expired && planted::is(Planted::WatchLeftClosed) {
            return Phase::Stopped;
        }
        self.failures = self.failures.saturating_add(1);
        let backoff = WATCH.jittered(self.failures, self.rng.random());
        let lived = watched.map_or(Duration::ZERO, |watching| now.since(watching.opened));
        let asked_for = why.retry_after.unwrap_or_default().min(LONGEST);
        let wait = backoff.saturating_sub(lived).max(asked_for);
        let of_no_use = why.kind == SetbackKind::Expired
            || self.silences >= SILENCES_BEFORE_LIST
            || self.breaks >= BREAKS_BEFORE_LIST;
        let next = resume.filter(|from| !of_no_use && from.epoch >= self.epoch);

        let from = next.as_ref().map(|from| from.version.clone());
        let showed = watched.is_some_and(|watching| watching.received == Received::Readable);
        let in_good_order = match why.kind {
            SetbackKind::Outdated => true,
            SetbackKind::Ended => wait.is_zero(),
            SetbackKind::Broke | SetbackKind::Silent | SetbackKind::Expired => false,
        };
        let error = why.error;
        out.push(Effect::Report(if showed || in_good_order {
            Report::Again { error, from, wait }
        } else {
            let first = !std::mem::replace(&mut self.in_trouble, true);
            Report::Trouble {
                first,
                error,
                from,
                wait,
            }
        }));
        Phase::Waiting {
            timer: self.arm(wait, out),
            next,
        }
    }

    fn arm(&mut self, after: Duration, out: &mut Vec<Effect>) -> Serial {
        let timer = self.serial();
        out.push(Effect::Arm { timer, after });
        timer
    }

    fn serial(&mut self) -> Serial {
        self.last_serial = Serial(self.last_serial.0 + 1);
        self.last_serial
    }
}

#[cfg(test)]
mod driven;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
