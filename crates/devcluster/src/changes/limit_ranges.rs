//! LimitRanges: the requests and limits that they fill in, and what they refuse.

use serde_json::{Value, json};

use crate::api::status::ApiError;
use crate::objects::object::{Key, at, entries, list, set, text};
use crate::objects::quantity;
use crate::objects::resource::Resource;
use crate::storage::store::State;
use crate::validation::defaults::default;

fn nano(amount: &Value) -> i128 {
    amount.as_str().and_then(quantity::parse).unwrap_or(0)
}

/// The limits for this type of object in a namespace.
fn limits<'a>(
    state: &'a State,
    namespace: &str,
    kind: &'a str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let ranges = state.list(Resource::LimitRanges, Some(namespace));
    ranges
        .flat_map(|range| list(range.value(), &["spec", "limits"]))
        .filter(move |limit| text(limit, &["type"]) == kind)
}

/// What a new LimitRange leaves out follows from what it has.
pub(crate) fn complete(range: &mut Value) {
    let limits = range
        .pointer_mut("/spec/limits")
        .and_then(Value::as_array_mut);
    for limit in limits.into_iter().flatten() {
        if text(limit, &["type"]) != "Container" {
            continue;
        }
        for (field, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            for (name, amount) in at(limit, &[from])
                .and_then(Value::as_object)
                .cloned()
                .into_iter()
                .flatten()
            {
                default(limit, &[field, &name], amount);
            }
        }
    }
}

/// Fills in the requests and limits of containers that have none.
pub(super) fn fill(state: &State, key: &Key, pod: &mut Value) {
    let defaults: Vec<Value> = limits(state, &key.namespace, "Container")
        .cloned()
        .collect();
    let mut notes: Vec<String> = Vec::new();
    for kind in ["initContainers", "containers"] {
        let path = format!("/spec/{kind}");
        let containers = pod.pointer_mut(&path).and_then(Value::as_array_mut);
        for container in containers
            .into_iter()
            .flatten()
            .filter(|_| !defaults.is_empty())
        {
            let name = text(container, &["name"]).to_owned();
            for (field, from, word) in [
                ("requests", "defaultRequest", "request"),
                ("limits", "default", "limit"),
            ] {
                let mut set_here: Vec<&str> = Vec::new();
                for (resource, amount) in defaults.iter().flat_map(|limit| entries(limit, &[from]))
                {
                    if at(container, &["resources", field, resource]).is_none() {
                        set(container, &["resources", field, resource], amount.clone());
                        set_here.push(resource);
                    }
                }
                if !set_here.is_empty() {
                    set_here.sort_unstable();
                    let resources = set_here.join(", ");
                    notes.push(format!("{resources} {word} for container {name}"));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        set(
            pod,
            &["metadata", "annotations", "kubernetes.io/limit-ranger"],
            note.into(),
        );
    }
}

/// Refuses what is out of range.
pub(super) fn check(state: &State, key: &Key, object: &Value) -> Result<(), ApiError> {
    let mut wrong = Vec::new();
    if key.resource == Resource::PersistentVolumeClaims {
        let resources = at(object, &["spec", "resources"])
            .cloned()
            .unwrap_or_default();
        for limit in limits(state, &key.namespace, "PersistentVolumeClaim") {
            out_of_range(limit, &resources, &mut wrong);
        }
    } else {
        let containers = ["containers", "initContainers"];
        let containers: Vec<&Value> = containers
            .iter()
            .flat_map(|kind| list(object, &["spec", kind]))
            .collect();
        for container in &containers {
            for limit in limits(state, &key.namespace, "Container") {
                out_of_range(limit, &container["resources"], &mut wrong);
            }
        }
        for limit in limits(state, &key.namespace, "Pod") {
            out_of_range(
                limit,
                &sum(list(object, &["spec", "containers"])),
                &mut wrong,
            );
        }
    }
    match wrong.as_slice() {
        [] => Ok(()),
        [one] => Err(key.forbidden(one)),
        many => Err(key.forbidden(&format!("[{}]", many.join(", ")))),
    }
}

/// The resources of all containers together.
fn sum(containers: &[Value]) -> Value {
    let mut all = json!({});
    for kind in ["requests", "limits"] {
        for (name, amount) in containers
            .iter()
            .flat_map(|c| entries(c, &["resources", kind]))
        {
            let before = at(&all, &[kind, name]).map_or(0, nano);
            let is_binary = amount.as_str().is_some_and(|amount| amount.ends_with('i'));
            let total = quantity::canonical(before + nano(amount), is_binary);
            set(&mut all, &[kind, name], total.into());
        }
    }
    all
}

fn out_of_range(limit: &Value, resources: &Value, wrong: &mut Vec<String>) {
    let kind = text(limit, &["type"]);
    let show = |amount: &Value| amount.as_str().unwrap_or_default().to_owned();
    let request = |name: &str| at(resources, &["requests", name]);
    let most_of = |name: &str| at(resources, &["limits", name]);
    for (name, least) in entries(limit, &["min"]) {
        let rule = format!("minimum {name} usage per {kind} is {}", show(least));
        match request(name) {
            None => wrong.push(format!("{rule}.  No request is specified")),
            Some(given) if nano(given) < nano(least) => {
                wrong.push(format!("{rule}, but request is {}", show(given)));
            }
            Some(_) => {}
        }
    }
    // A claim has no limits.
    let (word, is_claim) = match kind {
        "PersistentVolumeClaim" => ("request", true),
        _ => ("limit", false),
    };
    for (name, most) in entries(limit, &["max"]) {
        let rule = format!("maximum {name} usage per {kind} is {}", show(most));
        match if is_claim {
            request(name)
        } else {
            most_of(name)
        } {
            None => wrong.push(format!("{rule}.  No {word} is specified")),
            Some(given) if nano(given) > nano(most) => {
                wrong.push(format!("{rule}, but {word} is {}", show(given)));
            }
            Some(_) => {}
        }
    }
    for (name, most) in entries(limit, &["maxLimitRequestRatio"]) {
        let rule = format!(
            "{name} max limit to request ratio per {kind} is {}",
            show(most)
        );
        let requested = request(name).map_or(0, nano);
        if requested == 0 {
            wrong.push(format!(
                "{rule}, but no request is specified or request is 0"
            ));
        } else if let Some(limit) = most_of(name).map(nano) {
            let thousandths = limit.saturating_mul(1_000) / requested;
            if thousandths * 1_000_000 > nano(most) {
                let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
                wrong.push(format!(
                    "{rule}, but provided ratio is {whole}.{rest:03}000"
                ));
            }
        }
    }
}
