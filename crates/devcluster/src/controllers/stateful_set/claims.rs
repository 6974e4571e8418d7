//! The claims of a StatefulSet's pods, and who owns them: `persistentVolumeClaimRetentionPolicy` says when they are
//! deleted. They are when all their owners are gone.

use serde_json::{Value, json};

use crate::changes::write::Write;
use crate::controllers::pods;
use crate::objects::object::{Object, list, text};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// Each claim template, its name, which is that of the volume, and the name of its claim for this pod.
fn names<'a>(owner: &'a Object, pod: &str) -> impl Iterator<Item = (&'a Value, &'a str, String)> {
    let templates = list(owner.value(), &["spec", "volumeClaimTemplates"]);
    templates.iter().map(move |template| {
        let volume = text(template, &["metadata", "name"]);
        (template, volume, format!("{volume}-{pod}"))
    })
}

/// The volumes of this pod that are claims.
pub(super) fn volumes(owner: &Object, pod: &str) -> Vec<Value> {
    names(owner, pod)
        .map(|(_, volume, claim)| {
            json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect()
}

/// Creates the claims of a pod that are missing.
pub(super) fn create(state: &State, owner: &Object, pod: &str, writes: &mut Vec<Write>) {
    for (template, _, claim) in names(owner, pod) {
        let key = pods::key_in_namespace(owner, Resource::PersistentVolumeClaims, &claim);
        if state.get(&key).is_some() {
            continue;
        }
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "labels": owner.value().pointer("/spec/selector/matchLabels")},
            "spec": template["spec"],
        });
        if is_deleted(owner, "whenDeleted") {
            object["metadata"]["ownerReferences"] = json!([pods::reference(owner)]);
        }
        writes.push(pods::create(
            owner,
            Resource::PersistentVolumeClaims,
            object,
        ));
    }
}

/// Gives the claims of a pod the owners that the set's policy wants: the set, or a pod that is to be deleted for good.
pub(super) fn own(
    state: &State,
    owner: &Object,
    pod: &Object,
    is_surplus: bool,
    writes: &mut Vec<Write>,
) {
    let goes_with_pod = is_surplus && is_deleted(owner, "whenScaled");
    let goes_with_set = !goes_with_pod && is_deleted(owner, "whenDeleted");
    for (_, _, claim) in names(owner, &pod.key().name) {
        let key = pods::key_in_namespace(owner, Resource::PersistentVolumeClaims, &claim);
        // As with real servers, the claims of an earlier set of this name are left to the garbage collector.
        let is_anothers = |claim: &Object| claim.controller().is_some_and(|uid| uid != owner.uid());
        let Some(claim) =
            (state.get(&key)).filter(|claim| !claim.is_terminating() && !is_anothers(claim))
        else {
            continue;
        };
        let is = |reference: &Value, object: &Object| text(reference, &["uid"]) == object.uid();
        let has = |object| pods::owners(claim).any(|reference| is(&reference, object));
        if has(owner) == goes_with_set && has(pod) == goes_with_pod {
            continue;
        }
        let others =
            pods::owners(claim).filter(|reference| !is(reference, owner) && !is(reference, pod));
        let mut owners: Vec<Value> = others.collect();
        owners.extend(goes_with_set.then(|| pods::reference(owner)));
        owners.extend(goes_with_pod.then(|| {
            json!({"apiVersion": "v1", "kind": "Pod", "name": &*pod.key().name, "uid": pod.uid()})
        }));
        writes.push(pods::set_owners(claim, owners));
    }
}

/// Whether the set's claims are deleted in this case.
fn is_deleted(owner: &Object, when: &str) -> bool {
    let policy = ["spec", "persistentVolumeClaimRetentionPolicy", when];
    text(owner.value(), &policy) == "Delete"
}
