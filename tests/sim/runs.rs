//! Runs: one, or many at once.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::checks::Verdict;
use crate::drivers;
use crate::script::Script;
use crate::trace::{self, say};
use crate::world::World;

/// How often it is said how far it is.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// What came of a run.
pub struct Run {
    pub verdict: Verdict,
    pub trace: String,
    /// How much time passed in it.
    pub simulated: Duration,
}

/// Runs one seed.
pub fn run(seed: u64, with_log: bool) -> Run {
    if with_log {
        return trace::with_log(|| run(seed, false));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let began = tokio::time::Instant::now();
        trace::begin();
        let script = Script::of(seed);
        say!("{script:#?}");
        let mut world = World::new(script);
        let fleet = world.fleet.clone();
        let verdict = drivers::run(&fleet, world.play()).await;
        fleet.borrow_mut().clear();
        Run {
            verdict,
            trace: trace::end(),
            simulated: began.elapsed(),
        }
    })
}

/// So many violations end it.
const ENOUGH: usize = 20;

/// Runs many seeds on all cores, until there are violations enough; the first one's history is told.
pub fn run_many(seeds: Range<u64>) -> Result<(), String> {
    let began = Instant::now();
    let all = seeds.end - seeds.start;
    let next = AtomicU64::new(seeds.start);
    let simulated = AtomicU64::new(0);
    let said = Mutex::new(Instant::now());
    let violated = Mutex::new(BTreeSet::new());
    let work = || {
        while violated.lock().unwrap().len() < ENOUGH {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let run = run(seed, false);
            simulated.fetch_add(run.simulated.as_secs(), Ordering::Relaxed);
            if let Err(violation) = run.verdict {
                let _ = writeln!(io::stderr(), "sim: seed {seed}: {violation}");
                violated.lock().unwrap().insert(seed);
            }
            let mut said = said.lock().unwrap();
            if said.elapsed() >= SAY_EVERY || seed + 1 == seeds.end {
                *said = Instant::now();
                let took = began.elapsed().as_secs_f64();
                let done = seed + 1 - seeds.start;
                // Beside the test's own output, which is only shown when it has failed.
                let _ = writeln!(
                    io::stderr(),
                    "sim: {done} of {all} seeds, {:.1} a second, {} simulated hours",
                    done as f64 / took,
                    simulated.load(Ordering::Relaxed) / 3_600,
                );
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    match violated.into_inner().unwrap().first() {
        Some(seed) => Err(tell(*seed)),
        None => Ok(()),
    }
}

/// A violation with its history, and how to see it again.
fn tell(seed: u64) -> String {
    let run = run(seed, true);
    let again = format!("BOATSWAIN_SIM_SEED={seed} cargo test sim -- --nocapture");
    match run.verdict {
        Err(violation) => format!("{}\nseed {seed}: {violation}\nagain: {again}", run.trace),
        Ok(()) => format!("seed {seed} was violated, but not when it was run again: {again}"),
    }
}
