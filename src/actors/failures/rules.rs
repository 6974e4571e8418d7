//! Decides whether an end counts: by the first matching rule, else by its reason (spec L-31).

use std::collections::BTreeSet;

use crate::model::{LossClass, LossReason};

/// A rule matches if each of its parts does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Empty: any exit code, known or not.
    pub exit_codes: BTreeSet<i32>,
    /// Empty: any reason.
    pub classes: BTreeSet<LossClass>,
    /// Conditions of the pod with status True, of which one is enough. Empty: any pod.
    pub conditions: BTreeSet<String>,
    pub action: Verdict,
}

/// What an end means for its profile's limit of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Ignore,
    Count,
    /// As if the limit were exceeded.
    Stop,
}

impl Rule {
    fn matches(&self, reason: &LossReason) -> bool {
        let has = |condition: &std::sync::Arc<str>| self.conditions.contains(&**condition);
        let code = |code: i32| self.exit_codes.contains(&code);
        (self.exit_codes.is_empty() || reason.exit_code.is_some_and(code))
            && (self.classes.is_empty() || self.classes.contains(&reason.class))
            && (self.conditions.is_empty() || reason.evidence.conditions.iter().any(has))
    }
}

pub fn judge(rules: &[Rule], reason: &LossReason) -> Verdict {
    let by_rule = rules.iter().find(|rule| rule.matches(reason));
    by_rule.map_or(
        match reason.failure {
            true => Verdict::Count,
            false => Verdict::Ignore,
        },
        |rule| rule.action,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::reason::Evidence;

    fn reason(class: LossClass, exit_code: Option<i32>, conditions: &[&str]) -> LossReason {
        LossReason {
            class,
            exit_code,
            by_application: class.by_application(),
            failure: class.is_failure(exit_code),
            message: String::new(),
            evidence: Evidence {
                conditions: conditions.iter().map(|text| Arc::from(*text)).collect(),
                ..Evidence::default()
            },
        }
    }

    fn rule(codes: &[i32], classes: &[LossClass], conditions: &[&str], action: Verdict) -> Rule {
        Rule {
            exit_codes: codes.iter().copied().collect(),
            classes: classes.iter().copied().collect(),
            conditions: conditions.iter().map(|text| (*text).to_owned()).collect(),
            action,
        }
    }

    // spec: L-30, L-20
    #[test]
    fn without_rules_failures_count_and_disruptions_do_not() {
        use LossClass::*;
        for class in [OomKilled, StartFailed, HeartbeatTimeout, TemplateRefused] {
            assert_eq!(judge(&[], &reason(class, None, &[])), Verdict::Count);
        }
        for class in [Evicted, Preempted, Disrupted, NodeLost, Deleted, Rejected] {
            let seen = reason(class, Some(137), &["DisruptionTarget"]);
            assert_eq!(judge(&[], &seen), Verdict::Ignore, "{class}");
        }
        assert_eq!(judge(&[], &reason(Exited, Some(0), &[])), Verdict::Ignore);
        assert_eq!(judge(&[], &reason(Exited, Some(1), &[])), Verdict::Count);
    }

    // spec: L-31
    #[test]
    fn the_first_rule_that_matches_decides() {
        use LossClass::*;
        let rules = [
            rule(&[3, 42], &[], &[], Verdict::Ignore),
            rule(&[], &[Evicted], &[], Verdict::Count),
            rule(&[], &[], &["ConfigIssue"], Verdict::Stop),
            rule(&[42, 77], &[], &[], Verdict::Stop),
            rule(&[9], &[OomKilled], &["Odd"], Verdict::Ignore),
        ];
        let cases = [
            (reason(Exited, Some(3), &[]), Verdict::Ignore),
            (reason(Exited, Some(42), &[]), Verdict::Ignore),
            (reason(Exited, Some(77), &[]), Verdict::Stop),
            (reason(Evicted, None, &[]), Verdict::Count),
            (reason(Exited, Some(1), &["ConfigIssue"]), Verdict::Stop),
            (reason(Exited, Some(1), &["Other"]), Verdict::Count),
            // No rule matches an unknown code.
            (reason(Exited, None, &[]), Verdict::Count),
            (reason(OomKilled, Some(9), &[]), Verdict::Count),
            (reason(OomKilled, Some(9), &["Odd"]), Verdict::Ignore),
        ];
        for (seen, verdict) in cases {
            assert_eq!(judge(&rules, &seen), verdict, "{seen:?}");
        }
    }
}
