//! Evictions: deletions of pods that disruption budgets can refuse.

use serde_json::{Value, json};

use super::delete::{self, DeleteOptions};
use super::write::{Answer, WriteContext};
use crate::api::status::{ApiError, success};
use crate::objects::budgets;
use crate::objects::object::{Key, Object, condition, number, set, text};
use crate::objects::pod::{has_ended, set_explained};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The most evictions that a budget allows before its controller has seen them.
const MAX_DISRUPTED: usize = 2_000;

/// When to try again if a budget's status is not up to date, in seconds.
const RETRY_AFTER: u64 = 10;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl State {
    pub(crate) fn evict(
        &mut self,
        key: &Key,
        options: &DeleteOptions,
        context: &WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        if let Some((budget, status)) = self.charge(&old, &context.text())? {
            let mut value = budget.value().clone();
            set(&mut value, &["status"], status);
            self.put(budget.key().clone(), value)?;
        }
        // As on real servers, the budget is charged for an eviction that then does not take place.
        if let Some(why) = delete::unmet(&old, options) {
            let error = ApiError::conflict("Pod", "", &key.name, &why);
            return Ok(Answer::Status(error.code, error.to_value()));
        }
        let mut new = old.value().clone();
        let why = ("EvictionByEvictionAPI", "Eviction API: evicting");
        set_explained(&mut new, "DisruptionTarget", true, why, &context.text());
        if !old.is_terminating() {
            self.put(key.clone(), new)?;
        }
        let options = DeleteOptions {
            resource_version: None,
            ..options.clone()
        };
        delete::one(self, key, &options, context)?;
        Ok(Answer::Status(201, success(201, None)))
    }

    /// The budget that an eviction is charged to, and the budget's next status.
    fn charge(
        &self,
        pod: &Object,
        now: &Value,
    ) -> Result<Option<(std::sync::Arc<Object>, Value)>, ApiError> {
        // Pods that do not run yet or any more are not protected.
        let is_pending = text(pod.value(), &["status", "phase"]) == "Pending";
        if is_pending || has_ended(pod) || pod.is_terminating() {
            return Ok(None);
        }
        let budgets = self.list(Resource::PodDisruptionBudgets, Some(&pod.key().namespace));
        let mut budgets = budgets.filter(|budget| budgets::selects(budget, pod.labels()));
        let Some(budget) = budgets.next() else {
            return Ok(None);
        };
        if budgets.next().is_some() {
            return Err(ApiError::unclassified(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if condition(pod.value(), "Ready") != "True" && spares_unready(budget) {
            return Ok(None);
        }
        Ok(Some((budget.clone(), charged(budget, pod, now)?)))
    }
}

/// Whether a budget does not protect pods that are not ready.
fn spares_unready(budget: &Object) -> bool {
    let value = budget.value();
    let count = |field: &str| number(value, &["status", field]).unwrap_or(0);
    let desired = count("desiredHealthy");
    text(value, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (desired > 0 && count("currentHealthy") >= desired)
}

/// The status of a budget after an eviction.
fn charged(budget: &Object, pod: &Object, now: &Value) -> Result<Value, ApiError> {
    let (value, name) = (budget.value(), &budget.key().name);
    let count = |path: &[&str]| number(value, path).unwrap_or(0);
    if count(&["status", "observedGeneration"]) < count(&["metadata", "generation"]) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(ApiError::disruption_budget(
            REFUSED,
            &why,
            Some(RETRY_AFTER),
        ));
    }
    let disrupted = value
        .pointer("/status/disruptedPods")
        .and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(budget.key().forbidden(why));
    }
    let allowed = count(&["status", "disruptionsAllowed"]);
    if allowed <= 0 {
        let why = budgets::failure(value).map_or_else(
            || {
                let desired = count(&["status", "desiredHealthy"]);
                let current = count(&["status", "currentHealthy"]);
                if current > desired {
                    return format!(
                        "The disruption budget {name} does not allow evicting pods currently"
                    );
                }
                format!(
                    "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
                )
            },
            |why| {
                format!(
                    "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
                )
            },
        );
        return Err(ApiError::disruption_budget(REFUSED, &why, None));
    }
    let mut status = value.get("status").cloned().unwrap_or_else(|| json!({}));
    set(&mut status, &["disruptionsAllowed"], (allowed - 1).into());
    set(
        &mut status,
        &["disruptedPods", &pod.key().name],
        now.clone(),
    );
    if allowed == 1 {
        budgets::set_allowed(&mut status, now);
    }
    Ok(status)
}
