use std::convert::Infallible;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use tower::service_fn;

use super::*;
use crate::actors::snapshot_store::messages::Tell;
use crate::clock::Clock;
use crate::kubernetes::Clients;
use crate::model::Epoch;
use crate::model::news::News;
use crate::testing::{Scenario, added_profile, calls_to, store};

/// The name of a created PodGroup, and its minimum number of members.
type Created = (Value, Value);

/// Takes what PodAllocator would be told.
struct Told(tokio::sync::mpsc::UnboundedSender<Vec<(String, RefusalKind)>>);

impl actix::Actor for Told {
    type Context = actix::Context<Self>;
}

impl actix::Handler<GroupsRefused> for Told {
    type Result = ();

    fn handle(&mut self, GroupsRefused(refused): GroupsRefused, _: &mut Self::Context) {
        let refused = refused.into_iter();
        let refused = refused.map(|(profile, (kind, _))| (profile.to_string(), kind));
        let _ = self.0.send(refused.collect());
    }
}

/// Calls to a cluster with Volcano and without PodGroups, and the PodGroups created there.
fn cluster() -> (Calls, tokio::sync::mpsc::UnboundedReceiver<Created>) {
    refusing("")
}

/// The same where a quota refuses the PodGroup of this name.
fn refusing(refused: &'static str) -> (Calls, tokio::sync::mpsc::UnboundedReceiver<Created>) {
    let (sender, created) = tokio::sync::mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let sender = sender.clone();
        async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path().to_owned();
            let (status, answer) = match parts.method {
                Method::POST => {
                    let body = body.collect().await.unwrap().to_bytes();
                    let group: Value = serde_json::from_slice(&body).unwrap();
                    let (name, spec) = (&group["metadata"]["name"], &group["spec"]);
                    if *name == refused {
                        let status = json!({
                            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                            "message": "podgroups is forbidden: exceeded quota: few, requested: a, used: a, limited: a",
                        });
                        (403, status)
                    } else {
                        let _ = sender.send((name.clone(), spec["minMember"].clone()));
                        (201, group)
                    }
                }
                _ if path == "/apis" => (
                    200,
                    json!({"groups": [{"name": "scheduling.volcano.sh", "versions": [{"version": "v1beta1"}]}]}),
                ),
                _ => {
                    let name = path.rsplit('/').next();
                    let details = json!({"kind": "podgroups", "group": "scheduling.volcano.sh", "name": name});
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "reason": "NotFound", "code": 404, "details": details,
                    });
                    (404, status)
                }
            };
            let response = Response::builder().status(status);
            let response = response.header("content-type", "application/json");
            let body = http_body_util::Full::from(answer.to_string());
            Ok::<_, Infallible>(response.body(body).unwrap())
        }
    });
    (calls_to(Clients::in_process(service, "default")), created)
}

/// Calls to a cluster that does not answer, and the calls that it was sent.
fn silent_cluster() -> (Calls, tokio::sync::mpsc::UnboundedReceiver<()>) {
    let (sender, called) = tokio::sync::mpsc::unbounded_channel();
    let service = service_fn(move |_: Request<kube::client::Body>| {
        let _ = sender.send(());
        async {
            Err::<Response<http_body_util::Full<bytes::Bytes>>, _>(std::io::Error::other("refused"))
        }
    });
    (calls_to(Clients::in_process(service, "default")), called)
}

// spec: W-14
#[actix::test]
async fn when_the_server_is_back_the_objects_are_looked_at_at_once_and_the_backoff_begins_anew() {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 4)]).ledger, clock);
    store.do_send(Tell(News::RecordSeen {
        uid: "record".into(),
        epoch: Epoch::default(),
    }));
    let (calls, mut called) = silent_cluster();
    let least = BTreeMap::from([("default".into(), 4)]);
    let object = ProfileObject::DisruptionBudget;
    let keeper = ProfileObjects::start(object, calls, place("t"), least, store, None, None);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    while called.try_recv().is_ok() {}
    let soon = TRIES.delay(2) + Duration::from_millis(10);
    assert!(TRIES.max > 2 * soon, "the backoff has grown beyond that");
    keeper.server_is_back();
    for _ in 0..2 {
        let again = tokio::time::timeout(soon, called.recv()).await;
        assert_eq!(again, Ok(Some(())));
    }
}

