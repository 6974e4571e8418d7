//! Excludes nodes from new executors by node affinity (spec L-32), or has them prefer others (spec L-32, L-45, B-54),
//! in addition to the profile's own affinity.
//!
//! Both go by the nodes' names. Their label `kubernetes.io/hostname` is another name on many clusters.

use serde_json::{Value, json};

use super::NodeWeights;
use boatswain_model::failures::Avoid;

/// The highest weight of a preference, in Kubernetes.
const HIGHEST: u64 = 100;

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
    let others = avoid.rather_not.iter().chain(&avoid.rejecting);
    let others: Vec<Value> = others.map(|node| is_not(node)).collect();
    if !others.is_empty() {
        let preferred = affinity(spec, "preferredDuringSchedulingIgnoredDuringExecution");
        let preference = json!({"matchFields": others});
        append(preferred, json!({"weight": 100, "preference": preference}));
    }
}

/// The node with the highest weight gets the highest of Kubernetes, the others in proportion.
pub(super) fn prefer(spec: &mut Value, nodes: &NodeWeights) {
    let highest = u64::from(nodes.values().copied().max().unwrap_or_default()).max(1);
    let preferred = affinity(spec, "preferredDuringSchedulingIgnoredDuringExecution");
    for (node, weight) in nodes {
        let weight = (u64::from(*weight) * HIGHEST / highest).max(1);
        let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let preference = json!({"matchFields": [name]});
        append(
            preferred,
            json!({"weight": weight, "preference": preference}),
        );
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
            rejecting: Vec::new(),
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

    // spec: L-45
    #[test]
    fn nodes_that_reject_executors_are_never_excluded() {
        let nodes = Avoid {
            rather_not: vec!["node-1".into()],
            rejecting: vec!["node-2".into(), "node-3".into()],
            ..Avoid::default()
        };
        let mut pod = json!({});
        avoid(&mut pod, &nodes);
        let others = ["node-1", "node-2", "node-3"].map(is_not);
        let want = json!({"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchFields": others}},
            ],
        }}});
        assert_eq!(pod, want);
    }

    // spec: B-67, K-5
    #[test]
    fn preferred_nodes_have_weights_in_proportion_beside_the_profiles_own_preferences() {
        let own = json!({"weight": 7});
        let mut pod = json!({"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [own],
        }}});
        let nodes = [
            ("node-1", 4_000_000_000),
            ("node-2", 1),
            ("node-3", 1_000_000_000),
        ];
        prefer(
            &mut pod,
            &nodes.map(|(node, weight)| (node.into(), weight)).into(),
        );
        let term = |node: &str, weight: u32| {
            let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            json!({"weight": weight, "preference": {"matchFields": [name]}})
        };
        let want = json!([
            own,
            term("node-1", 100),
            term("node-2", 1),
            term("node-3", 25)
        ]);
        let preferred =
            &pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(*preferred, want);
        assert_eq!(
            pod["affinity"]["nodeAffinity"].as_object().unwrap().len(),
            1
        );
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
