//! What the kernel knows of this process, by the names that Prometheus' own clients use (spec O-41).

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::whole;

/// Reads /proc, which does not block, when the metrics are shown. Where there is none, nothing is shown.
#[derive(Debug)]
pub(super) struct Process;

/// A part of /proc/self/stat. Times are in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    cpu: u64,
    /// Since the machine started.
    started: u64,
    resident_pages: u64,
}

/// The fields of /proc/self/stat, counted from the one after the program's name.
const USER: usize = 11;
const SYSTEM: usize = 12;
const STARTED: usize = 19;
const RESIDENT: usize = 21;

fn stat_in(text: &str) -> Option<Stat> {
    // The name may have blanks and parentheses.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        cpu: number(USER)? + number(SYSTEM)?,
        started: number(STARTED)?,
        resident_pages: number(RESIDENT)?,
    })
}

/// When the machine started, in seconds since 1970.
fn boot_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
    metric.encode(encoder)
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |path: &str| fs::read_to_string(path).ok();
        let stat = read("/proc/self/stat").and_then(|text| stat_in(&text));
        if let Some(stat) = stat {
            show(
                &mut encoder,
                "process_cpu_seconds",
                "CPU time of this process, in seconds",
                &ConstCounter::new(seconds(stat.cpu)),
            )?;
            show(
                &mut encoder,
                "process_resident_memory_bytes",
                "Resident memory of this process, in bytes",
                &ConstGauge::new(whole(stat.resident_pages * page_size() as u64)),
            )?;
            if let Some(boot) = read("/proc/stat").and_then(|text| boot_in(&text)) {
                show(
                    &mut encoder,
                    "process_start_time_seconds",
                    "When this process started, in seconds since 1970",
                    &ConstGauge::new(boot as f64 + seconds(stat.started)),
                )?;
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            show(
                &mut encoder,
                "process_open_fds",
                "Open file descriptors of this process",
                // One of them reads the directory.
                &ConstGauge::new(whole(open.count().saturating_sub(1))),
            )?;
        }
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        show(
            &mut encoder,
            "process_max_fds",
            "The most file descriptors that this process may have open",
            &ConstGauge::new(whole(most)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-41
    #[test]
    fn the_name_of_the_program_may_look_like_fields() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0 9 0 4321 1000 256 18446744073709551615";
        let stat = stat_in(&format!("77 (a) R 1 (b c) {fields}\n"));
        let expected = Stat {
            cpu: 100,
            started: 4321,
            resident_pages: 256,
        };
        assert_eq!(stat, Some(expected));
        assert_eq!(stat_in("77 (a) S 1"), None);
        assert_eq!(stat_in(""), None);
    }

    // spec: O-41
    #[test]
    fn the_start_of_the_machine_is_one_line_among_others() {
        assert_eq!(
            boot_in("cpu 1\nbtime 1767225600\nx 1\n"),
            Some(1_767_225_600)
        );
        assert_eq!(boot_in("cpu 1\n"), None);
    }
}
