//! Writes that only pods have: binding and status reports.

use serde_json::{Value, json};

use super::object::{Key, Object, at, entries, list, set, text, unset};
use crate::api::status::{ApiError, Causes, success};
use crate::changes::write::{Answer, WriteContext};
use crate::storage::store::State;

impl State {
    pub(crate) fn bind(
        &mut self,
        key: &Key,
        binding: &Value,
        context: &WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        let name = text(binding, &["metadata", "name"]);
        if !name.is_empty() && name != &*key.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let node = text(binding, &["target", "name"]);
        let kind = text(binding, &["target", "kind"]);
        let mut causes = Causes::default();
        if !matches!(kind, "" | "Node") {
            causes.not_supported("target.kind", kind, &["Node", "<empty>"]);
        }
        if node.is_empty() {
            causes.required("target.name", "");
        }
        causes.check("Binding", "", &key.name)?;
        let old = self.existing(key)?;
        let refused = |why: String| Err(ApiError::conflict("pods/binding", "", &key.name, &why));
        let uid = text(binding, &["metadata", "uid"]);
        if !uid.is_empty() && uid != old.uid() {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                old.uid()
            );
            return refused(why);
        }
        if old.is_terminating() {
            return refused(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                key.name
            ));
        }
        if !list(old.value(), &["spec", "schedulingGates"]).is_empty() {
            return refused(format!(
                "pod {} has non-empty .spec.schedulingGates",
                key.name
            ));
        }
        let assigned = text(old.value(), &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return refused(format!(
                "pod {} is already assigned to node \"{assigned}\"",
                key.name
            ));
        }
        let mut new = old.value().clone();
        set(&mut new, &["spec", "nodeName"], node.into());
        set_condition(&mut new, "PodScheduled", true, &context.text());
        for (name, value) in entries(binding, &["metadata", "annotations"]) {
            set(&mut new, &["metadata", "annotations", name], value.clone());
        }
        self.put(key.clone(), new)?;
        Ok(Answer::Status(201, success(201, None)))
    }
    pub(crate) fn report(
        &mut self,
        key: &Key,
        uid: &str,
        status: &Value,
    ) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        if old.uid() != uid {
            return Err(key.not_found());
        }
        let mut new = old.value().clone();
        for (field, value) in status.as_object().into_iter().flatten() {
            set(&mut new, &["status", field], value.clone());
        }
        if new == *old.value() {
            return Ok(Answer::Object(old, false));
        }
        Ok(Answer::Object(self.put(key.clone(), new)?, false))
    }
}

/// Sets the condition of a pod that nobody may bind yet.
pub(crate) fn say_gated(pod: &mut Value, now: &Value) {
    if !list(pod, &["spec", "schedulingGates"]).is_empty() {
        let why = (
            "SchedulingGated",
            "Scheduling is blocked due to non-empty scheduling gates",
        );
        set_explained(pod, "PodScheduled", false, why, now);
    }
}

/// Whether all containers of a pod have terminated for good.
pub(crate) fn has_ended(pod: &Object) -> bool {
    let phase = text(pod.value(), &["status", "phase"]);
    matches!(phase, "Failed" | "Succeeded")
}

/// Sets a condition of a pod with reason and message, and updates its transition time if its status changes.
pub(crate) fn set_explained(
    pod: &mut Value,
    kind: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: &Value,
) {
    set_condition(pod, kind, holds, now);
    let conditions = pod
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if text(condition, &["type"]) == kind {
            set(condition, &["reason"], reason.into());
            set(condition, &["message"], message.into());
        }
    }
}

/// Sets a condition of a pod, and updates its transition time if its status changes.
pub(crate) fn set_condition(pod: &mut Value, kind: &str, holds: bool, now: &Value) {
    let status = if holds { "True" } else { "False" };
    if !at(pod, &["status", "conditions"]).is_some_and(Value::is_array) {
        set(pod, &["status", "conditions"], json!([]));
    }
    let Some(conditions) = pod
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(condition) if condition["status"] == status => {}
        Some(condition) => {
            condition["status"] = status.into();
            condition["lastTransitionTime"] = now.clone();
            // The old reason and message do not apply to the new status.
            for stale in ["reason", "message"] {
                unset(condition, &[stale]);
            }
        }
        None => conditions.push(json!({
            "type": kind,
            "status": status,
            "lastProbeTime": null,
            "lastTransitionTime": now,
        })),
    }
}
