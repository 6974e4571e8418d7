//! Tests service accounts that call the driver's API, with tokens that the API server issues.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::driver::InPod;
use super::place::{API, IMAGE, Place, WORKER, config, sessions};
use super::process::until;

const AUDIENCE: &str = "boatswain.dev/NAMESPACE/t";

/// A token of a service account of the namespace, bound to a pod where one is named.
pub fn token(place: &Place, account: &str, audience: &str, pod: Option<&str>) -> String {
    let mut spec = json!({"audiences": [audience], "expirationSeconds": 600});
    if let Some(pod) = pod {
        let uid = place.pod(pod).unwrap()["metadata"]["uid"].clone();
        spec["boundObjectRef"] =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
    }
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/{account}/token",
        place.name()
    );
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let answer = place.api.call("POST", &path, Some(&request)).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// What reaches a driver in a pod over HTTPS.
pub struct Asking<'a> {
    place: &'a Place,
    driver: &'a InPod<'a>,
    ca: PathBuf,
}

impl<'a> Asking<'a> {
    pub fn new(place: &'a Place, driver: &'a InPod<'a>) -> Self {
        let map = until("the driver's CA is there", || {
            place.api.config_map("t-executor")
        });
        let ca = place.file("ca.crt");
        std::fs::write(&ca, map["data"]["ca.crt"].as_str().unwrap()).unwrap();
        Self { place, driver, ca }
    }

    /// The status and the body of the answer.
    pub fn ask(
        &self,
        method: &str,
        port: u16,
        path: &str,
        token: &str,
        body: Option<String>,
    ) -> (u16, Value) {
        let host = format!("t-driver.{}.svc", self.place.name());
        let pod = self.driver.pod();
        let address = pod["status"]["podIP"].as_str().unwrap();
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "20"])
            .arg("--cacert")
            .arg(&self.ca)
            .args(["--resolve", &format!("{host}:{port}:{address}")])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .args(["--request", method, "--write-out", "\n%{http_code}"])
            .arg(format!("https://{host}:{port}{path}"));
        if let Some(body) = body {
            curl.args(["--data", &body]);
        }
        let output = curl.output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let (body, code) = text.rsplit_once('\n').unwrap();
        (
            code.parse().unwrap(),
            serde_json::from_str(body).unwrap_or(Value::Null),
        )
    }

    fn targets(&self, method: &str, token: &str, executors: Option<u64>) -> (u16, Value) {
        let body = executors.map(|executors| json!({"executors": executors}).to_string());
        let path = match body {
            Some(_) => "/v1/targets/default",
            None => "/v1/targets",
        };
        self.ask(method, 7117, path, token, body)
    }
}

fn with_accounts(place: &Place) -> String {
    let accounts = r#"
[api]
listen = "0.0.0.0:7117"
service_accounts = { "NAMESPACE/caller" = "full", "NAMESPACE/reader" = "read" }
"#;
    for account in ["caller", "reader", "stranger"] {
        place.told(&["create", "serviceaccount", account]);
    }
    config(2) + &sessions() + &accounts.replace("NAMESPACE", place.name())
}

/// A pod of an account, with the token that docs/api.md has mounted in it.
fn calling_pod(place: &Place, name: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "serviceAccountName": "caller", "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": IMAGE, "command": ["sleep", "1000"],
                "volumeMounts": [
                    {"name": "boatswain", "mountPath": "/var/run/secrets/boatswain"},
                    {"name": "ca", "mountPath": "/ca"},
                ],
            }],
            "securityContext": {"runAsUser": 1000, "runAsNonRoot": true},
            "volumes": [
                {"name": "boatswain", "projected": {"sources": [{"serviceAccountToken": {
                    "audience": AUDIENCE.replace("NAMESPACE", place.name()), "path": "token",
                }}]}},
                {"name": "ca", "configMap": {"name": "t-executor"}},
            ],
        },
    });
    place.apply(&[pod]);
    until("the caller runs", || {
        (place.pod(name)?["status"]["phase"] == "Running").then_some(())
    });
}

