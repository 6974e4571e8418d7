//! Tests from outside who may call which listener: metrics, probes, and the API's service accounts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use serde_json::json;

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};
use super::talking::free_address;

/// The status and the body of the answer to a GET with these header lines.
pub fn get(address: &str, path: &str, headers: &str) -> Option<(u16, String)> {
    let address: SocketAddr = address.parse().unwrap();
    let patience = Duration::from_secs(10);
    let mut connection = TcpStream::connect_timeout(&address, patience).ok()?;
    connection.set_read_timeout(Some(patience)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn status(address: &str, path: &str) -> u16 {
    get(address, path, "").map_or(0, |(status, _)| status)
}

fn address(driver: &mut Driver, message: &str) -> String {
    driver.says(message)["address"].as_str().unwrap().to_owned()
}

// spec: O-59
#[test]
fn metrics_and_probes_have_ports_of_their_own_that_need_no_token_and_serve_nothing_else() {
    let cluster = Cluster::any();
    let sets = ["metrics.listen=127.0.0.1:0", "probes.listen=127.0.0.1:0"];
    let mut driver = Driver::start(&cluster, 1, &sets);
    let metrics = address(&mut driver, "metrics are served");
    let probes = address(&mut driver, "probes are answered");
    assert_ne!(metrics, probes);
    until("it is ready", || {
        (status(&probes, "/readyz") == 200).then_some(())
    });
    assert_eq!(status(&probes, "/healthz"), 200);
    let (scraped, text) = get(&metrics, "/metrics", "").unwrap();
    assert!(
        scraped == 200 && text.contains("boatswain_target_executors"),
        "{text}"
    );
    for path in [
        "/healthz",
        "/readyz",
        "/v1/status",
        "/openapi.json",
        "/v1/session",
    ] {
        assert_eq!(status(&metrics, path), 404, "{path}");
    }
    for path in ["/metrics", "/v1/status", "/openapi.json", "/v1/session"] {
        assert_eq!(status(&probes, path), 404, "{path}");
    }
}

// spec: O-59
#[test]
fn metrics_and_probes_may_share_a_port_and_metrics_may_need_a_token() {
    let cluster = Cluster::any();
    let (shared, tokens) = (free_address(), cluster.directory.path().join("scraper"));
    let sets = [
        format!("metrics.listen={shared}"),
        format!("probes.listen={shared}"),
        format!("metrics.token_file={}", tokens.display()),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let mut driver = Driver::start(&cluster, 0, &sets);
    driver.says("probes are answered");
    until("it has started", || {
        (status(&shared, "/readyz") == 200).then_some(())
    });
    let (refused, why) = get(&shared, "/metrics", "").unwrap();
    assert!(
        refused == 401 && why.contains("metrics.token_file"),
        "{why}"
    );
    let token = std::fs::read_to_string(&tokens).unwrap();
    let header = format!("authorization: Bearer {}\r\n", token.trim());
    let (scraped, _) = get(&shared, "/metrics", &header).unwrap();
    assert_eq!(scraped, 200);
    assert_eq!(status(&shared, "/v1/status"), 404);
}

/// A file with a token of this service account for this audience, as a pod would have it mounted.
pub fn token(cluster: &Cluster, account: &str, audience: &str) -> PathBuf {
    let path = format!(
        "/api/v1/namespaces/{}/serviceaccounts/{account}/token",
        cluster.api.namespace
    );
    let request = json!({"spec": {"audiences": [audience]}});
    let answer = cluster.api.call("POST", &path, Some(&request)).unwrap();
    let file = cluster.file("token-of-account");
    std::fs::write(&file, answer["status"]["token"].as_str().unwrap()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

fn ask(server: &str, token: &PathBuf, arguments: &[&str]) -> Output {
    let mut command = boatswain();
    command.args(arguments).args(["--server", server]);
    command.arg("--token-file").arg(token).output().unwrap()
}

// spec: O-64, O-50
#[test]
fn an_api_for_service_accounts_alone_needs_no_token_file() {
    let cluster = Cluster::any();
    let namespace = &cluster.api.namespace;
    let account = format!("api.service_accounts={{ \"{namespace}/default\" = \"full\" }}");
    let mut driver = Driver::start(&cluster, 0, &["api.listen=127.0.0.1:0", &account]);
    let server = format!("http://{}", address(&mut driver, "the API is listening"));
    let caller = token(&cluster, "default", &format!("boatswain.dev/{namespace}/t"));
    until("it has started", || {
        let asked = ask(&server, &caller, &["scale", "default=1"]);
        asked.status.success().then_some(())
    });
    let nobody = cluster.directory.path().join("nobody");
    boatswain::secret::read_or_make(&nobody).unwrap();
    let refused = ask(&server, &nobody, &["status"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("api.service_accounts"), "{said}");
}

// spec: O-64
#[test]
fn service_accounts_call_the_api_with_the_rights_that_they_were_given() {
    let cluster = Cluster::any();
    let namespace = &cluster.api.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    for name in ["operator", "stranger"] {
        let account = json!({"metadata": {"name": name}});
        cluster.api.call("POST", &path, Some(&account)).unwrap();
    }
    let tokens = cluster.directory.path().join("api-token");
    let sets = [
        "api.listen=127.0.0.1:0".to_owned(),
        format!("api.token_file={}", tokens.display()),
        format!(
            "api.service_accounts={{ \"{namespace}/default\" = \"read\", \"{namespace}/operator\" = \"full\" }}"
        ),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let mut driver = Driver::start(&cluster, 0, &sets);
    let server = format!("http://{}", address(&mut driver, "the API is listening"));
    let line = driver.says("service accounts may call the API with tokens for this audience");
    let audience = format!("boatswain.dev/{namespace}/t");
    assert_eq!(line["audience"], *audience);
    let reader = token(&cluster, "default", &audience);
    until("it has started", || {
        let asked = ask(&server, &reader, &["status"]);
        asked.status.success().then_some(())
    });
    let operator = token(&cluster, "operator", &audience);
    let scaled = ask(&server, &operator, &["scale", "default=1"]);
    assert!(scaled.status.success(), "{scaled:?}");
    let stranger = token(&cluster, "stranger", &audience);
    let elsewhere = token(&cluster, "operator", "boatswain.dev/other/t");
    for (token, arguments, why) in [
        (
            &reader,
            &["scale", "default=2"][..],
            "the right \"full\" is missing",
        ),
        (&stranger, &["status"], "add \"NAMESPACE/stranger\""),
        (
            &elsewhere,
            &["status"],
            "audience \"boatswain.dev/NAMESPACE/t\"",
        ),
    ] {
        let refused = ask(&server, token, arguments);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            said.contains(&why.replace("NAMESPACE", namespace)),
            "{said}"
        );
    }
    // The tokens in the file go on working.
    assert!(ask(&server, &tokens, &["status"]).status.success());
}
