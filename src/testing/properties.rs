//! How the tests of properties draw what they try.

use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::test_runner::{Config, RngSeed};

/// So many cases, from a seed that a failed test shows: with that in `PROPTEST_RNG_SEED` it draws the same ones again.
/// `PROPTEST_CASES` says how many instead. No file is left behind.
pub(crate) fn properties(cases: u32) -> Config {
    let default = Config::default();
    let seed = match default.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().build_hasher().finish(),
    };
    println!("PROPTEST_RNG_SEED={seed}");
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default.cases,
        None => cases,
    };
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..default
    }
}
