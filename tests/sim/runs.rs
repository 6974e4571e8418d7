//! Runs simulation cases, one or many in parallel, and reports violations.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use boatswain::planted::{self, Planted};
use devcluster::{DevCluster, NodeKind, Options, SimulatedNode};
use tokio::task::LocalSet;

use crate::case::{Case, fault_from_env};
use crate::checks::Verdict;
use crate::drivers::{self, Drivers};
use crate::number;
use crate::shrink::shrink;
use crate::trace::{self, trace_line};
use crate::world::World;

/// Interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Names a folder to which the trace of each seed is written, without the log. `diff -r` of two such folders shows
/// whether a change of the code changed any behaviour.
const TRACE_FOLDER: &str = "BOATSWAIN_SIM_KEEP";

/// A run of many seeds stops after this many violations.
const MAX_VIOLATIONS: usize = 20;

/// The result of a run.
pub struct Run {
    pub verdict: Verdict,
    pub trace: String,
    /// Simulated time.
    pub simulated: Duration,
}

/// Runs one case, with a trace that includes the log.
pub fn run_with_log(case: &Case) -> Run {
    trace::with_log(|| run(case))
}

/// Runs one case with a trace.
pub fn run(case: &Case) -> Run {
    run_traced(case, true)
}

/// Runs one case without a trace.
pub fn run_untraced(case: &Case) -> Run {
    run_traced(case, false)
}

fn run_traced(case: &Case, is_traced: bool) -> Run {
    let script = case.script();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    if script.config.backend.sessions.listen.is_some() {
        // The driver opens its session listener, although no simulated executor connects to it.
        runtime.enable_io();
    }
    let runtime = runtime.build().unwrap();
    planted::plant(case.planted);
    let run = runtime.block_on(async {
        let began = tokio::time::Instant::now();
        trace::begin(is_traced);
        trace_line!("{script:#?}");
        let mut world = World::new(script);
        let all = world.drivers.clone();
        let verdict = drivers::run(&all, world.run_script()).await;
        all.borrow_mut().clear();
        Run {
            verdict,
            trace: trace::end(),
            simulated: began.elapsed(),
        }
    });
    planted::plant(None);
    run
}

