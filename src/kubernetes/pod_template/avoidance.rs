//! Excludes nodes from new executors by node affinity, in addition to the profile's own affinity (spec L-32).
//!
//! Nodes are excluded by name. Their label `kubernetes.io/hostname` is another name on many clusters.

use serde_json::{Value, json};

use crate::model::failures::Avoid;

pub(super) fn avoid(spec: &mut Value, avoid: &Avoid) {
    if !avoid.never.is_empty() {
        let required = affinity(spec, "requiredDuringSchedulingIgnoredDuringExecution");
        let excluded: Vec<Value> = avoid.never.iter().map(|node| is_not(node)).collect();
        match required["nodeSelectorTerms"].as_array_mut() {
            // Terms are alternatives, so each of them must exclude the nodes.
            Some(terms) if !terms.is_empty() => {
                for term in terms.iter_mut().filter(|term| matches_anything(term)) {
                    for exclusion in &excluded {
                        append(&mut term["matchFields"], exclusion.clone());
                    }
                }
            }
            _ => required["nodeSelectorTerms"] = json!([{"matchFields": excluded}]),
        }
    }
    if !avoid.rather_not.is_empty() {
        let preferred = affinity(spec, "preferredDuringSchedulingIgnoredDuringExecution");
        let others: Vec<Value> = avoid.rather_not.iter().map(|node| is_not(node)).collect();
        let preference = json!({"matchFields": others});
        append(preferred, json!({"weight": 100, "preference": preference}));
    }
}

fn affinity<'a>(spec: &'a mut Value, strength: &str) -> &'a mut Value {
    &mut spec["affinity"]["nodeAffinity"][strength]
}

/// The API server accepts one name in each requirement. All requirements of a term must be met.
fn is_not(node: &str) -> Value {
    json!({"key": "metadata.name", "operator": "NotIn", "values": [node]})
}

/// A term without requirements matches no node. With one it would match almost all.
fn matches_anything(term: &Value) -> bool {
    ["matchExpressions", "matchFields"]
        .iter()
        .any(|key| term[key].as_array().is_some_and(|list| !list.is_empty()))
}

fn append(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(item),
        None => *list = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(never: &[&str], rather_not: &[&str], mut spec: Value) -> Value {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        let nodes = Avoid {
            never: names(never),
            rather_not: names(rather_not),
        };
        avoid(&mut spec, &nodes);
        spec
    }

    // spec: L-32
    #[test]
    fn without_nodes_to_avoid_a_pod_is_unchanged() {
        let plain = json!({"restartPolicy": "Never"});
        assert_eq!(spec(&[], &[], plain.clone()), plain);
    }

    // spec: L-32
    #[test]
    fn the_nodes_are_excluded_by_their_names() {
        let pod = spec(&["node-1", "node-2"], &["node-3"], json!({}));
        let not =
            |node: &str| json!({"key": "metadata.name", "operator": "NotIn", "values": [node]});
        let want = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [not("node-1"), not("node-2")]},
            ]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchFields": [not("node-3")]}},
            ],
        }}});
        assert_eq!(pod, want);
    }

    // spec: L-32, K-5
    #[test]
    fn a_profiles_own_affinity_stays_and_each_of_its_alternatives_excludes_the_nodes() {
        let zone = |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let own = json!({"affinity": {
            "podAntiAffinity": {"x": 1},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [zone("a"), zone("b"), {"matchFields": []}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
            },
        }});
        let pod = spec(&["n"], &["m"], own);
        let node = &pod["affinity"]["nodeAffinity"];
        let terms = &node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(terms[2], json!({"matchFields": []}), "it matches nothing");
        for (term, its_own) in terms.as_array().unwrap().iter().zip([zone("a"), zone("b")]) {
            assert_eq!(term["matchFields"], json!([is_not("n")]));
            assert_eq!(
                term.get("matchExpressions"),
                its_own.get("matchExpressions")
            );
        }
        let preferred = &node["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(preferred.as_array().unwrap().len(), 2);
        assert_eq!(pod["affinity"]["podAntiAffinity"], json!({"x": 1}));
    }
}
