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
use crate::number;
use crate::runs::{on_all_cores, run, run_untraced, to_stderr};
use crate::shrink::{rule, shrink};
use crate::trace;

/// Every fault has to be found within this many seeds.
const MOST_SEEDS: u64 = 1_000;

/// A change of the world shifts what a seed does, so this many seeds are tried, starting with the listed one.
const NEARBY: u64 = 40;

const TABLE: &str = include_str!("planted.md");

/// The seed that finds a fault, and the violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    seed: u64,
    rule: String,
}

/// The first of these seeds that finds a fault. With `surely`, the same seed must pass without the fault.
fn find(fault: Planted, mut seeds: Range<u64>, surely: bool) -> Option<Found> {
    seeds.find_map(|seed| {
        let case = Case::with(Some(fault), seed);
        let violation = run_untraced(&case).verdict.err()?;
        let without = Case {
            planted: None,
            ..case
        };
        let found = !surely || run_untraced(&without).verdict.is_ok();
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
    surely: bool,
) -> BTreeMap<Planted, Option<Found>> {
    let all = Mutex::new(BTreeMap::new());
    on_all_cores(0..Planted::ALL.len() as u64, |number| {
        let fault = Planted::ALL[number as usize];
        let found = find(fault, seeds(fault), surely);
        if env::var("BOATSWAIN_SIM_PLANTED").is_ok() {
            to_stderr(&format!("{fault:?}: {found:?}"));
        }
        all.lock().unwrap().insert(fault, found);
        true
    });
    all.into_inner().unwrap()
}

fn make_table_anew() {
    let most = number("BOATSWAIN_SIM_SEEDS").unwrap_or(MOST_SEEDS);
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
    trace::note_panics();
    trace::log_by_thread();
    if env::var("BOATSWAIN_SIM_PLANTED").is_ok_and(|which| which == "all") {
        return make_table_anew();
    }
    let table = table();
    let missing: Vec<_> = Planted::ALL
        .iter()
        .filter(|fault| !table.contains_key(fault))
        .collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
    assert!(table.values().all(|found| found.seed <= MOST_SEEDS));
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
        "not found any more near the seeds of planted.md: {missed:?}; make it anew, as the head of planted.rs says"
    );
}

// spec: I-7
#[test]
fn sim_a_planted_fault_is_shrunk_to_few_steps_and_shows_again() {
    trace::note_panics();
    trace::log_by_thread();
    let fault = Planted::DeleteWithoutUid;
    let seed = find(fault, 1..MOST_SEEDS, true).unwrap().seed;
    let case = Case::with(Some(fault), seed);
    let violation = run(&case).verdict.unwrap_err();
    let shortest = shrink(&case, &violation, |case| run_untraced(case).verdict.err());
    assert!(
        shortest.places().len() <= 2,
        "{shortest} of {} steps",
        case.places().len()
    );
    let (one, other) = (run(&shortest), run(&shortest));
    assert_eq!(rule(&one.verdict.clone().unwrap_err()), rule(&violation));
    assert_eq!(one.verdict, other.verdict);
    assert_eq!(one.trace, other.trace);
}
