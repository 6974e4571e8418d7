//! Tests HTTPS of API and sessions from outside, with certificates from files and with the driver's own CA.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use boatswain_agent::trust::{self, Ca};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SerialNumber};
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::cluster::Cluster;
use super::driver::Driver;
use super::local_run::{Local, nothing_is_left};
use super::process::{Program, boatswain, processes_with, until};
use super::real::host_for_pods;
use super::talking::{free_address, free_address_for_pods};

/// A CA, and the directory in which certificates are.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "a test's CA");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(directory.path().join("ca.crt"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self { issuer, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a certificate with this serial number, and its key, each file as a whole.
    fn issue(&self, serial: u8) {
        let names = ["127.0.0.1", host_for_pods()].map(str::to_owned);
        let mut params = CertificateParams::new(names.to_vec()).unwrap();
        params.serial_number = Some(SerialNumber::from_slice(&[serial]));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        for (name, text) in [
            ("tls.key", key.serialize_pem()),
            ("tls.crt", certificate.pem()),
        ] {
            let new = self.path("new");
            fs::write(&new, text).unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
            fs::rename(new, self.path(name)).unwrap();
        }
    }

    /// The settings of a driver with these files.
    fn sets(&self) -> Vec<String> {
        let file = |key: &str, name: &str| format!("tls.{key}={}", self.path(name).display());
        vec![
            file("certificate_file", "tls.crt"),
            file("key_file", "tls.key"),
            file("ca_file", "ca.crt"),
        ]
    }
}

fn all(sets: &[String]) -> Vec<&str> {
    sets.iter().map(String::as_str).collect()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

/// A connection of a client that trusts this CA and offers these protocols.
async fn connected(address: &str, ca: &Path, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut config = trust::client_config(Some(&Ca::File(ca.to_owned()))).unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let connection = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, connection).await.unwrap()
}

