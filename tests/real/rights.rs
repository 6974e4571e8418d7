//! Tests drivers that have the printed Role and nothing else, against what the API server's audit log says that they did.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::driver::InPod;
use super::place::{IMAGE, Place, config, sessions};
use super::process::until;

/// One verb on one resource, as a Role names them.
type Right = (String, String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Each right of the printed Role.
fn printed(objects: &[Value]) -> BTreeSet<Right> {
    let role = objects.iter().find(|object| object["kind"] == "Role");
    let mut rights = BTreeSet::new();
    for rule in role.unwrap()["rules"].as_array().unwrap() {
        for verb in rule["verbs"].as_array().unwrap() {
            let of = |key: &str| text(&rule[key][0]);
            rights.insert((of("apiGroups"), of("resources"), text(verb)));
        }
    }
    rights
}

/// The rights that the driver has used, and fails if it was refused one.
fn used(place: &Place) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for event in place.audited("boatswain") {
        // A quota refuses with 403 too.
        let decision = &event["annotations"]["authorization.k8s.io/decision"];
        let object = &event["objectRef"];
        // A driver without claims tries it after its record was made again, and needs no right to it.
        let lists_claims =
            event["verb"] == "list" && object["resource"] == "persistentvolumeclaims";
        if decision == "forbid" && lists_claims {
            continue;
        }
        assert_eq!(decision, "allow", "{event}");
        // What every account may ask: the cluster's keys, and which rights it has itself.
        if object.is_null() || object["apiGroup"] == "authorization.k8s.io" {
            continue;
        }
        let subresource = object["subresource"].as_str();
        let resource = subresource.map_or_else(
            || text(&object["resource"]),
            |sub| format!("{}/{sub}", text(&object["resource"])),
        );
        rights.insert((text(&object["apiGroup"]), resource, text(&event["verb"])));
    }
    rights
}

const API: &str = r#"
[api]
listen = "127.0.0.1:7117"
token_file = "/etc/boatswain-secrets/tokens"
plain_http = true
"#;

/// An application's life: up, one executor lost and one killed, fewer and more wanted, another driver, the end. Each
/// printed right has to be used and each used one printed.
fn lives_on_its_role(name: &str, kind: &str, more: &str, more_events: impl Fn(&Place, &InPod<'_>)) {
    let place = Place::new(name);
    let api = if more.contains("[api]") { "" } else { API };
    // The first part of the additions is of the profile.
    let (profile, more) = more.split_once("---\n").unwrap_or(("", more));
    let profile = format!("executors = 2\n{profile}");
    let config = config(2).replace("executors = 2\n", &profile) + more + api;
    let objects = place.manifests(&config, &["--kind", kind, "--generate-secrets"]);
    place.apply(&objects);
    let driver = InPod::new(&place);
    let first = place.run(2);
    is_replaced(&place, || {
        place.told(&["delete", "pod", &first[0], "--wait=false"]);
    });
    // Where sets make the pods, the driver may have no other reason to delete any.
    is_replaced(&place, || {
        let id = executor_id(&place);
        place.ask(&["kill", "--replace", "--force", &id]);
    });
    place.ask(&["scale", "default=3"]);
    place.run(3);
    place.ask(&["scale", "default=1"]);
    place.run(1);
    more_events(&place, &driver);
    place.run(1);
    another_takes_over(&place, &driver);
    place.run(1);
    place.ask(&["stop"]);
    until("the driver has ended the application", || {
        let record = place.api.config_map("t-app")?;
        record["data"]["finished"].is_string().then_some(())
    });
    assert_eq!(place.executors(), [] as [Value; 0]);
    place.told(&["delete", kind, "boatswain"]);
    place.nothing_is_left();
    let used = used(&place);
    let printed = printed(&objects);
    let unprinted: Vec<_> = used.difference(&printed).collect();
    assert!(unprinted.is_empty(), "used and not printed: {unprinted:?}");
    let mut unused: Vec<_> = printed.difference(&used).collect();
    // Those of every driver, which need a misfortune to be used: shown by one of the tests.
    unused.retain(|(_, resource, _)| name == "rights-job" || resource != "events");
    // Used when the record was deleted and is made anew: it becomes the owner of executors and sets (K-2).
    let owned = ["pods", "statefulsets", "deployments"];
    unused.retain(|(_, resource, verb)| verb != "patch" || !owned.contains(&resource.as_str()));
    assert!(unused.is_empty(), "printed and not used: {unused:?}");
}

/// Ends one of two executors, and waits until two run again.
fn is_replaced(place: &Place, end: impl FnOnce()) {
    let before = uids(place);
    end();
    until("it is replaced", || {
        place.run(2);
        uids(place)
            .iter()
            .any(|uid| !before.contains(uid))
            .then_some(())
    });
}

/// The id of an executor. A set's pod gets it after it was made.
fn executor_id(place: &Place) -> String {
    until("an executor has an id", || {
        let mut pods = place.executors().into_iter();
        pods.find_map(|pod| {
            let id = pod["metadata"]["labels"]["boatswain.dev/executor-id"].as_str()?;
            Some(id.to_owned()).filter(|id| !id.is_empty())
        })
    })
}

fn uids(place: &Place) -> BTreeSet<String> {
    place
        .executors()
        .iter()
        .map(|pod| text(&pod["metadata"]["uid"]))
        .collect()
}

/// The pod of the active driver is deleted.
fn another_takes_over(place: &Place, driver: &InPod<'_>) {
    let adopted = |driver: &InPod<'_>| {
        driver
            .pods()
            .iter()
            .map(|pod| {
                let log = driver.log_of(pod["metadata"]["name"].as_str().unwrap());
                (
                    text(&pod["metadata"]["uid"]),
                    log.count("executors adopted") > 0,
                )
            })
            .collect::<Vec<_>>()
    };
    let active = until("one driver is active", || {
        let mut pods = driver.pods().into_iter();
        let before = adopted(driver);
        pods.rfind(|pod| before.contains(&(text(&pod["metadata"]["uid"]), true)))
    });
    let (uid, name) = (
        text(&active["metadata"]["uid"]),
        text(&active["metadata"]["name"]),
    );
    place.told(&["delete", "pod", &name]);
    until("another driver has taken over", || {
        adopted(driver)
            .iter()
            .any(|(other, adopted)| *adopted && *other != uid)
            .then_some(())
    });
}

