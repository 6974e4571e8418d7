//! A webhook that changes pods as they are created.

use serde_json::{Value, json};

use crate::node::SIDECAR;

/// What it does to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Webhook {
    /// Takes a label away.
    Strip(&'static str),
    /// Takes all labels away.
    StripAll,
    /// Says that they are dead and kept.
    Inactive,
    /// Holds them until it is uninstalled.
    Gate,
    /// Gives them another container.
    Sidecar,
    /// Adds what changes nothing.
    Annotate,
}

impl Webhook {
    /// Whether what it makes of a pod is not what was asked for, as far as anybody can tell by its labels.
    pub fn relabels(self) -> bool {
        matches!(
            self,
            Webhook::Strip(_) | Webhook::StripAll | Webhook::Inactive
        )
    }

    /// The pod as it becomes.
    pub fn change(self, pod: &mut Value) {
        match self {
            Webhook::Strip(key) => {
                if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
                    labels.remove(key);
                }
            }
            Webhook::StripAll => pod["metadata"]["labels"] = json!({}),
            Webhook::Inactive => {
                pod["metadata"]["labels"]["boatswain.dev/inactive"] = "true".into();
            }
            Webhook::Gate => pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]),
            Webhook::Sidecar => {
                if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
                    // In front of all others, as some do.
                    containers.insert(0, json!({"name": SIDECAR, "image": "none"}));
                }
            }
            Webhook::Annotate => {
                pod["metadata"]["annotations"]["example.com/seen"] = "yes".into();
            }
        }
    }
}
