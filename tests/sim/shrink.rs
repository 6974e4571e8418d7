//! The shortest history that breaks the same rule: steps are left out, and the rest made simpler, as long as it does.

use crate::case::{Case, SIMPLER};

/// So many runs are spent on it at most.
const MOST_RUNS: usize = 600;

/// Which rule a violation is of.
pub fn rule(violation: &str) -> &str {
    violation
        .split_once(':')
        .map_or(violation, |(rule, _)| rule)
}

/// Shrinks a case that is violated; `violated` tells which rule a case breaks. What comes of it breaks the same one.
pub fn shrink(
    case: &Case,
    broken: &str,
    mut violated: impl FnMut(&Case) -> Option<String>,
) -> Case {
    let mut left = MOST_RUNS;
    let mut breaks = |case: &Case| {
        left = left.saturating_sub(1);
        left > 0 && violated(case).is_some_and(|violation| rule(&violation) == rule(broken))
    };
    let mut shortest = case.clone();
    loop {
        let before = shortest.clone();
        drop_steps(&mut shortest, &mut breaks);
        for simpler in SIMPLER {
            let mut tried = shortest.clone();
            if !tried.simpler.contains(&simpler) {
                tried.simpler.push(simpler);
                if breaks(&tried) {
                    shortest = tried;
                }
            }
        }
        // What was simplified may make more steps needless.
        if shortest == before {
            return shortest;
        }
    }
}

/// Leaves out as many steps as can be: halves, then quarters, down to single ones.
fn drop_steps(case: &mut Case, breaks: &mut impl FnMut(&Case) -> bool) {
    let mut kept = case.places();
    let mut size = kept.len();
    while size > 0 {
        // From the end: what came after the violation goes first.
        let mut end = kept.len();
        while end > 0 {
            let begin = end.saturating_sub(size);
            let mut fewer = kept.clone();
            fewer.drain(begin..end);
            let tried = Case {
                steps: Some(fewer.clone()),
                ..case.clone()
            };
            if breaks(&tried) {
                kept = fewer;
                *case = tried;
            }
            end = begin;
        }
        size /= 2;
    }
}

// spec: I-4
#[test]
fn a_history_is_shrunk_to_the_steps_that_break_the_rule() {
    let case = Case::of(7);
    let all = case.places();
    let needed = [all[1], all[all.len() - 2]];
    let shortest = shrink(&case, "I-4: too many", |case| {
        let kept = case.places();
        let breaks = needed.iter().all(|step| kept.contains(step));
        // What is left without the other steps breaks another rule, and is of no use.
        Some(if breaks { "I-4: more" } else { "I-2: lost" }.to_owned())
    });
    assert_eq!(shortest.steps, Some(needed.to_vec()));
    assert_eq!(shortest.simpler, SIMPLER);
}
