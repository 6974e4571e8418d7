//! Tests how a driver reaches its API server: whose certificate it accepts, and through which proxy.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::Value;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::PATIENCE;

/// Of a start that is given up after some tries.
const SHORT: [&str; 2] = ["cluster.start_timeout=2s", "cluster.request_timeout=1s"];

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// The URL of a server that shows a certificate of this authority, which is valid up to the beginning of this year.
    fn serve(&self, year: i32) -> String {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key);
        let config = Arc::new(config.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
                // The client ends it when it has seen the certificate.
                let _ = server.complete_io(&mut client);
            }
        });
        format!("https://{address}")
    }
}

/// Has the kubeconfig trust this CA.
fn trust(kubeconfig: &Path, pem: &str) {
    let text = fs::read_to_string(kubeconfig).unwrap();
    let mut kubeconfig_now: Value = serde_json::from_str(&text).unwrap();
    kubeconfig_now["clusters"][0]["cluster"]["certificate-authority-data"] =
        BASE64.encode(pem).into();
    fs::write(kubeconfig, kubeconfig_now.to_string()).unwrap();
}

// spec: O-2
#[test]
fn a_certificate_that_has_expired_or_is_of_another_ca_is_explained_from_the_first_try_on() {
    let cluster = Cluster::any();
    let (trusted, other) = (Authority::new("trusted"), Authority::new("other"));
    for (shown, year, words) in [
        (&trusted, 2020, "certificate has expired, or this machine"),
        (&other, 2124, "correct the kubeconfig"),
    ] {
        let kubeconfig = cluster.kubeconfig_at(&shown.serve(year));
        trust(&kubeconfig, &trusted.pem);
        let mut driver = Driver::start_with(&cluster, &kubeconfig, 3, &SHORT);
        assert_eq!(driver.exit(), Some(69), "it was tried for start_timeout");
        let log = driver.log();
        let tries = log.lines("the cluster is out of reach, trying again");
        let errors = log.at("error");
        assert_eq!((tries.len(), errors.len()), (1, 1));
        for said in [tries[0], errors[0]] {
            assert!(said.to_string().contains(words), "no {words:?} in {said}");
        }
    }
}

// spec: O-135
#[test]
fn the_proxy_of_the_environment_is_used_unless_no_proxy_names_the_server() {
    let cluster = Cluster::any();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let (asked, asks) = mpsc::channel();
    thread::spawn(move || {
        for client in proxy.incoming().flatten() {
            let mut line = String::new();
            let read = BufReader::new(client).read_line(&mut line);
            if read.is_ok() && asked.send(line).is_err() {
                return;
            }
        }
    });
    // An address of documentation, at which nobody is.
    let kubeconfig = cluster.kubeconfig_at("https://192.0.2.1:6443");
    let exit = |excepted: &str| {
        let proxy = (url.as_str(), excepted);
        Driver::start_with_proxy(&cluster, &kubeconfig, proxy, &SHORT).exit()
    };
    assert_eq!(exit("jobs.example,192.0.2.0/24"), Some(69));
    assert_eq!(asks.try_iter().next(), None, "it is not for this server");
    assert_eq!(exit("jobs.example"), Some(69));
    let line = asks.recv_timeout(PATIENCE).unwrap();
    assert!(line.starts_with("CONNECT 192.0.2.1:6443 "), "{line}");
}
