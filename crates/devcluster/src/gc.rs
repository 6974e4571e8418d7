//! The garbage collector and the namespace controller: deletes objects after their owners, and the content of a
//! namespace before the namespace.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::changes::admission::PROTECTION;
use crate::changes::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};

use crate::changes::write::{Part, Write};
use crate::objects::kinds;
use crate::objects::object::{Key, Object, OwnerReference, list, text};
use crate::objects::pod::has_ended;
use crate::objects::resource::Resource;
use crate::storage::server::Store;
use crate::storage::store::{Event, EventKind, State};
use crate::storage::work_queue::WorkQueue;

/// How long the content of a terminating namespace is left alone. Real controllers wait as well.
const NAMESPACE_GRACE: Duration = Duration::from_secs(5);

/// How long an object may name an absent owner before it is collected. It may have been created just before its owner
/// was deleted; the real collector also checks twice.
const ABSENT_FOR: Duration = Duration::from_millis(500);

/// Runs the collector until the cluster stops. It holds `_alive` until it ends.
pub(super) async fn run(store: Store, collect_garbage: bool, _alive: watch::Receiver<()>) {
    let mut queue = WorkQueue::new(&store);
    while let Some(keys) = queue.next(|_| true, affected).await {
        for key in keys {
            // An object with an absent owner is scheduled once for each of its writes, until `ABSENT_FOR` has passed; a
            // terminating namespace once for each event of its own or of its content.
            if let Some(wait) = carry_out(&store, &key, collect_garbage, Check::First).await {
                queue.later(key, wait);
            }
        }
        while let Some(key) = queue.due() {
            carry_out(&store, &key, collect_garbage, Check::Second).await;
        }
    }
}

/// Whether an object is checked for the first or the second time for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    First,
    Second,
}

/// Carries out the pending writes for an object, or returns how long to wait before its second check.
async fn carry_out(
    store: &Store,
    key: &Key,
    collect_garbage: bool,
    check: Check,
) -> Option<Duration> {
    let state = store.state();
    let object = state.get(key)?;
    let pending = examine(&state, object, store.clock().now(), collect_garbage);
    if check == Check::First && pending.after.is_some() {
        return pending.after;
    }
    for write in pending.writes {
        // A refused write means that the object has changed; the event of that change brings it back here.
        if let Err(error) = store.write(write).await {
            tracing::debug!(target: "cluster.gc", object = ?key, error = error.message, "a write was refused");
        }
    }
    None
}

/// Adds the objects that an event may affect: those that may have to be deleted, and those that may lose a finalizer.
fn affected(state: &State, event: &Event, due: &mut BTreeSet<Key>) {
    let object = event.object();
    if event.kind() == EventKind::Deleted {
        due.extend(state.dependents(object.uid()).map(|o| o.key().clone()));
        due.insert(Key::new(Resource::Namespaces, "", &object.key().namespace));
    } else {
        due.insert(object.key().clone());
    }
    if object.key().resource == Resource::Pods {
        due.extend(claims_of(object));
    }
    // Owners that wait in foreground deletion for this object to be deleted or to drop its owner reference.
    for before in event.previous().into_iter().flat_map(|p| p.owners()) {
        due.extend(state.by_uid(before.uid).map(|o| o.key().clone()));
    }
    if event.kind() == EventKind::Added
        && let Some(namespace) =
            state.get(&Key::new(Resource::Namespaces, "", &object.key().namespace))
        && namespace.is_terminating()
    {
        due.insert(namespace.key().clone());
    }
}

/// The pending actions for one object.
#[derive(Debug, Default)]
struct Pending {
    writes: Vec<Write>,
    /// Carries them out only if they are still pending after this time.
    after: Option<Duration>,
}

fn examine(state: &State, object: &Object, now: Timestamp, collect_garbage: bool) -> Pending {
    if object.key().resource == Resource::Namespaces {
        if object.is_terminating() {
            return Pending {
                writes: empty_namespace(state, object),
                after: rest_of_grace(object, now),
            };
        }
        let writes = collect_garbage.then(|| account_of(state, object)).flatten();
        return Pending {
            writes: writes.into_iter().collect(),
            after: None,
        };
    }
    if !collect_garbage {
        return Pending::default();
    }
    if object.is_terminating() {
        return Pending {
            writes: advance_deletion(state, object),
            after: None,
        };
    }
    check_owners(state, object)
}

/// The claims that a pod uses.
fn claims_of(pod: &Object) -> impl Iterator<Item = Key> + use<'_> {
    let volumes = list(pod.value(), &["spec", "volumes"]).iter();
    let names = volumes.map(|volume| text(volume, &["persistentVolumeClaim", "claimName"]));
    let key = |name| Key::new(Resource::PersistentVolumeClaims, &pod.key().namespace, name);
    names.filter(|name| !name.is_empty()).map(key)
}

/// Creates the `default` service account of a namespace, which pods use if they name none.
fn account_of(state: &State, namespace: &Object) -> Option<Write> {
    let name = &*namespace.key().name;
    let object = kinds::default_account(name);
    let key = Key::new(Resource::ServiceAccounts, name, "default");
    state
        .get(&key)
        .is_none()
        .then(|| Write::create(key.resource, name, object))
}

/// How much of a terminating namespace's grace period is left.
fn rest_of_grace(namespace: &Object, now: Timestamp) -> Option<Duration> {
    let deleted_at = text(namespace.value(), &["metadata", "deletionTimestamp"]);
    let deleted_at: Timestamp = deleted_at.parse().ok()?;
    let passed = Duration::try_from(now.duration_since(deleted_at)).unwrap_or_default();
    NAMESPACE_GRACE
        .checked_sub(passed)
        .filter(|rest| !rest.is_zero())
}

