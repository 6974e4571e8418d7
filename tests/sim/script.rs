//! What is done to the world in one run: drawn from its seed before it begins, so that it can be read, printed and
//! shortened.

use std::time::Duration;

use boatswain::config::{Config, Profile, ScaleDown};
use boatswain::model::{AppId, ProfileName};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::node::Pace;
use crate::weather::Weather;

/// Draws one kind of fault.
type Draw = fn(&mut StdRng) -> Fault;

/// A run, as its seed has it.
#[derive(Debug)]
pub struct Script {
    pub seed: u64,
    pub config: Config,
    pub pace: Pace,
    /// What is done, and when.
    pub steps: Vec<Step>,
    /// When the world becomes calm.
    pub calm: Duration,
    /// Each driver's wall clock is wrong by up to this much.
    pub skew: Duration,
}

/// Something is done.
#[derive(Debug, Clone)]
pub struct Step {
    pub at: Duration,
    pub fault: Fault,
}

/// What can be done to the world. A `pick` chooses among those that are there when the time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The weather changes.
    Weather(Weather),
    /// Every watch ends.
    CutWatches,
    /// Every watch stays open and says nothing more.
    SilenceWatches,
    /// Every watch ends within its next line.
    TearWatches,
    /// All history is forgotten; where it says so, every watch ends, too.
    Compact { cut: bool },
    /// The server forgets everything.
    Empty,
    /// The server's state is kept.
    Backup,
    /// The server is put back to the state that was kept last.
    Restore,
    /// Executors end by themselves.
    End { pick: u64, count: usize, code: i32 },
    /// All executors of a profile end soon after they began.
    CrashLoop {
        pick: u64,
        time: Duration,
        code: i32,
    },
    /// Executors are deleted by hand.
    Delete {
        pick: u64,
        count: usize,
        grace: Option<u64>,
    },
    /// An executor that is deleted by hand does not go until the world is calm.
    Stick { pick: u64 },
    /// A label of an executor is changed, or removed.
    Relabel {
        pick: u64,
        key: &'static str,
        value: Option<&'static str>,
    },
    /// Somebody makes a copy of an executor's pod under another name.
    Copy { pick: u64 },
    /// Somebody makes a pod with the labels and the name of an executor that has ended.
    Revenant { pick: u64 },
    /// Somebody else has a pod of the name that an executor will want.
    Namesake { ahead: u64 },
    /// The driver is killed, and started again after this long.
    Kill { late: Duration },
    /// The driver is killed as soon as so many more requests were carried out, and started again after this long.
    KillAtRequest { requests: u32, late: Duration },
    /// The driver hands over to one that is started after this long.
    HandOver { late: Duration },
    /// The driver hands over to one that knows another set of profiles.
    Reconfigure { pick: u64 },
    /// Another driver is started beside the one that runs.
    Second,
    /// The driver does not get to run for this long.
    Pause { time: Duration },
    /// The target of a profile is set.
    Target { pick: u64, target: u32 },
}

/// What is done in a run besides the weather, so that most runs have only some of it and show what it does alone.
struct Mix(Vec<fn(&mut StdRng) -> Fault>);

impl Script {
    /// The script of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let config = config(rng);
        let pace = Pace {
            bind: ms(rng, 0..2_000),
            start: if rng.random_bool(0.1) {
                ms(rng, 0..60_000)
            } else {
                ms(rng, 0..5_000)
            },
            stop: ms(rng, 0..4_000),
        };
        let calm = Duration::from_secs(rng.random_range(60..600));
        let skew = if rng.random_bool(0.2) {
            ms(rng, 0..7_200_000)
        } else {
            Duration::ZERO
        };
        let mix = Mix::draw(rng);
        let mut steps: Vec<Step> = (0..rng.random_range(5..30))
            .map(|_| Step {
                at: calm.mul_f64(rng.random()),
                fault: mix.draw_one(rng),
            })
            .collect();
        for _ in 0..rng.random_range(0..6) {
            let at = calm.mul_f64(rng.random());
            let lasts = ms(rng, 500..60_000);
            steps.extend([
                Step {
                    at,
                    fault: Fault::Weather(weather(rng)),
                },
                Step {
                    at: (at + lasts).min(calm),
                    fault: Fault::Weather(Weather::CALM),
                },
            ]);
        }
        if rng.random_bool(0.3) {
            steps.push(Step {
                at: Duration::ZERO,
                fault: Fault::Weather(weather(rng)),
            });
        }
        steps.sort_by_key(|step| step.at);
        Self {
            seed,
            config,
            pace,
            steps,
            calm,
            skew,
        }
    }
}

fn ms(rng: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.random_range(range))
}