/// The certificate that a server shows to a client that trusts this CA.
fn shown(address: &str, ca: &Path) -> Vec<u8> {
    let connection = wait(connected(address, ca, &[]));
    connection.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// Opens the event stream over HTTP/2, and asks for the status over the same connection meanwhile. The first event, and
/// the status.
async fn over_http2(address: &str, ca: &Path, token: &str) -> (String, Value) {
    let connection = connected(address, ca, &["h2", "http/1.1"]).await;
    assert_eq!(connection.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let connection = TokioIo::new(connection);
    let (mut sender, connection) = handshake(TokioExecutor::new(), connection).await.unwrap();
    tokio::spawn(connection);
    let mut ask = async |path: &str| {
        let request = http::Request::builder()
            .uri(format!("https://{address}{path}"))
            .header("authorization", format!("Bearer {token}"))
            .body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.into_body()
    };
    let mut events = ask("/v1/events").await;
    let first = events.frame().await.unwrap().unwrap();
    let first = String::from_utf8(first.into_data().unwrap().to_vec()).unwrap();
    let status = ask("/v1/status").await.collect().await.unwrap().to_bytes();
    (first, serde_json::from_slice(&status).unwrap())
}

fn status(server: &str, tokens: &Path, ca: Option<&Path>) -> Output {
    let mut command = boatswain();
    command.args(["status", "--server", server, "--token-file"]);
    command.arg(tokens);
    if let Some(ca) = ca {
        command.arg("--ca-file").arg(ca);
    }
    command.env_remove("BOATSWAIN_CA_FILE").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

// spec: O-114, O-63
#[test]
fn a_certificate_that_is_replaced_is_shown_to_new_connections_and_ends_no_session() {
    let authority = Authority::new();
    authority.issue(1);
    let tokens = authority.path("tokens");
    let mut sets = authority.sets();
    sets.push("profiles.default.executors=2".to_owned());
    sets.push("api.listen=127.0.0.1:0".to_owned());
    sets.push(format!("api.token_file={}", tokens.display()));
    let mut local = Local::start(&all(&sets));
    let both = |local: &mut Local| {
        local.driver.until("both have registered", |log| {
            (log.executors("executor registered") == [1, 2].into()).then_some(())
        });
    };
    both(&mut local);
    let address = |local: &mut Local, message: &str| {
        let line = local.driver.says(message);
        line["address"].as_str().unwrap().to_owned()
    };
    let sessions = address(&mut local, "listening for executors' sessions");
    let api = address(&mut local, "the API is listening");
    let ca = authority.path("ca.crt");
    let before = shown(&sessions, &ca);
    assert_eq!(before, shown(&api, &ca));

    authority.issue(2);
    local
        .driver
        .says("a new certificate is used for new connections");
    let after = shown(&sessions, &ca);
    assert_ne!(before, after);
    assert_eq!(after, shown(&api, &ca));
    let asked = status(&format!("https://{api}"), &tokens, Some(&ca));
    assert!(asked.status.success(), "{asked:?}");
    let token = fs::read_to_string(&tokens).unwrap();
    let (event, asked) = wait(over_http2(&api, &ca, token.trim()));
    assert!(event.starts_with("id: 1-"), "{event}");
    assert_eq!(asked["profiles"]["default"]["target"], 2, "{asked}");

    // A key without its certificate changes nothing.
    fs::write(
        authority.path("tls.key"),
        KeyPair::generate().unwrap().serialize_pem(),
    )
    .unwrap();
    let complaint = local
        .driver
        .says("the changed certificate cannot be used: the earlier one stays");
    assert!(
        complaint["error"].as_str().unwrap().contains("tls.key"),
        "{complaint}"
    );
    assert_eq!(after, shown(&sessions, &ca));
    let log = local.driver.log();
    let lost = log.executors("executor disabled: its connection is lost");
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(log.count("executor registered"), 2);
}

// spec: O-53, O-63
#[test]
fn another_ca_is_refused_with_what_to_do_before_any_token_is_sent() {
    let cluster = Cluster::any();
    let (authority, other) = (Authority::new(), Authority::new());
    authority.issue(1);
    let tokens = authority.path("tokens");
    let mut sets = authority.sets();
    sets.push("backend.listen=127.0.0.1:0".to_owned());
    sets.push("api.listen=127.0.0.1:0".to_owned());
    sets.push(format!("api.token_file={}", tokens.display()));
    let mut driver = Driver::start(&cluster, 0, &all(&sets));
    driver.says("application taken over");
    let api = driver.says("the API is listening")["address"].clone();
    let api = api.as_str().unwrap();
    let https = format!("https://{api}");
    until("it has started", || {
        let asked = status(&https, &tokens, Some(&authority.path("ca.crt")));
        asked.status.success().then_some(())
    });
    for ca in [Some(other.path("ca.crt")), None] {
        let refused = status(&https, &tokens, ca.as_deref());
        assert_eq!(refused.status.code(), Some(69), "{refused:?}");
        assert!(said(&refused).contains("--ca-file"), "{refused:?}");
    }
    let missing = status(&https, &tokens, Some(&other.path("none")));
    assert_eq!(missing.status.code(), Some(78), "{missing:?}");
    let plain = status(&format!("http://{api}"), &tokens, None);
    assert_eq!(plain.status.code(), Some(1), "{plain:?}");
    assert!(
        said(&plain).contains("begin the driver's address with https://"),
        "{plain:?}"
    );

    let sessions = driver.says("listening for executors' sessions")["address"].clone();
    let log = authority.path("agent.log");
    let mut agent = boatswain();
    agent.args(["agent", "--app", "a", "--executor", "1", "--pod-uid", "u"]);
    agent.args([
        "--driver",
        &format!("https://{}", sessions.as_str().unwrap()),
    ]);
    agent.arg("--ca-file").arg(other.path("ca.crt"));
    agent.args(["--driver-timeout", "1s", "--", "sleep", "60"]);
    agent.env("BOATSWAIN_TOKEN", "1.00");
    let mut agent = Program::start("agent", &mut agent, &log);
    assert_eq!(agent.exit(), Some(79));
    let log = agent.stderr();
    assert!(log.contains("is not issued by a CA in"), "{log}");
}

// spec: O-53, O-62, O-31
#[test]
fn executors_trust_the_drivers_own_ca_and_that_of_its_successor() {
    let Some(cluster) = Cluster::with_nodes() else {
        return;
    };
    let tokens = cluster.directory.path().join("api-token");
    let agent = env!("CARGO_BIN_EXE_boatswain");
    let sets = [
        format!("backend.listen={}", free_address_for_pods()),
        format!(
            "profiles.default.command=[{agent:?}, \"agent\", \"--\", \"sh\", \"-c\", \"sleep 1000 & wait\"]"
        ),
        "profiles.default.termination_grace=5s".to_owned(),
        "tls.generate=true".to_owned(),
        format!("api.listen={}", free_address()),
        format!("api.token_file={}", tokens.display()),
    ];
    let sets = all(&sets);
    let registered = |driver: &mut Driver| {
        driver.until("both have registered", |log| {
            (log.executors("executor registered") == [1, 2].into()).then_some(())
        });
    };
    let mut first = Driver::start(&cluster, 2, &sets);
    registered(&mut first);
    let app = first.says("application taken over")["app"].clone();
    let mark = format!("BOATSWAIN_APP_ID={}", app.as_str().unwrap());
    let before = processes_with(&mark);
    let api = first.says("the API is listening")["address"].clone();
    let path = format!("/api/v1/namespaces/{}/secrets/t-tls", cluster.api.namespace);
    let secret = cluster.api.call("GET", &path, None).unwrap();
    assert_eq!(secret["metadata"]["ownerReferences"][0]["name"], "t-app");
    let kept = BASE64
        .decode(secret["data"]["ca.crt"].as_str().unwrap())
        .unwrap();
    let handed_out = cluster.api.config_map("t-executor").unwrap()["data"]["ca.crt"].clone();
    assert_eq!(handed_out.as_str().unwrap().as_bytes(), kept);
    let ca = cluster.directory.path().join("ca.crt");
    fs::write(&ca, kept).unwrap();
    let server = format!("https://{}", api.as_str().unwrap());
    for named in [Some(&*ca), None] {
        let found = status(&server, &tokens, named);
        assert!(found.status.success(), "{}", said(&found));
    }
    let log = first.stderr();
    assert!(!log.contains("PRIVATE KEY"), "{log}");

    first.kill();
    let mut second = Driver::start(&cluster, 2, &sets);
    registered(&mut second);
    assert_eq!(processes_with(&mark), before, "nobody has noticed");
    assert_eq!(second.log().count("the driver's CA was written"), 0);
    assert!(status(&server, &tokens, Some(&ca)).status.success());
    second.signal(Signal::INT);
    assert_eq!(second.exit(), Some(0));
    nothing_is_left(&mark);
}
