//! Placement of a profile's executors on nodes: affinity and topology spread (spec K-5).

use k8s_openapi::api::core::v1;
use serde_json::{Value as Json, json};

use crate::declare::choice;
use crate::document::Value;
use crate::kinds::{Kind, Text, Whole, one_of};
use crate::names::is_label_key;
use crate::reader::Section;
use crate::typed;

choice! {
    /// What the scheduler does with an executor that would violate the spread.
    #[derive(Default)]
    pub enum Uneven {
        /// The executor stays pending.
        #[default]
        DoNotSchedule = "DoNotSchedule",
        ScheduleAnyway = "ScheduleAnyway",
    }
}

/// `[[profiles.NAME.topology_spread]]`: a topology spread constraint over the profile's executors
/// of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The topology key: a label of nodes.
    pub key: String,
    /// The largest difference between two topology domains.
    pub max_skew: u32,
    pub uneven: Uneven,
}

impl Spread {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let key = Text {
            rule: is_label_key,
            allowed: "the key of a node's label, such as topology.kubernetes.io/zone",
        };
        let key = s.option("key", key);
        let max_skew = s.value("max_skew", Whole(1..=100_000), 1);
        let uneven = s.value("uneven", one_of(), Uneven::default());
        if !s.is_set("key") {
            let fix = "say key = \"topology.kubernetes.io/zone\", or another label of nodes";
            s.refuse_whole("no key", fix);
        }
        let spread = |key| Self {
            key,
            max_skew,
            uneven,
        };
        key.map(spread)
    }
}

/// A pod's affinity, with the fields that Kubernetes defines.
pub(super) struct Affinity;

impl Affinity {
    fn checked(value: &Value) -> Result<Json, String> {
        let Value::Table(_) = value else {
            return Err(String::new());
        };
        let json = typed::json(value).ok_or_else(String::new)?;
        let misfits = typed::misfits::<v1::Affinity>(&json);
        let why: Vec<String> = misfits.iter().map(ToString::to_string).collect();
        match why.is_empty() {
            true => Ok(json),
            false => Err(why.join("; ")),
        }
    }
}

impl Kind for Affinity {
    type Out = Json;

    fn read(&self, value: &Value) -> Option<Json> {
        Self::checked(value).ok()
    }

    fn allowed(&self) -> String {
        "a pod's affinity with the fields of Kubernetes: nodeAffinity, podAffinity, podAntiAffinity"
            .to_owned()
    }

    fn schema(&self) -> Json {
        json!({"type": "object", "description": self.allowed()})
    }

    fn show(&self, value: &Json) -> String {
        toml::Value::try_from(value).map_or_else(|_| "{}".to_owned(), |value| value.to_string())
    }

    fn hint(&self, refused: &Value) -> Option<String> {
        Self::checked(refused).err().filter(|why| !why.is_empty())
    }
}
