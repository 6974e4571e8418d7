//! Owned resources against the embedded cluster: created, found, corrected, given to another owner.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::in_default;
use super::*;
use crate::claims::{ClaimFor, claim_json};
use crate::owned_resources::{Content, OwnedResource, config_map, secret, service};
use crate::pod_template::owner_reference;
use crate::record::RecordPlace;
use crate::testing::finish_deletion;
use boatswain_model::claims::{ClaimOwner, ClaimShape, ClaimTemplate};
use boatswain_model::{AppId, ExecutorId};
use devcluster::{self, DevCluster, Options};

fn cluster() -> (DevCluster, Calls) {
    let cluster = devcluster::start(Options {
        collect_garbage: false,
        ..Options::default()
    });
    let calls = calls_to(Clients::in_process(cluster.router(), "default"));
    (cluster, in_default(calls))
}

fn place() -> RecordPlace {
    RecordPlace {
        namespace: "default".to_owned(),
        prefix: "etl".to_owned(),
        app_name: "etl".to_owned(),
        labels: LabelScheme::Boatswain,
        owner: None,
    }
}

fn map(app: &str, text: &str) -> OwnedResource {
    let texts = BTreeMap::from([("a".to_owned(), text.to_owned())]);
    let content = Content {
        texts,
        ..Content::default()
    };
    config_map(&place(), &app.into(), &content)
}

fn owner(uid: &str) -> Value {
    owner_reference("etl", &uid.into())
}

