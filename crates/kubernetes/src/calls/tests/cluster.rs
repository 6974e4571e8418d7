//! The calls against the embedded cluster, from creates to watches.

use super::*;
use crate::WatchLine;
use crate::labels::DELETION_COST;
use crate::record::{Record, RecordPlace};
use crate::testing::executor;
use boatswain_model::pod::PodIdentity;
use boatswain_model::{ExecutorId, Incarnation, Pod};
use devcluster::{self, DevCluster, Options};

fn cluster() -> (DevCluster, Calls) {
    let cluster = devcluster::start(Options::default());
    let calls = calls_to(Clients::in_process(cluster.router(), "default"));
    (cluster, in_default(calls))
}

pub(super) fn in_default(calls: Calls) -> Calls {
    calls_in("default", calls.clients())
}

fn pod(seen: Sighting) -> Arc<Pod> {
    match seen {
        Sighting::Read(pod) => pod,
        Sighting::Unreadable(part) => panic!("{part:?}"),
    }
}

// spec: E-1, E-8, K-2
#[tokio::test]
async fn a_requested_pod_is_ours_in_the_response_in_a_look_up_and_in_a_list() {
    let (_cluster, calls) = cluster();
    let created = pod(calls.create_pod(&executor(1)).await.unwrap());
    assert_eq!(
        created.identity,
        PodIdentity::Executor {
            id: ExecutorId::FIRST,
            profile: Some("default".into()),
            incarnation: Some(Incarnation(3)),
        }
    );
    assert_eq!(created.owner, Some("record-uid".into()));
    let found = calls.get_pod("etl-exec-1").await.unwrap().unwrap();
    assert_eq!(pod(found), created);
    let listed = calls.list_pods(&ListQuery::default()).await.unwrap();
    assert_eq!(listed.items, [Sighting::Read(created)]);
    let taken = calls.create_pod(&executor(1)).await.unwrap_err();
    assert_eq!(
        (taken.kind, taken.is_refused()),
        (FailureKind::AlreadyExists, true)
    );
    assert_eq!(calls.get_pod("etl-exec-2").await, Ok(None));
}

// spec: L-11
#[tokio::test]
async fn a_delete_hits_only_the_pod_with_its_uid() {
    let (_cluster, calls) = cluster();
    let created = pod(calls.create_pod(&executor(1)).await.unwrap());
    let other = calls
        .delete_pod(&created.name, &"another".into(), None)
        .await;
    assert_eq!(other, Ok(Deleted::NothingThere));
    let deleted = calls.delete_pod(&created.name, &created.uid, None).await;
    assert!(matches!(deleted, Ok(Deleted::Accepted(_))), "{deleted:?}");
    let again = calls.delete_pod(&created.name, &created.uid, None).await;
    assert_eq!(again, Ok(Deleted::NothingThere));
}

// spec: L-2, L-12
#[tokio::test]
async fn a_patch_returns_the_changed_pod_or_none_if_it_is_gone() {
    let (_cluster, calls) = cluster();
    let created = pod(calls.create_pod(&executor(1)).await.unwrap());
    let cost =
        json!({"metadata": {"uid": created.uid.as_str(), "annotations": {DELETION_COST: "7"}}});
    let patched = calls
        .patch_pod(&created.name, &cost)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(pod(patched).deletion_cost, 7);
    let inactive = json!({"metadata": {"labels": {"boatswain.dev/inactive": "true"}}});
    let patched = pod(calls
        .patch_pod(&created.name, &inactive)
        .await
        .unwrap()
        .unwrap());
    assert!(
        matches!(&patched.identity, PodIdentity::Foreign { label } if &**label == "boatswain.dev/inactive")
    );
    let listed = calls.list_pods(&ListQuery::default()).await.unwrap();
    assert!(listed.items.is_empty(), "neither source reads it again");
    let meant_another = json!({"metadata": {"uid": "another", "labels": {"x": "y"}}});
    let refused = calls
        .patch_pod(&created.name, &meant_another)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, FailureKind::Invalid);
    assert_eq!(calls.patch_pod("etl-exec-2", &inactive).await, Ok(None));
}

// spec: P-1, S-13, W-2
#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_and_report_unusable_versions() {
    let (cluster, calls) = cluster();
    for id in 1..=5 {
        calls.create_pod(&executor(id)).await.unwrap();
    }
    let mut query = ListQuery {
        limit: Some(2),
        ..ListQuery::default()
    };
    let mut pages = Vec::new();
    loop {
        let page = calls.list_pods(&query).await.unwrap();
        query.continue_token = page.continue_token.clone();
        pages.push(page);
        if query.continue_token.is_none() {
            break;
        }
    }
    let sizes: Vec<_> = pages.iter().map(|page| page.items.len()).collect();
    assert_eq!(sizes, [2, 2, 1]);
    let future = ListQuery {
        at_least: Some(ResourceVersion::from(1_000_000)),
        ..ListQuery::default()
    };
    let too_new = calls.list_pods(&future).await.unwrap_err();
    assert_eq!(too_new.kind, FailureKind::TooLargeVersion);
    cluster.compact().await;
    let mut old = calls.watch_pods(&1.into(), 60).await.unwrap();
    assert_eq!(old.next().await, Some(Ok(WatchLine::Expired)));
}

