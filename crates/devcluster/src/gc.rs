//! What a controller manager does for the objects kept here: what is owned goes after its owner, and the content of
//! a namespace with the namespace.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::changes::delete::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use crate::changes::patch::PatchKind;
use crate::changes::write::{Part, Write};
use crate::objects::kinds;
use crate::objects::object::{Key, Object, OwnerReference, list, text};
use crate::objects::resource::Resource;
use crate::storage::looks::Looks;
use crate::storage::server::Store;
use crate::storage::store::{Event, EventKind, State};

/// So long a namespace that was told to go is left alone, as real controllers leave it.
const NAMESPACE_GRACE: Duration = Duration::from_secs(5);

/// So long an object may name an owner that is not there before it is collected: it may have been created just
/// before its owner was gone, and a real collector looks twice as well.
const ABSENT_FOR: Duration = Duration::from_millis(500);

/// Collects until the cluster is stopped. It holds `_alive` as long as it runs.
pub(super) async fn run(store: Store, collect_garbage: bool, _alive: watch::Receiver<()>) {
    let mut looks = Looks::new(&store);
    while let Some(keys) = looks.next(|_| true, concerned).await {
        for key in keys {
            // Each object that names an absent owner waits once for each of its writes, until the moment has passed; each
            // namespace that was told to go once for each event of its own or its content.
            if let Some(wait) = carry_out(&store, &key, collect_garbage, Look::First).await {
                looks.later(key, wait);
            }
        }
        while let Some(key) = looks.due() {
            carry_out(&store, &key, collect_garbage, Look::Second).await;
        }
    }
}

/// How often an object was looked at for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    First,
    Second,
}

/// Does what is to be done about an object now, or tells when to look at it again.
async fn carry_out(
    store: &Store,
    key: &Key,
    collect_garbage: bool,
    look: Look,
) -> Option<Duration> {
    let state = store.state();
    let object = state.get(key)?;
    let todo = examine(&state, object, store.clock().now(), collect_garbage);
    if look == Look::First && todo.after.is_some() {
        return todo.after;
    }
    for write in todo.writes {
        // What was refused has changed meanwhile, and the change brings it here again.
        if let Err(error) = store.write(write).await {
            tracing::debug!(target: "cluster.gc", object = ?key, error = error.message, "not done");
        }
    }
    None
}

