//! Draws the faults of a run other than network faults.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::size::Size;
use super::{Fault, ForgedLabels, RecordEdit, Recovery, ms};
use crate::node::{PodFault, StartupFault};
use crate::webhook::Webhook;

/// Draws one fault of a kind.
pub(super) type Draw = fn(&mut StdRng) -> Fault;

/// The kinds of faults in a run. Most runs have only a few kinds, which shows the effect of each.
pub struct Mix {
    draws: Vec<Draw>,
    /// The highest target drawn for a profile.
    max_target: u32,
}

impl Mix {
    /// Selects from all kinds.
    pub fn draw(rng: &mut StdRng, size: &Size) -> Self {
        let all: [(u32, Draw); 20] = [
            (60, watches),
            (30, |_| Fault::Backup),
            (20, servers),
            (20, outages),
            (70, executor_ends),
            (30, crash_loops),
            (30, startup_faults),
            (20, nodes),
            (15, quotas),
            (15, webhooks),
            (60, deletes),
            (40, relabels),
            (40, foreign_pods),
            (12, records),
            (60, kills),
            (40, successors),
            (10, application_ends),
            (20, |rng| Fault::Partition {
                time: time(rng, 1_000, 400_000),
            }),
            (30, |rng| Fault::Pause {
                time: time(rng, 100, 90_000),
            }),
            (40, |rng| Fault::Target {
                pick: rng.random(),
                target: rng.random_range(0..10),
            }),
        ];
        Self::of(rng, size.executors / 2, &all)
    }

    /// Selects from these kinds, each with its probability in percent.
    pub(super) fn of(rng: &mut StdRng, max_target: u32, all: &[(u32, Draw)]) -> Self {
        let mut draws: Vec<_> = (all.iter())
            .filter(|(share, _)| rng.random_ratio(*share, 100))
            .map(|(_, draw)| *draw)
            .collect();
        if draws.is_empty() {
            draws.push(executor_ends);
        }
        Self { draws, max_target }
    }

    pub fn draw_one(&self, rng: &mut StdRng) -> Fault {
        let draw = self.draws[rng.random_range(0..self.draws.len())];
        match draw(rng) {
            Fault::Target { pick, .. } if self.max_target > 10 => Fault::Target {
                pick,
                target: rng.random_range(0..self.max_target),
            },
            fault => fault,
        }
    }
}

/// Mostly short, sometimes up to `most`, and in a tenth of the cases minutes; in milliseconds.
fn time(rng: &mut StdRng, least: u64, most: u64) -> Duration {
    match rng.random_range(0..10) {
        0 => ms(rng, 60_000..300_000),
        1..=3 => ms(rng, least..most),
        _ => ms(rng, least..most / 4),
    }
}

pub(super) fn watches(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..5) {
        0 => Fault::SilenceWatches,
        1 => Fault::BreakWatches,
        2 => Fault::Compact {
            cut: rng.random_bool(0.7),
        },
        _ => Fault::CutWatches,
    }
}

pub(super) fn servers(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..4) {
        0 => Fault::Wipe,
        1 => Fault::Backup,
        _ => Fault::Restore,
    }
}

pub(super) fn outages(rng: &mut StdRng) -> Fault {
    Fault::Outage {
        silent: rng.random_bool(0.3),
        time: time(rng, 500, 90_000),
        recovery: match rng.random_range(0..10) {
            0..=5 => Recovery::Unchanged,
            6 | 7 => Recovery::Compacted,
            8 => Recovery::Restored,
            _ => Recovery::Wiped,
        },
    }
}

pub(super) fn executor_ends(rng: &mut StdRng) -> Fault {
    let how = match rng.random_range(0..14) {
        0..=5 => PodFault::Exit([0, 1, 3, 137][rng.random_range(0..4)]),
        6 => PodFault::OutOfMemory,
        7 => PodFault::Evicted,
        8 => PodFault::Preempted,
        9 => PodFault::TaintManager,
        10 => PodFault::NodeShutdown,
        11 => PodFault::NodeLost,
        12 => PodFault::Sidecar(rng.random_range(0..2)),
        _ => PodFault::PhaseUnknown,
    };
    Fault::EndExecutors {
        pick: rng.random(),
        count: rng.random_range(1..4),
        how,
    }
}

pub(super) fn crash_loops(rng: &mut StdRng) -> Fault {
    Fault::CrashLoop {
        pick: rng.random(),
        time: ms(rng, 1_000..60_000),
        code: rng.random_range(0..3),
    }
}

pub(super) fn startup_faults(rng: &mut StdRng) -> Fault {
    let all = [
        StartupFault::Unschedulable,
        StartupFault::NoImage,
        StartupFault::BadConfig,
        StartupFault::Rejected,
        StartupFault::Slow,
        StartupFault::Unstartable,
    ];
    Fault::Startup {
        pick: rng.random(),
        what: all[rng.random_range(0..all.len())],
        time: time(rng, 1_000, 60_000),
    }
}