// spec: A-82, B-26
#[actix::test]
async fn the_pod_group_of_an_added_profile_is_created_at_once() {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let ledger = Scenario::new(&[("default", 4)]).ledger;
    let store = store(ledger, clock);
    store.do_send(Tell(News::RecordSeen {
        uid: "record".into(),
        epoch: Epoch::default(),
    }));
    let (calls, mut created) = cluster();
    let least = BTreeMap::from([("default".into(), 4)]);
    let object = ProfileObject::PodGroup(PodGroups::Volcano);
    let keeper = ProfileObjects::start(object, calls, place("t"), least, store, None, None);
    assert_eq!(created.recv().await, Some((json!("t-default"), json!(4))));
    tokio::time::sleep(Duration::from_secs(10)).await;
    keeper.add_profile(Arc::new(added_profile("large")));
    let soon = tokio::time::timeout(Duration::from_secs(1), async {
        // The test's cluster does not keep what it creates.
        let again = created.recv().await;
        (again, created.recv().await)
    });
    let (again, large) = soon.await.unwrap();
    assert_eq!(again, Some((json!("t-default"), json!(4))));
    assert_eq!(large, Some((json!("t-large"), json!(2))));
}

// spec: A-115
#[actix::test]
async fn a_refused_pod_group_is_told_and_the_others_are_created() {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 4), ("large", 4)]).ledger, clock);
    store.do_send(Tell(News::RecordSeen {
        uid: "record".into(),
        epoch: Epoch::default(),
    }));
    let (calls, mut created) = refusing("t-default");
    let least = BTreeMap::from([("default".into(), 4), ("large".into(), 2)]);
    let object = ProfileObject::PodGroup(PodGroups::Volcano);
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let allocator = actix::Actor::start(Told(sender)).recipient();
    let allocator = Some(allocator);
    let _keeper = ProfileObjects::start(object, calls, place("t"), least, store, None, allocator);
    assert_eq!(created.recv().await, Some((json!("t-large"), json!(2))));
    let quota = vec![("default".to_owned(), RefusalKind::Quota)];
    assert_eq!(told.recv().await, Some(quota));
}

fn place(prefix: &str) -> Place {
    Place {
        prefix: prefix.to_owned(),
        app_id: "etl-1".into(),
        labels: LabelScheme::Boatswain,
    }
}

fn seen(number: Option<u32>, owner: &str) -> Option<ObjectSeen> {
    let owner = Some(owner.to_owned());
    let uid = "uid".to_owned();
    Some(ObjectSeen {
        uid,
        deleting: false,
        number,
        owner,
    })
}

// spec: A-82
#[test]
fn a_pod_group_is_created_corrected_and_left_alone() {
    let (profile, record) = ("default".into(), PodUid::from("r1"));
    let todo = |seen: Option<ObjectSeen>| {
        let object = ProfileObject::PodGroup(PodGroups::Volcano);
        todo(object, &place("etl"), &profile, 4, &record, seen.as_ref())
    };
    assert_eq!(todo(seen(Some(4), "r1")), Todo::Nothing);
    let Todo::Create(group) = todo(None) else {
        panic!("it is missing");
    };
    assert_eq!(group["metadata"]["name"], "etl-default");
    assert_eq!(group["spec"], json!({"minMember": 4}));
    assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], "r1");
    for wrong in [seen(Some(3), "r1"), seen(None, "r1"), seen(Some(4), "r0")] {
        assert!(matches!(todo(wrong), Todo::Patch(_)));
    }
}

