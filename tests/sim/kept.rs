//! Draws whose pods are kept, and checks that no more are kept, and none for longer.

use std::time::Duration;

use boatswain::config::{Config, Keep};
use devcluster::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::checks::Verdict;
use crate::convergence::LONGEST_BACKOFF;
use crate::objects::{NAMESPACE, is_executor, is_inactive, is_terminating, text};
use crate::sets;

/// Separates the random stream of [`draw`] from the others.
const KEPT: u64 = 0x6b65_7074;

/// How often a driver lists kept pods: a restored server may show some again that were deleted (spec O-101).
const LISTED_EVERY: Duration = Duration::from_secs(300);

/// Kept pods may still be deleted during the quiet period if they are kept for longer than this.
const SHORT: Duration = Duration::from_secs(60);

/// Changes the policy in worlds that keep pods. It uses a random stream of its own, so that the other draws of a seed do
/// not change.
pub fn draw(seed: u64, config: &mut Config) {
    let mut rng = StdRng::seed_from_u64(seed ^ KEPT);
    let lifecycle = &mut config.lifecycle;
    if lifecycle.keep == Keep::None {
        return;
    }
    if rng.random_bool(0.5) {
        lifecycle.keep = Keep::Failed;
    }
    if rng.random_bool(0.5) {
        lifecycle.keep_most = rng.random_range(1..6);
    }
    if rng.random_bool(0.3) {
        lifecycle.keep_for = Duration::from_secs(rng.random_range(1..=SHORT.as_secs()));
    }
}

/// How much longer convergence may take.
pub fn extra_time(config: &Config) -> Duration {
    let span = config.lifecycle.keep_for;
    let retry = 2 * (config.cluster.request_timeout + LONGEST_BACKOFF);
    let listed = LISTED_EVERY + retry;
    match config.lifecycle.keep {
        Keep::None => Duration::ZERO,
        Keep::Failed | Keep::All if span <= SHORT => span + listed,
        Keep::Failed | Keep::All => listed,
    }
}

/// Whether at most as many pods are kept as the policy says. Those that are kept for a short time only are gone.
// spec: O-77
pub fn check_converged(state: &State, config: &Config, app: &str) -> Verdict {
    let lifecycle = &config.lifecycle;
    let most = match lifecycle.keep {
        Keep::None => 0,
        Keep::Failed | Keep::All if lifecycle.keep_for <= SHORT => 0,
        Keep::Failed | Keep::All => lifecycle.keep_most as usize,
    };
    // A pod to which an injected fault gave another application, role or id is nobody's executor, and stays.
    let of_sets = sets::kind(config).is_some();
    let kept = |pod: &&serde_json::Value| {
        is_executor(pod, app, of_sets)
            && is_inactive(pod)
            && !is_terminating(pod)
            && pod["metadata"]["annotations"]["boatswain.dev/kept-since"].is_string()
    };
    let names: Vec<&str> = (state.pods(NAMESPACE).filter(kept))
        .map(|pod| text(pod, "/metadata/name"))
        .collect();
    if names.len() <= most {
        return Ok(());
    }
    Err(format!(
        "O-77: {names:?} are kept, and at most {most} should be"
    ))
}
