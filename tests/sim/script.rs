//! The script of a simulation run: the configuration and the faults, drawn from the seed before the run begins so that
//! they can be printed and shortened.

mod agents;
mod clocks;
mod commands;
mod credentials;
mod early_stops;
mod mix;
mod network_faults;
mod refusals;
mod sets;
mod settings;
mod size;
mod tokens;

use std::time::Duration;

use boatswain::config::{Config, Strategy};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::leaving_nodes::{self, Ends};
use crate::network_conditions::NetworkConditions;
use crate::node::{Pace, PodFault, StartupFault};
use crate::webhook::Webhook;

pub use clocks::ClockStep;
use clocks::skew;
use mix::Mix;
pub use settings::enable_sessions;
pub use size::Size;

/// A run as drawn from its seed.
#[derive(Debug, Clone)]
pub struct Script {
    pub seed: u64,
    pub config: Config,
    pub pace: Pace,
    pub steps: Vec<Step>,
    /// When the faults end.
    pub faults_end: Duration,
    /// Each driver's wall clock is wrong by up to this much.
    pub skew: Duration,
    /// When the drivers' wall clocks are set forward or back.
    pub clock_steps: Vec<ClockStep>,
    /// How long an executor's agent waits for a driver; `None` without agents.
    pub driver_timeout: Option<Duration>,
}

/// A fault and when it is injected.
#[derive(Debug, Clone)]
pub struct Step {
    pub at: Duration,
    pub fault: Fault,
}