// spec: A-104
#[test]
fn a_pod_group_of_kubernetes_is_replaced_where_its_size_is_wrong_because_that_cannot_be_changed() {
    let (profile, record) = ("default".into(), PodUid::from("r1"));
    let object = ProfileObject::PodGroup(PodGroups::Kubernetes { version: "v1beta1" });
    let todo =
        |seen: Option<ObjectSeen>| todo(object, &place("etl"), &profile, 4, &record, seen.as_ref());
    let Todo::Create(group) = todo(None) else {
        panic!("it is missing");
    };
    let policy = json!({"schedulingPolicy": {"gang": {"minCount": 4}}});
    assert_eq!(group["apiVersion"], "scheduling.k8s.io/v1beta1");
    assert_eq!(group["spec"], policy);
    assert_eq!(todo(seen(Some(4), "r1")), Todo::Nothing);
    let Todo::Patch(patch) = todo(seen(Some(4), "r0")) else {
        panic!("its owner can be changed");
    };
    assert_eq!(patch["spec"], policy);
    assert_eq!(todo(seen(Some(3), "r1")), Todo::Replace);
    let going = seen(Some(3), "r1").map(|seen| ObjectSeen {
        deleting: true,
        ..seen
    });
    assert_eq!(todo(going), Todo::Await);
}

// spec: K-12
#[test]
fn a_disruption_budget_selects_the_executors_of_its_profile() {
    let (profile, record) = ("large".into(), PodUid::from("r1"));
    let object = ProfileObject::DisruptionBudget;
    let Todo::Create(budget) = todo(object, &place("etl"), &profile, 4, &record, None) else {
        panic!("it is missing");
    };
    assert_eq!(budget["apiVersion"], "policy/v1");
    assert_eq!(
        budget["spec"],
        json!({
            "minAvailable": 4,
            "selector": {"matchLabels": {
                "boatswain.dev/app-id": "etl-1",
                "boatswain.dev/role": "executor",
                "boatswain.dev/profile": "large",
            }},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        })
    );
    let percentage = seen(None, "r1");
    let corrected = todo(
        object,
        &place("etl"),
        &profile,
        4,
        &record,
        percentage.as_ref(),
    );
    let Todo::Patch(patch) = corrected else {
        panic!("somebody has written a percentage");
    };
    assert_eq!(patch["spec"], json!({"minAvailable": 4}));
}

// spec: K-12
#[test]
fn a_disruption_budget_never_forbids_more_than_the_target() {
    let number = |least: u32, target: u32| {
        let ledger = Scenario::new(&[("default", target)]).ledger;
        let least = BTreeMap::from([("default".into(), least)]);
        let object = ProfileObject::DisruptionBudget;
        numbers(object, &least, ledger.current())[&ProfileName::from("default")]
    };
    assert_eq!([number(3, 10), number(3, 2), number(3, 0)], [3, 2, 0]);
}

/// Calls to a cluster whose group scheduling.k8s.io has these versions with these resources.
fn serving(versions: &'static [(&'static str, &'static str)]) -> Calls {
    let service = service_fn(move |request: Request<kube::client::Body>| async move {
        let path = request.uri().path();
        let version = path.strip_prefix("/apis/scheduling.k8s.io/");
        let answer = match version {
            Some(version) => {
                let found = versions.iter().find(|(name, _)| *name == version);
                json!({"resources": [{"name": found.unwrap().1}]})
            }
            None => {
                let versions = versions.iter().map(|(name, _)| json!({"version": name}));
                let versions: Vec<Value> = versions.collect();
                json!({"groups": [{"name": "scheduling.k8s.io", "versions": versions}]})
            }
        };
        let response = Response::builder().header("content-type", "application/json");
        let body = http_body_util::Full::from(answer.to_string());
        Ok::<_, Infallible>(response.body(body).unwrap())
    });
    calls_to(Clients::in_process(service, "default"))
}

// spec: A-104
#[actix::test]
async fn pod_groups_of_kubernetes_are_written_in_the_newest_version_that_is_served_and_known() {
    let priorities = ("v1", "priorityclasses");
    for (versions, expected) in [
        (vec![priorities], None),
        (
            vec![priorities, ("v1alpha2", "podgroups")],
            Some("v1alpha2"),
        ),
        (
            vec![
                priorities,
                ("v1alpha2", "podgroups"),
                ("v1alpha3", "podgroups"),
            ],
            Some("v1alpha3"),
        ),
        (
            vec![
                priorities,
                ("v1alpha2", "podgroups"),
                ("v1beta1", "workloads"),
            ],
            Some("v1alpha2"),
        ),
        (vec![priorities, ("v2", "podgroups")], None),
    ] {
        let calls = serving(versions.leak());
        assert_eq!(calls.pod_groups().await.unwrap(), expected);
    }
}
