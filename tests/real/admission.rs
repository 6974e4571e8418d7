//! Tests what a real API server's admission refuses and changes: Pod Security, quotas, limits and policies.

use serde_json::{Value, json};

use super::place::{IMAGE, Place, WORKER, config, sessions};
use super::process::until;

const REFUSED: &str = "the API server refuses executors of this profile: waiting";

/// Another profile of one executor.
fn profile(name: &str, more: &str) -> String {
    format!(
        "[profiles.{name}]\nexecutors = 1\nimage = \"{IMAGE}\"\ncommand = [\"/bin/sh\", \"-c\", \"{WORKER}\"]\n\
         termination_grace = \"3s\"\n{more}"
    )
}

/// Lets a policy or a webhook apply to this namespace alone.
fn only_here(place: &Place) -> Value {
    json!({"matchLabels": {"test": place.name()}})
}

const PODS: &str = r#"[{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]"#;

/// Objects of the whole cluster, which go with their test.
struct OfCluster(Vec<String>);

impl OfCluster {
    fn apply(place: &Place, objects: &[Value]) -> Self {
        place.apply(objects);
        let name = |object: &Value| {
            let of = |pointer: &str| {
                object
                    .pointer(pointer)
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            format!("{}/{}", of("/kind"), of("/metadata/name"))
        };
        Self(objects.iter().map(name).collect())
    }
}

impl Drop for OfCluster {
    fn drop(&mut self) {
        let mut kubectl = std::process::Command::new("kubectl");
        let _ = kubectl.arg("delete").args(&self.0).output();
    }
}

// spec: K-6, O-51, O-52
#[test]
fn driver_and_executors_run_where_pod_security_is_restricted() {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    });
    let place = Place::labelled("restricted", &labels);
    let rooted = profile("rooted", "security = { privilege_escalation = true }\n");
    let driver = place.drive(&(config(2) + &rooted + &sessions()), &[]);
    driver.registered(2);
    let refused = driver.says(REFUSED);
    assert_eq!(
        (&refused["profile"], &refused["reason"]),
        (&json!("rooted"), &json!("Blocked"))
    );
    let said = refused["error"].as_str().unwrap();
    assert!(
        said.contains("violates PodSecurity \\\"restricted")
            || said.contains("violates PodSecurity \"restricted"),
        "{said}"
    );
    place.run(2);
}

// spec: A-21, O-45
#[test]
fn a_quota_holds_executors_back_and_describe_shows_it_until_there_is_room() {
    let place = Place::new("quota");
    // The driver's own pod counts too.
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"},
        "spec": {"hard": {"pods": "3"}},
    });
    place.apply(&[quota]);
    until("the quota is counted", || {
        let quota = place.get("api/v1", "resourcequotas", "team")?;
        quota["status"]["used"]["pods"].is_string().then_some(())
    });
    let driver = place.drive(&config(4), &[]);
    let refused = driver.says(REFUSED);
    assert_eq!(refused["reason"], "Quota");
    let said = refused["error"].as_str().unwrap();
    assert!(
        said.starts_with("quota team is used up: pods=1 more would be beyond pods=3"),
        "{said}"
    );
    let pod = driver.name();
    until("kubectl describe shows the event", || {
        let shown = place.told(&["describe", "pod", &pod]);
        (shown.contains("quota team is used up") && shown.contains("Warning")).then_some(())
    });
    place.told(&[
        "patch",
        "resourcequota",
        "team",
        "--type=merge",
        "-p",
        r#"{"spec":{"hard":{"pods":"9"}}}"#,
    ]);
    place.run(4);
    assert_eq!(driver.log().count("executor ended"), 0);
}

