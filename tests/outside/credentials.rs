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

/// The cluster's own way to take a token's rights and to give another.
struct Account<'a> {
    cluster: &'a mut Cluster,
}

impl Account<'_> {
    fn first(&self) -> String {
        if !self.cluster.is_real() {
            return self.cluster.token();
        }
        all_powerful(self.cluster)
    }

    /// An API server that restarts with another token, or an account that is deleted.
    fn revoke(&mut self) {
        if self.cluster.is_real() {
            self.cluster.api.delete("serviceaccounts", ALL_POWERFUL);
            return;
        }
        let token = self.cluster.directory.path().join("token");
        fs::write(token, "a-new-token\n").unwrap();
        self.cluster.restart(&[]);
    }

    fn second(&self) -> String {
        if self.cluster.is_real() {
            return new_account(self.cluster, ALL_POWERFUL);
        }
        "a-new-token".to_owned()
    }
}

/// The driver's credentials are rotated only long after it has read them again in vain.
fn rotate(user: impl Fn(&Path) -> Value, write: impl Fn(&Path, &str)) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let Some(mut cluster) = Cluster::logged_with(&["--data", data.to_str().unwrap()]) else {
        return;
    };
    let path = cluster.directory.path().join("rotated");
    // Without TLS: the certificate authority of the embedded cluster is derived from its token.
    let plain = (!cluster.is_real()).then(|| format!("http://{}", cluster.address()));
    let kubeconfig = cluster.kubeconfig.clone();
    let write_kubeconfig = |user: Value| {
        let text = fs::read_to_string(&kubeconfig).unwrap();
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        kubeconfig["users"][0]["user"] = user;
        if let Some(plain) = &plain {
            kubeconfig["clusters"][0]["cluster"] = json!({"server": plain});
        }
        fs::write(&path, kubeconfig.to_string()).unwrap();
    };
    let token_file = directory.path().join("driver-token");
    let mut account = Account {
        cluster: &mut cluster,
    };
    write(&token_file, &account.first());
    write_kubeconfig(user(&token_file));
    let mut driver = Driver::start_with(account.cluster, &path, 5, &[]);
    let before = account.cluster.converges(5);

    account.revoke();
    driver.says(REFUSED);
    thread::sleep(Duration::from_secs(15));
    let second = account.second();
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
