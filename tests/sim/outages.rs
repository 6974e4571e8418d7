//! Checks after an outage that the driver's watch is open again soon: the driver finds out by itself that the server is
//! back (spec W-8).

use std::time::Duration;

use tokio::time::Instant;

use crate::checks::Verdict;
use crate::network::Outage;
use crate::script::{Fault, Recovery};
use crate::trace::trace_line;
use crate::world::World;

/// From the end of an outage until the watch is open.
const MAX_DELAY: Duration = Duration::from_secs(3);

/// A driver informs its callers of the ends of two outages after at least this long (spec W-8).
const REPORT_GAP: Duration = Duration::from_secs(15);

/// An outage may end before the probe that follows the driver's first failed call. Then it is none (spec W-8).
const UNNOTICED: Duration = Duration::from_millis(1_500);

/// The check of an outage that has ended.
#[derive(Debug, Clone, Copy)]
pub struct OutageCheck {
    ended: Instant,
    driver: usize,
}

impl World {
    /// An outage ends: the watch has to be open soon, unless this or another fault explains that it is not.
    pub fn expect_watch_after(&mut self, outage: Option<Outage>, recovery: Recovery) {
        let now = Instant::now();
        let before = self.outage_ended.replace(now);
        if recovery != Recovery::Unchanged {
            return;
        }
        let is_recent = |at: Instant| now - at < REPORT_GAP;
        // A driver that was paused, or whose token had expired, noticed the end of the last outage later.
        let opened = |driver: &usize| {
            let opened = self.network.shared().watch_opened.get(driver).copied();
            opened.is_some_and(|(at, _)| is_recent(at))
        };
        // During a silent outage calls fail only after their timeouts.
        let noticed = outage == Some(Outage::Refusing);
        let faultless = self.network.shared().is_faultless();
        if before.is_some_and(is_recent)
            || !noticed
            || !faultless
            || !self.script.config.watch.enabled
        {
            return;
        }
        let alone = self
            .drivers
            .borrow()
            .iter()
            .filter(|d| d.is_alive())
            .count()
            == 1;
        self.outage_check = self
            .youngest()
            .filter(|driver| alone && self.checks.last_ledger(*driver).is_some())
            .filter(|driver| self.network.shared().has_working_watch(*driver))
            .filter(|driver| !self.is_paused(*driver) && !opened(driver))
            // Until it makes a call, it notices nothing: the watch that ends may wait for its backoff.
            .filter(|driver| {
                let called = self.network.shared().called_in_outage.get(driver).copied();
                called.is_some_and(|first| now - first >= UNNOTICED)
            })
            .map(|driver| OutageCheck { ended: now, driver });
    }

    fn is_paused(&self, driver: usize) -> bool {
        (self.drivers.borrow().iter()).any(|one| one.number == driver && one.paused)
    }

    /// A fault is injected: it may keep the watch from being opened.
    pub fn excuse_watch(&mut self, fault: &Fault) {
        if !matches!(fault, Fault::EndOutage(_)) {
            self.outage_check = None;
        }
    }

    pub fn outage_check_due(&self) -> Option<Instant> {
        self.outage_check.map(|check| check.ended + MAX_DELAY)
    }

    // spec: W-14
    pub fn check_watch_after_outage(&mut self) -> Verdict {
        let due = self.outage_check_due();
        if due.is_none_or(|due| Instant::now() < due) {
            return Ok(());
        }
        let Some(OutageCheck { ended, driver }) = self.outage_check.take() else {
            return Ok(());
        };
        let opened = self.network.shared().watch_opened.get(&driver).copied();
        let opened = opened.map(|(at, _)| at);
        let runs = (self.drivers.borrow().iter())
            .any(|one| one.number == driver && one.is_alive() && !one.paused);
        if !runs || self.youngest() != Some(driver) || opened >= Some(ended) {
            trace_line!("   the watch of d{driver} is open again: {runs}");
            return Ok(());
        }
        Err(format!(
            "W-8: the watch of d{driver} was not opened within {MAX_DELAY:?} after an outage"
        ))
    }
}
