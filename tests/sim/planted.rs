//! Mutation test of the simulator: it must find every fault that is planted in the driver, one at a time.
//!
//! `planted.md` lists the seed that finds each fault, and the rule that it violates. After a change of the simulated
//! world, regenerate it: `BOATSWAIN_SIM_PLANTED=all cargo test --release --test sim planted -- --nocapture`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::sync::Mutex;

use boatswain::planted::Planted;

use crate::case::{Case, planted};
use crate::checks::Verdict;
use crate::drains;
use crate::early_ends;
use crate::lease;
use crate::neighbours;
use crate::number;
use crate::pools;
use crate::runs::{on_all_cores, run, run_untraced, to_stderr};
use crate::shrink::{rule, shrink};
use crate::sizes;
use crate::spares;
use crate::trace;

/// Every fault has to be found within this many seeds.
const MAX_SEEDS: u64 = 1_000;

/// A change of the world shifts what a seed does, so this many seeds are tried, starting with the listed one.
const NEARBY: u64 = 40;

const TABLE: &str = include_str!("planted.md");

/// The seed that finds a fault, and the violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    seed: u64,
    rule: String,
}

/// Runs a seed of a world that is no [`Case`], with a planted fault, and returns the trace too.
type OtherWorld = fn(Option<Planted>, u64, bool) -> (Verdict, String);

/// The world that can reveal this fault, if the scripts cannot.
fn other_world(fault: Planted) -> Option<OtherWorld> {
    match fault {
        Planted::LeaseNotChecked => Some(lease::run),
        Planted::DrainEnds | Planted::SuspensionEnds | Planted::DeletionHandsOver => {
            Some(drains::run)
        }
        Planted::NameUnchecked | Planted::ProofUnchecked | Planted::TargetUnbounded => {
            Some(neighbours::run)
        }
        Planted::EarlyEndsUnweighed | Planted::CrashLoopIgnored => Some(early_ends::run),
        Planted::PoolsIgnored | Planted::PoolsReturnUntried => Some(pools::run),
        Planted::OutgrownCounted | Planted::GrowthForgotten | Planted::ResizesForgotten => {
            Some(sizes::run)
        }
        Planted::SparesKept | Planted::PromotionsForgotten | Planted::SparesBegin => {
            Some(spares::run)
        }
        _ => None,
    }
}

/// The first of these seeds that finds a fault. With `confirm`, the same seed must pass without the fault.
fn find(fault: Planted, mut seeds: Range<u64>, confirm: bool) -> Option<Found> {
    if let Some(world) = other_world(fault) {
        return seeds.find_map(|seed| {
            let violation = world(Some(fault), seed, false).0.err()?;
            let found = !confirm || world(None, seed, false).0.is_ok();
            found.then(|| Found {
                seed,
                rule: rule(&violation).to_owned(),
            })
        });
    }
    seeds.find_map(|seed| {
        let case = Case::with_fault(Some(fault), seed);
        let violation = run_untraced(&case).verdict.err()?;
        let without = Case {
            planted: None,
            ..case
        };
        let found = !confirm || run_untraced(&without).verdict.is_ok();
        found.then(|| Found {
            seed,
            rule: rule(&violation).to_owned(),
        })
    })
}

/// The table in `planted.md`.
fn table() -> BTreeMap<Planted, Found> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim);
    (TABLE.lines().skip(2))
        .map(|line| {
            let [fault, seed, rule, _] = cells(line).collect::<Vec<_>>()[..] else {
                panic!("not four cells: {line}");
            };
            let found = Found {
                seed: seed.parse().unwrap(),
                rule: rule.to_owned(),
            };
            (planted(fault), found)
        })
        .collect()
}

/// Looks for each fault in the seeds given for it.
fn find_all(
    seeds: impl Fn(Planted) -> Range<u64> + Sync,
    confirm: bool,
) -> BTreeMap<Planted, Option<Found>> {
    let all = Mutex::new(BTreeMap::new());
    on_all_cores(0..Planted::ALL.len() as u64, |number| {
        let fault = Planted::ALL[number as usize];
        let found = find(fault, seeds(fault), confirm);
        if env::var("BOATSWAIN_SIM_PLANTED").is_ok() {
            to_stderr(&format!("{fault:?}: {found:?}"));
        }
        all.lock().unwrap().insert(fault, found);
        true
    });
    all.into_inner().unwrap()
}

fn regenerate_table() {
    let most = number("BOATSWAIN_SIM_SEEDS").unwrap_or(MAX_SEEDS);
    let found = find_all(|_| 1..1 + most, true);
    let mut lines = TABLE.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    for (fault, found) in &found {
        match found {
            Some(Found { seed, rule }) => {
                let what = fault.what();
                lines.push(format!("| {fault:?} | {seed} | {rule} | {what} |"));
            }
            None => to_stderr(&format!("{fault:?} is not found within {most} seeds")),
        }
    }
    let table = lines.join("\n") + "\n";
    println!("{table}");
    fs::write(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sim/planted.md"),
        table,
    )
    .unwrap();
    assert!(found.values().all(Option::is_some));
}

// spec: I-1, I-2, I-3, I-4, I-5, I-6, I-7, I-9, I-10, I-12
#[test]
fn sim_planted_faults_are_found() {
    trace::capture_panics();
    trace::install_log();
    if env::var("BOATSWAIN_SIM_PLANTED").is_ok_and(|which| which == "all") {
        return regenerate_table();
    }
    let table = table();
    let missing: Vec<_> = Planted::ALL
        .iter()
        .filter(|fault| !table.contains_key(fault))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
    assert!(table.values().all(|found| found.seed <= MAX_SEEDS));
    let nearby = |fault| {
        let seed = table[&fault].seed;
        seed..seed + NEARBY
    };
    let found = find_all(nearby, false);
    let missed: Vec<_> = found
        .iter()
        .filter(|(_, found)| found.is_none())
        .map(|(fault, _)| fault)
        .collect();
    assert!(
        missed.is_empty(),
        "no longer found near the seeds of planted.md: {missed:?}; regenerate it, see the head of planted.rs"
    );
}

// spec: I-7
#[test]
fn sim_a_planted_fault_is_shrunk_to_few_steps_and_shows_again() {
    trace::capture_panics();
    trace::install_log();
    let fault = Planted::DeleteWithoutUid;
    let seed = find(fault, 1..MAX_SEEDS, true).unwrap().seed;
    let case = Case::with_fault(Some(fault), seed);
    let violation = run(&case).verdict.unwrap_err();
    let shortest = shrink(&case, &violation, |case| run_untraced(case).verdict.err());
    assert!(
        shortest.step_indices().len() <= 2,
        "{shortest} of {} steps",
        case.step_indices().len()
    );
    let (one, other) = (run(&shortest), run(&shortest));
    assert_eq!(rule(&one.verdict.clone().unwrap_err()), rule(&violation));
    assert_eq!(one.verdict, other.verdict);
    assert_eq!(one.trace, other.trace);
}
