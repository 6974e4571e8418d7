//! Draws the configuration of a run's drivers, and the pace of its nodes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use boatswain::config::{
    Auth, Config, FailureAction, FailureRule, Gang, Keep, OnExceeded, Profile, ScaleDown,
};
use boatswain::model::{AppId, LossClass, ProfileName};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::ms;
use super::size::Size;
use crate::node::Pace;

/// Separates the random stream of [`extras`] from the others.
const EXTRAS: u64 = 0x6578_7472_6173;

/// The pace of pods without faults.
pub fn pace(rng: &mut StdRng) -> Pace {
    Pace {
        bind: ms(rng, 0..2_000),
        start: if rng.random_bool(0.1) {
            ms(rng, 0..60_000)
        } else {
            ms(rng, 0..5_000)
        },
        stop: ms(rng, 0..4_000),
    }
}

/// The drivers' configuration.
pub fn config(rng: &mut StdRng, size: &Size) -> Config {
    let mut config = Config::default();
    config.app.name = "sim".to_owned();
    config.app.id = rng.random_bool(0.7).then(|| AppId::from("sim-1"));
    config.profiles.clear();
    let names = ["default", "gpu", "spot"];
    let names = &names[..rng.random_range(1..=names.len())];
    let share = size.executors.div_ceil(names.len() as u32);
    for name in names {
        let profile = Profile {
            executors: if size.executors < 20 {
                rng.random_range(0..8)
            } else {
                share
            },
            termination_grace: Duration::from_secs(rng.random_range(0..6)),
            ..Profile::default()
        };
        config.profiles.insert(ProfileName::from(*name), profile);
    }
    config.cluster.request_timeout = ms(rng, 500..5_000);
    config.cluster.start_timeout = Duration::from_secs(rng.random_range(5..60));
    config.poll.interval = ms(rng, 3_000..30_000);
    config.tuning.page_size = if rng.random_bool(0.3) { 3 } else { 500 };
    config.tuning.from_cache = rng.random_bool(0.8);
    match rng.random_range(0..8) {
        0 => config.watch.enabled = false,
        1 => config.poll.enabled = false,
        _ => {}
    }
    let allocation = &mut config.allocation;
    allocation.creation_timeout = 2 * config.cluster.request_timeout + ms(rng, 0..20_000);
    allocation.cancel_delay = ms(rng, 0..10_000);
    allocation.batch_size = if rng.random_bool(0.2) { 2 } else { 500 };
    allocation.max_in_flight = if rng.random_bool(0.2) { 1 } else { 256 };
    allocation.max_rate = rng.random_bool(0.1).then_some(2);
    if rng.random_bool(0.2) {
        allocation.scale_down = ScaleDown::PendingOnly;
    }
    if rng.random_bool(0.1) {
        // Subscribers learn of everything late, and of much at once.
        config.tuning.quiet_latency = ms(rng, 10..3_000);
        config.tuning.min_gap = ms(rng, 50..6_000);
        allocation.interval = ms(rng, 1_000..10_000);
        config.lifecycle.interval = ms(rng, 1_000..10_000);
    }
    if rng.random_bool(0.3) {
        config.lifecycle.keep = Keep::All;
    }
    config.lifecycle.check_all_containers = rng.random_bool(0.8);
    config.tuning.max_buffered = if rng.random_bool(0.2) { 2 } else { 10_000 };
    config.failures.stable_after = ms(rng, 1_000..20_000);
    config.failures.backoff_initial = ms(rng, 200..2_000);
    config.failures.backoff_max = ms(rng, 2_000..60_000);
    // See `budget` and `default_budget`.
    config.failures.max = Some(u32::MAX);
    config.shutdown.grace = Duration::from_secs(60);
    if rng.random_bool(0.3) {
        enable_sessions(rng, &mut config);
    }
    config
}

/// Draws rare settings from a random stream of their own, so that the rest of a run does not change.
pub fn rare(seed: u64, config: &mut Config) {
    let rng = &mut StdRng::seed_from_u64(seed ^ 0x7261_7265_6c79);
    budget(rng, 0.08, config);
    default_budget(seed, config);
    if rng.random_bool(0.08) {
        config.failures.node_max_failures = Some(rng.random_range(1..4));
    }
    let allocation = &mut config.allocation;
    if rng.random_bool(0.08) {
        allocation.pending_timeout = Some(ms(rng, 5_000..120_000));
    }
    if rng.random_bool(0.2) {
        allocation.stuck_after = ms(rng, 1_000..60_000);
    }
    if rng.random_bool(0.06) {
        allocation.max_pending = Some(rng.random_range(1..6));
    }
    for profile in config.profiles.values_mut() {
        profile.max_pending = rng.random_bool(0.03).then(|| rng.random_range(1..4));
    }
}