// spec: O-64, O-50
#[test]
fn accounts_have_the_rights_that_the_configuration_gives_them_by_the_clusters_keys() {
    let place = Place::new("accounts");
    let driver = place.drive(&with_accounts(&place), &[]);
    driver.registered(2);
    let asking = Asking::new(&place, &driver);
    let audience = AUDIENCE.replace("NAMESPACE", place.name());
    let of = |account: &str| token(&place, account, &audience, None);
    let (code, answer) = asking.targets("PUT", &of("caller"), Some(3));
    assert_eq!(
        (code, &answer["targets"]["default"]),
        (200, &json!(3)),
        "{answer}"
    );
    place.run(3);
    assert_eq!(asking.targets("GET", &of("reader"), None).0, 200);
    assert_eq!(asking.targets("PUT", &of("reader"), Some(1)).0, 403);
    let (code, answer) = asking.targets("GET", &of("stranger"), None);
    let account = format!("{}/stranger", place.name());
    assert_eq!(code, 403, "{answer}");
    assert!(answer.to_string().contains(&account), "{answer}");
    let for_another = token(&place, "caller", "boatswain.dev/other/t", None);
    let (code, answer) = asking.targets("GET", &for_another, None);
    assert_eq!(code, 401, "{answer}");
    assert!(answer.to_string().contains(&audience), "{answer}");

    // From a pod, with the kubelet's token and the command line.
    calling_pod(&place, "caller");
    let server = format!("https://t-driver.{}.svc:7117", place.name());
    let token_file = "/var/run/secrets/boatswain/token";
    let shown = place.told(&[
        "exec",
        "caller",
        "--",
        "boatswain",
        "scale",
        "default=2",
        "--server",
        &server,
        "--token-file",
        token_file,
        "--ca-file",
        "/ca/ca.crt",
    ]);
    assert!(shown.contains("default"), "{shown}");
    place.run(2);
    // The keys alone do not tell that a pod is gone.
    let bound = token(&place, "caller", &audience, Some("caller"));
    place.told(&["delete", "pod", "caller", "--grace-period=0", "--force"]);
    assert_eq!(asking.targets("GET", &bound, None).0, 200);
    assert_eq!(place.executors().len(), 2);
}

// spec: O-142, O-143
#[test]
fn an_executor_tells_its_containers_memory_and_cores_and_the_status_what_it_is_made_of() {
    let place = Place::new("usage");
    let driver = place.drive(&with_accounts(&place), &[]);
    driver.registered(2);
    let asking = Asking::new(&place, &driver);
    let audience = AUDIENCE.replace("NAMESPACE", place.name());
    let reader = token(&place, "reader", &audience, None);
    let usage = until("a second heartbeat tells the cores", || {
        let (_, answer) = asking.ask("GET", 7117, "/v1/executors", &reader, None);
        let usage = answer["executors"][0]["session"]["usage"].clone();
        usage["cpu_cores"].is_f64().then_some(usage)
    });
    let limit = 64 << 20;
    assert_eq!(usage["memory_limit_bytes"], limit, "{usage}");
    let memory = usage["memory_bytes"].as_u64().unwrap();
    assert!(memory > 0 && memory < limit, "{usage}");
    assert!(usage["cpu_cores"].as_f64().unwrap() < 2.0, "{usage}");
    assert!(
        usage["peak_memory_bytes"].as_u64() >= Some(memory),
        "{usage}"
    );
    assert!(usage["p99_cpu_cores"].as_f64().is_some(), "{usage}");

    let (_, status) = asking.ask("GET", 7117, "/v1/status", &reader, None);
    assert_eq!(status["driver"]["namespace"], place.name());
    let container = &status["profiles"]["default"]["container"];
    assert_eq!(container["image"], IMAGE);
    assert_eq!(container["requests"]["cpu"], "10m");
}