// spec: O-62, K-11
#[tokio::test]
async fn a_secret_is_created_once_and_replaced_only_in_the_version_that_was_read() {
    let (_cluster, calls) = cluster();
    let made = |app: &str, value: &str| {
        let data = BTreeMap::from([("ca.key", value.to_owned())]);
        secret(&place(), &app.into(), &data)
    };
    let (first, second) = (made("etl-7f3a", "YQ=="), made("etl-7f3a", "Yg=="));
    assert_eq!(calls.get_secret("etl-tls").await.unwrap(), None);
    calls.put_secret(&first, None, &owner("r1")).await.unwrap();
    let slower = calls.put_secret(&second, None, &owner("r1")).await;
    assert_eq!(slower.unwrap_err().kind, FailureKind::AlreadyExists);
    let there = calls.get_secret("etl-tls").await.unwrap().unwrap();
    assert_eq!(there["data"]["ca.key"], "YQ==");
    let replaced = calls.put_secret(&second, Some(&there), &owner("r1")).await;
    replaced.unwrap();
    let stale = calls.put_secret(&first, Some(&there), &owner("r1")).await;
    assert_eq!(stale.unwrap_err().kind, FailureKind::Conflict);
    // An earlier application of the same name has left it, or it is somebody else's.
    let there = calls.get_secret("etl-tls").await.unwrap().unwrap();
    let next = made("etl-9c1d", "Yw==");
    let taken_over = calls.put_secret(&next, Some(&there), &owner("r2")).await;
    taken_over.unwrap();
    let foreign = json!({"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "etl"}]}});
    let refused = calls.put_secret(&next, Some(&foreign), &owner("r2")).await;
    assert_eq!(refused.unwrap_err().kind, FailureKind::Invalid);
}

// spec: K-8, K-9
#[tokio::test]
async fn an_object_is_written_only_if_it_is_missing_or_differs() {
    let (cluster, calls) = cluster();
    let selector = BTreeMap::from([("app".to_owned(), "driver".to_owned())]);
    let leading = service(&place(), &"etl-7f3a".into(), &selector, 7078);
    for owned_resource in [map("etl-7f3a", "1"), leading] {
        for expected in [1, 0, 0] {
            let before = cluster.writes().await;
            calls.ensure(&owned_resource, &owner("r1")).await.unwrap();
            assert_eq!(
                cluster.writes().await - before,
                expected,
                "{owned_resource:?}"
            );
        }
        // The record was created anew.
        let before = cluster.writes().await;
        calls.ensure(&owned_resource, &owner("r2")).await.unwrap();
        assert_eq!(cluster.writes().await - before, 1);
        calls.ensure(&owned_resource, &owner("r2")).await.unwrap();
        assert_eq!(cluster.writes().await - before, 1);
    }
    calls
        .ensure(&map("etl-7f3a", "2"), &owner("r2"))
        .await
        .unwrap();
    let found = calls.get_config_map("etl-executor").await.unwrap().unwrap();
    assert_eq!(found.data["a"], "2", "a successor has other content");
}

// spec: K-8, K-11
#[tokio::test]
async fn another_applications_object_of_the_same_name_is_left_alone() {
    let owned = json!([owner_reference("other", &"r1".into())]);
    for (owners, labels) in [(owned, map("other", "1").json), (json!([]), json!({}))] {
        let (_cluster, calls) = cluster();
        let mut there = map("other", "1").json;
        there["metadata"]["ownerReferences"] = owners;
        there["metadata"]["labels"] = labels["metadata"]["labels"].clone();
        calls.create_config_map(&there).await.unwrap();
        let wanted = map("etl-7f3a", "2");
        let refused = calls.ensure(&wanted, &owner("r2")).await.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Invalid);
        assert!(refused.message.contains("pod_name_prefix"), "{refused}");
        let found = calls.get_config_map("etl-executor").await.unwrap().unwrap();
        assert_eq!(found.data["a"], "1");
    }
}

// spec: K-8, O-30, K-11
#[tokio::test]
async fn objects_left_under_the_same_records_name_are_taken_over() {
    // Not yet garbage-collected, or orphaned.
    for owners in [json!([owner("r1")]), json!([])] {
        let (_cluster, calls) = cluster();
        let mut left = map("etl-before", "1").json;
        left["metadata"]["ownerReferences"] = owners;
        calls.create_config_map(&left).await.unwrap();
        (calls.ensure(&map("etl-7f3a", "2"), &owner("r2")).await).unwrap();
        let found = calls.get_config_map("etl-executor").await.unwrap().unwrap();
        assert_eq!(found.data["a"], "2");
        assert_eq!(found.labels["boatswain.dev/app-id"], "etl-7f3a");
    }
}

fn claim(name: &str, app: &AppId) -> Value {
    let template = ClaimTemplate {
        volume: "data".into(),
        shape: ClaimShape {
            access_modes: BTreeSet::from(["ReadWriteOnce".into()]),
            bytes: 1 << 30,
            ..ClaimShape::default()
        },
        owner: ClaimOwner::Application,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    let of = ClaimFor {
        app_id: app,
        app_name: "etl",
        namespace: "default",
        prefix: "etl",
        labels: LabelScheme::Boatswain,
        record: &"r1".into(),
        id: ExecutorId::FIRST,
        profile: &"default".into(),
        pod: ("etl-exec-1", None),
    };
    claim_json(name, &template, &of)
}

// spec: K-10, A-60
#[tokio::test]
async fn a_claim_is_listed_given_to_another_record_and_deleted() {
    let (cluster, calls) = cluster();
    let ours: AppId = "etl-7f3a".into();
    let made = calls.create_claim(&claim("a", &ours)).await.unwrap();
    calls
        .create_claim(&claim("b", &"other".into()))
        .await
        .unwrap();
    assert_eq!(made.record, Some("r1".into()));
    let taken = calls.create_claim(&claim("a", &ours)).await.unwrap_err();
    assert_eq!(taken.kind, FailureKind::AlreadyExists);
    let listed = calls.list_claims().await.unwrap();
    assert_eq!(
        listed,
        *std::slice::from_ref(&made),
        "the other application's is not ours"
    );
    calls.give_claim(&made, &owner("r2")).await.unwrap();
    let given = calls.get_claim("a").await.unwrap().unwrap();
    assert_eq!(
        (given.record.clone(), &given.uid),
        (Some("r2".into()), &made.uid)
    );
    calls.delete_claim(&given).await.unwrap();
    finish_deletion(&Clients::in_process(cluster.router(), "default"), "a").await;
    assert_eq!(calls.get_claim("a").await, Ok(None));
    // The claim no longer exists, which is not an error.
    calls.delete_claim(&given).await.unwrap();
    calls.give_claim(&given, &owner("r3")).await.unwrap();
}

// spec: K-10
#[tokio::test]
async fn another_claim_of_the_same_name_is_neither_given_away_nor_deleted() {
    let (cluster, calls) = cluster();
    let ours: AppId = "etl-7f3a".into();
    let first = calls.create_claim(&claim("a", &ours)).await.unwrap();
    calls.delete_claim(&first).await.unwrap();
    finish_deletion(&Clients::in_process(cluster.router(), "default"), "a").await;
    let second = calls.create_claim(&claim("a", &ours)).await.unwrap();
    calls.delete_claim(&first).await.unwrap();
    let refused = calls.give_claim(&first, &owner("r2")).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Invalid);
    assert_eq!(calls.get_claim("a").await, Ok(Some(second)));
}
