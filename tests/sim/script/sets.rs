//! Draws the scripts of runs in which sets make the executors' pods (spec A-80). They have a random stream of their
//! own, so that the other runs do not change.

use std::time::Duration;

use boatswain::config::{Auth, Config, Strategy};
use boatswain::model::AppId;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::mix::{
    Draw, Mix, application_ends, crash_loops, deletes, executor_ends, kills, nodes, outages,
    quotas, records, servers, startup_faults, successors, watches,
};
use super::size::Size;
use super::{
    Fault, Script, Step, agents, clocks, commands, credentials, ms, refusals, settings, tokens,
};
use crate::node::{PodFault, StartupFault};

/// Separates the random stream of [`of`] from the others.
const SETS: u64 = 0x7365_7473;

/// Separates the random stream of the failure budgets from the others.
const BUDGETS: u64 = 0x6275_6467_6574;

/// Separates the random stream of the sessions from the others.
const SESSIONS: u64 = 0x7365_7373_696f_6e73;

/// Separates the random stream of the interruptions between executors and drivers from the others.
const PARTITIONS: u64 = 0x7061_7274_6974_696f;

/// Separates the random stream of the orphaned and released pods from the others.
const ORPHANS: u64 = 0x6f72_7068_616e_7321;

/// Percentage of seeds with sessions.
const PERCENT_WITH_SESSIONS: u32 = 25;

/// Most executors at first, because a StatefulSet replaces its pods one by one.
const MAX_EXECUTORS: u32 = 20;

pub fn of(seed: u64) -> Script {
    let rng = &mut StdRng::seed_from_u64(seed ^ SETS);
    let mut size = Size::draw(rng);
    size.executors = size.executors.min(MAX_EXECUTORS);
    let mut config = settings::config(rng, &size);
    adapt_to_sets(rng, &mut config);
    crate::claims::draw_of_sets(seed, &mut config);
    let more = &mut StdRng::seed_from_u64(seed ^ BUDGETS);
    settings::budget(more, 0.15, &mut config);
    settings::default_budget(seed, &mut config);
    let pace = settings::pace(rng);
    let skew = clocks::skew(rng);
    let mix = mix(rng);
    let mut steps = super::faults(rng, &size, &mix);
    steps.extend(super::network_steps(rng, &size));
    enable_sessions(seed, &mut config);
    let (of_sessions, wrong) = session_steps(seed, &mut config, size.faults_end);
    let skew = skew.max(wrong);
    let (driver_timeout, absences) = agents::draw(seed ^ SETS, &config, size.faults_end);
    steps.extend(absences);
    steps.extend(of_sessions);
    let (clock_steps, mut more) = clocks::steps(seed ^ SETS, size.faults_end);
    more.extend(orphan_steps(seed, size.faults_end));
    more.extend(commands::steps(seed ^ SETS, size.faults_end));
    more.extend(credentials::steps(seed ^ SETS, size.faults_end));
    more.extend(refusals::steps(seed ^ SETS, size.faults_end));
    Script {
        seed,
        config,
        pace,
        steps: super::in_order(steps, more),
        faults_end: size.faults_end,
        skew,
        clock_steps,
        driver_timeout,
    }
}

/// In half of the seeds, some sets are deleted without their pods, and some pods lose a label that their set selects.
fn orphan_steps(seed: u64, faults_end: Duration) -> Vec<Step> {
    let rng = &mut StdRng::seed_from_u64(seed ^ ORPHANS);
    let count = match rng.random_bool(0.5) {
        true => rng.random_range(1..5),
        false => 0,
    };
    let mut step = || {
        let at = faults_end.mul_f64(rng.random());
        let pick = rng.random();
        let key = match rng.random_range(0..6) {
            0 => Some("boatswain.dev/app-id"),
            1 => Some("boatswain.dev/profile"),
            2 => Some("boatswain.dev/role"),
            _ => None,
        };
        let fault = match key {
            Some(key) => Fault::Relabel {
                pick,
                key,
                value: None,
            },
            None => Fault::DeleteSet { pick, orphan: true },
        };
        Step { at, fault }
    };
    (0..count).map(|_| step()).collect()
}

