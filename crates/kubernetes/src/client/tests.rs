//! Clients over real sockets: failing connections and invalid credentials.

use std::io::Write as _;
use std::path::Path;

use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::*;
use crate::testing::calls_spec;
use crate::{Calls, CallsSpec, Deleted, Failure, FailureKind, PodBody};

mod client_certificates;

fn kubeconfig(server: &str, user: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(
        file,
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\n\
         contexts: [{{name: here, context: {{cluster: c, user: u, namespace: jobs}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    )
    .unwrap();
    file
}

fn access(file: &NamedTempFile) -> Access {
    Access::Kubeconfig {
        path: Some(file.path().to_owned()),
        context: None,
    }
}

async fn connect(server: &str, user: &str) -> Result<Clients, ConnectError> {
    let file = kubeconfig(server, user);
    let one = Limits {
        creates: 1,
        deletes: 1,
    };
    access(&file).connect(one).await
}

async fn calls(server: &str) -> Calls {
    calls_by(connect(server, "{token: secret-token}").await.unwrap())
}

fn calls_by(clients: Clients) -> Calls {
    let spec = CallsSpec {
        namespace: "jobs".to_owned(),
        app_id: "etl-7f3a".into(),
        prefix: "etl".to_owned(),
        request_timeout: Duration::from_secs(20),
        ..calls_spec()
    };
    Calls::new(clients, spec)
}

#[derive(Clone, Copy)]
enum Reply {
    /// Sends a response and waits for the next request.
    Whole(&'static str),
    /// Sends this text and closes the connection.
    Cut(&'static str),
    Never,
}

/// A server that reacts to each request as `answer` says. The receiver gets the requests.
async fn server(
    answer: impl Fn(&str) -> Reply + Clone + Send + 'static,
) -> (String, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (answer, asked) = (answer.clone(), asked.clone());
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut socket).await {
                    let reply = answer(&request);
                    let _ = asked.send(request);
                    match reply {
                        Reply::Never => std::future::pending().await,
                        Reply::Whole(text) => socket.write_all(text.as_bytes()).await.unwrap(),
                        Reply::Cut(text) => {
                            return socket.write_all(text.as_bytes()).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    (format!("http://{address}"), requests)
}

/// Reads one request; in these tests a body ends with a brace.
async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let mut part = [0; 4096];
        let length = socket
            .read(&mut part)
            .await
            .ok()
            .filter(|length| *length > 0)?;
        request.extend_from_slice(part.get(..length)?);
        let text = String::from_utf8_lossy(&request).into_owned();
        if text.ends_with("\r\n\r\n") && text.starts_with("GET") || text.ends_with('}') {
            return Some(text);
        }
    }
}

const VERSION: &str = "HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{\"gitVersion\": \"v1.36.0\"}";
const STATUS: &str =
    "HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"kind\":\"Status\", \"status\":\"Success\"} ";

async fn create(calls: &Calls) -> Failure {
    let pod = PodBody {
        name: "etl-exec-1".into(),
        json: bytes::Bytes::from_static(b"{}"),
    };
    calls.create_pod(&pod).await.unwrap_err()
}

// spec: A-12
#[tokio::test]
async fn a_refused_connection_means_that_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = create(&calls(&format!("http://{address}")).await).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Unreachable, true)
    );
    assert!(failure.message.contains("onnection refused"), "{failure}");
}

// spec: A-12
#[tokio::test]
async fn a_failed_tls_handshake_means_that_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The server closes each connection before the TLS handshake.
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let failure = create(&calls(&format!("https://{address}")).await).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Unreachable, true),
        "{failure}"
    );
}

// spec: A-13
#[tokio::test]
async fn a_connection_that_ends_before_the_response_leaves_the_outcome_unknown() {
    let half = "HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"kind\": \"Pod\",";
    for (reply, kind) in [
        ("", FailureKind::Broken),
        ("HTTP/1.1 20", FailureKind::Broken),
        (half, FailureKind::Garbage),
    ] {
        let (address, mut requests) = server(move |_| Reply::Cut(reply)).await;
        let failure = create(&calls(&address).await).await;
        assert_eq!(
            (failure.kind, failure.is_refused()),
            (kind, false),
            "{failure}"
        );
        requests.recv().await.unwrap();
        assert!(requests.try_recv().is_err(), "nothing was sent twice");
    }
}

