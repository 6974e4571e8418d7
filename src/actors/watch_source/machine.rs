//! Decides the watch's next step: a function of its state, an event and the time (spec W-1 to W-3).
//!
//! At most one call is in flight and one timer armed. Each has a serial number; answers and alarms
//! with an outdated number are ignored.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::model::news::News;
use crate::model::{Epoch, ResourceVersion, Serial, Tick};
use crate::planted::{self, Planted};

mod breaks;
mod values;

pub(super) use self::values::{Effect, Event, Line, Listing, Object, Report, Trouble, TroubleKind};

/// The timeout that a watch asks the server for, in seconds. It is random, so that the watches of
/// many drivers do not end at the same time (spec W-3).
const TIMEOUT_SECONDS: std::ops::RangeInclusive<u32> = 300..=600;
/// Bookmarks arrive about every minute. If the server sends them at all, the lack of two in a row
/// means a dead connection (spec W-3).
const SILENCE_WITH_BOOKMARKS: Duration = Duration::from_secs(150);
/// Without bookmarks only a missing end of the watch reveals a dead connection, which is this long
/// after its timeout (spec W-3).
const SILENCE_AFTER_TIMEOUT: Duration = Duration::from_secs(10);
/// A watch from a version in the future is silent forever: after this many silent watches in a row
/// the version is suspect, and a list is made (spec W-3).
const SILENCES_BEFORE_LIST: u32 = 2;
/// A watch that opens, delivers nothing and breaks may be breaking on the next event, every time:
/// after this many in a row a list skips that event.
const BREAKS_BEFORE_LIST: u32 = 5;
/// Of what no poll lists, a watch that begins this long after the last list begins with one (spec W-15).
pub(super) const LIST_AGAIN_AFTER: Duration = Duration::from_secs(300);
/// After a failure a watch works again once it has been open for this long. An idle application shows no event, and a
/// server that ends every watch at once is not reported as working each time.
const WORKS_AFTER: Duration = Duration::from_secs(2);

/// The version and epoch from which to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    version: ResourceVersion,
    epoch: Epoch,
}

/// The state of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Not started.
    Idle,
    /// A list is in flight. It has its own deadline.
    Listing { call: Serial },
    /// A watch is being opened. This has its own deadline.
    Opening {
        call: Serial,
        from: Point,
        timeout: Duration,
    },
    /// A watch is open.
    Watching(Watching),
    /// Waits for the timer. Then the watch resumes at `next`, or makes a list if that is `None`.
    Waiting {
        timer: Serial,
        next: Option<Point>,
        /// Until then the server has asked to wait.
        not_before: Tick,
    },
    /// The driver is stopping.
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Watching {
    call: Serial,
    /// Advances with each line that has a version.
    from: Point,
    timeout: Duration,
    opened: Tick,
    last_line: Tick,
    received: Received,
    /// Armed for the earliest time at which the silence may be too long.
    timer: Serial,
}

/// What a watch has delivered so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Received {
    Nothing,
    /// Only lines that could not be parsed.
    Unreadable,
    /// Events or bookmarks.
    Readable,
}

#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    rng: StdRng,
    /// Consecutive failures.
    failures: u32,
    last_serial: Serial,
    /// The latest known epoch. A list of an earlier one is repeated.
    epoch: Epoch,
    /// A watch that begins so long after the last list begins with one, if no poll finds what was missed.
    list_again_after: Option<Duration>,
    last_listed: Tick,
    /// Whether the server has sent bookmarks in this epoch.
    bookmarks: bool,
    /// Consecutive watches that were silent.
    silences: u32,
    /// Consecutive watches that opened, delivered nothing and broke.
    breaks: u32,
    synced: bool,
    in_trouble: bool,
    /// Whether the last watch was silent. To be open is no sign then that the next one works.
    was_silent: bool,
    unreadable: u64,
}

impl Machine {
    pub(super) fn new(rng: StdRng, list_again_after: Option<Duration>) -> Self {
        Self {
            phase: Phase::Idle,
            rng,
            failures: 0,
            last_serial: Serial::default(),
            epoch: Epoch::default(),
            list_again_after,
            last_listed: Tick::default(),
            bookmarks: false,
            silences: 0,
            breaks: 0,
            synced: false,
            in_trouble: false,
            was_silent: false,
            unreadable: 0,
        }
    }

