//! What is done to the world in one run: drawn from its seed before it begins, so that it can be read, printed and
//! shortened.

mod commands;
mod mix;
mod sets;
mod settings;
mod size;
mod sky;

use std::time::Duration;

use boatswain::config::{Config, Strategy};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::node::{Mishap, Pace, Plague};
use crate::weather::Weather;
use crate::webhook::Webhook;

use mix::Mix;
pub use size::Size;

/// A run, as its seed has it.
#[derive(Debug, Clone)]
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

/// What can be done to the world. A `pick` chooses among those that are there when the time has come; what is done for
/// a `time` is undone after it, and in any case when the world becomes calm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The weather is so for a while.
    Weather { weather: Weather, time: Duration },
    /// It is over.
    FairWeather,
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
    /// The server is out of reach for a while, to people and nodes as well.
    Outage {
        silent: bool,
        time: Duration,
        back: Back,
    },
    /// It is back.
    Back(Back),
    /// Executors do not reach the driver for a while.
    Partition { time: Duration },
    /// They do again.
    NoPartition,
    /// Executors come to an end that nobody asked for.
    End {
        pick: u64,
        count: usize,
        how: Mishap,
    },
    /// All executors of a profile end soon after they began.
    CrashLoop {
        pick: u64,
        time: Duration,
        code: i32,
    },
    /// Executors of a profile that are created from now on have it hard.
    Plague {
        pick: u64,
        what: Plague,
        time: Duration,
    },
    /// A node does nothing for a while; its executors may be evicted meanwhile.
    NodeDown {
        pick: u64,
        time: Duration,
        evicts: bool,
    },
    /// No more than so many pods may be there, for a while.
    Quota { pods: u32, time: Duration },
    /// Pods are not created as they were asked for, for a while.
    Webhook { what: Webhook, time: Duration },
    /// It is uninstalled.
    NoWebhook,
    /// The quota is lifted.
    NoQuota,
    /// Executors are deleted by hand.
    Delete {
        pick: u64,
        count: usize,
        grace: Option<u64>,
    },
    /// An executor that is deleted by hand does not go until the world is calm.
    Stick { pick: u64 },
    /// An executor has a finalizer, and is deleted or not.
    Finalizer {
        pick: u64,
        delete: bool,
        time: Duration,
    },
    /// All finalizers are taken away.
    NoFinalizers,
    /// A label of an executor is changed, or removed.
    Relabel {
        pick: u64,
        key: &'static str,
        value: Option<&'static str>,
    },
    /// The pod of an executor is given another executor's id.
    Rename { pick: u64 },
    /// Pods whose id nobody can read are deleted by hand.
    NoStrangers,
    /// Somebody says how many pods the set of a profile is to have.
    Scale { pick: u64, replicas: u32 },
    /// Somebody deletes the set of a profile, and its pods after it.
    DropSet { pick: u64 },
    /// Somebody makes a copy of an executor's pod under another name.
    Copy { pick: u64 },
    /// Somebody makes a pod with the labels and the name of an executor that has ended.
    Revenant { pick: u64 },
    /// Somebody else has a pod of the name that an executor will want.
    Namesake { ahead: u64 },
    /// Somebody makes a pod whose labels lie.
    Liar { pick: u64, lie: Lie },
    /// Somebody's hands are on the application record.
    Record { what: Tampering, time: Duration },
    /// It is put right again.
    MendRecord,
    /// The driver is killed, and started again after this long.
    Kill { late: Duration },
    /// The driver is killed as soon as so many more requests were carried out, and started again after this long.
    KillAtRequest { requests: u32, late: Duration },
    /// The driver is killed when it has had so many more turns, and started again after this long.
    KillAtTurn { turns: u32, late: Duration },
    /// The driver hands over to one that is started after this long.
    HandOver { late: Duration },
    /// The driver ends the application, which is begun anew after this long.
    EndApplication { late: Duration },
    /// The driver hands over to one that knows another set of profiles.
    Reconfigure { pick: u64 },
    /// The driver hands over to one whose executors of a profile have this image.
    Template { pick: u64, image: u32 },
    /// Another driver is started beside the one that runs.
    Second,
    /// The driver does not get to run for this long.
    Pause { time: Duration },
    /// The target of a profile is set.
    Target { pick: u64, target: u32 },
    /// Somebody asks the driver for something beside targets.
    Ask { pick: u64, count: usize, what: Wish },
    /// What is held is wanted again.
    Resume,
}

