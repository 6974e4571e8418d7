//! Shortens the script of a violation: removes steps and simplifies the settings as long as the same rule is violated.

use crate::case::{Case, SIMPLIFICATIONS};

/// Most runs spent on shortening.
const MAX_RUNS: usize = 600;

/// The rule that a violation names.
pub fn rule(violation: &str) -> &str {
    violation
        .split_once(':')
        .map_or(violation, |(rule, _)| rule)
}

/// Shrinks a case that violates a rule; `violated` runs a case and returns its violation. The result violates the same
/// rule.
pub fn shrink(
    case: &Case,
    expected: &str,
    mut violated: impl FnMut(&Case) -> Option<String>,
) -> Case {
    let mut left = MAX_RUNS;
    let mut violates = |case: &Case| {
        left = left.saturating_sub(1);
        left > 0 && violated(case).is_some_and(|violation| rule(&violation) == rule(expected))
    };
    let mut shortest = case.clone();
    loop {
        let before = shortest.clone();
        drop_steps(&mut shortest, &mut violates);
        for simplification in SIMPLIFICATIONS {
            let mut tried = shortest.clone();
            if !tried.simplifications.contains(&simplification) {
                tried.simplifications.push(simplification);
                if violates(&tried) {
                    shortest = tried;
                }
            }
        }
        // A simplification may make more steps unnecessary.
        if shortest == before {
            return shortest;
        }
    }
}

/// Removes as many steps as possible: halves, then quarters, down to single steps.
fn drop_steps(case: &mut Case, violates: &mut impl FnMut(&Case) -> bool) {
    let mut kept = case.step_indices();
    let mut size = kept.len();
    while size > 0 {
        // From the end, because the steps after the violation are certainly not needed.
        let mut end = kept.len();
        while end > 0 {
            let begin = end.saturating_sub(size);
            let mut fewer = kept.clone();
            fewer.drain(begin..end);
            let tried = Case {
                steps: Some(fewer.clone()),
                ..case.clone()
            };
            if violates(&tried) {
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
fn a_script_is_shrunk_to_the_steps_that_break_the_rule() {
    let case = Case::of(7);
    let all = case.step_indices();
    let needed = [all[1], all[all.len() - 2]];
    let shortest = shrink(&case, "I-4: too many", |case| {
        let kept = case.step_indices();
        let violates = needed.iter().all(|step| kept.contains(step));
        // Without the needed steps another rule is violated, which must not count.
        Some(if violates { "I-4: more" } else { "I-2: lost" }.to_owned())
    });
    assert_eq!(shortest.steps, Some(needed.to_vec()));
    assert_eq!(shortest.simplifications, SIMPLIFICATIONS);
}