    /// Performs one step. Every combination of state and event is covered; those that do not belong
    /// together change nothing.
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
            (phase, Event::ServerIsBack { after }) => self.server_is_back(phase, after, now, out),

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
                self.suspect_version(&watching, why.kind, now);
                self.over(why, Some(watching.from.clone()), Some(&watching), now, out)
            }
            (Phase::Watching(watching), Event::Alarm { timer }) if timer == watching.timer => {
                self.silence(watching, now, out)
            }

            (Phase::Waiting { timer, next, .. }, Event::Alarm { timer: rung }) if rung == timer => {
                self.resume(next, out)
            }

            // The remaining events are a repeated start, or outdated answers and alarms.
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

    /// A new epoch (spec S-13): a watch of an earlier one is abandoned. A list in flight may belong
    /// to either epoch; the store's verdict decides.
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
            Phase::Waiting {
                timer,
                next,
                not_before,
            } => Phase::Waiting {
                timer,
                next: next.filter(|from| from.epoch >= newest),
                not_before,
            },
            phase => phase,
        }
    }

    /// The end of an outage ends the backoff (spec W-14). A watch that was opened before the outage
    /// and has shown nothing since may be on a dead connection, and so may be one that is being
    /// opened: both are opened again. A list goes on, because its own page may have been the
    /// answer.
    fn server_is_back(
        &mut self,
        phase: Phase,
        after: Duration,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        self.failures = 0;
        match phase {
            Phase::Waiting {
                next, not_before, ..
            } if now < not_before => Phase::Waiting {
                timer: self.arm(now.until(not_before), out),
                next,
                not_before,
            },
            Phase::Waiting { next, .. } => self.resume(next, out),
            Phase::Opening { from, .. } => {
                out.push(Effect::Cut);
                self.watch(from, out)
            }
            Phase::Watching(watching) if now.since(watching.last_line) >= after => {
                out.push(Effect::Cut);
                out.push(Effect::Report(Report::Again {
                    error: Arc::from("the server was out of reach, and the watch showed nothing"),
                    from: Some(watching.from.version.clone()),
                    wait: Duration::ZERO,
                }));
                self.watch(watching.from, out)
            }
            phase @ (Phase::Idle | Phase::Listing { .. } | Phase::Watching(_) | Phase::Stopped) => {
                phase
            }
        }
    }

    fn resume(&mut self, next: Option<Point>, out: &mut Vec<Effect>) -> Phase {
        match next {
            Some(from) => self.watch(from, out),
            None => self.list(out),
        }
    }

    fn list(&mut self, out: &mut Vec<Effect>) -> Phase {
        let call = self.last_serial.raise();
        out.push(Effect::List { call });
        Phase::Listing { call }
    }

    fn listed(
        &mut self,
        outcome: Result<Listing, Trouble>,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        let list = match outcome {
            Ok(list) => list,
            Err(why) => return self.over(why, None, None, now, out),
        };
        // The news of the new epoch may have arrived before the verdict.
        if !list.accepted || list.epoch < self.epoch {
            let why = Trouble {
                kind: TroubleKind::Outdated,
                error: Arc::from("the list was asked for in an older history"),
                retry_after: None,
            };
            return self.over(why, None, None, now, out);
        }
        if list.epoch > self.epoch {
            self.epoch = list.epoch;
            self.bookmarks = false;
        }
        self.last_listed = now;
        self.silences = 0;
        self.breaks = 0;
        out.push(Effect::Report(Report::Synced {
            first: !self.synced,
            objects: list.objects,
        }));
        self.synced = true;
        let from = Point {
            version: list.version,
            epoch: list.epoch,
        };
        self.watch(from, out)
    }

    fn watch(&mut self, from: Point, out: &mut Vec<Effect>) -> Phase {
        let call = self.last_serial.raise();
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
        let longest = self.longest_silence(timeout);
        let first_look = match self.in_trouble && !self.was_silent {
            true => longest.min(WORKS_AFTER),
            false => longest,
        };
        Phase::Watching(Watching {
            call,
            from,
            timeout,
            opened: now,
            last_line: now,
            received: Received::Nothing,
            timer: self.arm(first_look, out),
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
            Line::Seen(object) => (object.version().cloned(), object.news(false, epoch)),
            Line::Deleted(object) => (object.version().cloned(), object.news(true, epoch)),
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
        self.report_that_it_works(out);
        let ignored = matches!(news, News::Deleted { .. }) && planted::is(Planted::DeletedIgnored);
        if !ignored {
            out.push(Effect::Tell(news));
        }
        Phase::Watching(watching)
    }

    fn report_that_it_works(&mut self, out: &mut Vec<Effect>) {
        if std::mem::take(&mut self.in_trouble) {
            out.push(Effect::Report(Report::Recovered));
        }
    }

    fn arm(&mut self, after: Duration, out: &mut Vec<Effect>) -> Serial {
        let timer = self.last_serial.raise();
        out.push(Effect::Arm { timer, after });
        timer
    }
}

#[cfg(test)]
mod driven;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
