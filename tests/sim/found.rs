//! What sweeps of fresh seeds have found in the driver, and is mended.
//!
//! A script belongs to the worlds of its time: when the drawing of scripts changes, its seed means another history. Each
//! find has a unit test besides, which keeps its meaning.

use crate::case::{Case, Simplification};
use crate::runs::run_untraced;
use Simplification::{EndEarly, FewExecutors, NoClockSkew, NoPodDelays, OneProfile};

/// A seed; the steps that showed it, of all if there are none; how its world was simpler.
type Script = (u64, &'static [usize], &'static [Simplification]);

const FOUND: &[Script] = &[
    // I-1: a later record forgot which ids were reserved, because the one before was deleted while pods terminated.
    (
        900_399,
        &[0, 1, 2, 5, 6],
        &[OneProfile, FewExecutors, NoClockSkew, EndEarly],
    ),
    (2026112723011259, &[], &[]),
    // I-12: partitions with an instant between them; executors were given up as silent.
    (
        901_107,
        &[1, 2, 3, 11, 16, 22, 23, 28, 29],
        &[OneProfile, NoClockSkew, NoPodDelays, EndEarly],
    ),
    (901_309, &[37, 39], &[OneProfile, NoClockSkew, NoPodDelays]),
    (900_551, &[3, 7, 11], &[NoClockSkew]),
    // I-12: silent executors of a small fleet, one of which was Terminating for long, or was replaced meanwhile.
    (2026112801408933, &[], &[]),
    (2026112822303873, &[], &[]),
    // I-12: a superseded driver kept sessions, and did not read the record in a doubt.
    (2026112912000138, &[], &[]),
    // L-1: an end was neither recorded nor reported when the driver was killed.
    (2026112822305840, &[], &[]),
    // W-15: the watch of nodes was resumed from a version of the future.
    (2026112906371044, &[], &[]),
    // B-71: executors of a profile that had left the configuration stayed on a node that left.
    (2026112907056355, &[], &[]),
];

// spec: I-1, I-12, L-1, W-15, B-71
#[test]
fn sim_what_sweeps_have_found_stays_mended() {
    for (seed, steps, simplifications) in FOUND {
        let case = Case {
            steps: (!steps.is_empty()).then(|| steps.to_vec()),
            simplifications: simplifications.to_vec(),
            ..Case::of(*seed)
        };
        assert_eq!(run_untraced(&case).verdict, Ok(()), "{case}");
    }
}