/// A fault of the simulated world. A `pick` selects among the objects that exist when the fault is injected. A fault
/// with a `time` is undone after it, and at the latest when the faults end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Network faults and delays for a while.
    Network {
        conditions: NetworkConditions,
        time: Duration,
    },
    /// The network works again.
    RestoreNetwork,
    /// Every watch ends.
    CutWatches,
    /// Every watch stays open but is silent.
    SilenceWatches,
    /// Every watch breaks within its next line.
    BreakWatches,
    /// The server compacts its history; with `cut` every watch ends as well.
    Compact { cut: bool },
    /// The server loses all objects.
    Wipe,
    /// The server's state is saved.
    Backup,
    /// The server is restored to the state that was saved last.
    Restore,
    /// The server is unreachable for a while, also for operators and nodes.
    Outage {
        silent: bool,
        time: Duration,
        recovery: Recovery,
    },
    /// The server is reachable again.
    EndOutage(Recovery),
    /// The server refuses to delete pods for a while.
    RefuseDeletes { time: Duration },
    /// It deletes them again.
    AllowDeletes,
    /// Executors cannot reach the driver for a while.
    Partition { time: Duration },
    /// Executors can reach the driver again.
    EndPartition,
    /// Executors end, or appear to end, for a reason other than the driver.
    EndExecutors {
        pick: u64,
        count: usize,
        how: PodFault,
    },
    /// All executors of a profile crash soon after their start.
    CrashLoop {
        pick: u64,
        time: Duration,
        code: i32,
    },
    /// A fault applies to new executors of a profile.
    Startup {
        pick: u64,
        what: StartupFault,
        time: Duration,
    },
    /// A node is down for a while; its executors may be evicted.
    NodeDown {
        pick: u64,
        time: Duration,
        evicts: bool,
    },
    /// A node is about to leave the cluster; how that ends, after this long.
    NodeLeaves {
        pick: u64,
        time: Duration,
        ends: Ends,
    },
    /// It is taken back, or the node is deleted.
    NodeHasLeft { pick: u64 },
    /// A quota limits the numbers of pods and claims for a while.
    Quota {
        pods: u32,
        claims: u32,
        time: Duration,
    },
    /// A webhook changes pods at their creation for a while.
    Webhook { what: Webhook, time: Duration },
    /// The webhook is uninstalled.
    RemoveWebhook,
    /// The quota is removed.
    RemoveQuota,
    /// An operator deletes executor pods.
    Delete {
        pick: u64,
        count: usize,
        grace: Option<u64>,
    },
    /// An operator deletes an executor's pod, which stays until the faults end.
    BlockDeletion { pick: u64 },
    /// An executor's pod gets a finalizer and may be deleted.
    Finalizer {
        pick: u64,
        delete: bool,
        time: Duration,
    },
    /// All finalizers are removed.
    RemoveFinalizers,
    /// A label of an executor's pod is changed or removed.
    Relabel {
        pick: u64,
        key: &'static str,
        value: Option<&'static str>,
    },
    /// A pod gets the id of another executor.
    DuplicateId { pick: u64 },
    /// An operator deletes the unrecognised pods.
    DeleteUnrecognised,
    /// An operator scales the set of a profile.
    ScaleSet { pick: u64, replicas: u32 },
    /// An operator deletes the set of a profile with its pods, or orphans them.
    DeleteSet { pick: u64, orphan: bool },
    /// An operator creates a copy of an executor's pod under another name.
    CopyPod { pick: u64 },
    /// An operator creates a pod with the labels and the name of an executor that has ended.
    ReuseEndedId { pick: u64 },
    /// Another application creates a pod with the name of a future executor.
    OccupyName { ahead: u64 },
    /// An operator creates a pod with false labels.
    ForgePod { pick: u64, labels: ForgedLabels },
    /// An operator edits or deletes the application record.
    EditRecord { what: RecordEdit, time: Duration },
    /// The record is repaired.
    RepairRecord,
    /// The driver is killed; the next one starts after this long.
    Kill { restart_after: Duration },
    /// The driver is killed once this many more requests were carried out; the next one starts after this long.
    KillAtRequest {
        requests: u32,
        restart_after: Duration,
    },
    /// The driver is killed once it was polled this many more times; the next one starts after this long.
    KillAtPoll { polls: u32, restart_after: Duration },
    /// The driver hands over to one that starts after this long.
    HandOver { restart_after: Duration },
    /// The driver ends the application, which starts again after this long.
    EndApplication { restart_after: Duration },
    /// The driver hands over to one with other profiles.
    Reconfigure { pick: u64 },
    /// The driver hands over to one in which a profile has this image.
    ChangeImage { pick: u64, image: u32 },
    /// The API server signs tokens of service accounts with a new key.
    RotateKeys,
    /// The API server answers requests for the keys that verify tokens with this code, for this long or for ever.
    WithholdKeys { code: u16, time: Option<Duration> },
    /// It answers them with the keys again.
    PublishKeys,
    /// The drivers' token expires. Its file is rewritten after this long.
    ExpireToken { late: Duration },
    /// The file of the drivers' token is rewritten, if the token has expired.
    RewriteToken,
    /// A driver that was requested to stop is requested again, perhaps in another way.
    StopAgain { end: bool },
    /// Another driver starts beside the running one.
    SecondDriver,
    /// Another driver starts, and is requested to stop once it was polled this many times; the next one starts after
    /// this long. If it is requested to end the application, the driver before it is killed.
    StartAndStop {
        polls: u32,
        end: bool,
        restart_after: Duration,
    },
    /// The driver is not scheduled for this long.
    Pause { time: Duration },
    /// The target of a profile is changed.
    Target { pick: u64, target: u32 },
    /// An operator sends the driver a command.
    Command {
        pick: u64,
        count: usize,
        what: Command,
    },
    /// The operator resumes a held application.
    Resume,
}

/// A command to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Kill executors.
    Kill { replace: bool, force: bool },
    /// Decommission executors.
    Decommission { replace: bool },
    /// Hold the application, and resume it after this long.
    Hold { time: Duration },
}

/// The server's state after an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Unchanged.
    Unchanged,
    /// With its history compacted.
    Compacted,
    /// Restored from the backup.
    Restored,
    /// Without any objects.
    Wiped,
}

