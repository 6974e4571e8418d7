//! Checks that a driver's memory is bounded by its fleet, not by time or by the number of events (spec I-8).

use std::fs;
use std::time::Duration;

use boatswain::kubernetes::record::MOST_ENDS;
use tokio::time::Instant;

use crate::checks::Verdict;
use crate::drivers::Driver;
use crate::node::NODE_NAMES;
use crate::objects::{NAMESPACE, text};
use crate::runs::to_stderr;
use crate::script::Size;
use crate::trace::trace_line;
use crate::world::World;

/// Interval of the check while faults are injected.
const CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Most bytes of a record apart from its entries for executors.
const MAX_RECORD: usize = 1_000;

/// Most bytes of a record for one executor, whose id is in one of the intervals of ended or bound ids.
const MAX_RECORD_PER_EXECUTOR: usize = 32;

/// Most bytes of a record for the last ends: three texts of at most 256 bytes each, and their keys.
const MAX_ENDS: usize = MOST_ENDS * 1_000;

/// Most bytes of a record for counted failures, in total and by node, in a run of random size.
const MAX_FAILURES: usize = 4_000;

/// The same for a run of any length: failures are merged into a fixed number of groups for each window.
const MAX_FAILURES_LONG: usize = (1 + NODE_NAMES.len()) * 512 * 24;

impl World {
    /// Measures the memory of the youngest driver from time to time, and prints it in runs that last for hours.
    // spec: I-8, S-14, S-23
    pub async fn check_memory(&mut self) -> Verdict {
        if self.memory_checked_at.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.memory_checked_at = Instant::now();
        let handle = (self.drivers.borrow().iter().rev())
            .find(|driver: &&Driver| driver.is_alive() && !driver.paused)
            .map(|driver| (driver.number, driver.handle.clone()));
        let Some((number, handle)) = handle else {
            return Ok(());
        };
        let Some((measures, ledger)) = handle.measure().await.zip(self.checks.last_ledger(number))
        else {
            return Ok(());
        };
        let (record, ends, failures) = self.record_size().await;
        trace_line!("d{number} remembers {measures:?}, its record has {record} bytes");
        if Size::is_long() {
            let hours = self.began.elapsed().as_secs_f64() / 3_600.0;
            to_stderr(&format!(
                "seed {}, {hours:.1} hours: {} executors, {} intervals of ended ids, {measures:?}, the record has \
                 {record} bytes; all of this process {} MiB",
                self.script.seed,
                ledger.entries.len(),
                ledger.ended.interval_count(),
                resident_mib(),
            ));
        }
        let fleet = ledger.entries.len() + ledger.orphans.len();
        let intervals = ledger.ended.interval_count();
        // An id whose pod died before it was assigned ends only when no pod can receive it any more.
        let unassigned_intervals = match self.script.is_of_sets() {
            true => self.most_executors,
            false => 0,
        };
        let max_record = MAX_RECORD + MAX_RECORD_PER_EXECUTOR * self.most_executors;
        let max_failures = match Size::is_drawn() {
            true => MAX_FAILURES,
            false => MAX_FAILURES_LONG,
        };
        if intervals > fleet + unassigned_intervals + 1
            || record > max_record
            || ends > MAX_ENDS
            || failures > max_failures
        {
            return Err(format!(
                "I-8: with {fleet} executors, {} at most, d{number} remembers {measures:?} and {intervals} intervals \
                 of ended ids, and its record has {record} bytes",
                self.most_executors
            ));
        }
        Ok(())
    }

    /// Size in bytes of the record without its ends and failure data, of the ends, and of the failure data.
    async fn record_size(&self) -> (usize, usize, usize) {
        let state = self.cluster.state().await;
        let record = (state.config_maps(NAMESPACE))
            .find(|map| text(map, "/metadata/name").ends_with("-app"));
        let size = |at| {
            let part = record.and_then(|map| map.pointer(at));
            part.map_or(0, |part| part.to_string().len())
        };
        let ends = size("/data/ends");
        let failures = size("/data/failures") + size("/data/failures-counted");
        let rest = size("/data").saturating_sub(ends + failures);
        (rest, ends, failures)
    }
}

/// Resident memory of this process in MiB; 0 if it cannot be read.
fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}