// spec: W-1, E-10
#[tokio::test]
async fn a_watch_reports_changes_and_deletions_of_executors() {
    let (cluster, calls) = cluster();
    let start = calls
        .list_pods(&ListQuery::default())
        .await
        .unwrap()
        .version;
    let mut watch = calls.watch_pods(&start, 60).await.unwrap();
    let created = calls.create_pod(&executor(1)).await.unwrap();
    assert_eq!(
        watch.next().await,
        Some(Ok(WatchLine::Seen(created.clone())))
    );
    let created = pod(created);
    let relabel = json!({"metadata": {"labels": {"boatswain.dev/role": null}}});
    calls.patch_pod(&created.name, &relabel).await.unwrap();
    let Some(Ok(WatchLine::Deleted(left))) = watch.next().await else {
        panic!("it left the selector");
    };
    assert_eq!(pod(left).deletion, None);
    cluster.cut_watches().await;
    assert_eq!(watch.next().await, None);
}

// spec: O-30, W-7
#[tokio::test]
async fn the_record_is_made_watched_replaced_and_deleted_under_its_preconditions() {
    let (_cluster, calls) = cluster();
    let place = RecordPlace {
        namespace: "default".to_owned(),
        prefix: "etl".to_owned(),
        app_name: "etl".to_owned(),
        labels: LabelScheme::Boatswain,
        owner: None,
    };
    let app = "etl-7f3a".into();
    let name = "etl-app";
    assert_eq!(calls.get_config_map(name).await, Ok(None));
    let first = Record::succeed(None, &app, 100).unwrap().record;
    let made = calls
        .create_config_map(&first.to_config_map(&place, None))
        .await
        .unwrap();
    assert_eq!(Record::read_own(&made, &app), Ok(first.clone()));
    let taken = calls
        .create_config_map(&first.to_config_map(&place, None))
        .await;
    assert_eq!(taken.unwrap_err().kind, FailureKind::AlreadyExists);

    let mut watch = calls
        .watch_config_map(name, Some(&made.version), 60)
        .await
        .unwrap();
    let second = Record::succeed(Some(&first), &app, 100).unwrap().record;
    let map = second.to_config_map(&place, Some((&made.uid, &made.version)));
    let replaced = calls.replace_config_map(name, &map).await.unwrap();
    assert_eq!(Record::read(&replaced).unwrap().incarnation, Incarnation(2));
    assert_eq!(
        watch.next().await,
        Some(Ok(WatchLine::Seen(replaced.clone())))
    );
    let stale = calls.replace_config_map(name, &map).await.unwrap_err();
    assert_eq!(stale.kind, FailureKind::Conflict);

    let another = calls
        .delete_config_map(name, &"another".into(), &replaced.version)
        .await;
    assert_eq!(another.unwrap_err().kind, FailureKind::Conflict);
    let written_since = calls.delete_config_map(name, &made.uid, &made.version);
    assert_eq!(written_since.await.unwrap_err().kind, FailureKind::Conflict);
    let deleted = calls
        .delete_config_map(name, &made.uid, &replaced.version)
        .await;
    assert_eq!(deleted, Ok(Deleted::Accepted(None)));
    assert!(matches!(
        watch.next().await,
        Some(Ok(WatchLine::Deleted(_)))
    ));
    let gone = calls.replace_config_map(name, &map).await.unwrap_err();
    assert!(
        matches!(gone.kind, FailureKind::NotFound | FailureKind::Conflict),
        "{gone}"
    );
}

// spec: A-21, A-23, A-24
#[tokio::test]
async fn refusals_are_what_an_api_server_says_they_are() {
    let (_cluster, calls) = cluster();
    let invalid = PodBody {
        name: "etl-exec-1".into(),
        json: Bytes::from_static(
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"etl-exec-1"},"spec":{"containers":[]}}"#,
        ),
    };
    let refused = calls.create_pod(&invalid).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.is_refused()),
        (FailureKind::Invalid, true)
    );
    assert!(
        refused
            .causes
            .iter()
            .any(|cause| &*cause.field == "spec.containers"),
        "{refused:?}"
    );
    let nowhere = calls_to(calls.clients());
    let valid = PodBody {
        json: Bytes::from_static(
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        ),
        ..invalid
    };
    let missing = nowhere.create_pod(&valid);
    assert_eq!(
        missing.await.unwrap_err().kind,
        FailureKind::NamespaceMissing
    );
    assert!(calls.server_version().await.unwrap().starts_with('v'));
}