/// What is asked of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Executors are to be killed.
    Kill { replace: bool, force: bool },
    /// Executors are to finish what they do, and go.
    Decommission { replace: bool },
    /// All are to go, and to come back after this long.
    Hold { time: Duration },
}

/// How a server comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// As it was.
    Same,
    /// Without its history.
    Compacted,
    /// From the backup.
    Older,
    /// With nothing.
    Empty,
}

/// What a pod that somebody made says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Another application's executor, under a name of its own.
    AnotherApplication,
    /// Another application's executor, under a name that one of ours will want.
    AnotherApplicationsName,
    /// An executor of ours, of another id than its name has.
    AnotherId,
    /// An executor of ours that nobody asked for yet.
    FromTheFuture,
    /// An executor of ours that a driver asked for that is not born yet.
    OfAnIncarnationToCome,
    /// An executor of ours with an id that is none.
    NoId,
    /// An executor of ours of a profile that there never was.
    NoProfile,
}

/// What somebody does to the application record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tampering {
    /// Deletes it, and so what it owns.
    Delete,
    /// Deletes it, and leaves what it owns.
    Orphan,
    /// Raises the incarnation.
    Raise,
    /// Writes nonsense into it.
    Nonsense,
    /// Empties it.
    Empty,
    /// Writes a format that nobody knows yet.
    NewerFormat,
    /// Says that it is another application's.
    AnotherApplication,
    /// Adds a label that means nothing.
    Touch,
}

impl Script {
    /// The script of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let size = Size::draw(rng);
        let mut config = settings::config(rng, &size);
        settings::rarely(seed, &mut config);
        let pace = settings::pace(rng);
        settings::extras(seed, &mut config, &pace);
        crate::claims::draw(seed, &mut config);
        let skew = skew(rng);
        let mix = Mix::draw(rng, &size);
        let mut steps = faults(rng, &size, &mix);
        steps.extend(weathers(rng, &size));
        let commands = commands::steps(seed, size.calm);
        Self {
            seed,
            config,
            pace,
            steps: in_order(steps, commands),
            calm: size.calm,
            skew,
        }
    }

    /// The script of a seed of the worlds in which sets make the executors' pods (spec A-80).
    pub fn of_sets(seed: u64) -> Self {
        sets::of(seed)
    }

    /// Whether sets make the executors' pods.
    pub fn is_of_sets(&self) -> bool {
        self.config.allocation.strategy != Strategy::Direct
    }
}

/// How wrong the drivers' wall clocks are.
fn skew(rng: &mut StdRng) -> Duration {
    match rng.random_bool(0.2) {
        true => ms(rng, 0..7_200_000),
        false => Duration::ZERO,
    }
}

/// All of them, in the order of their times.
fn in_order(mut steps: Vec<Step>, more: Vec<Step>) -> Vec<Step> {
    steps.extend(more);
    steps.sort_by_key(|step| step.at);
    steps
}

/// What is done, the weather aside.
fn faults(rng: &mut StdRng, size: &Size, mix: &Mix) -> Vec<Step> {
    (0..size.faults)
        .map(|_| Step {
            at: size.calm.mul_f64(rng.random()),
            fault: mix.draw_one(rng),
        })
        .collect()
}

/// Which weather there is, and when.
fn weathers(rng: &mut StdRng, size: &Size) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.random_range(0..=size.faults.div_ceil(8)) {
        let (weather, time) = (sky::weather(rng), ms(rng, 500..60_000));
        steps.push(Step {
            at: size.calm.mul_f64(rng.random()),
            fault: Fault::Weather { weather, time },
        });
    }
    if rng.random_bool(0.3) {
        let (weather, time) = (sky::weather(rng), ms(rng, 5_000..60_000));
        steps.push(Step {
            at: Duration::ZERO,
            fault: Fault::Weather { weather, time },
        });
    }
    steps
}

/// A duration of so many milliseconds.
fn ms(rng: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.random_range(range))
}
