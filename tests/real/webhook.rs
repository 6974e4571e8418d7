//! Tests an admission webhook that is slow, and one that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::place::{Place, config};
use super::process::until;

const SLOW: u8 = 0;
const BROKEN: u8 = 1;
const HEALTHY: u8 = 2;

/// How long a slow webhook takes, which is longer than the first retries of a driver.
const DELAY: Duration = Duration::from_secs(3);

/// What the webhook does, and how often it was asked.
struct State {
    mode: AtomicU8,
    asked: AtomicUsize,
    /// Questions that are not answered yet, and the most that there were at a time.
    open: AtomicUsize,
    most_open: AtomicUsize,
}

impl State {
    fn new(mode: u8) -> Arc<Self> {
        Arc::new(Self {
            mode: AtomicU8::new(mode),
            asked: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
        })
    }
}

/// Serves on the cluster's loopback, until the process ends. Returns the port and the certificate.
fn serve(state: Arc<State>) -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (send, receive) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime.unwrap(), async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::task::spawn_local(answer(acceptor.clone(), stream, state.clone()));
            }
        });
    });
    (receive.recv().unwrap(), cert.pem())
}

/// Answers one review on one connection.
async fn answer(acceptor: TlsAcceptor, stream: TcpStream, state: Arc<State>) -> Option<()> {
    let mut stream = acceptor.accept(stream).await.ok()?;
    let mut request = Vec::new();
    let review = loop {
        let mut chunk = [0; 16_384];
        let count = stream
            .read(&mut chunk)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        request.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((_, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        if let Ok(review) = serde_json::from_str::<Value>(body) {
            break review;
        }
    };
    state.asked.fetch_add(1, Ordering::SeqCst);
    let mode = state.mode.load(Ordering::SeqCst);
    let open = state.open.fetch_add(1, Ordering::SeqCst) + 1;
    state.most_open.fetch_max(open, Ordering::SeqCst);
    if mode == SLOW {
        tokio::time::sleep(DELAY).await;
    }
    state.open.fetch_sub(1, Ordering::SeqCst);
    let (status, body) = if mode == BROKEN {
        ("500 Internal Server Error", "broken".to_owned())
    } else {
        let uid = &review["request"]["uid"];
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": uid, "allowed": true},
        });
        ("200 OK", answer.to_string())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// A webhook for the executors' pods of this namespace.
fn hook(place: &Place, state: &Arc<State>) {
    let (port, certificate) = serve(state.clone());
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": place.name()},
        "webhooks": [{
            "name": "policy.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 10,
            "namespaceSelector": {"matchLabels": {"test": place.name()}},
            "objectSelector": {"matchExpressions": [{"key": "boatswain.dev/role", "operator": "Exists"}]},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "clientConfig": {
                "url": format!("https://localhost:{port}/"), "caBundle": STANDARD.encode(certificate),
            },
        }],
    });
    place.apply(&[hook]);
    until("the webhook is in force", || {
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", place.name());
        let pod = json!({
            "metadata": {"name": "trial", "labels": {"boatswain.dev/role": "trial"}},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        });
        let _ = place.api.call("POST", &path, Some(&pod));
        (state.asked.load(Ordering::SeqCst) > 0).then_some(())
    });
}

fn unhook(place: &Place) {
    place.told(&["delete", "validatingwebhookconfiguration", place.name()]);
}

// spec, I-1, I-3
#[test]
fn a_webhook_that_fails_holds_executors_back_and_each_comes_once_when_it_is_healed() {
    let place = Place::new("failing");
    let state = State::new(BROKEN);
    hook(&place, &state);
    let driver = place.drive(&config(4), &[]);
    driver.says("requests for executors fail: backing off");
    assert!(place.executors().is_empty());
    state.mode.store(HEALTHY, Ordering::SeqCst);
    place.run(4);
    unhook(&place);
    assert_eq!(driver.pods().len(), 1, "the driver has gone on");
    // Ids that an answer left open may be spent, and no pod is made for them.
    let log = driver.log();
    assert_eq!(log.executors("executor running").len(), 4);
    assert_eq!(log.count("executor ended"), 0);
}

// spec, I-3
#[test]
fn a_slow_webhook_delays_executors_and_makes_none_too_many() {
    let place = Place::new("slow");
    let state = State::new(SLOW);
    hook(&place, &state);
    let driver = place.drive(&config(4), &[]);
    place.run(4);
    unhook(&place);
    let log = driver.log();
    assert_eq!(log.executors("executor requested").len(), 4);
    assert_eq!(log.count("executor ended"), 0);
}

// spec: A-6
#[test]
fn a_server_that_waits_for_a_webhook_gets_more_than_32_requests_at_a_time() {
    let place = Place::new("window");
    let state = State::new(SLOW);
    hook(&place, &state);
    // No node has the label: what is measured is requests.
    let own = "executors = 128\nnode_selector = { test = \"none\" }";
    let driver = place.drive(&config(4).replace("executors = 4", own), &[]);
    until("each executor is requested", || {
        (place.executors().len() == 128).then_some(())
    });
    unhook(&place);
    let most = state.most_open.load(Ordering::SeqCst);
    assert!(most > 32, "{most} at a time");
    assert_eq!(driver.log().count("executor ended"), 0);
}