// spec: O-145
#[test]
fn a_report_tells_what_executors_needed_that_live_and_that_have_ended() {
    let place = Place::new("needs");
    let settings = config(2) + &sessions() + API;
    let driver = place.drive(&settings, &["--generate-secrets"]);
    driver.registered(2);
    let told_by = |executors: u64| {
        until(&format!("{executors} executors have told it"), || {
            let report: Value =
                serde_json::from_str(&place.ask(&["report", "-o", "json"])).unwrap();
            let sizes = report["default"]["sizes"].clone();
            let told = sizes["executors"] == executors && !sizes["cpu_millicores"].is_null();
            told.then_some(sizes)
        })
    };
    let sizes = told_by(2);
    assert_eq!(sizes["memory_mebibytes"]["requested"], 16, "{sizes}");
    assert_eq!(sizes["cpu_millicores"]["requested"], 10, "{sizes}");
    let needed = sizes["memory_mebibytes"]["p99"].as_u64().unwrap();
    assert!((1..64).contains(&needed), "{sizes}");
    place.told(&["delete", "pod", &place.run(2)[0], "--wait=false"]);
    told_by(3);
}

/// A profile as a client adds it.
fn added(command: &[&str], more: &Value) -> String {
    let mut profile = json!({
        "executors": 1, "image": IMAGE, "command": command, "cpu": "10m", "memory": "16Mi",
        "memory_limit": "64Mi", "termination_grace": "3s",
    });
    for (key, value) in more.as_object().unwrap() {
        profile[key] = value.clone();
    }
    profile.to_string()
}

// spec: B-26, B-69, L-40
#[test]
fn of_two_profiles_that_were_added_one_fails_by_itself_and_one_goes_with_its_silent_engine() {
    let place = Place::new("added");
    let settings = with_accounts(&place) + "[failures]\nmax = 2\n";
    let driver = place.drive(&settings, &[]);
    driver.registered(2);
    let healthy = place.run(2);
    let asking = Asking::new(&place, &driver);
    let audience = AUDIENCE.replace("NAMESPACE", place.name());
    let caller = token(&place, "caller", &audience, None);
    let add = |name: &str, profile: String| {
        let path = format!("/v1/profiles/{name}");
        let (code, answer) = asking.ask("PUT", 7117, &path, &caller, Some(profile));
        assert!(code == 200 || code == 201, "{code} {answer}");
    };
    add(
        "silent",
        added(&["/bin/sh", "-c", WORKER], &json!({"ttl": "10s"})),
    );
    place.run(3);
    add("bad", added(&["/nonexistent"], &json!({})));
    let profiles = || {
        let (code, status) = asking.ask("GET", 7117, "/v1/status", &caller, None);
        (code == 200).then(|| status["profiles"].clone())
    };
    let failed = until("the bad one has failed", || {
        profiles()?["bad"]["failed"].as_str().map(str::to_owned)
    });
    assert!(failed.contains("/nonexistent"), "{failed}");
    until("the silent one is removed", || {
        profiles()?["silent"].is_null().then_some(())
    });
    assert_eq!(place.run(2), healthy);
}

// spec: O-119
#[test]
fn a_driver_that_may_review_tokens_refuses_the_token_of_a_deleted_pod() {
    let place = Place::new("reviews");
    let driver = place.drive(&with_accounts(&place), &[]);
    driver.registered(2);
    let asking = Asking::new(&place, &driver);
    let audience = AUDIENCE.replace("NAMESPACE", place.name());
    calling_pod(&place, "caller");
    let bound = token(&place, "caller", &audience, Some("caller"));
    assert_eq!(asking.targets("GET", &bound, None).0, 200);
    // As docs/api.md has it, and while the driver runs.
    let binding = format!("{}-reviews", place.name());
    let account = format!("--serviceaccount={}:boatswain", place.name());
    let role = "--clusterrole=system:auth-delegator";
    place.told(&["create", "clusterrolebinding", &binding, role, &account]);
    place.told(&["delete", "pod", "caller", "--grace-period=0", "--force"]);
    let refused = until("the token is refused", || {
        let (code, answer) = asking.targets("GET", &bound, None);
        (code == 401).then_some(answer)
    });
    place.told(&["delete", "clusterrolebinding", &binding]);
    assert!(refused["message"].is_string(), "{refused}");
    assert_eq!(driver.log().count("executor ended"), 0);
}