// spec: A-21, A-23, A-24, A-45
#[test]
fn a_profile_beyond_a_limit_range_waits_and_the_others_run_whatever_their_names() {
    for name in ["big", "zbig"] {
        let place = Place::new("limits");
        let limits = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "256Mi"}, "default": {"memory": "64Mi"}}]},
        });
        place.apply(&[limits]);
        let big = profile(name, "memory = \"1Gi\"\nmemory_limit = \"1Gi\"\n");
        let driver = place.drive(&(config(2) + &big), &[]);
        place.run(2);
        let refused = driver.says(REFUSED);
        assert_eq!(
            (&refused["profile"], &refused["reason"]),
            (&json!(name), &json!("Blocked"))
        );
        let said = refused["error"].as_str().unwrap();
        assert!(
            said.contains("maximum memory usage per Container is 256Mi"),
            "{said}"
        );
        assert_eq!(driver.pods().len(), 1, "the driver has gone on");
    }
}

// spec: A-23
#[test]
fn a_validating_policy_that_refuses_one_profile_is_told_and_leaves_the_others() {
    let place = Place::new("validating");
    let name = place.name();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": serde_json::from_str::<Value>(PODS).unwrap()},
            "validations": [{
                "expression": "!has(object.metadata.labels) || !('team' in object.metadata.labels) || object.metadata.labels.team != 'none'",
                "message": "each team has a name",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": only_here(&place)}},
    });
    let _policy = OfCluster::apply(&place, &[policy, binding]);
    refuses(&place, "team", "none");
    let nameless = profile("zz", "labels = { team = \"none\" }\n");
    let driver = place.drive(&(config(2) + &nameless), &[]);
    place.run(2);
    let refused = driver.says(REFUSED);
    assert_eq!(
        (&refused["profile"], &refused["reason"]),
        (&json!("zz"), &json!("Blocked"))
    );
    let said = refused["error"].as_str().unwrap();
    assert!(said.contains("each team has a name"), "{said}");
}

/// Waits until the API server knows a policy, which it does a moment after it has accepted it.
fn refuses(place: &Place, label: &str, value: &str) {
    let pod = |n: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("trial-{n}"), "labels": {label: value}},
            "spec": {"containers": [{"name": "c", "image": IMAGE}]},
        })
    };
    let mut tries = 0;
    until("the policy is in force", || {
        tries += 1;
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", place.name());
        place
            .api
            .call("POST", &path, Some(&pod(tries)))
            .is_err()
            .then_some(())
    });
}

// spec: K-1, E-12, L-2
#[test]
fn executors_that_a_mutating_policy_has_given_a_sidecar_are_kept_alive_and_replaced_as_others() {
    let place = Place::new("mutating");
    let name = place.name();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": serde_json::from_str::<Value>(PODS).unwrap()},
            "matchConditions": [{
                "name": "executors",
                "expression": "has(object.metadata.labels) && 'boatswain.dev/role' in object.metadata.labels",
            }],
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: {\"mesh\": \"in\"}}, spec: Object.spec{initContainers: [\
                 Object.spec.initContainers{name: \"mesh\", image: \"localhost/pause:1\", restartPolicy: \"Always\"}]}}",
            }}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "matchResources": {"namespaceSelector": only_here(&place)}},
    });
    let _policy = OfCluster::apply(&place, &[policy, binding]);
    until("the policy is in force", || {
        let path = format!("/api/v1/namespaces/{name}/pods?dryRun=All");
        let trial = json!({
            "metadata": {"name": "trial", "labels": {"boatswain.dev/role": "trial"}},
            "spec": {"containers": [{"name": "c", "image": IMAGE}]},
        });
        let answer = place.api.call("POST", &path, Some(&trial)).ok()?;
        (answer["spec"]["initContainers"][0]["name"] == "mesh").then_some(())
    });
    let driver = place.drive(&config(2), &[]);
    let first = place.run(2);
    let pod = place.pod(&first[0]).unwrap();
    assert_eq!(pod["metadata"]["labels"]["mesh"], "in");
    place.told(&["delete", "pod", &first[0], "--wait=false"]);
    let end = driver.end_of(1);
    assert_eq!(end["reason"], "Deleted", "{end}");
    until("it is replaced", || {
        place
            .run(2)
            .iter()
            .any(|name| !first.contains(name))
            .then_some(())
    });
    place.told(&["delete", "job", "boatswain"]);
    place.nothing_is_left();
}
