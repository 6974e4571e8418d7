//! Tests the client commands with a driver that runs in a pod, which they reach through the API server.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::api::Grace;
use super::cluster::Cluster;
use super::process::{Program, boatswain, processes_with, until};

/// A pod whose process is a driver. It finds its files at the same paths as the pod's mounts say.
struct InPod {
    cluster: Cluster,
}

impl InPod {
    /// `more`: further configuration.
    fn start(cluster: Cluster, more: &str) -> Self {
        let port = free_port();
        let [configuration, secrets, own] = ["configuration", "secrets", "own"].map(|name| {
            let directory = cluster.directory.path().join(name);
            fs::create_dir(&directory).unwrap();
            directory
        });
        let kubeconfig = own.join("kubeconfig");
        fs::copy(&cluster.kubeconfig, &kubeconfig).unwrap();
        let tokens = secrets.join("tokens");
        fs::write(&tokens, "of-the-secret\n").unwrap();
        fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
        let text = config(&cluster, &kubeconfig, &tokens) + more;
        let file = configuration.join("boatswain.toml");
        fs::write(&file, &text).unwrap();
        cluster.api.create(
            "configmaps",
            &json!({"metadata": {"name": "etl"}, "data": {"boatswain.toml": text}}),
        );
        cluster.api.create(
            "secrets",
            &json!({"metadata": {"name": "etl-secrets"}, "stringData": {"tokens": "of-the-secret\n"}}),
        );
        let pod = pod(&cluster, &file, [&configuration, &secrets, &own], port);
        cluster.api.create_pod(&pod);
        Self { cluster }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = boatswain();
        command.args(arguments).arg("--kubeconfig");
        command.arg(&self.cluster.kubeconfig);
        if self.cluster.is_real() && !arguments.contains(&"-n") {
            command.args(["-n", &self.cluster.api.namespace]);
        }
        command.output().unwrap()
    }
}

fn free_port() -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.local_addr().unwrap().port()
}

/// With another port than the pod's arguments say.
fn config(cluster: &Cluster, kubeconfig: &Path, tokens: &Path) -> String {
    let (kubeconfig, tokens) = (kubeconfig.display(), tokens.display());
    let namespace = &cluster.api.namespace;
    format!(
        r#"
[app]
name = "t"
id = "in-a-pod"
[cluster]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
[api]
listen = "127.0.0.1:1"
token_file = "{tokens}"
[profiles.default]
image = "none"
command = ["sleep", "60"]
executors = 1
"#
    )
}

fn pod(cluster: &Cluster, file: &Path, folders: [&Path; 3], port: u16) -> Value {
    let [configuration, secrets, own] = folders;
    let program = boatswain().get_program().to_owned();
    let mut args = vec!["--set".to_owned(), format!("api.listen=127.0.0.1:{port}")];
    for set in cluster.sets() {
        args.extend(["--set".to_owned(), set]);
    }
    let (mut container, mut volumes) = cluster.container();
    let mut mounts = container["volumeMounts"].take();
    let mount = |name: &str, path: &Path| json!({"name": name, "mountPath": path});
    let more = [
        mount("configuration", configuration),
        mount("secrets", secrets),
    ];
    match mounts.as_array_mut() {
        Some(mounts) => {
            mounts.extend(more);
            mounts.push(mount("own", own));
            volumes.push(json!({"name": "own", "hostPath": {"path": own}}));
        }
        None => mounts = json!(more),
    }
    volumes.push(json!({"name": "configuration", "configMap": {"name": "etl"}}));
    volumes.push(json!({
        "name": "secrets", "secret": {"secretName": "etl-secrets", "defaultMode": 0o400},
    }));
    container["name"] = "boatswain".into();
    container["command"] = json!([program.to_str().unwrap(), "run", "--config", file]);
    container["args"] = json!(args);
    let name = json!({"fieldRef": {"fieldPath": "metadata.name"}});
    container["env"] = json!([
        {"name": "BOATSWAIN__DRIVER__POD_NAME", "valueFrom": name},
        {"name": "OF_TEST", "value": cluster.api.namespace},
    ]);
    container["volumeMounts"] = mounts;
    json!({
        "metadata": {"name": "driver"},
        "spec": {
            "restartPolicy": "Never",
            // It reads the files of this test.
            "securityContext": {"runAsUser": 0},
            "containers": [container],
            "volumes": volumes,
        },
    })
}

