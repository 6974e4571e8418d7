//! The tolerations of a profile's executors (spec K-5).

use std::time::Duration;

use crate::config::kinds::{Choice, Text, one_of, seconds, word_of};
use crate::config::names::{is_label_key, is_label_value};
use crate::config::reader::Section;
use crate::config::sections::secs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TolerationOperator {
    /// The taint has the given value.
    #[default]
    Equal,
    /// The taint exists, with any value.
    Exists,
}

impl TolerationOperator {
    /// The name of the operator in Kubernetes.
    pub fn as_str(self) -> &'static str {
        word_of(self)
    }
}

impl Choice for TolerationOperator {
    const ALL: &'static [(&'static str, Self)] =
        &[("Equal", Self::Equal), ("Exists", Self::Exists)];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaintEffect {
    /// New pods are not scheduled on the node.
    NoSchedule,
    /// The scheduler avoids the node.
    PreferNoSchedule,
    /// Pods on the node are evicted, too.
    NoExecute,
}

impl TaintEffect {
    /// The name of the effect in Kubernetes.
    pub fn as_str(self) -> &'static str {
        word_of(self)
    }
}

impl Choice for TaintEffect {
    const ALL: &'static [(&'static str, Self)] = &[
        ("NoSchedule", Self::NoSchedule),
        ("PreferNoSchedule", Self::PreferNoSchedule),
        ("NoExecute", Self::NoExecute),
    ];
}

/// `[[profiles.NAME.tolerations]]`: a toleration for taints of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Toleration {
    /// `None`: every key.
    pub key: Option<String>,
    pub operator: TolerationOperator,
    pub value: Option<String>,
    /// `None`: every effect.
    pub effect: Option<TaintEffect>,
    /// How long a `NoExecute` taint is tolerated, in whole seconds. `None`: forever.
    pub tolerate_for: Option<Duration>,
}

impl Toleration {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let key = Text {
            rule: is_label_key,
            allowed: "a taint's key, such as dedicated or node.kubernetes.io/unreachable",
        };
        let value = Text {
            rule: is_label_value,
            allowed: "a taint's value: at most 63 letters, digits, dashes, dots and underscores",
        };
        let toleration = Self {
            key: s.option("key", key),
            operator: s.value("operator", one_of(), TolerationOperator::default()),
            value: s.option("value", value),
            effect: s.option("effect", one_of()),
            tolerate_for: s.option("tolerate_for", seconds(secs(0)..=secs(365 * 24 * 3600))),
        };
        let exists = toleration.operator == TolerationOperator::Exists;
        if exists && toleration.value.is_some() {
            let fix = "leave the value out, or compare with operator = \"Equal\"";
            s.refuse("value", "found a value beside operator \"Exists\"", fix);
            return None;
        }
        if !exists && toleration.key.is_none() {
            let fix = "name the key, or tolerate every taint with operator = \"Exists\"";
            s.refuse_whole("no key to compare", fix);
            return None;
        }
        if toleration.tolerate_for.is_some() && toleration.effect != Some(TaintEffect::NoExecute) {
            let fix = "only effect = \"NoExecute\" can be tolerated for a time";
            s.refuse("tolerate_for", "found a time beside another effect", fix);
            return None;
        }
        Some(toleration)
    }
}
