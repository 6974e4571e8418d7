//! The tolerations of a profile's executors (spec K-5).

use std::time::Duration;

use crate::declare::{choice, section};
use crate::kinds::{Text, one_of, seconds};
use crate::names::{is_label_key, is_label_value};
use crate::reader::Section;
use crate::sections::{DAY, secs};

choice! {
    #[derive(Default)]
    pub enum TolerationOperator {
        /// The taint has the given value.
        #[default]
        Equal = "Equal",
        /// The taint exists, with any value.
        Exists = "Exists",
    }
}

choice! {
    pub enum TaintEffect {
        /// New pods are not scheduled on the node.
        NoSchedule = "NoSchedule",
        /// The scheduler avoids the node.
        PreferNoSchedule = "PreferNoSchedule",
        /// Pods on the node are evicted, too.
        NoExecute = "NoExecute",
    }
}

section! {
    /// `[[profiles.NAME.tolerations]]`: a toleration for taints of nodes.
    pub struct Toleration {
        /// `None`: every key.
        pub key: Option<String> = option(KEY);
        pub operator: TolerationOperator = value(one_of()) or TolerationOperator::default();
        pub value: Option<String> = option(VALUE);
        /// `None`: every effect.
        pub effect: Option<TaintEffect> = option(one_of());
        /// How long a `NoExecute` taint is tolerated, in whole seconds. `None`: forever.
        pub tolerate_for: Option<Duration> = option(seconds(secs(0)..=DAY * 365));
    }
}

const KEY: Text = Text {
    rule: is_label_key,
    allowed: "a taint's key, such as dedicated or node.kubernetes.io/unreachable",
};

const VALUE: Text = Text {
    rule: is_label_value,
    allowed: "a taint's value: at most 63 letters, digits, dashes, dots and underscores",
};

impl Toleration {
    pub(super) fn checked(s: &mut Section<'_>) -> Option<Self> {
        let toleration = Self::read(s);
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
