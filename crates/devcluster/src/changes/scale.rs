//! The `/scale` subresource: reads and sets a workload's number of replicas.

use serde_json::{Value, json};

use super::patch::PatchKind;
use super::write::{Answer, Part};
use crate::api::status::{ApiError, Causes};
use crate::objects::object::{Key, Object, at, set, text};
use crate::storage::store::State;

#[derive(Clone, Debug)]
pub enum ScaleWrite {
    Put(Value),
    Patch(PatchKind, Value),
}

/// The `Scale` of a workload.
pub(crate) fn of(object: &Object) -> Value {
    let value = object.value();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": &*object.key().name,
            "namespace": &*object.key().namespace,
            "uid": object.uid(),
            "resourceVersion": object.resource_version().to_string(),
            "creationTimestamp": text(value, &["metadata", "creationTimestamp"]),
        },
        "spec": {},
        "status": {"replicas": at(value, &["status", "replicas"]).cloned().unwrap_or_else(|| 0.into())},
    });
    if let Some(replicas) = at(value, &["spec", "replicas"]).filter(|n| n.as_i64() != Some(0)) {
        scale["spec"]["replicas"] = replicas.clone();
    }
    let selected = at(value, &["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let pairs: Vec<String> = selected
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    scale["status"]["selector"] = pairs.join(",").into();
    scale
}

impl State {
    pub(crate) fn scale(
        &mut self,
        key: &Key,
        scale_write: &ScaleWrite,
    ) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        let mut scale = of(&old);
        match scale_write {
            ScaleWrite::Put(new) => scale = new.clone(),
            ScaleWrite::Patch(kind, patch) => kind.apply(key.resource, &mut scale, patch)?,
        }
        let uid = text(&scale, &["metadata", "uid"]);
        if !uid.is_empty() && uid != old.uid() {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                old.uid()
            );
            return Err(key.conflict(&why));
        }
        let replicas = at(&scale, &["spec", "replicas"]).cloned();
        let replicas = replicas.unwrap_or_else(|| 0.into());
        if replicas.as_i64().is_none_or(|n| n < 0) {
            let detail = "must be greater than or equal to 0";
            let causes = Causes::of(|causes| causes.invalid("spec.replicas", &replicas, detail));
            return Err(ApiError::invalid("Scale", "autoscaling", &key.name, causes));
        }
        let mut new = old.value().clone();
        set(&mut new, &["spec", "replicas"], replicas);
        let version = text(&scale, &["metadata", "resourceVersion"]);
        set(&mut new, &["metadata", "resourceVersion"], version.into());
        let object = self.update(&old, Part::Main, new)?;
        Ok(Answer::Status(200, of(&object)))
    }
}
