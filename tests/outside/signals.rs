//! Tests signals at random instants of a start, of a take-over and of an end. The seed is printed; to repeat a run, set
//! `BOATSWAIN_TEST_SEED` to it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

use super::cluster::Cluster;
use super::driver::{Driver, RECORD};

const EXECUTORS: usize = 5;
const ROUNDS: usize = 30;
const SIGNALS: [(Signal, &str); 2] = [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")];

/// A start with this latency of the API server takes about half a second.
const LATENCY_MS: Range<u64> = 20..60;

/// The longest time until the signal.
const LATEST_MS: u64 = 800;

fn seed() -> u64 {
    let given = std::env::var("BOATSWAIN_TEST_SEED").ok();
    let seed = given.map_or_else(
        || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            u64::from(now.unwrap().subsec_nanos())
        },
        |seed| seed.parse().unwrap(),
    );
    // Shown if the test fails.
    eprintln!("BOATSWAIN_TEST_SEED={seed}");
    seed
}

/// Whether SIGINT is ignored here, as in what a script has started in the background. The children inherit that until they
/// listen for signals.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask & (1 << (Signal::INT.as_raw() - 1)) != 0
}

/// A slow path to the cluster, so that a start takes long enough to be interrupted everywhere. Its threads end with the
/// test's process.
fn slow_path(cluster: &Cluster) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = cluster.address();
    thread::spawn(move || {
        for driver in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&server) else {
                continue;
            };
            for (from, to, is_slow) in [(&driver, &server, true), (&server, &driver, false)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || copy(from, to, is_slow));
            }
        }
    });
    cluster.kubeconfig_at(&format!("https://{address}"))
}

fn copy(mut from: TcpStream, mut to: TcpStream, is_slow: bool) {
    let mut bytes = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if is_slow {
            thread::sleep(Duration::from_millis(rand::rng().random_range(LATENCY_MS)));
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn uids(cluster: &Cluster) -> BTreeSet<String> {
    let pods = cluster.api.pods().into_iter();
    (pods.filter(|pod| !pod.deleting).map(|pod| pod.uid)).collect()
}

// spec: O-107, O-11
#[test]
fn a_signal_at_any_instant_leaves_all_executors_to_a_successor_or_none() {
    let mut rng = StdRng::seed_from_u64(seed());
    let cluster = Cluster::any();
    let (path, ignored) = (slow_path(&cluster), ignores_interrupts());
    let start = |on_signal: &str| Driver::start_with(&cluster, &path, EXECUTORS, &[on_signal]);
    for round in 0..ROUNDS {
        let before = uids(&cluster);
        let hands_over = rng.random_bool(0.5);
        let mode = if hands_over { "hand-over" } else { "end" };
        let on_signal = format!("shutdown.on_signal={mode}");
        let drawn = SIGNALS[rng.random_range(0..SIGNALS.len())];
        let (signal, name) = if ignored { SIGNALS[0] } else { drawn };
        let after = Duration::from_millis(rng.random_range(0..LATEST_MS));
        let what = format!(
            "round {round}: {name} after {after:?}, {mode}, {} pods before",
            before.len()
        );
        eprintln!("{what}");
        let mut driver = start(&on_signal);
        thread::sleep(after);
        driver.signal(signal);
        // Ctrl-C twice: what is left is left, to the next driver.
        let impatient = rng.random_bool(0.2);
        if impatient {
            thread::sleep(Duration::from_millis(rng.random_range(0..LATEST_MS)));
            if driver.is_alive() {
                driver.signal(Signal::TERM);
            }
        }
        let code = driver.exit();
        let now = uids(&cluster);
        match code {
            // Before it listens for signals, a signal kills it. It has made no request then.
            None if driver.log().0.is_empty() => assert_eq!(now, before, "{what}"),
            Some(130) if impatient => assert!(!hands_over || now.is_superset(&before), "{what}"),
            Some(75) if hands_over => assert!(now.is_superset(&before), "{what}: {now:?}"),
            Some(0) if !hands_over => {
                assert!(now.is_empty(), "{what}: {now:?} are left");
                assert_eq!(cluster.api.config_map(RECORD), None, "{what}");
            }
            code => panic!("{what}: it exited with {code:?}"),
        }
        // Half of the successors find all executors.
        if rng.random_bool(0.5) {
            let mut driver = start("shutdown.on_signal=hand-over");
            // The executors may run before it listens for signals.
            driver.says("application taken over");
            cluster.converges(EXECUTORS);
            driver.signal(Signal::TERM);
            assert_eq!(driver.exit(), Some(75), "{what}");
        }
    }
    let mut last = start("shutdown.on_signal=end");
    last.says("application taken over");
    cluster.converges(EXECUTORS);
    last.signal(Signal::TERM);
    assert_eq!(last.exit(), Some(0));
    cluster.converges(0);
    assert_eq!(cluster.api.config_map(RECORD), None);
}