/// The objects that may have to go, or may be let go, because of an event.
fn concerned(state: &State, event: &Event, due: &mut BTreeSet<Key>) {
    let object = event.object();
    if event.kind() == EventKind::Deleted {
        due.extend(state.dependents(object.uid()).map(|o| o.key().clone()));
        due.insert(Key::new(Resource::Namespaces, "", &object.key().namespace));
    } else {
        due.insert(object.key().clone());
    }
    // Owners that wait for this object to be gone, or to name them no more.
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

/// What is to be done about one object.
#[derive(Debug, Default)]
struct Todo {
    writes: Vec<Write>,
    /// Only if it is still to be done after a while.
    after: Option<Duration>,
}

fn examine(state: &State, object: &Object, now: Timestamp, collect_garbage: bool) -> Todo {
    if object.key().resource == Resource::Namespaces {
        if object.is_terminating() {
            return Todo {
                writes: empty_namespace(state, object),
                after: rest_of_grace(object, now),
            };
        }
        let writes = collect_garbage.then(|| account_of(state, object)).flatten();
        return Todo {
            writes: writes.into_iter().collect(),
            after: None,
        };
    }
    if !collect_garbage {
        return Todo::default();
    }
    if object.is_terminating() {
        return Todo {
            writes: let_go(state, object),
            after: None,
        };
    }
    owned(state, object)
}

/// Each namespace has a service account for pods that name none.
fn account_of(state: &State, namespace: &Object) -> Option<Write> {
    let name = &*namespace.key().name;
    let object = kinds::default_account(name);
    let key = Key::new(Resource::ServiceAccounts, name, "default");
    state.get(&key).is_none().then(|| Write::Create {
        resource: key.resource,
        namespace: name.to_owned(),
        object,
    })
}

/// How long a namespace that was told to go is still left alone.
fn rest_of_grace(namespace: &Object, now: Timestamp) -> Option<Duration> {
    let told = text(namespace.value(), &["metadata", "deletionTimestamp"]);
    let told: Timestamp = told.parse().ok()?;
    let passed = Duration::try_from(now.duration_since(told)).unwrap_or_default();
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
    Write::Patch {
        key: object.key().clone(),
        part: Part::Main,
        kind: PatchKind::Merge,
        patch,
        strict: false,
    }
}

/// Deletes what is in a namespace, and then the namespace.
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

/// What a terminating object waits for: that its dependents are gone, or name it no more.
fn let_go(state: &State, object: &Object) -> Vec<Write> {
    let without = |gone: &str| -> Value {
        object
            .finalizers()
            .filter(|f| *f != gone)
            .map(Value::from)
            .collect::<Vec<_>>()
            .into()
    };
    let mut writes = Vec::new();
    if object.finalizers().any(|f| f == ORPHAN) {
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
        writes.extend(staying.flat_map(|d| owned(state, d).writes));
        if !blocked {
            writes.push(patch_metadata(object, "finalizers", without(FOREGROUND)));
        }
    }
    writes
}

/// The object without some of its owners.
fn without_owners(object: &Object, gone: impl Fn(&str) -> bool) -> Write {
    let owners = list(object.value(), &["metadata", "ownerReferences"]);
    let kept: Vec<Value> = owners
        .iter()
        .filter(|o| !gone(text(o, &["uid"])))
        .cloned()
        .collect();
    patch_metadata(object, "ownerReferences", kept.into())
}

/// How an owner stands to what names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is there and stays, as far as can be told.
    Solid,
    /// It waits for what it owns to go first.
    Waiting,
    /// It is not there.
    Absent,
}

fn standing(state: &State, object: &Object, owner: &OwnerReference<'_>) -> Standing {
    // Whether an owner of a kind that is not kept here is gone cannot be told.
    let Some(resource) = Resource::of_kind(owner.api_version, owner.kind) else {
        return Standing::Solid;
    };
    let namespace: &str = if resource.traits().namespaced {
        &object.key().namespace
    } else {
        ""
    };
    let found = state.get(&Key::new(resource, namespace, owner.name));
    match found.filter(|found| found.uid() == owner.uid) {
        None => Standing::Absent,
        Some(found) if found.is_terminating() && found.finalizers().any(|f| f == FOREGROUND) => {
            Standing::Waiting
        }
        Some(_) => Standing::Solid,
    }
}

/// What becomes of an object for the sake of its owners: it goes if none of them stays, and otherwise lets go of those
/// that do not.
fn owned(state: &State, object: &Object) -> Todo {
    let standings: Vec<(&str, Standing)> = object
        .owners()
        .map(|owner| (owner.uid, standing(state, object, &owner)))
        .collect();
    let any = |wanted: Standing| standings.iter().any(|(_, s)| *s == wanted);
    let leaves = |uid: &str| {
        let found = standings.iter().find(|(u, _)| *u == uid);
        found.is_some_and(|(_, s)| *s != Standing::Solid)
    };
    if !any(Standing::Absent) && !any(Standing::Waiting) {
        return Todo::default();
    }
    let write = if any(Standing::Solid) {
        without_owners(object, leaves)
    } else {
        let owns = state.dependents(object.uid()).next().is_some();
        let propagation = if any(Standing::Waiting) && owns {
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
    Todo {
        writes: vec![write],
        // One that waits is known to go; one that is absent may yet turn up.
        after: (!any(Standing::Waiting)).then_some(ABSENT_FOR),
    }
}
