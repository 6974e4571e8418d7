//! Tests a driver whose credentials are rotated while it runs.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::cluster::Cluster;
use super::driver::Driver;

const REFUSED: &str =
    "the API server refuses the driver's credentials even after reloading: degraded";
const ACCEPTED: &str = "the API server accepts the driver's credentials again";

/// A kubeconfig without TLS: the certificate authority of this cluster is derived from its token.
fn write_kubeconfig(path: &Path, address: &str, user: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\n\
         contexts: [{{name: here, context: {{cluster: c, user: u, namespace: default}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    );
    fs::write(path, text).unwrap();
}

/// The API server restarts with another token. The driver's credentials are rotated only long after it has read them
/// again in vain.
fn rotate(user: impl Fn(&Path) -> String, write: impl Fn(&Path, &str)) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let arguments = ["--node", "simulated", "--data", data.to_str().unwrap()];
    let Some(mut cluster) = Cluster::own_with(&arguments) else {
        return;
    };
    let (address, path) = (cluster.address(), cluster.directory.path().join("rotated"));
    let token_file = directory.path().join("driver-token");
    write(&token_file, &cluster.token());
    write_kubeconfig(&path, &address, &user(&token_file));
    let mut driver = Driver::start_with(&cluster, &path, 5, &[]);
    let before = cluster.converges(5);

    fs::write(cluster.directory.path().join("token"), "a-new-token\n").unwrap();
    cluster.restart(&arguments);
    driver.says(REFUSED);
    thread::sleep(Duration::from_secs(15));
    write(&token_file, "a-new-token");
    write_kubeconfig(&path, &address, &user(&token_file));
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
    assert!(!driver.stderr().contains("a-new-token"));
}

// spec: A-22
#[test]
fn an_inline_token_that_is_rotated_after_the_first_refusal_is_used() {
    let token = |file: &Path| format!("{{token: {:?}}}", fs::read_to_string(file).unwrap());
    rotate(token, |file, token| fs::write(file, token).unwrap());
}

// spec: A-22
#[test]
fn what_a_credential_plugin_prints_after_the_first_refusal_is_used() {
    let plugin = |file: &Path| {
        format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: [{:?}], interactiveMode: Never}}}}",
            file.display().to_string()
        )
    };
    rotate(plugin, |file, token| {
        let credential = format!(
            r#"{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}"#
        );
        fs::write(file, credential).unwrap();
    });
}
