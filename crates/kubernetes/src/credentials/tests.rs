use std::fs;
use std::time::Instant;

use super::*;

fn plugin(script: &str) -> ExecConfig {
    let plugin = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never",
    });
    serde_json::from_value(plugin).unwrap()
}

fn by_plugin(script: &str) -> AuthInfo {
    AuthInfo {
        exec: Some(plugin(script)),
        ..AuthInfo::default()
    }
}

async fn error_of(script: &str) -> String {
    let error = take_bearer(&mut by_plugin(script)).await.err();
    error.unwrap().to_string()
}

fn shown(bearer: &Bearer) -> String {
    bearer.borrow().to_str().unwrap().to_owned()
}

/// A script that prints a credential with this status.
fn prints(status: &str) -> String {
    format!("echo '{{\"kind\": \"ExecCredential\", \"status\": {status}}}'")
}

// spec: A-116
#[tokio::test]
async fn a_plugin_that_writes_without_end_is_ended() {
    let began = Instant::now();
    for script in ["yes", "yes >&2"] {
        let error = error_of(script).await;
        assert!(error.contains("plugin sh wrote more than 1 MiB"), "{error}");
    }
    assert!(
        began.elapsed() < PLUGIN_TIMEOUT,
        "no limit of time was waited for"
    );
}

// spec: A-116
#[tokio::test(start_paused = true)]
async fn a_plugin_that_hangs_is_ended() {
    // The paused clock goes on while nothing but the plugin is waited for.
    let error = error_of("exec sleep 1000").await;
    assert!(error.contains("did not end within 60 s"), "{error}");
}

// spec: A-96
#[tokio::test]
async fn a_plugin_gives_a_token_or_a_certificate_and_learns_what_is_asked() {
    let mut user = by_plugin(&prints(r#"{"token": "t"}"#));
    let bearer = take_bearer(&mut user).await.unwrap().unwrap();
    assert_eq!(shown(&bearer), "Bearer t");
    assert!(user.exec.is_none(), "kube does not run it too");

    let certificate = r#"{"clientCertificateData": "C", "clientKeyData": "K"}"#;
    let mut user = by_plugin(&prints(certificate));
    assert!(take_bearer(&mut user).await.unwrap().is_none());
    assert_eq!(user.client_certificate_data, Some(encoded("C")));

    // As a token, to be seen here.
    let tells = "printf 'status: {token: \"%s\"}' \"$(echo $KUBERNETES_EXEC_INFO | tr -d '\"{}')\"";
    let bearer = take_bearer(&mut by_plugin(tells)).await.unwrap().unwrap();
    assert_eq!(
        shown(&bearer),
        "Bearer kind:ExecCredential,apiVersion:client.authentication.k8s.io/v1,spec:interactive:false"
    );
    for (script, part) in [
        ("exit 3", "ended with exit status: 3"),
        ("echo secret", "printed no ExecCredential"),
        ("echo '{}'", "without status"),
        ("echo 'status: {}'", "neither a token nor a certificate"),
    ] {
        let error = error_of(script).await;
        assert!(error.contains(part) && !error.contains("secret"), "{error}");
    }
}

// spec: A-96
#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_again_within_a_minute_and_a_mistake_in_it_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "old\n").unwrap();
    let mut user = AuthInfo {
        token_file: Some(path.display().to_string()),
        ..AuthInfo::default()
    };
    let mut bearer = take_bearer(&mut user).await.unwrap().unwrap();
    assert_eq!(shown(&bearer), "Bearer old");
    fs::write(&path, "").unwrap();
    sleep(2 * LOOK_EVERY).await;
    assert_eq!(shown(&bearer), "Bearer old");
    fs::write(&path, "new\n").unwrap();
    timeout(
        2 * LOOK_EVERY,
        bearer.wait_for(|header| header == "Bearer new"),
    )
    .await
    .unwrap()
    .unwrap();
}

// spec: A-96
#[tokio::test]
async fn a_plugin_runs_again_a_minute_before_its_token_expires() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs");
    let expires = Timestamp::now() + BEFORE_EXPIRY;
    let status = format!(
        r#"{{"token": "'$(wc -l < {0} | tr -d " ")'", "expirationTimestamp": "{expires}"}}"#,
        path.display()
    );
    let script = format!("echo >> {}; {}", path.display(), prints(&status));
    let mut bearer = take_bearer(&mut by_plugin(&script)).await.unwrap().unwrap();
    assert_eq!(shown(&bearer), "Bearer 1");
    // Only up to the look: the plugin takes its own time.
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(2 * LOOK_EVERY).await;
    tokio::time::resume();
    timeout(
        2 * LOOK_EVERY,
        bearer.wait_for(|header| header == "Bearer 2"),
    )
    .await
    .unwrap()
    .unwrap();
}
