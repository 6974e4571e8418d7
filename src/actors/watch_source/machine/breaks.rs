//! How a list or a watch ends, and when the next one begins (spec W-2, W-3).

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::values::{Effect, Report, Trouble, TroubleKind};
use super::{
    BREAKS_BEFORE_LIST, Machine, Phase, Point, Received, SILENCE_AFTER_TIMEOUT,
    SILENCE_WITH_BOOKMARKS, SILENCES_BEFORE_LIST, Watching,
};
use crate::kubernetes::backoff::{LONGEST, WATCH};
use crate::model::Tick;
use crate::planted::{self, Planted};

impl Machine {
    /// The timer is not re-armed for each line, so it may ring too early.
    pub(super) fn silence(
        &mut self,
        mut watching: Watching,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        let longest = self.longest_silence(watching.timeout);
        let silence = now.since(watching.last_line);
        if silence < longest {
            if !self.was_silent {
                self.report_that_it_works(out);
            }
            watching.timer = self.arm(longest.saturating_sub(silence), out);
            return Phase::Watching(watching);
        }
        out.push(Effect::Cut);
        self.suspect_version(&watching, TroubleKind::Silent, now);
        let why = Trouble {
            kind: TroubleKind::Silent,
            error: Arc::from(format!("nothing came for {} s", silence.as_secs())),
            retry_after: None,
        };
        self.over(why, Some(watching.from.clone()), Some(&watching), now, out)
    }

    /// Counts evidence that the version of the watch is invalid.
    pub(super) fn suspect_version(&mut self, watching: &Watching, kind: TroubleKind, now: Tick) {
        let lived = now.since(watching.opened);
        match kind {
            TroubleKind::Silent => self.silences += 1,
            // Without bookmarks the server ends the watch before the silence is too long.
            TroubleKind::Ended
                if watching.received == Received::Nothing
                    && lived + SILENCE_AFTER_TIMEOUT >= watching.timeout =>
            {
                self.silences += 1;
            }
            TroubleKind::Broke if watching.received != Received::Readable => self.breaks += 1,
            TroubleKind::Ended
            | TroubleKind::Broke
            | TroubleKind::Expired
            | TroubleKind::Outdated => {}
        }
    }

    pub(super) fn longest_silence(&self, timeout: Duration) -> Duration {
        if self.bookmarks {
            SILENCE_WITH_BOOKMARKS
        } else {
            timeout + SILENCE_AFTER_TIMEOUT
        }
    }

    /// Ends a phase; the next one starts after the backoff (spec W-2). For a watch the backoff
    /// counts from its opening: a watch that lasted for minutes is resumed at once, one that ended
    /// immediately is not.
    pub(super) fn over(
        &mut self,
        why: Trouble,
        resume: Option<Point>,
        watched: Option<&Watching>,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        if why.kind == TroubleKind::Expired && planted::is(Planted::WatchLeftClosed) {
            return Phase::Stopped;
        }
        self.failures = self.failures.saturating_add(1);
        self.was_silent = why.kind == TroubleKind::Silent;
        let backoff = WATCH.jittered(self.failures, self.rng.random());
        let lived = watched.map_or(Duration::ZERO, |watching| now.since(watching.opened));
        let asked_for = why.retry_after.unwrap_or_default().min(LONGEST);
        let wait = backoff.saturating_sub(lived).max(asked_for);
        let of_no_use = why.kind == TroubleKind::Expired
            || self.silences >= SILENCES_BEFORE_LIST
            || self.breaks >= BREAKS_BEFORE_LIST
            || (self.list_again_after).is_some_and(|after| now.since(self.last_listed) >= after);
        let next = resume.filter(|from| !of_no_use && from.epoch >= self.epoch);

        let from = next.as_ref().map(|from| from.version.clone());
        let showed = watched.is_some_and(|watching| watching.received == Received::Readable);
        let in_good_order = match why.kind {
            TroubleKind::Outdated => true,
            TroubleKind::Ended => wait.is_zero(),
            TroubleKind::Broke | TroubleKind::Silent | TroubleKind::Expired => false,
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
            not_before: now + asked_for,
        }
    }
}
