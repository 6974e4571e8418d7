//! A simulated mutating webhook, which changes pods at their creation.

use serde_json::{Value, json};

use crate::node::SIDECAR;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Webhook {
    /// Removes a label.
    Strip(&'static str),
    /// Removes all labels.
    StripAll,
    /// Labels pods as dead and kept for inspection.
    Inactive,
    /// Adds a scheduling gate, which stays until the webhook is uninstalled.
    Gate,
    /// Adds a sidecar container.
    Sidecar,
    /// Adds an annotation without a meaning.
    Annotate,
}

impl Webhook {
    /// Whether the labels of the created pod differ from those requested.
    pub fn relabels(self) -> bool {
        matches!(
            self,
            Webhook::Strip(_) | Webhook::StripAll | Webhook::Inactive
        )
    }

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
                    // In front of all others, where some real webhooks insert it.
                    containers.insert(0, json!({"name": SIDECAR, "image": "none"}));
                }
            }
            Webhook::Annotate => {
                pod["metadata"]["annotations"]["example.com/seen"] = "yes".into();
            }
        }
    }
}
