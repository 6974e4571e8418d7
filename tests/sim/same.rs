//! Checks that the simulator is deterministic: the same seed gives byte-identical traces, also in another process with
//! other addresses and hash seeds.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::case::Case;
use crate::runs::run_with_log;
use crate::trace;

/// Names the folder to which a child process writes its traces.
const TRACES: &str = "BOATSWAIN_SIM_TRACES";

const SEEDS: std::ops::Range<u64> = 1..6;

/// Asserts that two traces are equal, and names the first line that differs.
fn compare(seed: u64, one: &str, other: &str) {
    let differs = (one.lines().zip(other.lines())).find(|(one, other)| one != other);
    assert_eq!(differs, None, "seed {seed}");
    assert_eq!(one.len(), other.len(), "seed {seed}");
}

/// The two processes run this same test.
#[test]
fn sim_the_same_seed_gives_the_same_trace_and_log() {
    trace::capture_panics();
    trace::install_log();
    if let Ok(folder) = env::var(TRACES) {
        for seed in SEEDS {
            let one = run_with_log(&Case::of(seed)).trace;
            let of_sets = run_with_log(&Case::of_sets(None, seed)).trace;
            fs::write(Path::new(&folder).join(seed.to_string()), one + &of_sets).unwrap();
        }
        return;
    }
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let processes = folders.each_ref().map(|folder| {
        Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "same::sim_the_same_seed_gives_the_same_trace_and_log",
            ])
            .env(TRACES, folder.path())
            .spawn()
            .unwrap()
    });
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    for seed in SEEDS {
        let [one, other] = folders
            .each_ref()
            .map(|folder| fs::read_to_string(folder.path().join(seed.to_string())).unwrap());
        assert!(one.contains("        | "), "the log is not there");
        compare(seed, &one, &other);
    }
}