// spec: A-11, A-13
#[tokio::test]
async fn a_request_on_a_used_connection_is_not_sent_twice_either() {
    let replies = |request: &str| match request.starts_with("GET") {
        true => Reply::Whole(VERSION),
        false => Reply::Cut(""),
    };
    let (address, mut requests) = server(replies).await;
    let mut clients = connect(&address, "{}").await.unwrap();
    clients.creates = clients.reads.clone();
    let calls = calls_by(clients);
    assert_eq!(calls.server_version().await, Ok("v1.36.0".to_owned()));
    let failure = create(&calls).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Broken, false),
        "{failure}"
    );
    assert!(requests.recv().await.unwrap().starts_with("GET /version"));
    assert!(requests.recv().await.unwrap().starts_with("POST"));
    assert!(requests.try_recv().is_err(), "nothing was sent twice");
}

// spec: L-11
#[tokio::test]
async fn hanging_creates_delay_no_delete_and_no_read() {
    let replies = |request: &str| match request.split(' ').next() {
        Some("POST") => Reply::Never,
        Some("DELETE") => Reply::Whole(STATUS),
        _ => Reply::Whole(VERSION),
    };
    let (address, _requests) = server(replies).await;
    let calls = calls(&address).await;
    let hanging: Vec<_> = (0..3)
        .map(|_| {
            let calls = calls.clone();
            tokio::spawn(async move { create(&calls).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(
        calls.delete_pod("etl-exec-2", &"u".into(), None).await,
        Ok(Deleted::Accepted(None))
    );
    assert_eq!(calls.server_version().await, Ok("v1.36.0".to_owned()));
    hanging.into_iter().for_each(|create| create.abort());
}

// spec: O-50
#[tokio::test]
async fn the_token_is_sent_and_never_shown() {
    let (address, mut requests) = server(|_| Reply::Whole(VERSION)).await;
    let calls = calls(&address).await;
    calls.server_version().await.unwrap();
    let request = requests.recv().await.unwrap();
    assert!(request.contains("Bearer secret-token"));
    assert!(request.contains(concat!("boatswain/", env!("CARGO_PKG_VERSION"))));
    assert!(!format!("{calls:?}").contains("secret"));
}

// spec: O-2, O-50
#[tokio::test]
async fn an_invalid_kubeconfig_is_explained_without_secrets() {
    let error = |result: Result<Clients, ConnectError>| result.err().unwrap().to_string();
    let mut broken = NamedTempFile::new().unwrap();
    write!(broken, "users:\n- user: {{token: secret-token\n  : [").unwrap();
    let said = error(access(&broken).connect(Limits::default()).await);
    assert!(
        said.starts_with("the kubeconfig is no valid YAML at line "),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");

    let file = kubeconfig("http://127.0.0.1:1", "{}");
    let elsewhere = Access::Kubeconfig {
        path: Some(file.path().to_owned()),
        context: Some("elsewhere".to_owned()),
    };
    let said = error(elsewhere.connect(Limits::default()).await);
    assert_eq!(said, "the kubeconfig has no context \"elsewhere\"");
    let none = Access::Kubeconfig {
        path: Some("/no/such/file".into()),
        context: None,
    };
    assert!(error(none.connect(Limits::default()).await).contains("/no/such/file"));

    let printing = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, \
                    args: [-c, 'echo secret-token; exit 3'], interactiveMode: Never}}";
    let said = error(connect("http://127.0.0.1:1", printing).await);
    assert!(!said.contains("secret"), "{said}");
    assert!(said.contains("exit status: 3"), "{said}");
}

// spec: O-50
#[tokio::test]
async fn a_password_in_the_server_url_is_removed() {
    let clients = connect(
        "http://me:secret-password@127.0.0.1:6443/base",
        "{token: secret-token}",
    )
    .await
    .unwrap();
    assert_eq!(clients.server, "http://127.0.0.1:6443/base");
}

fn rewrite(file: &NamedTempFile, server: &str, user: &str) {
    let new = kubeconfig(server, user);
    std::fs::copy(new.path(), file.path()).unwrap();
}

/// The bearer token of the next request that clients made by `renew` send.
async fn token_after(calls: &Calls, requests: &mut UnboundedReceiver<String>) -> String {
    assert_eq!(calls.renew_credentials().await, Ok(true));
    calls.server_version().await.unwrap();
    let request = requests.recv().await.unwrap();
    let bearer = request.lines().find_map(|l| l.split_once("Bearer "));
    bearer.unwrap().1.trim().to_owned()
}

// spec: A-96
#[tokio::test]
async fn inline_tokens_token_files_and_plugins_are_read_again() {
    let (address, mut requests) = server(|_| Reply::Whole(VERSION)).await;
    let one = Limits::default();

    let inline = kubeconfig(&address, "{token: old}");
    let calls = calls_by(access(&inline).connect(one).await.unwrap());
    let before = calls.credential_files();
    rewrite(&inline, &address, "{token: inline}");
    assert_ne!(calls.credential_files(), before);
    assert_eq!(token_after(&calls, &mut requests).await, "inline");

    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "old").unwrap();
    let user = format!("{{tokenFile: {:?}}}", token.display().to_string());
    let by_file = kubeconfig(&address, &user);
    let calls = calls_by(access(&by_file).connect(one).await.unwrap());
    let before = calls.credential_files();
    // As the kubelet does: a mounted file is a link to the newest directory.
    let newest = directory.path().join("newest");
    std::fs::write(&newest, "file").unwrap();
    std::fs::remove_file(&token).unwrap();
    std::os::unix::fs::symlink(&newest, &token).unwrap();
    assert_ne!(calls.credential_files(), before);
    assert_eq!(token_after(&calls, &mut requests).await, "file");

    let said = directory.path().join("said");
    let credential = |token: &str| {
        format!(
            r#"{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{token}"}}}}"#
        )
    };
    std::fs::write(&said, credential("old")).unwrap();
    let plugin = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: [{:?}], interactiveMode: Never}}}}",
        said.display().to_string()
    );
    let by_plugin = kubeconfig(&address, &plugin);
    let calls = calls_by(access(&by_plugin).connect(one).await.unwrap());
    std::fs::write(&said, credential("plugin")).unwrap();
    assert_eq!(token_after(&calls, &mut requests).await, "plugin");
    drop(by_plugin);
    let error = calls.renew_credentials().await;
    assert!(error.is_err(), "the kubeconfig was removed");
    calls.server_version().await.unwrap();
}