// spec: O-51, O-75, O-86
#[test]
fn a_job_uses_each_right_of_its_role_and_no_other() {
    lives_on_its_role("rights-job", "job", "", |place, _| {
        // A quota that is used up is an Event on the driver's pod, and the same one when it is again a minute later.
        for count in [1, 2] {
            place.told(&["create", "quota", "none", "--hard=pods=0"]);
            until("the quota is counted", || {
                let quota = place.get("api/v1", "resourcequotas", "none")?;
                quota["status"]["used"]["pods"].is_string().then_some(())
            });
            place.ask(&["scale", &format!("default={}", 1 + count)]);
            until("an Event tells of the quota", || {
                let counts = "jsonpath={.items[?(@.source.component==\"boatswain\")].count}";
                let counts = place.told(&["get", "events", "-o", counts]);
                counts
                    .split_whitespace()
                    .any(|n| n == count.to_string())
                    .then_some(())
            });
            place.told(&["delete", "quota", "none"]);
            place.run(1 + count);
            sleep(Duration::from_secs(if count == 1 { 62 } else { 0 }));
        }
        place.ask(&["scale", "default=1"]);
    });
}

/// A profile with a budget comes and goes.
fn add_and_remove_a_profile(place: &Place, driver: &InPod<'_>) {
    let secret = place.get("api/v1", "secrets", "boatswain-secrets").unwrap();
    let tokens = STANDARD
        .decode(secret["data"]["tokens"].as_str().unwrap())
        .unwrap();
    let token = String::from_utf8(tokens).unwrap();
    let address = driver.pod()["status"]["podIP"].as_str().unwrap().to_owned();
    let call = |method: &str, body: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--fail-with-body",
            "--request",
            method,
            "--data",
            body,
        ])
        .args([
            "--header",
            &format!("Authorization: Bearer {}", token.trim()),
        ])
        .arg(format!("http://{address}:7117/v1/profiles/more"));
        let output = curl.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let budget = || place.get("apis/policy/v1", "poddisruptionbudgets", "t-more");
    call(
        "PUT",
        &json!({"executors": 0, "image": IMAGE, "command": ["x"], "min_available": 1}).to_string(),
    );
    until("its budget is there", budget);
    call("DELETE", "");
    until("its budget is gone", || budget().is_none().then_some(()));
}

