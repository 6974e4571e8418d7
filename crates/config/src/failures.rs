//! The section `[failures]`: which ends count as failures, how many are tolerated, what more of them
//! end, and how long a failing profile backs off (spec A-98, L-30 to L-32, L-40).

use std::time::Duration;

use super::declare::{choice, section};
use super::kinds::{Choice, Text, Whole, one_of, span};
use super::names::is_label_key;
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};
use boatswain_model::LossClass;

choice! {
    /// What happens when an executor's end matches a rule (spec L-31).
    #[derive(Default)]
    pub enum FailureAction {
        /// The end does not count as a failure.
        #[default]
        Ignore = "ignore",
        /// The end counts as a failure.
        Count = "count",
        /// As more failures than are tolerated.
        Stop = "stop",
    }
}

choice! {
    /// What ends when a profile of the configuration has failed too often (spec L-30, L-40).
    #[derive(Default)]
    pub enum OnExceeded {
        /// The application.
        #[default]
        Application = "application",
        /// The executors of the profile.
        Profile = "profile",
    }
}

choice! {
    /// How new executors avoid a node (spec L-32).
    #[derive(Default)]
    pub enum NodeAvoidance {
        /// They wait for another node.
        #[default]
        Required = "required",
        /// They use it if there is no other one. Karpenter makes no node for a pod that must not run on a named node.
        Preferred = "preferred",
    }
}

impl Choice for LossClass {
    // The last one, NotCreated, is no end that a rule can match.
    const ALL: &'static [(&'static str, Self)] =
        LossClass::ALL.split_at(LossClass::ALL.len() - 1).0;
}

section! {
    /// `[[failures.rules]]`: an exception to how ends are classified (spec L-31). A rule matches if
    /// all of its non-empty criteria match.
    pub struct FailureRule {
        /// The exit code is one of these; empty: any.
        pub exit_codes: Vec<i32> = list(Whole(0..=255));
        /// The class of the reason is one of these; empty: any.
        pub classes: Vec<LossClass> = list(one_of());
        /// The pod has one of these conditions; empty: any.
        pub conditions: Vec<String> = list(CONDITION);
        pub action: FailureAction = value(one_of()) or FailureAction::default();
    }
}

const CONDITION: Text = Text {
    rule: is_label_key,
    allowed: "the type of a pod's condition, such as DisruptionTarget",
};

impl FailureRule {
    fn checked(s: &mut Section<'_>) -> Option<Self> {
        let rule = Self::read(s);
        if rule.exit_codes.is_empty() && rule.classes.is_empty() && rule.conditions.is_empty() {
            let fix = "name exit_codes, classes or conditions";
            s.refuse_whole("the rule would match every end", fix);
            return None;
        }
        if !s.is_set("action") {
            let fix = "say action = \"ignore\", \"count\" or \"stop\"";
            s.refuse_whole("the rule has no action", fix);
            return None;
        }
        Some(rule)
    }
}

section! {
    /// `[failures]`: crash loops (spec A-98), and how many failures each profile may have (spec L-30).
    pub struct Failures {
        /// The most failures of a profile that are tolerated within the window. `None`: derived from
        /// the number of executors wanted.
        pub max: Option<u32> = option(Whole(0..=1_000_000_000));
        /// What more failures end. A profile that was added while the driver runs fails alone.
        pub on_exceeded: OnExceeded = value(one_of()) or OnExceeded::default();
        /// How long a failure counts. Zero: forever.
        pub window: Duration = value(span(ms(0)..=DAY * 365)) or HOUR;
        /// Exceptions to the classification; the first rule that matches decides.
        pub rules: Vec<FailureRule> = list_of_sections(FailureRule::checked);
        /// A node with this many failures within the window is avoided. `None`: nodes are never
        /// avoided (spec L-32).
        pub node_max_failures: Option<u32> = option(Whole(1..=100));
        /// How nodes are avoided.
        pub node_avoidance: NodeAvoidance = value(one_of()) or NodeAvoidance::default();
        /// An executor that has run for this long is considered stable.
        pub stable_after: Duration = value(span(ms(100)..=DAY)) or secs(60);
        /// The first back-off of a profile in a crash loop.
        pub backoff_initial: Duration = value(span(ms(10)..=DAY)) or secs(1);
        /// The longest back-off.
        pub backoff_max: Duration = value(span(ms(10)..=DAY)) or secs(300);
    }
}