/// Lets the executors of some seeds register, with seldom heartbeats, because each one costs time.
fn enable_sessions(seed: u64, config: &mut Config) {
    let rng = &mut StdRng::seed_from_u64(seed ^ SESSIONS);
    if !rng.random_ratio(PERCENT_WITH_SESSIONS, 100) {
        return;
    }
    settings::enable_sessions(rng, config);
    let sessions = &mut config.backend.sessions;
    sessions.auth = Some(Auth::Kubernetes);
    sessions.heartbeat_interval = ms(rng, 15_000..60_000);
    sessions.heartbeat_timeout = 4 * sessions.heartbeat_interval + ms(rng, 0..60_000);
}

/// Rotations of the keys that sign the executors' tokens, and interruptions of their path to the driver, before the
/// faults end; and how wrong the drivers' wall clocks are at least.
fn session_steps(seed: u64, config: &mut Config, faults_end: Duration) -> (Vec<Step>, Duration) {
    let (mut steps, wrong) = tokens::draw(seed ^ SETS, config, faults_end);
    if config.backend.sessions.listen.is_some() {
        let rng = &mut StdRng::seed_from_u64(seed ^ PARTITIONS);
        let partitions = (0..rng.random_range(0..3)).map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::Partition {
                time: ms(rng, 1_000..300_000),
            },
        });
        steps.extend(partitions);
    }
    (steps, wrong)
}

/// Disables the sessions of other runs and fixes the application's id: sets left by an application of another id would be in the way.
fn adapt_to_sets(rng: &mut StdRng, config: &mut Config) {
    let default = Config::default();
    config.backend = default.backend;
    config.allocation.registration_timeout = default.allocation.registration_timeout;
    config.app.id = Some(AppId::from("sim-1"));
    config.allocation.strategy = match rng.random_bool(0.5) {
        true => Strategy::StatefulSet,
        false => Strategy::Deployment,
    };
    if rng.random_bool(0.12) {
        let properties = &mut config.app.properties;
        properties.insert("engine.mode".to_owned(), "batch".to_owned());
    }
}

/// Selects the faults of a run other than network faults.
fn mix(rng: &mut StdRng) -> Mix {
    let all: [(u32, Draw); 20] = [
        (60, watches),
        (20, |_| Fault::Backup),
        (15, servers),
        (20, outages),
        (70, |rng| for_restarted_pods(executor_ends(rng))),
        (40, crash_loops),
        (30, |rng| for_restarted_pods(startup_faults(rng))),
        (20, nodes),
        (20, quotas),
        (60, deletes),
        (40, relabels),
        (12, records),
        (60, kills),
        (40, successors),
        (10, application_ends),
        (30, |rng| Fault::Pause {
            time: ms(rng, 100..90_000),
        }),
        (60, |rng| Fault::Target {
            pick: rng.random(),
            target: rng.random_range(0..10),
        }),
        (40, |rng| Fault::ScaleSet {
            pick: rng.random(),
            replicas: rng.random_range(0..12),
        }),
        (25, |rng| Fault::DeleteSet {
            pick: rng.random(),
            orphan: false,
        }),
        (35, |rng| Fault::ChangeImage {
            pick: rng.random(),
            image: rng.random_range(0..3),
        }),
    ];
    Mix::of(rng, 0, &all)
}

/// Replaces faults that a pod whose containers are restarted cannot have.
fn for_restarted_pods(fault: Fault) -> Fault {
    match fault {
        Fault::EndExecutors { pick, count, how } => Fault::EndExecutors {
            pick,
            count,
            how: match how {
                PodFault::Sidecar(code) => PodFault::Exit(code),
                how => how,
            },
        },
        Fault::Startup { pick, what, time } => Fault::Startup {
            pick,
            what: match what {
                StartupFault::Unstartable => StartupFault::NoImage,
                what => what,
            },
            time,
        },
        fault => fault,
    }
}

/// Labels of the sets' selectors are changed by [`orphan_steps`].
fn relabels(rng: &mut StdRng) -> Fault {
    let pick = rng.random();
    let (key, value) = match rng.random_range(0..6) {
        0 | 1 => ("boatswain.dev/executor-id", None),
        2 => ("boatswain.dev/executor-id", Some("4711")),
        3 => ("boatswain.dev/executor-id", Some("0x7")),
        4 => ("boatswain.dev/incarnation", None),
        _ => return Fault::DuplicateId { pick },
    };
    Fault::Relabel { pick, key, value }
}