fn delete(object: &Object, propagation: Propagation) -> Write {
    let options = DeleteOptions {
        uid: Some(object.uid().to_owned()),
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    Write::Delete {
        key: object.key().clone(),
        options,
    }
}

fn patch_metadata(object: &Object, field: &str, value: Value) -> Write {
    let version = object.resource_version().to_string();
    let patch = json!({"metadata": {"resourceVersion": version, field: value}});
    Write::merge_patch(object.key(), Part::Main, patch)
}

/// Deletes the content of a namespace and, once that is gone, removes the namespace's finalizer.
fn empty_namespace(state: &State, namespace: &Object) -> Vec<Write> {
    let name = &*namespace.key().name;
    let content = || {
        Resource::ALL
            .into_iter()
            .filter(|r| r.traits().namespaced)
            .flat_map(|r| state.list(r, Some(name)))
    };
    if content().next().is_none() {
        return vec![Write::FinishNamespace {
            key: namespace.key().clone(),
        }];
    }
    content()
        .filter(|o| !o.is_terminating())
        .map(|o| delete(o, Propagation::Background))
        .collect()
}

/// Advances the deletion of a terminating object. Under `orphan`, its dependents lose their reference to it; under
/// `foregroundDeletion`, they are deleted. When no dependent is left to wait for, the finalizer is removed.
fn advance_deletion(state: &State, object: &Object) -> Vec<Write> {
    let without = |gone: &str| -> Value {
        object
            .finalizers()
            .filter(|f| *f != gone)
            .map(Value::from)
            .collect::<Vec<_>>()
            .into()
    };
    let mut writes = Vec::new();
    let uses = |pod: &Object| {
        let is_placed = !text(pod.value(), &["spec", "nodeName"]).is_empty();
        is_placed && !has_ended(pod) && claims_of(pod).any(|claim| claim == *object.key())
    };
    if object.finalizers().any(|f| f == PROTECTION) {
        let mut pods = state.list(Resource::Pods, Some(&object.key().namespace));
        if !pods.any(|pod| uses(pod)) {
            writes.push(patch_metadata(object, "finalizers", without(PROTECTION)));
        }
    } else if object.finalizers().any(|f| f == ORPHAN) {
        for dependent in state.dependents(object.uid()) {
            writes.push(without_owners(dependent, |uid| uid == object.uid()));
        }
        if writes.is_empty() {
            writes.push(patch_metadata(object, "finalizers", without(ORPHAN)));
        }
    } else if object.finalizers().any(|f| f == FOREGROUND) {
        let blocks = |d: &Object| d.owners().any(|o| o.uid == object.uid() && o.blocks);
        let blocked = state.dependents(object.uid()).any(|d| blocks(d));
        let staying = state
            .dependents(object.uid())
            .filter(|d| !d.is_terminating());
        writes.extend(staying.flat_map(|d| check_owners(state, d).writes));
        if !blocked {
            writes.push(patch_metadata(object, "finalizers", without(FOREGROUND)));
        }
    }
    writes
}

/// Removes owner references from an object.
fn without_owners(object: &Object, gone: impl Fn(&str) -> bool) -> Write {
    let owners = list(object.value(), &["metadata", "ownerReferences"]);
    let kept: Vec<Value> = owners
        .iter()
        .filter(|o| !gone(text(o, &["uid"])))
        .cloned()
        .collect();
    patch_metadata(object, "ownerReferences", kept.into())
}

/// The state of an owner, as it matters to its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists and, as far as is known, stays.
    Present,
    /// It is in foreground deletion and waits for its dependents.
    AwaitingDependents,
    /// It does not exist.
    Absent,
}

fn state_of(state: &State, object: &Object, owner: &OwnerReference<'_>) -> OwnerState {
    // The server cannot tell whether an owner of an unknown kind is gone.
    let Some(resource) = Resource::of_kind(owner.api_version, owner.kind) else {
        return OwnerState::Present;
    };
    let namespace = resource.namespace(&object.key().namespace);
    let found = state.get(&Key::new(resource, namespace, owner.name));
    match found.filter(|found| found.uid() == owner.uid) {
        None => OwnerState::Absent,
        Some(found) if found.is_terminating() && found.finalizers().any(|f| f == FOREGROUND) => {
            OwnerState::AwaitingDependents
        }
        Some(_) => OwnerState::Present,
    }
}

/// Decides on an object with owners: it is deleted if none of them stays; otherwise it loses the references to those
/// that do not.
fn check_owners(state: &State, object: &Object) -> Pending {
    let states: Vec<(&str, OwnerState)> = object
        .owners()
        .map(|owner| (owner.uid, state_of(state, object, &owner)))
        .collect();
    let any = |wanted: OwnerState| states.iter().any(|(_, s)| *s == wanted);
    let leaves = |uid: &str| {
        let found = states.iter().find(|(u, _)| *u == uid);
        found.is_some_and(|(_, s)| *s != OwnerState::Present)
    };
    if !any(OwnerState::Absent) && !any(OwnerState::AwaitingDependents) {
        return Pending::default();
    }
    let write = if any(OwnerState::Present) {
        without_owners(object, leaves)
    } else {
        let owns = state.dependents(object.uid()).next().is_some();
        let propagation = if any(OwnerState::AwaitingDependents) && owns {
            Propagation::Foreground
        } else if object.finalizers().any(|f| f == ORPHAN) {
            Propagation::Orphan
        } else if object.finalizers().any(|f| f == FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        delete(object, propagation)
    };
    Pending {
        writes: vec![write],
        // An owner in foreground deletion is certain to go; an absent one may still appear.
        after: (!any(OwnerState::AwaitingDependents)).then_some(ABSENT_FOR),
    }
}