/// Does some work for each number of a range, on all cores, until the work returns `false`.
pub fn on_all_cores(range: Range<u64>, work: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(range.start);
    let threads = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= range.end {
                        return;
                    }
                    if !work(number) {
                        next.store(range.end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

/// The cluster of a world that is no [`Case`].
pub fn cluster(seed: u64, node: SimulatedNode) -> DevCluster {
    devcluster::start(Options {
        node: NodeKind::Simulated(node),
        seed,
        wall_clock_start: Some(jiff::Timestamp::UNIX_EPOCH),
        ..Options::default()
    })
}

/// Runs a world that is no [`Case`], with its drivers. Returns the trace too.
pub fn run_world<W>(
    fault: Option<Planted>,
    is_traced: bool,
    begin: impl FnOnce() -> (Drivers, W),
) -> (Verdict, String)
where
    W: Future<Output = Verdict>,
{
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // A driver opens its session listener, although no simulated executor connects to it.
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    planted::plant(fault);
    let result = LocalSet::new().block_on(&runtime, async {
        trace::begin(is_traced);
        let (all, world) = begin();
        let verdict = drivers::run(&all, world).await;
        all.borrow_mut().clear();
        (verdict, trace::end())
    });
    planted::plant(None);
    result
}

/// Runs such worlds on all cores, as many as the environment says, and panics with the first violation.
pub fn run_worlds(
    name: &str,
    default_seeds: u64,
    run: impl Fn(Option<Planted>, u64, bool) -> (Verdict, String) + Sync,
) {
    trace::capture_panics();
    trace::install_log();
    let planted = fault_from_env();
    if let Some(seed) = number("BOATSWAIN_SIM_SEED") {
        let (verdict, trace) = trace::with_log(|| run(planted, seed, true));
        println!("{trace}");
        assert_eq!(verdict, Ok(()), "{name} seed {seed}");
        return;
    }
    let first = number("BOATSWAIN_SIM_FIRST").unwrap_or(1);
    let seeds = number("BOATSWAIN_SIM_SEEDS").unwrap_or(default_seeds);
    let found = Mutex::new(None);
    on_all_cores(first..first + seeds, |seed| {
        let (verdict, trace) = run(planted, seed, true);
        let mut found = found.lock().unwrap();
        if let Err(violation) = verdict {
            found.get_or_insert(format!("{trace}\n{name} seed {seed}: {violation}"));
        }
        found.is_none()
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_none(), "{}", found.unwrap_or_default());
}

/// Runs many seeds on all cores until there are enough violations. The error describes the first one, shortened.
pub fn run_many(seeds: Range<u64>, case: impl Fn(u64) -> Case + Sync) -> Result<(), String> {
    let progress = Mutex::new(Progress::new(seeds.end - seeds.start));
    let violated = Mutex::new(BTreeMap::new());
    let folder = env::var_os(TRACE_FOLDER).map(PathBuf::from);
    on_all_cores(seeds, |seed| {
        let run = run_traced(&case(seed), folder.is_some());
        if let Some(folder) = &folder {
            fs::write(folder.join(format!("{seed}")), &run.trace).unwrap();
        }
        if let Err(violation) = run.verdict {
            to_stderr(&format!("seed {seed}: {violation}"));
            violated.lock().unwrap().insert(seed, violation);
        }
        let found = violated.lock().unwrap().len();
        progress.lock().unwrap().done(run.simulated, found);
        found < MAX_VIOLATIONS
    });
    match violated.into_inner().unwrap().first_key_value() {
        Some((seed, violation)) => Err(describe(&case(*seed), violation)),
        None => Ok(()),
    }
}

/// Describes a violation: the trace of the shortest script that shows it, and the commands that reproduce it.
pub fn describe(case: &Case, violation: &str) -> String {
    to_stderr(&format!(
        "{case}: {violation}: looking for the shortest script that shows it"
    ));
    let shortest = shrink(case, violation, |case| run_untraced(case).verdict.err());
    let profile = if cfg!(debug_assertions) {
        ""
    } else {
        "--release "
    };
    let command = |case: &Case| {
        let test = case.test();
        format!("{case} cargo test {profile}--test sim {test} -- --nocapture")
    };
    let run = run_with_log(&shortest);
    let steps = shortest.step_indices().len();
    match run.verdict {
        Err(shown) => format!(
            "{}\n{case}: {violation}\nshortest, with {steps} of {} steps: {shown}\nreproduce: {}\nwhole script: {}",
            run.trace,
            case.step_indices().len(),
            command(&shortest),
            command(case)
        ),
        Ok(()) => format!(
            "{violation}, but not in another run: {}",
            command(&shortest)
        ),
    }
}

struct Progress {
    began: Instant,
    reported_at: Instant,
    all: u64,
    done: u64,
    simulated: Duration,
}

impl Progress {
    fn new(all: u64) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            reported_at: now,
            all,
            done: 0,
            simulated: Duration::ZERO,
        }
    }

    fn done(&mut self, simulated: Duration, violations: usize) {
        self.done += 1;
        self.simulated += simulated;
        if self.reported_at.elapsed() < PROGRESS_INTERVAL && self.done < self.all {
            return;
        }
        self.reported_at = Instant::now();
        let speed = self.done as f64 / self.began.elapsed().as_secs_f64();
        let left = Duration::from_secs(((self.all - self.done) as f64 / speed) as u64);
        to_stderr(&format!(
            "{} of {} seeds, {speed:.1} a second, {} simulated hours, {violations} violations, {} left",
            self.done,
            self.all,
            self.simulated.as_secs() / 3_600,
            humantime::format_duration(left),
        ));
    }
}

/// Prints a progress line past the test harness, which shows captured output only after a failure.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "sim: {line}");
}