pub(super) fn nodes(rng: &mut StdRng) -> Fault {
    Fault::NodeDown {
        pick: rng.random(),
        time: time(rng, 1_000, 60_000),
        evicts: rng.random_bool(0.5),
    }
}

pub(super) fn quotas(rng: &mut StdRng) -> Fault {
    let pods = rng.random_range(0..15);
    Fault::Quota {
        pods,
        claims: pods,
        time: time(rng, 1_000, 60_000),
    }
}

fn webhooks(rng: &mut StdRng) -> Fault {
    let all = [
        Webhook::Strip("boatswain.dev/app-id"),
        Webhook::Strip("boatswain.dev/role"),
        Webhook::Strip("boatswain.dev/executor-id"),
        Webhook::Strip("boatswain.dev/profile"),
        Webhook::Strip("boatswain.dev/incarnation"),
        Webhook::StripAll,
        Webhook::Inactive,
        Webhook::Gate,
        Webhook::Sidecar,
        Webhook::Annotate,
    ];
    Fault::Webhook {
        what: all[rng.random_range(0..all.len())],
        time: time(rng, 500, 30_000),
    }
}

pub(super) fn deletes(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..10) {
        0 | 1 => Fault::BlockDeletion { pick: rng.random() },
        2 | 3 => Fault::Finalizer {
            pick: rng.random(),
            delete: rng.random_bool(0.7),
            time: time(rng, 1_000, 120_000),
        },
        _ => Fault::Delete {
            pick: rng.random(),
            count: rng.random_range(1..4),
            grace: [None, None, Some(0), Some(1)][rng.random_range(0..4)],
        },
    }
}

fn relabels(rng: &mut StdRng) -> Fault {
    let (key, value) = [
        ("boatswain.dev/app-id", None),
        ("boatswain.dev/app-id", Some("another")),
        ("boatswain.dev/role", None),
        ("boatswain.dev/role", Some("driver")),
        ("boatswain.dev/executor-id", None),
        ("boatswain.dev/executor-id", Some("4711")),
        ("boatswain.dev/executor-id", Some("0x7")),
        ("boatswain.dev/inactive", Some("true")),
        ("boatswain.dev/inactive", Some("false")),
        ("boatswain.dev/profile", None),
        ("boatswain.dev/incarnation", None),
    ][rng.random_range(0..11)];
    Fault::Relabel {
        pick: rng.random(),
        key,
        value,
    }
}

fn foreign_pods(rng: &mut StdRng) -> Fault {
    let forged = [
        ForgedLabels::AnotherApplication,
        ForgedLabels::AnotherApplicationOurName,
        ForgedLabels::AnotherId,
        ForgedLabels::FutureId,
        ForgedLabels::FutureIncarnation,
        ForgedLabels::InvalidId,
        ForgedLabels::UnknownProfile,
    ];
    match rng.random_range(0..5) {
        0 => Fault::CopyPod { pick: rng.random() },
        1 => Fault::ReuseEndedId { pick: rng.random() },
        2 => Fault::OccupyName {
            ahead: rng.random_range(0..4),
        },
        _ => Fault::ForgePod {
            pick: rng.random(),
            labels: forged[rng.random_range(0..forged.len())],
        },
    }
}

pub(super) fn records(rng: &mut StdRng) -> Fault {
    let all = [
        RecordEdit::Delete,
        RecordEdit::Orphan,
        RecordEdit::RaiseIncarnation,
        RecordEdit::InvalidData,
        RecordEdit::RemoveData,
        RecordEdit::NewerFormat,
        RecordEdit::AnotherApplication,
        RecordEdit::AddLabel,
    ];
    Fault::EditRecord {
        what: all[rng.random_range(0..all.len())],
        time: ms(rng, 500..30_000),
    }
}

fn restart_delay(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..3) {
        0 => Duration::ZERO,
        1 => ms(rng, 0..3_000),
        _ => ms(rng, 0..60_000),
    }
}

pub(super) fn kills(rng: &mut StdRng) -> Fault {
    let restart_after = restart_delay(rng);
    match rng.random_range(0..4) {
        0 => Fault::Kill { restart_after },
        1 => Fault::KillAtPoll {
            polls: rng.random_range(0..200),
            restart_after,
        },
        _ => Fault::KillAtRequest {
            requests: rng.random_range(0..12),
            restart_after,
        },
    }
}

pub(super) fn successors(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..5) {
        0 | 1 => Fault::HandOver {
            restart_after: restart_delay(rng),
        },
        2 => Fault::Reconfigure { pick: rng.random() },
        _ => Fault::SecondDriver,
    }
}

pub(super) fn application_ends(rng: &mut StdRng) -> Fault {
    Fault::EndApplication {
        restart_after: restart_delay(rng),
    }
}
