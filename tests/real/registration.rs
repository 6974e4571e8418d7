//! Tests executors that register by the tokens that the kubelet mounts, over TLS, from containers.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::accounts::{Asking, token};
use super::place::{Place, cluster, config, sessions, state};
use super::process::{processes_with, until};

/// The processes of an executor's container, the first one of the container first.
pub fn processes_of(place: &Place, pod: &str) -> Vec<Pid> {
    let pod = place.pod(pod).unwrap();
    let mark = format!(
        "BOATSWAIN_POD_UID={}",
        pod["metadata"]["uid"].as_str().unwrap()
    );
    let mut found = processes_with(&mark);
    let own: Vec<u32> = found.iter().map(|(pid, _)| *pid).collect();
    found.sort_by_key(|(_, parent)| own.contains(parent));
    (found.into_iter())
        .map(|(pid, _)| Pid::from_raw(i32::try_from(pid).unwrap()).unwrap())
        .collect()
}

/// Kills an executor's container.
pub fn kill_container(place: &Place, pod: &str) {
    let first = until("its container runs", || {
        processes_of(place, pod).first().copied()
    });
    kill_process(first, Signal::KILL).unwrap();
}

// spec: B-2, B-5, O-112, O-53, O-62, O-65
#[test]
fn executors_in_containers_register_and_a_killed_one_is_replaced_by_one_that_registers() {
    let place = Place::new("register");
    let driver = place.drive(&(config(3) + &sessions()), &[]);
    driver.registered(3);
    place.run(3);
    kill_container(&place, "t-exec-2");
    let end = driver.end_of(2);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&json!("Exited"), &json!(137))
    );
    driver.registered(4);
    place.run(3);
    let log = driver.log();
    let ended = log.executors("executor ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    place.told(&["delete", "job", "boatswain"]);
    place.nothing_is_left();
}

// spec: O-65, B-2
#[test]
fn an_agent_from_an_image_volume_registers() {
    let place = Place::new("image-volume");
    let from_image = sessions().replace("\"init\"", "\"image\"");
    let driver = place.drive(&(config(1) + &from_image), &[]);
    driver.registered(1);
}

/// A message of an executor, by request.
fn send(asking: &Asking<'_>, token: &str, message: &Value) -> (u16, Value) {
    let (code, answer) = asking.ask(
        "POST",
        7078,
        "/v1/session/messages",
        token,
        Some(message.to_string()),
    );
    match answer["messages"].get(0) {
        Some(first) => (code, first.clone()),
        None => (code, answer),
    }
}

// spec: B-2, B-5, O-112, O-68
#[test]
fn a_session_takes_each_renewed_token_of_its_pod_and_no_other() {
    let place = Place::new("sessions");
    let driver = place.drive(&(config(2) + &sessions()), &[]);
    driver.registered(2);
    let asking = Asking::new(&place, &driver);
    let of = |pod: &str, audience: &str| token(&place, "default", audience, Some(pod));
    let uid = |pod: &str| place.pod(pod).unwrap()["metadata"]["uid"].clone();
    let register = |executor: u64| {
        let pod_uid = uid(&format!("t-exec-{executor}"));
        json!({"type": "register", "app": "t", "executor": executor, "pod_uid": pod_uid})
    };
    let first = of("t-exec-1", "boatswain.dev/t");
    let (_, registered) = send(&asking, &first, &register(1));
    assert_eq!(registered["type"], "registered", "{registered}");
    let renewed = of("t-exec-1", "boatswain.dev/t");
    assert_ne!(first, renewed);
    let beat = json!({"type": "heartbeat", "session": registered["session"], "busy_slots": 0});
    let (code, answer) = send(&asking, &renewed, &beat);
    // The agent may have opened its session again meanwhile.
    let accepted = [json!("ack"), json!("superseded")];
    assert!(accepted.contains(&answer["type"]), "{code} {answer}");
    let (_, refused) = send(&asking, &renewed, &register(2));
    assert_eq!(refused["code"], "not-yours", "{refused}");

    let unbound = token(&place, "default", "boatswain.dev/t", None);
    let (head, signature) = first.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    let of_another = of("t-exec-1", "boatswain.dev/another");
    let of_server = of("t-exec-1", "https://kubernetes.default.svc");
    for wrong in [&unbound, &forged, &of_another, &of_server, "x"] {
        let (code, answer) = send(&asking, wrong, &register(1));
        assert_eq!(code, 401, "{answer}");
    }
    // The kubelet's own are renewed by itself; both executors have sessions in the end, and none was ended.
    until("both are registered", || {
        let log = driver.log();
        assert_eq!(log.count("executor ended"), 0);
        (log.executors("executor registered").len() == 2).then_some(())
    });
    place.told(&["delete", "pod", "t-exec-1"]);
    driver.end_of(1);
    let (code, refused) = send(&asking, &renewed, &register(2));
    let is_refused = code == 401 || refused["type"] == "refused";
    assert!(is_refused, "{code} {refused}");
}

/// Has the API server sign with another key; tokens of the earlier one stay valid.
fn change_signing_key() {
    let at = |name: &str| state().join("pki").join(name);
    let new = at("sa-new.key");
    let openssl = |arguments: &[&str]| {
        let output = std::process::Command::new("openssl")
            .args(arguments)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let new = new.to_str().unwrap();
    openssl(&["genrsa", "-out", new, "2048"]);
    let public = openssl(&["rsa", "-in", new, "-pubout"]);
    let keys = std::fs::read_to_string(at("sa.pub")).unwrap();
    std::fs::write(at("sa.pub"), public + &keys).unwrap();
    std::fs::rename(new, at("sa.key")).unwrap();
    cluster(&["stop", "apiserver"]);
    cluster(&["start", "apiserver"]);
}

// spec: O-112, O-54, B-14
#[test]
fn alone_executors_register_by_tokens_of_a_new_signing_key_and_none_loses_its_session() {
    let place = Place::new("keys");
    let driver = place.drive(&(config(2) + &sessions()), &[]);
    driver.registered(2);
    change_signing_key();
    until("the API server answers", || place.api.try_pods().ok());
    place.told(&["delete", "pod", "t-exec-2"]);
    driver.registered(3);
    driver.end_of(2);
    place.run(2);
    let log = driver.log();
    assert_eq!(log.executors("executor ended"), [2].into());
    let disabled = log.executors("executor disabled: its connection is lost");
    assert!(!disabled.contains(&1), "{disabled:?}");
}

/// Stops a pod's processes without ending them, so that nothing of them is heard.
pub fn freeze_pod(place: &Place, pod: &str) {
    signal_pod(place, pod, Signal::STOP);
}

pub fn wake_pod(place: &Place, pod: &str) {
    signal_pod(place, pod, Signal::CONT);
}

/// The same of an executor's processes.
pub fn freeze_executor(pod: &Value) {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    signal(&format!("BOATSWAIN_POD_UID={uid}"), Signal::STOP);
}

/// Sends a signal to the driver in a pod.
fn signal_pod(_: &Place, pod: &str, which: Signal) {
    signal(&format!("BOATSWAIN__DRIVER__POD_NAME={pod}"), which);
}

/// Sends a signal to the processes that have this variable.
fn signal(variable: &str, signal: Signal) {
    let of_pod = processes_with(variable);
    assert!(!of_pod.is_empty());
    for (pid, _) in of_pod {
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
    }
}