fn config(rng: &mut StdRng) -> Config {
    let mut config = Config::default();
    config.app.name = "sim".to_owned();
    config.app.id = rng.random_bool(0.7).then(|| AppId::from("sim-1"));
    config.profiles.clear();
    let names = ["default", "gpu", "spot"];
    for name in &names[..rng.random_range(1..=names.len())] {
        let profile = Profile {
            executors: rng.random_range(0..8),
            termination_grace: Duration::from_secs(rng.random_range(0..6)),
            ..Profile::default()
        };
        config.profiles.insert(ProfileName::from(*name), profile);
    }
    config.cluster.request_timeout = ms(rng, 500..5_000);
    config.cluster.start_timeout = Duration::from_secs(rng.random_range(5..60));
    config.poll.interval = ms(rng, 3_000..30_000);
    config.poll.page_size = if rng.random_bool(0.2) { 3 } else { 500 };
    config.poll.from_cache = rng.random_bool(0.8);
    match rng.random_range(0..8) {
        0 => config.watch.enabled = false,
        1 => config.poll.enabled = false,
        _ => {}
    }
    let up = &mut config.allocation;
    up.creation_timeout = 2 * config.cluster.request_timeout + ms(rng, 0..20_000);
    up.cancel_delay = ms(rng, 0..10_000);
    up.batch_size = if rng.random_bool(0.2) { 2 } else { 500 };
    up.max_in_flight = if rng.random_bool(0.2) { 1 } else { 32 };
    if rng.random_bool(0.2) {
        up.scale_down = ScaleDown::PendingOnly;
    }
    config.lifecycle.delete_on_termination = rng.random_bool(0.7);
    config.lifecycle.max_buffered = if rng.random_bool(0.2) { 2 } else { 10_000 };
    config.failures.stable_after = ms(rng, 1_000..20_000);
    config.failures.backoff_initial = ms(rng, 200..2_000);
    config.failures.backoff_max = ms(rng, 2_000..60_000);
    config.shutdown.grace = Duration::from_secs(60);
    config
}

/// Weather of one kind, or of all kinds at once.
fn weather(rng: &mut StdRng) -> Weather {
    let mut much = |weather: &mut Weather| {
        let share = rng.random_range(50..1_000);
        match rng.random_range(0..16) {
            0 => weather.busy = share,
            1 => weather.error = share,
            2 => weather.refused = share,
            3 => weather.broken_before = share,
            4 => weather.broken_after = share,
            5 => weather.unanswered = share,
            6 => weather.straggling = share,
            7 => weather.swallowed = share,
            8 => weather.garbled = share,
            9 => weather.stale = share,
            10 => weather.torn = share,
            11 => weather.garbage = share,
            12 => weather.lagging = share,
            13 => weather.error_after = share,
            14 => weather.quota = share,
            _ => weather.delay = Duration::from_millis(2 * u64::from(share)),
        }
    };
    let mut weather = Weather::CALM;
    much(&mut weather);
    if rng.random_bool(0.4) {
        let share = rng.random_range(5..70);
        weather = Weather {
            delay: Duration::from_millis(200),
            busy: share,
            error: share,
            error_after: share,
            quota: share,
            refused: share,
            broken_before: share,
            broken_after: share,
            unanswered: share,
            straggling: share / 4,
            swallowed: share,
            garbled: share,
            stale: 3 * share,
            torn: share,
            garbage: share,
            lagging: share,
        };
    }
    weather
}

impl Mix {
    fn draw(rng: &mut StdRng) -> Self {
        let all: [(u32, Draw); 12] = [
            (60, watches),
            (30, |_| Fault::Backup),
            (20, servers),
            (70, ends),
            (30, crash_loops),
            (60, deletes),
            (40, relabels),
            (40, impostors),
            (60, kills),
            (40, successors),
            (30, |rng| Fault::Pause {
                time: ms(rng, 100..90_000),
            }),
            (40, |rng| Fault::Target {
                pick: rng.random(),
                target: rng.random_range(0..10),
            }),
        ];
        let mut mix: Vec<_> = (all.into_iter())
            .filter(|(share, _)| rng.random_ratio(*share, 100))
            .map(|(_, draw)| draw)
            .collect();
        if mix.is_empty() {
            mix.push(ends);
        }
        Self(mix)
    }

    fn draw_one(&self, rng: &mut StdRng) -> Fault {
        let draw = self.0[rng.random_range(0..self.0.len())];
        draw(rng)
    }
}

fn watches(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..5) {
        0 => Fault::SilenceWatches,
        1 => Fault::TearWatches,
        2 => Fault::Compact {
            cut: rng.random_bool(0.7),
        },
        _ => Fault::CutWatches,
    }
}

fn servers(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..4) {
        0 => Fault::Empty,
        1 => Fault::Backup,
        _ => Fault::Restore,
    }
}

fn ends(rng: &mut StdRng) -> Fault {
    Fault::End {
        pick: rng.random(),
        count: rng.random_range(1..4),
        code: [0, 1, 3, 137][rng.random_range(0..4)],
    }
}

fn crash_loops(rng: &mut StdRng) -> Fault {
    Fault::CrashLoop {
        pick: rng.random(),
        time: ms(rng, 1_000..60_000),
        code: rng.random_range(0..3),
    }
}

fn deletes(rng: &mut StdRng) -> Fault {
    if rng.random_bool(0.2) {
        return Fault::Stick { pick: rng.random() };
    }
    Fault::Delete {
        pick: rng.random(),
        count: rng.random_range(1..4),
        grace: [None, None, Some(0), Some(1)][rng.random_range(0..4)],
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

fn impostors(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..3) {
        0 => Fault::Copy { pick: rng.random() },
        1 => Fault::Revenant { pick: rng.random() },
        _ => Fault::Namesake {
            ahead: rng.random_range(0..4),
        },
    }
}

fn late(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..3) {
        0 => Duration::ZERO,
        1 => ms(rng, 0..3_000),
        _ => ms(rng, 0..60_000),
    }
}

fn kills(rng: &mut StdRng) -> Fault {
    if rng.random_bool(0.5) {
        return Fault::Kill { late: late(rng) };
    }
    Fault::KillAtRequest {
        requests: rng.random_range(0..12),
        late: late(rng),
    }
}

fn successors(rng: &mut StdRng) -> Fault {
    match rng.random_range(0..5) {
        0 | 1 => Fault::HandOver { late: late(rng) },
        2 => Fault::Reconfigure { pick: rng.random() },
        _ => Fault::Second,
    }
}