/// What the labels of a forged pod say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgedLabels {
    /// An executor of another application, under a name of its own.
    AnotherApplication,
    /// An executor of another application, under the name of a future executor of ours.
    AnotherApplicationOurName,
    /// An executor of ours whose id differs from the one in its name.
    AnotherId,
    /// An executor of ours that has not been requested yet.
    FutureId,
    /// An executor of ours, made by a future incarnation.
    FutureIncarnation,
    /// An executor of ours with an invalid id.
    InvalidId,
    /// An executor of ours with an unknown profile.
    UnknownProfile,
}

/// What is done to the application record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEdit {
    /// Deletes it with its dependents.
    Delete,
    /// Deletes it and orphans its dependents.
    Orphan,
    /// Raises the incarnation.
    RaiseIncarnation,
    /// Writes invalid data.
    InvalidData,
    /// Removes all data.
    RemoveData,
    /// Writes an unknown, newer format.
    NewerFormat,
    /// Writes another application's id.
    AnotherApplication,
    /// Adds a label without a meaning.
    AddLabel,
}

impl Script {
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let size = Size::draw(rng);
        let mut config = settings::config(rng, &size);
        settings::rare(seed, &mut config);
        crate::kept::draw(seed, &mut config);
        let pace = settings::pace(rng);
        settings::extras(seed, &mut config, &pace);
        crate::claims::draw(seed, &mut config);
        let skew = skew(rng);
        let mix = Mix::draw(rng, &size);
        let mut steps = faults(rng, &size, &mix);
        steps.extend(network_steps(rng, &size));
        let (rotations, wrong) = tokens::draw(seed, &mut config, size.faults_end);
        let skew = skew.max(wrong);
        let (driver_timeout, absences) = agents::draw(seed, &config, size.faults_end);
        let (clock_steps, mut more) = clocks::steps(seed, size.faults_end);
        more.extend(commands::steps(seed, size.faults_end));
        more.extend(rotations);
        more.extend(absences);
        more.extend(early_stops::steps(seed, size.faults_end));
        more.extend(credentials::steps(seed, size.faults_end));
        more.extend(refusals::steps(seed, size.faults_end));
        more.extend(leaving_nodes::draw(seed, &mut config, size.faults_end));
        leaving_nodes::draw_protection(seed, &mut config);
        more.extend(crate::claims::quotas(seed, &config, size.faults_end));
        Self {
            seed,
            config,
            pace,
            steps: in_order(steps, more),
            faults_end: size.faults_end,
            skew,
            clock_steps,
            driver_timeout,
        }
    }

    /// The script of a seed in which sets make the executors' pods (spec A-80).
    pub fn of_sets(seed: u64) -> Self {
        sets::of(seed)
    }

    /// Whether sets make the executors' pods.
    pub fn is_of_sets(&self) -> bool {
        self.config.allocation.strategy != Strategy::Direct
    }
}

fn in_order(mut steps: Vec<Step>, more: Vec<Step>) -> Vec<Step> {
    steps.extend(more);
    steps.sort_by_key(|step| step.at);
    steps
}

/// All faults except those of the network.
fn faults(rng: &mut StdRng, size: &Size, mix: &Mix) -> Vec<Step> {
    (0..size.faults)
        .map(|_| Step {
            at: size.faults_end.mul_f64(rng.random()),
            fault: mix.draw_one(rng),
        })
        .collect()
}

/// The network's faults.
fn network_steps(rng: &mut StdRng, size: &Size) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..rng.random_range(0..=size.faults.div_ceil(8)) {
        let (conditions, time) = (network_faults::draw(rng), ms(rng, 500..60_000));
        steps.push(Step {
            at: size.faults_end.mul_f64(rng.random()),
            fault: Fault::Network { conditions, time },
        });
    }
    if rng.random_bool(0.3) {
        let (conditions, time) = (network_faults::draw(rng), ms(rng, 5_000..60_000));
        steps.push(Step {
            at: Duration::ZERO,
            fault: Fault::Network { conditions, time },
        });
    }
    steps
}

fn ms(rng: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.random_range(range))
}
