//! Tests of pools: what is refused, and what a new reading changes.

use super::changes::{at_next_start, changes};
use super::*;

/// Two profiles.
const PROFILES: &str = "[profiles.spot]\nimage = \"a\"\n[profiles.on-demand]\nimage = \"a\"\n";

/// A pool of these profiles, with more keys of its own.
pub(super) fn pooled(keys: &str) -> String {
    format!("{PROFILES}[pools.batch]\nprofiles = [\"spot\", \"on-demand\"]\n{keys}")
}

// spec: B-74, C-2
#[test]
fn a_pool_names_profiles_that_exist_have_no_target_of_their_own_and_are_of_one_pool() {
    let pool = |keys: &str| format!("[pools.batch]\n{keys}\n{PROFILES}");
    let both = "profiles = [\"spot\", \"on-demand\"]";
    let config = with(&pool(&format!(
        "{both}\nexecutors = 10\nshare = {{ spot = \"70%\" }}"
    )))
    .unwrap();
    let executors = |name: &str| config.profiles[name].executors;
    assert_eq!((executors("spot"), executors("on-demand")), (7, 3));
    for (text, key, found) in [
        (pool("profiles = [\"spot\"]"), "profiles", "found 1 of them"),
        (
            pool("profiles = [\"spot\", \"gpu\"]"),
            "profiles",
            "found \"gpu\", which is no profile",
        ),
        (
            pool("profiles = [\"spot\", \"spot\"]"),
            "profiles",
            "found \"spot\", which is of a pool already",
        ),
        (
            pool(&format!("{both}\nat_least = {{ gpu = 1 }}")),
            "at_least",
            "found \"gpu\", which is no profile of the pool",
        ),
        (
            pool(&format!("{both}\nshare = {{ gpu = \"1%\" }}")),
            "share",
            "found \"gpu\", which is no profile of the pool",
        ),
        (
            format!(
                "{}max_executors = 3\n[profiles.spot]\nimage = \"a\"\nmax_executors = 4\n[pools.batch]\n{both}\nexecutors = 8\n",
                "[profiles.on-demand]\nimage = \"a\"\n"
            ),
            "executors",
            "found 8, and its profiles may have 7 at most",
        ),
        (
            pool(both) + "[allocation]\npending_timeout = \"2m\"\n",
            "fallback_after",
            "found a time in which pods that wait for room are replaced",
        ),
    ] {
        let error = with(&text).unwrap_err().to_string();
        assert!(
            error.contains(&format!("pools.batch.{key}: {found}")),
            "{error}"
        );
    }
    for (text, begin) in [
        (
            pool(both).replace("batch", "spot"),
            "pools.spot.profiles: a profile is called spot, too",
        ),
        (
            pool(both) + "executors = 1\n",
            "profiles.on-demand.executors: found a target of its own",
        ),
        (
            pool(both) + "[allocation]\nstrategy = \"deployment\"\n",
            "pools: found pools, whose replacements",
        ),
        (
            pool(both) + "min_executors = 2\n[scheduling]\ngang = \"on\"\n",
            "pools: found pools, and a gang is of one profile",
        ),
    ] {
        let error = with(&text).unwrap_err().to_string();
        assert!(error.contains(begin), "{error}");
    }
}

// spec: C-6, B-74
#[test]
fn a_new_target_of_a_pool_is_shared_out_at_once_and_other_keys_of_pools_wait_for_the_next_start() {
    let shared = |before: &str, after: &str| {
        let changes = changes(before, after);
        let targets: Vec<_> = (changes.targets.iter())
            .map(|(name, target)| format!("{name} {target}"))
            .collect();
        (targets, at_next_start(&changes).join(" "))
    };
    let ten = pooled("executors = 10\nat_least = { on-demand = 2 }\n");
    let twelve = pooled("executors = 12\nat_least = { on-demand = 5 }\n");
    assert_eq!(
        shared(&ten, &twelve),
        (
            vec!["spot 10".to_owned()],
            "pools.batch.at_least".to_owned()
        )
    );
    assert_eq!(shared(PROFILES, &ten), (vec![], "pools.batch".to_owned()));
    assert_eq!(shared(&ten, PROFILES), (vec![], "pools.batch".to_owned()));
}