// spec: A-96
#[tokio::test]
async fn client_certificates_are_among_the_files_of_the_credentials() {
    let file = kubeconfig("http://127.0.0.1:1", "{token: a}");
    let mut config = access(&file).config().await.unwrap();
    config.auth_info.client_certificate = Some("/certificate".to_owned());
    config.auth_info.client_key = Some("/key".to_owned());
    let files = access(&file).files(&config);
    assert_eq!(
        files,
        [file.path(), Path::new("/certificate"), Path::new("/key")]
    );
}

// spec: A-96
#[tokio::test]
async fn reloaded_credentials_do_not_lead_to_another_api_server() {
    let (address, mut requests) = server(|_| Reply::Whole(VERSION)).await;
    let file = kubeconfig(&address, "{token: old}");
    let calls = calls_by(access(&file).connect(Limits::default()).await.unwrap());
    rewrite(&file, "http://127.0.0.1:1", "{token: new}");
    let error = calls.renew_credentials().await.unwrap_err().to_string();
    assert!(error.contains("another API server"), "{error}");
    calls.server_version().await.unwrap();
    assert!(requests.recv().await.unwrap().contains("Bearer old"));
}

// spec: O-129
#[tokio::test]
async fn a_pipe_among_the_files_of_a_kubeconfig_is_refused_at_once_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let path = pipe.display().to_string();
    let kubeconfig = Access::Kubeconfig {
        path: Some(pipe),
        context: None,
    };
    let mut errors = vec![kubeconfig.connect(Limits::default()).await.err()];
    for user in [
        format!("{{tokenFile: {path}}}"),
        format!("{{client-certificate: {path}, client-key: {path}}}"),
    ] {
        errors.push(connect("https://127.0.0.1:1", &user).await.err());
    }
    for error in errors {
        let error = error.unwrap().to_string();
        assert!(error.contains(&path), "{error}");
        assert!(error.contains("put a file there"), "{error}");
    }
}
