//! Properties that hold for any sequence of writes.

use super::*;
use crate::changes::delete::DeleteOptions;
use crate::changes::patch::PatchKind;
use crate::changes::write::{Part, Write, WriteContext};
use crate::objects::ids::Ids;
use crate::objects::object::Key;
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;
use crate::storage::store::{EventKind, State};
use proptest::prelude::*;

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn writes() -> impl Strategy<Value = Write> {
    let key = |name: &str| Key::new(Resource::Pods, "default", name);
    let label = json!({"metadata": {"labels": {"n": "1"}}});
    prop_oneof![
        (names(), prop::option::of(names())).prop_map(|(name, owner)| {
            let mut object = pod(&name);
            if let Some(owner) = owner {
                object["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner}]);
            }
            Write::Create {
                resource: Resource::Pods,
                namespace: "default".into(),
                object,
            }
        }),
        (names(), 0..3_u8).prop_map(move |(name, n)| {
            let mut patch = label.clone();
            patch["metadata"]["labels"]["n"] = n.to_string().into();
            let kind = PatchKind::Merge;
            Write::Patch {
                key: key(&name),
                part: Part::Main,
                kind,
                patch,
                strict: false,
            }
        }),
        (names(), prop::option::of(0..5_i64)).prop_map(move |(name, grace)| {
            Write::Delete {
                key: key(&name),
                options: DeleteOptions {
                    grace,
                    ..DeleteOptions::default()
                },
            }
        }),
        names().prop_map(move |name| Write::Bind {
            key: key(&name),
            binding: json!({"target": {"name": "n"}})
        }),
        Just(Write::DeleteCollection {
            resource: Resource::Pods,
            namespace: Some("default".into()),
            selector: Selector::default(),
            limit: None,
            options: DeleteOptions::default(),
        }),
    ]
}

fn store(log: usize) -> (State, Ids) {
    let mut state = State::new(log);
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "uid": "0"},
    });
    state.seed(Key::new(Resource::Namespaces, "", "default"), namespace, 1);
    (state, Ids::new(0))
}

fn contents(state: &State) -> Vec<String> {
    state
        .objects()
        .values()
        .map(|o| o.value().to_string())
        .collect()
}

proptest! {
    // spec: O-71
    #[test]
    fn the_log_reconstructs_past_and_present_objects(all in prop::collection::vec(writes(), 1..40), log in 1_usize..60) {
        let (mut state, mut ids) = store(log);
        let now = EPOCH.parse().expect("a time");
        let mut kept = vec![state.clone()];
        for write in all {
            let before = state.clone();
            let answer = state.write(write, false, &mut WriteContext::new(now, &mut ids));
            if answer.is_err() {
                prop_assert_eq!(contents(&state), contents(&before), "what is refused changes nothing");
            }
            kept.push(state.clone());
        }
        for earlier in &kept {
            let version = earlier.resource_version();
            let Ok(objects) = state.objects_at(version) else {
                prop_assert!(version < state.compacted());
                continue;
            };
            // Undoing events yields an earlier state, and replaying them the present one.
            let undone: Vec<_> = objects.values().map(|o| o.value().to_string()).collect();
            prop_assert_eq!(undone, contents(earlier));
            let (mut done, mut cursor) = (earlier.objects().clone(), version);
            while let Ok(Some(event)) = state.event_after(cursor) {
                cursor += 1;
                prop_assert_eq!(event.object().resource_version(), cursor);
                let key = event.object().key().clone();
                match event.kind() {
                    EventKind::Deleted => done.remove(&key),
                    EventKind::Added | EventKind::Modified => done.insert(key, event.object().clone()),
                };
            }
            prop_assert_eq!(cursor, state.resource_version());
            let done: Vec<_> = done.values().map(|o| o.value().to_string()).collect();
            prop_assert_eq!(done, contents(&state));
        }
    }

    #[test]
    fn objects_are_found_by_uid_and_by_owner(all in prop::collection::vec(writes(), 1..40)) {
        let (mut state, mut ids) = store(10);
        let now = EPOCH.parse().expect("a time");
        for write in all {
            let _ = state.write(write, false, &mut WriteContext::new(now, &mut ids));
        }
        for object in state.objects().values() {
            prop_assert_eq!(state.by_uid(object.uid()).map(|o| o.key()), Some(object.key()));
        }
        for owner in ["a", "b", "c"] {
            let found: Vec<_> = state.dependents(owner).map(|o| o.key().clone()).collect();
            let named = |o: &&std::sync::Arc<super::super::Object>| o.owners().any(|r| r.uid == owner);
            let wanted: Vec<_> = state.objects().values().filter(named).map(|o| o.key().clone()).collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_dry_run_answers_like_a_write_and_changes_nothing(all in prop::collection::vec(writes(), 1..20)) {
        let (mut state, mut ids) = store(100);
        let now = EPOCH.parse().expect("a time");
        for write in all {
            let before = (state.resource_version(), contents(&state));
            let dry = state.write(write.clone(), true, &mut WriteContext::new(now, &mut ids));
            prop_assert_eq!(before, (state.resource_version(), contents(&state)));
            let real = state.write(write, false, &mut WriteContext::new(now, &mut ids));
            prop_assert_eq!(dry.is_ok(), real.is_ok());
        }
    }
}
