//! Tests a driver whose credentials are rotated while it runs.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::driver::Driver;
use super::users::{ALL_POWERFUL, all_powerful, new_account};

const REFUSED: &str =
    "the API server refuses the driver's credentials even after reloading: degraded";
const ACCEPTED: &str = "the API server accepts the driver's credentials again";

/// The driver's credentials are rotated only long after it has read them again in vain.
fn rotate(user: impl Fn(&Path) -> Value, write: impl Fn(&Path, &str)) {
    let directory = tempfile::tempdir().unwrap();
    let Some(cluster) = Cluster::logged() else {
        return;
    };
    let path = cluster.directory.path().join("rotated");
    let kubeconfig = cluster.kubeconfig.clone();
    let write_kubeconfig = |user: Value| {
        let text = fs::read_to_string(&kubeconfig).unwrap();
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        kubeconfig["users"][0]["user"] = user;
        fs::write(&path, kubeconfig.to_string()).unwrap();
    };
    let token_file = directory.path().join("driver-token");
    write(&token_file, &all_powerful(&cluster));
    write_kubeconfig(user(&token_file));
    let mut driver = Driver::start_with(&cluster, &path, 5, &[]);
    let before = cluster.converges(5);

    cluster.api.delete("serviceaccounts", ALL_POWERFUL);
    driver.says(REFUSED);
    thread::sleep(Duration::from_secs(15));
    let second = new_account(&cluster, ALL_POWERFUL);
    write(&token_file, &second);
    write_kubeconfig(user(&token_file));
    let line = driver.says(ACCEPTED);
    let refused_for = line["duration_ms"].as_u64().unwrap();
    assert!((15_000..50_000).contains(&refused_for), "{line}");

    // The watch, polls and the allocator work again.
    cluster.api.delete_pod("t-exec-3", super::api::Grace::Own);
    driver.end_of(3);
    assert_eq!(before.intersection(&cluster.settles(5)).count(), 4);
    // A credential plugin runs once for each client. If the token changes in between, one more refusal follows, and one
    // more reload, but nothing is said about it.
    assert_eq!(driver.log().count(REFUSED), 1);
    assert!(!driver.stderr().contains(&second));
}

// spec: A-22
#[test]
fn an_inline_token_that_is_rotated_after_the_first_refusal_is_used() {
    let token = |file: &Path| json!({"token": fs::read_to_string(file).unwrap()});
    rotate(token, |file, token| fs::write(file, token).unwrap());
}

// spec: A-96
#[test]
fn what_a_credential_plugin_prints_after_the_first_refusal_is_used() {
    let plugin = |file: &Path| {
        json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [file],
            "interactiveMode": "Never",
        }})
    };
    rotate(plugin, |file, token| {
        let credential = format!(
            r#"{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}"#
        );
        fs::write(file, credential).unwrap();
    });
}