/// The record is deleted by hand: everything gets another owner.
fn lose_the_record(place: &Place) {
    let uid = || Some(place.api.config_map("t-app")?["metadata"]["uid"].clone());
    let before = uid();
    place.told(&["delete", "configmap", "t-app", "--cascade=orphan"]);
    until("the record is there again", || {
        uid().filter(|now| Some(now) != before.as_ref())
    });
}

// spec: O-51, K-10, K-12
#[test]
fn claims_budgets_certificates_service_and_evidence_use_their_rights_and_no_other() {
    let features = r#"min_available = 1
---
[[profiles.default.claims]]
name = "work"
mount_path = "/work"
size = "1Mi"
storage_class = "CLASS"
owner = "application"
[api]
listen = "0.0.0.0:7117"
token_file = "/etc/boatswain-secrets/tokens"
plain_http = true
evidence = true
[lifecycle]
keep = "all"
[claims]
reuse = true
"#;
    let volumes = Volumes::new(6);
    let features = features.replace("CLASS", &volumes.class);
    let more = features + &sessions();
    lives_on_its_role("rights-job-all", "job", &more, |place, driver| {
        driver.registered(3);
        let pod = place.run(1).remove(0);
        place.ask(&["explain", pod.trim_start_matches("t-exec-")]);
        add_and_remove_a_profile(place, driver);
        lose_the_record(place);
        // More than there are volumes for: a driver that adopts an executor that waits looks for its claim.
        place.ask(&["scale", "default=9"]);
        until("all are requested", || {
            (place.executors().len() == 9).then_some(())
        });
        another_takes_over(place, driver);
        place.ask(&["scale", "default=1"]);
        // What others changed is corrected by the next driver.
        let owner = r#"{"metadata":{"ownerReferences":null}}"#;
        place.told(&["patch", "secret", "t-tls", "--type=merge", "-p", owner]);
        place.told(&["patch", "service", "t-driver", "--type=merge", "-p", owner]);
    });
}

/// Volumes on the node's disk, because nothing makes any in this cluster.
struct Volumes {
    class: String,
    directory: tempfile::TempDir,
    count: usize,
}

impl Volumes {
    fn new(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let id = directory.path().file_name().unwrap().to_string_lossy();
        let class = id.trim_start_matches('.').to_lowercase();
        let mut volumes = Vec::new();
        for n in 1..=count {
            let path = directory.path().join(n.to_string());
            std::fs::create_dir(&path).unwrap();
            volumes.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("{class}-{n}")},
                "spec": {
                    "capacity": {"storage": "10Mi"}, "accessModes": ["ReadWriteOnce"],
                    "storageClassName": class, "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": {"path": path},
                },
            }));
        }
        let made = Self {
            class,
            directory,
            count,
        };
        Place::new("volumes").apply(&volumes);
        made
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        let mut kubectl = std::process::Command::new("kubectl");
        kubectl.args(["delete", "persistentvolume", "--wait=false"]);
        kubectl.args((1..=self.count).map(|n| format!("{}-{n}", self.class)));
        let _ = kubectl.output();
        let _ = self.directory.path();
    }
}

// spec: O-51, O-32
#[test]
fn two_drivers_with_the_lease_use_the_rights_of_a_deployment_and_no_other() {
    let lease = "[ha]\nlease = true\n";
    lives_on_its_role("rights-lease", "deployment", lease, |_, _| {});
}

// spec: O-51, A-80
#[test]
fn stateful_sets_of_executors_use_their_rights_and_no_other() {
    let sets = "[allocation]\nstrategy = \"statefulset\"\n";
    lives_on_its_role("rights-statefulset", "statefulset", sets, |_, _| {});
}

// spec: O-51, A-80, A-81
#[test]
fn deployments_of_executors_use_their_rights_and_no_other() {
    let sets = "[allocation]\nstrategy = \"deployment\"\n";
    lives_on_its_role("rights-deployment", "deployment", sets, |_, _| {});
}