/// Separates the random stream of [`default_budget`] from the others.
const DEFAULT_BUDGET: u64 = 0x0064_6566_6175_6c74;

/// Gives a third of the runs the default failure budget, in most others nothing fails too often. Has each profile fail
/// alone in half of them.
pub fn default_budget(seed: u64, config: &mut Config) {
    let mut rng = StdRng::seed_from_u64(seed ^ DEFAULT_BUDGET);
    if rng.random_bool(0.33) && config.failures.max == Some(u32::MAX) {
        config.failures.max = Config::default().failures.max;
    }
    failing_alone(seed, config);
}

/// Separates the random stream of [`failing_alone`] from the others.
const FAILING_ALONE: u64 = 0x616c_6f6e_6521;

/// Has each profile fail alone in half of the runs with a budget, and in a few of the others, with a small one.
fn failing_alone(seed: u64, config: &mut Config) {
    let mut rng = StdRng::seed_from_u64(seed ^ FAILING_ALONE);
    let failures = &mut config.failures;
    let has_budget = failures.max < Some(u32::MAX);
    if rng.random_bool(if has_budget { 0.5 } else { 0.15 }) {
        failures.on_exceeded = OnExceeded::Profile;
        if !has_budget {
            failures.max = Some(rng.random_range(0..4));
        }
    }
}

/// Limits the failures in this share of the runs, and sometimes adds failure rules.
pub fn budget(rng: &mut StdRng, share: f64, config: &mut Config) {
    let failures = &mut config.failures;
    if rng.random_bool(share) {
        failures.max = Some(rng.random_range(0..8));
        failures.window = [Duration::ZERO, ms(rng, 10_000..600_000)][rng.random_range(0..2)];
    }
    if rng.random_bool(0.05) {
        let rule = |exit_codes: &[i32], classes: &[LossClass], action| FailureRule {
            exit_codes: exit_codes.to_vec(),
            classes: classes.to_vec(),
            conditions: Vec::new(),
            action,
        };
        failures.rules = vec![
            rule(&[3], &[], FailureAction::Ignore),
            rule(&[], &[LossClass::Evicted], FailureAction::Count),
        ];
        if rng.random_bool(0.2) {
            failures
                .rules
                .push(rule(&[137], &[LossClass::OomKilled], FailureAction::Stop));
        }
    }
}

/// Draws occasional settings from a random stream of their own, so that the other draws of a seed do not change.
pub fn extras(seed: u64, config: &mut Config, pace: &Pace) {
    let mut rng = StdRng::seed_from_u64(seed ^ EXTRAS);
    if rng.random_bool(0.08) {
        enable_gangs(&mut rng, config, pace);
    }
}

/// Turns gang scheduling on.
fn enable_gangs(rng: &mut StdRng, config: &mut Config, pace: &Pace) {
    config.scheduling.gang = Gang::On;
    config.scheduling.gang_timeout = 2 * (pace.bind + pace.start) + ms(rng, 5_000..120_000);
    // One after the other they may come too late, however often they are requested.
    config.allocation.max_pending = None;
    for profile in config.profiles.values_mut() {
        profile.max_pending = None;
        profile.min_executors = rng.random_range(0..=profile.executors);
    }
}

/// Turns sessions on. Simulated executors use the router within this process, so nothing connects to the listener.
pub fn enable_sessions(rng: &mut StdRng, config: &mut Config) {
    config.backend.kill_grace = ms(rng, 0..5_000);
    config.backend.decommission_timeout = ms(rng, 1_000..60_000);
    config.allocation.registration_timeout = ms(rng, 30_000..300_000);
    let sessions = &mut config.backend.sessions;
    sessions.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    sessions.url = Some("http://driver:7078".to_owned());
    sessions.auth = Some(Auth::Derived);
    sessions.heartbeat_interval = ms(rng, 5_000..30_000);
    sessions.heartbeat_timeout = 4 * sessions.heartbeat_interval + ms(rng, 0..60_000);
    sessions.loss_reason_timeout = ms(rng, 10_000..90_000);
}
