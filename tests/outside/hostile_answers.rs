//! Tests a driver whose API server's answers are malformed by a proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{Program, until};

#[derive(Clone, Copy, Debug)]
enum Odd {
    /// A page from an intermediary that is not the API server.
    NotJson,
    /// JSON of an unexpected kind.
    AnotherKind,
    /// Less than its announced length.
    Truncated,
    /// An answer without an end.
    Endless,
    /// No answer: the connection is closed.
    Nothing,
}

const ALL: [Odd; 5] = [
    Odd::NotJson,
    Odd::AnotherKind,
    Odd::Truncated,
    Odd::Endless,
    Odd::Nothing,
];

impl Odd {
    /// A rule that answers the first three matching requests in this way, without carrying them out.
    fn answers(self, begins: &'static str, has: &'static str) -> Rule {
        Rule {
            begins,
            has,
            odd: self,
            times: 3,
            carried_out: false,
        }
    }

    fn answer(self, client: &mut TcpStream) -> io::Result<()> {
        let whole = |kind: &str, body: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        match self {
            Self::NotJson => {
                client.write_all(whole("text/html", "<html>Sign in to go on</html>").as_bytes())
            }
            Self::AnotherKind => {
                let body = r#"{"kind":"Banana","apiVersion":"fruit/v7","items":{"ripe":[null,1e999]}}"#;
                client.write_all(whole("application/json", body).as_bytes())
            }
            Self::Truncated => client.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n\
                  {\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"99\"},\"items\":[{\"meta",
            ),
            Self::Endless => {
                client.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\
                      {\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"",
                )?;
                loop {
                    client.write_all(&[b'a'; 65_536])?;
                }
            }
            Self::Nothing => client.shutdown(Shutdown::Both),
        }
    }
}

/// The requests that are answered in a malformed way.
#[derive(Clone, Copy)]
struct Rule {
    /// The beginning of their first line.
    begins: &'static str,
    /// A part of their first line.
    has: &'static str,
    odd: Odd,
    /// How many of them.
    times: usize,
    /// Whether the API server receives them nevertheless.
    carried_out: bool,
}

/// A proxy in a thread that ends with the test's process.
struct Proxy {
    kubeconfig: PathBuf,
    odd: Arc<AtomicUsize>,
    /// What leads to a real API server without TLS.
    _plain: Option<Program>,
}

impl Proxy {
    fn start(cluster: &Cluster, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (upstream, plain) = cluster.plain();
        // The proxy serves the driver without TLS.
        let kubeconfig = cluster.kubeconfig_at(&format!("http://{address}"));
        let odd = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&odd);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (upstream, count) = (upstream.clone(), Arc::clone(&count));
                // An error here is one of the malformed answers that the driver is tested with.
                thread::spawn(move || serve(client, &upstream, rule, &count));
            }
        });
        Self {
            kubeconfig,
            odd,
            _plain: plain,
        }
    }

    /// Number of requests answered in a malformed way.
    fn odd(&self) -> usize {
        self.odd.load(Ordering::Relaxed)
    }
}

/// Handles one connection with one request.
fn serve(mut client: TcpStream, upstream: &str, rule: Rule, count: &AtomicUsize) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let first = head.lines().next().unwrap_or_default();
    let meant = first.starts_with(rule.begins) && first.contains(rule.has);
    let odd = meant && count.fetch_add(1, Ordering::Relaxed) < rule.times;
    if odd && !rule.carried_out {
        return rule.odd.answer(&mut client);
    }
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(
        head.replacen("\r\n", "\r\nConnection: close\r\n", 1)
            .as_bytes(),
    )?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let copied = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
        copied
    });
    if odd {
        // The server has answered the request, but the driver does not get the answer.
        server.read_exact(&mut [0])?;
        return rule.odd.answer(&mut client);
    }
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}

/// A driver with ten executors behind a proxy with this rule.
fn behind(cluster: &Cluster, rule: Rule) -> (Driver, Proxy) {
    let proxy = Proxy::start(cluster, rule);
    let sets = ["cluster.request_timeout=2s"];
    (
        Driver::start_with(cluster, &proxy.kubeconfig, 10, &sets),
        proxy,
    )
}

/// Checks that malformed answers are logged at least once, but not each time, and that nothing is lost.
fn said_and_survived(driver: &mut Driver, proxy: &Proxy, odd: Odd) {
    assert!(proxy.odd() > 0, "{odd:?}: nothing was odd");
    assert!(driver.is_alive());
    let log = driver.log();
    assert_eq!(log.count("executor ended"), 0, "{odd:?}");
    assert_eq!(log.at("error"), [] as [&serde_json::Value; 0], "{odd:?}");
    assert!(!log.at("warn").is_empty(), "{odd:?}: nothing was said");
    assert!(log.at("warn").len() < 20, "{odd:?}: {:?}", log.at("warn"));
}

// spec: S-15, W-9, A-26
#[test]
fn lists_with_malformed_answers_are_retried() {
    for odd in ALL {
        let Some(cluster) = Cluster::logged() else {
            return;
        };
        let (mut driver, proxy) = behind(&cluster, odd.answers("GET", "/pods?"));
        cluster.converges(10);
        said_and_survived(&mut driver, &proxy, odd);
    }
}

// spec: A-13, A-14, I-1
#[test]
fn creates_with_malformed_answers_are_not_repeated() {
    for odd in ALL {
        let Some(cluster) = Cluster::logged() else {
            return;
        };
        let (mut driver, proxy) = behind(
            &cluster,
            Rule {
                times: 5,
                carried_out: true,
                ..odd.answers("POST", "/pods?")
            },
        );
        let first = cluster.converges(10);
        until("every executor is known to run", || {
            (driver.log().executors("executor running").len() == 10).then_some(())
        });
        said_and_survived(&mut driver, &proxy, odd);
        assert_eq!(cluster.converges(10), first);
        let created = cluster.created();
        assert_eq!(created, 11, "{odd:?}: the record and ten pods");
    }
}

// spec: W-2, W-3, P-1
#[test]
fn polls_replace_a_watch_with_malformed_answers() {
    for odd in ALL {
        let Some(cluster) = Cluster::logged() else {
            return;
        };
        let (mut driver, proxy) = behind(
            &cluster,
            Rule {
                times: usize::MAX,
                ..odd.answers("GET", "watch=")
            },
        );
        cluster.converges(10);
        said_and_survived(&mut driver, &proxy, odd);
        cluster.api.delete_pod("t-exec-4", Grace::Own);
        let end = driver.end_of(4);
        assert_eq!(end["failure"], false, "{odd:?}: {end}");
        cluster.converges(10);
    }
}

// spec: O-2, O-30
#[test]
fn malformed_answers_at_the_start_are_retried() {
    for odd in ALL {
        let Some(cluster) = Cluster::logged() else {
            return;
        };
        let (mut driver, proxy) = behind(&cluster, odd.answers("GET", "/configmaps/t-app"));
        cluster.converges(10);
        said_and_survived(&mut driver, &proxy, odd);
    }
}
