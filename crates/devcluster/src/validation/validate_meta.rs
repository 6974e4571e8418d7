//! Validates the metadata of objects and its updates.

use serde_json::Value;

use super::names;
use super::validate::labels;
use crate::api::status::Causes;
use crate::objects::kinds;
use crate::objects::object::{at, is_true, list, text};
use crate::objects::resource::Resource;

/// The most annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// A real server's message for a change of an immutable field.
pub(crate) const IMMUTABLE: &str = "field is immutable";

pub(crate) fn whole(resource: Resource, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let form = match resource.traits().kind {
        "Namespace" | "Service" => names::label,
        _ if kinds::takes_any_path_segment(resource) => names::path_segment,
        _ => names::subdomain,
    };
    let base = text(object, &["metadata", "generateName"]);
    // What is generated for an event's name is not known to be one yet.
    if !base.is_empty()
        && resource != Resource::Events
        && let Err(why) = form(&with_last_letter(base))
    {
        causes.invalid("metadata.generateName", base, why);
    }
    let name = text(object, &["metadata", "name"]);
    if name.is_empty() {
        causes.required("metadata.name", "name or generateName is required");
    } else if let Err(why) = form(name) {
        causes.invalid("metadata.name", name, why);
    }
    common(object, &mut causes);
    finalizers(object, &mut causes);
    finalizers_of_core(object, &mut causes);
    causes
}

/// Makes the prefix of a generated name valid as a name: it may end with a hyphen.
fn with_last_letter(base: &str) -> String {
    match base.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => base.to_owned(),
    }
}

pub(crate) fn change(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    if at(old, &["metadata", "deletionTimestamp"]).is_some() {
        let before = list(old, &["metadata", "finalizers"]);
        let mut added: Vec<String> = list(new, &["metadata", "finalizers"])
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .map(Value::to_string)
            .collect();
        added.sort();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.forbidden("metadata.finalizers", &detail);
        }
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (before, after) = (at(old, &["metadata", field]), at(new, &["metadata", field]));
        if before != after {
            let value = after.unwrap_or(&Value::Null);
            causes.invalid(format!("metadata.{field}"), value, IMMUTABLE);
        }
    }
    common(new, &mut causes);
    causes
}

fn common(object: &Value, causes: &mut Causes) {
    labels(object, &["metadata", "labels"], "metadata.labels", causes);
    annotations(object, causes);
    owners(object, causes);
}

fn annotations(object: &Value, causes: &mut Causes) {
    let annotations = at(object, &["metadata", "annotations"]).and_then(Value::as_object);
    let mut total = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // The key of an annotation may contain upper-case letters in its domain, unlike that of a label.
        if let Err(why) = names::qualified(&key.to_lowercase()) {
            causes.invalid("metadata.annotations", key.as_str(), why);
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > MAX_ANNOTATIONS {
        causes.too_long("metadata.annotations", MAX_ANNOTATIONS);
    }
}

fn owners(object: &Value, causes: &mut Causes) {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let mut controller: Option<String> = None;
    for owner in owners {
        for (field, what) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = text(owner, &[field]);
            if value.is_empty() {
                let field = format!("metadata.ownerReferences.{field}");
                causes.invalid(field, value, what);
            }
        }
        let (version, kind) = (text(owner, &["apiVersion"]), text(owner, &["kind"]));
        if version == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.invalid("metadata.ownerReferences", owner, detail);
        }
        if is_true(owner, &["controller"]) {
            let this = format!("{kind}/{}", text(owner, &["name"]));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    let all = Value::from(owners.to_vec());
                    causes.invalid("metadata.ownerReferences", &all, &detail);
                }
            }
        }
    }
}

fn finalizers(object: &Value, causes: &mut Causes) {
    let finalizers = list(object, &["metadata", "finalizers"]);
    for finalizer in finalizers {
        if let Err(why) = names::qualified(finalizer.as_str().unwrap_or_default()) {
            causes.invalid("metadata.finalizers", finalizer, why);
        }
    }
    if finalizers.contains(&"orphan".into()) && finalizers.contains(&"foregroundDeletion".into()) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        let all = Value::from(finalizers.to_vec());
        causes.invalid("metadata.finalizers", &all, detail);
    }
}

/// Validates the names of finalizers, as the core kinds require them.
pub(crate) fn finalizers_of_core(object: &Value, causes: &mut Causes) {
    for (i, finalizer) in list(object, &["metadata", "finalizers"]).iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let known = matches!(name, "orphan" | "foregroundDeletion" | "kubernetes");
        if !name.contains('/') && !known {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.invalid(format!("metadata.finalizers[{i}]"), finalizer, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(causes: Causes) -> Vec<String> {
        causes
            .0
            .into_iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect()
    }

    fn wrong(metadata: Value) -> Vec<String> {
        fields(whole(Resource::Pods, &json!({"metadata": metadata})))
    }

    #[test]
    fn the_prefix_of_a_generated_name_may_end_in_a_hyphen() {
        assert_eq!(wrong(json!({"name": "a-x", "generateName": "a-"})), [""; 0]);
        let found = wrong(json!({"name": "A-x", "generateName": "A-"}));
        assert!(found[0].starts_with(
            "metadata.generateName: Invalid value: \"A-\": a lowercase RFC 1123 subdomain"
        ));
        assert!(
            found[1].starts_with(
                "metadata.name: Invalid value: \"A-x\": a lowercase RFC 1123 subdomain"
            )
        );
    }

    #[test]
    fn finalizers_are_standard_or_qualified() {
        assert_eq!(
            wrong(json!({"name": "a", "finalizers": ["orphan", "example.com/x"]})),
            [""; 0]
        );
        assert_eq!(
            wrong(json!({"name": "a", "finalizers": ["example.com/x", "hold"]})),
            [
                "metadata.finalizers[1]: Invalid value: \"hold\": name is neither a standard finalizer name nor is it fully qualified"
            ]
        );
        let both = wrong(json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}));
        assert!(both[0].ends_with("finalizer orphan and foregroundDeletion cannot be both set"));
    }

    #[test]
    fn owner_references_are_complete_and_one_controls() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
        let found = wrong(json!({"name": "a", "ownerReferences": [owner("x"), owner("y")]}));
        assert!(
            found[0].ends_with("Found \"true\" in references for Pod/x and Pod/y"),
            "{found:?}"
        );
        let found = wrong(
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}),
        );
        assert_eq!(
            found,
            ["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"]
        );
    }

    #[test]
    fn uids_are_immutable_and_terminating_objects_get_no_new_finalizers() {
        let old = json!({"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "t", "finalizers": ["example.com/x"]}});
        let mut new = old.clone();
        new["metadata"]["uid"] = "v".into();
        new["metadata"]["finalizers"] = json!(["example.com/x", "example.com/z", "example.com/y"]);
        assert_eq!(
            fields(change(&old, &new)),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/y\", \"example.com/z\"}",
                "metadata.uid: Invalid value: \"v\": field is immutable"
            ]
        );
    }
}
