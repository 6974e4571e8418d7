//! Validation and the status of PodDisruptionBudgets.

use serde_json::{Map, Value, json};

use super::label_selector;
use super::object::{Object, at, list, number, set, text};
use crate::api::status::Causes;

const LIMITS: [&str; 2] = ["minAvailable", "maxUnavailable"];

pub(super) fn validate(budget: &Value, causes: &mut Causes) {
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let limits = LIMITS.map(|limit| (limit, spec.get(limit)));
    if limits.iter().all(|(_, value)| value.is_some()) {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        causes.invalid("spec", spec, detail);
    }
    for (limit, value) in limits {
        let Some(value) = value else {
            continue;
        };
        let field = format!("spec.{limit}");
        match (value.as_i64(), percentage(value)) {
            (Some(n), _) if n < 0 => {
                causes.invalid(field, n, "must be greater than or equal to 0");
            }
            (None, None) => {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  \
                              or '93%', regex used for validation is '[0-9]+%')";
                causes.invalid(field, value, detail);
            }
            (None, Some(share)) if share > 100 => {
                causes.invalid(field, value, "must not be greater than 100%");
            }
            _ => {}
        }
    }
    if let Some(selector) = spec.get("selector") {
        label_selector::validate(selector, "spec.selector", causes);
    }
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    causes.one_of(spec, "spec.unhealthyPodEvictionPolicy", &policies);
}

fn percentage(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether a limit is a share of the pods that should exist, or a number of them.
pub(crate) enum Limit {
    /// At least this many, or this share, must be healthy.
    Available(Amount),
    /// At most this many, or this share, may be unhealthy.
    Unavailable(Amount),
}

#[derive(Clone, Copy)]
pub(crate) enum Amount {
    Pods(u64),
    Percent(u64),
}

impl Amount {
    fn of(value: &Value) -> Self {
        match percentage(value) {
            Some(share) => Self::Percent(share),
            None => Self::Pods(value.as_u64().unwrap_or(0)),
        }
    }

    /// This many of `all`, rounded up.
    pub(crate) fn of_all(self, all: u64) -> u64 {
        match self {
            Self::Pods(pods) => pods,
            Self::Percent(share) => all.saturating_mul(share).div_ceil(100),
        }
    }
}

/// The limit of a budget; `None` if it has none.
pub(crate) fn limit(budget: &Object) -> Option<Limit> {
    let amount = |limit: &str| at(budget.value(), &["spec", limit]).map(Amount::of);
    let [available, unavailable] = LIMITS.map(amount);
    unavailable
        .map(Limit::Unavailable)
        .or_else(|| available.map(Limit::Available))
}

/// Whether a budget is for pods with these labels. One without a selector is for none, an empty selector is for all.
pub(crate) fn selects(budget: &Object, labels: Option<&Map<String, Value>>) -> bool {
    at(budget.value(), &["spec", "selector"])
        .is_some_and(|selector| label_selector::selects(selector, labels))
}

/// The reason for which the status of a budget could not be determined.
pub(crate) fn failure(budget: &Value) -> Option<&str> {
    let mut conditions = list(budget, &["status", "conditions"]).iter();
    let failed = conditions.find(|c| text(c, &["reason"]) == "SyncFailed")?;
    Some(text(failed, &["message"]))
}

/// Sets the condition that says whether pods may be evicted, from the status' number of them.
pub(crate) fn set_allowed(status: &mut Value, now: &Value) {
    let (holds, reason) = match number(status, &["disruptionsAllowed"]) {
        Some(allowed) if allowed > 0 => ("True", "SufficientPods"),
        _ => ("False", "InsufficientPods"),
    };
    set_condition(status, holds, (reason, ""), now);
}

/// Sets the condition that no pod may be evicted because the status could not be determined.
pub(crate) fn set_failed(status: &mut Value, why: &str, now: &Value) {
    set(status, &["disruptionsAllowed"], 0.into());
    set_condition(status, "False", ("SyncFailed", why), now);
}

fn set_condition(status: &mut Value, holds: &str, (reason, message): (&str, &str), now: &Value) {
    let before = list(status, &["conditions"]).first();
    let since = before
        .filter(|before| text(before, &["status"]) == holds)
        .and_then(|before| before.get("lastTransitionTime"))
        .unwrap_or(now);
    let condition = json!({
        "type": "DisruptionAllowed",
        "status": holds,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": number(status, &["observedGeneration"]).unwrap_or(0),
    });
    set(status, &["conditions"], json!([condition]));
}