// spec: O-32, O-124
#[test]
fn a_driver_with_a_lease_is_found_although_only_its_pod_knows_the_pods_name() {
    let reason = "it forwards no ports of pods";
    let Some(cluster) = Cluster::real_nodes(reason) else {
        return;
    };
    let (backend, url) = (free_port(), "service_selector = { app = \"etl\" }");
    let more = format!(
        "[ha]\nlease = true\n[backend]\nlisten = \"0.0.0.0:{backend}\"\nplain_http = true\n{url}\n"
    );
    let driver = InPod::start(cluster, &more);
    until("the executor runs", || {
        let output = driver.ask(&["status", "--app", "in-a-pod", "-o", "json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("driver.pod_name"), "{said}");
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        (status["profiles"]["default"]["running"] == 1).then_some(())
    });
}

// spec: O-105, O-86, O-124
#[test]
fn a_driver_in_a_pod_is_called_through_it_with_the_token_in_its_secret() {
    let reason = "it forwards no ports of pods";
    let Some(cluster) = Cluster::real_nodes(reason) else {
        return;
    };
    let driver = InPod::start(cluster, "");
    until("the executor runs", || {
        let output = driver.ask(&["status", "--app", "in-a-pod", "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        (status["profiles"]["default"]["running"] == 1).then_some(())
    });
    let namespace = &driver.cluster.api.namespace;
    let scaled = driver.ask(&["scale", "default=2", "--app", "in-a-pod", "-n", namespace]);
    assert!(scaled.status.success(), "{scaled:?}");

    the_page_is_served_until_ctrl_c(&driver);

    let nobody = driver.ask(&["status", "--app", "another"]);
    assert_eq!(nobody.status.code(), Some(1));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(
        said.contains("no application another has a record"),
        "{said}"
    );
    let alone = driver.ask(&["status"]);
    assert_eq!(alone.status.code(), Some(64), "{alone:?}");

    let processes = processes_with(&format!("OF_TEST={namespace}"));
    assert!(!processes.is_empty());
    for (process, _) in processes {
        let process = Pid::from_raw(process.cast_signed()).unwrap();
        kill_process(process, Signal::STOP).unwrap();
    }
    let silent = driver.ask(&["status", "--app", "in-a-pod"]);
    assert_eq!(silent.status.code(), Some(69));
    let said = String::from_utf8(silent.stderr).unwrap();
    assert!(
        said.contains("the driver in pod driver does not answer"),
        "{said}"
    );

    driver.cluster.api.delete_pod("driver", Grace::Force);
    until("the driver is gone", || {
        let gone = driver.ask(&["status", "--app", "in-a-pod"]);
        // Its record is collected with it.
        matches!(gone.status.code(), Some(69 | 1)).then_some(())
    });
}

// spec: O-86, O-63
#[test]
fn a_driver_in_a_pod_is_trusted_by_the_ca_that_its_executors_are_told() {
    let Some(cluster) = Cluster::real_nodes("it forwards no ports of pods") else {
        return;
    };
    let (backend, url) = (free_port(), "service_selector = { app = \"etl\" }");
    let more =
        format!("[tls]\ngenerate = true\n[backend]\nlisten = \"0.0.0.0:{backend}\"\n{url}\n");
    let driver = InPod::start(cluster, &more);
    // The CA is there a moment after the API.
    until("the executor runs", || {
        let output = driver.ask(&["status", "--app", "in-a-pod", "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        (status["profiles"]["default"]["running"] == 1).then_some(())
    });
}

/// The address that `status --open` prints leads to the driver's page, until the command is stopped.
fn the_page_is_served_until_ctrl_c(driver: &InPod) {
    let cluster = &driver.cluster;
    let opener = cluster.directory.path().join("xdg-open");
    fs::write(&opener, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&opener, Permissions::from_mode(0o700)).unwrap();
    let mut command = boatswain();
    command.args(["status", "--open", "--app", "in-a-pod", "--kubeconfig"]);
    command.arg(&cluster.kubeconfig);
    command.args(["-n", &cluster.api.namespace]);
    command.env("PATH", cluster.directory.path());
    let mut opened = Program::start("status --open", &mut command, &cluster.file("open"));
    until("it says until when", || {
        opened.stderr().contains("until Ctrl-C").then_some(())
    });
    let printed = opened.stdout();
    let address = printed.strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address.trim_end_matches("/\n")).unwrap();
    connection
        .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    connection.read_to_string(&mut page).unwrap();
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("<!doctype html>"),
        "{page}"
    );
    opened.signal(Signal::INT);
    assert_eq!(opened.exit(), Some(0));
}
