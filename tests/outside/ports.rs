//! Tests clients of the driver's ports that exhaust what it has: connections without a token, and clients that read
//! nothing.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};

/// How long an answer may take while other clients are a nuisance.
const SOON: Duration = Duration::from_secs(10);

/// Lets this test open as many connections as it may.
fn open_many() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let connection = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    connection.set_nonblocking(true).unwrap();
    Some(connection)
}

fn is_open(connection: &mut TcpStream) -> bool {
    let read = connection.read(&mut [0; 512]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// The status of the answer to a request with these header lines; `None` if there is none in time.
fn status(address: SocketAddr, request: &str) -> Option<u16> {
    let mut connection = TcpStream::connect_timeout(&address, SOON).ok()?;
    connection.set_read_timeout(Some(SOON)).unwrap();
    let request = format!("{request}host: driver\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// Connections of clients that say nothing, and that come again when they are disconnected, until this is dropped.
struct IdleConnections(Option<(mpsc::Sender<()>, thread::JoinHandle<()>)>);

impl IdleConnections {
    /// Returns once each has come.
    fn come(address: SocketAddr, count: usize) -> Self {
        let (stop, stopped) = mpsc::channel();
        let (come, all_came) = mpsc::channel();
        let coming = thread::spawn(move || {
            let mut connections: Vec<Option<TcpStream>> = Vec::new();
            connections.resize_with(count, || None);
            let pause = Duration::from_millis(100);
            while stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                for connection in &mut connections {
                    if !connection.as_mut().is_some_and(is_open) {
                        *connection = connect(address);
                    }
                }
                let _ = come.send(());
            }
        });
        all_came.recv().unwrap();
        Self(Some((stop, coming)))
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        if let Some((stop, coming)) = self.0.take() {
            drop(stop);
            let _ = coming.join();
        }
    }
}

// spec: O-55
#[test]
fn the_driver_raises_its_soft_limit_of_descriptors_to_the_hard_one() {
    let cluster = Cluster::any();
    let mut driver = Driver::start_with_soft_limit(&cluster, 1, 128);
    driver.says("application taken over");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", driver.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    let (soft, hard) = (words[3], words[4]);
    assert_eq!(soft, hard, "{limits}");
    assert_ne!(soft, "128");
}

// spec: O-116
#[test]
fn idle_connections_on_the_sessions_port_cost_neither_calls_nor_executors_their_places() {
    const EXECUTORS: usize = 50;
    open_many();
    let cluster = Cluster::any();
    let tokens = cluster.directory.path().join("api-token");
    let file = format!("api.token_file={}", tokens.display());
    let sets = [
        "backend.listen=127.0.0.1:0",
        "backend.registration=optional",
        "api.listen=127.0.0.1:0",
        &file,
    ];
    let mut driver = Driver::start_with_files(&cluster, 1, 1_024, &sets);
    let address = |driver: &mut Driver, message: &str| -> SocketAddr {
        let served = driver.says(message);
        served["address"].as_str().unwrap().parse().unwrap()
    };
    let sessions = address(&mut driver, "listening for executors' sessions");
    let api = address(&mut driver, "the API is listening");
    cluster.converges(1);
    let _idle = IdleConnections::come(sessions, 1_100);
    // Until the driver has accepted those that it accepts.
    thread::sleep(Duration::from_secs(3));
    let mut scale = boatswain();
    scale.arg("scale").arg(format!("default={EXECUTORS}"));
    scale.arg("--server").arg(format!("http://{api}"));
    let scaled = scale.arg("--token-file").arg(tokens).output().unwrap();
    assert!(scaled.status.success(), "{scaled:?}");
    let began = Instant::now();
    let executor =
        "POST /v1/session/messages HTTP/1.1\r\nauthorization: Bearer 1.0\r\ncontent-length: 0\r\n";
    while began.elapsed() < SOON {
        assert_eq!(status(sessions, executor), Some(401), "it is answered");
    }
    cluster.settles(EXECUTORS);
    let log = driver.stderr();
    assert!(!log.contains("Too many open files"), "{log}");
}

// spec: O-57
#[test]
fn api_clients_that_read_nothing_cost_no_probe_and_lose_their_places() {
    open_many();
    let cluster = Cluster::any();
    let tokens = cluster.directory.path().join("api-token");
    let file = format!("api.token_file={}", tokens.display());
    let mut driver = Driver::start_with_files(&cluster, 1, 512, &["api.listen=127.0.0.1:0", &file]);
    let served = driver.says("the API is listening");
    let address: SocketAddr = served["address"].as_str().unwrap().parse().unwrap();
    cluster.converges(1);
    let token = std::fs::read_to_string(tokens).unwrap();
    let token = token.trim();
    let metrics =
        format!("GET /metrics HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    let status_line = format!("GET /v1/status HTTP/1.1\r\nauthorization: Bearer {token}\r\n");
    let mut deaf = Vec::new();
    for _ in 0..600 {
        let Some(mut connection) = connect(address) else {
            continue;
        };
        // Until the driver reads no more, because nothing is read here.
        for _ in 0..2_000 {
            if connection.write_all(metrics.as_bytes()).is_err() {
                break;
            }
        }
        deaf.push(connection);
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        assert_eq!(status(address, "GET /healthz HTTP/1.1\r\n"), Some(200));
    }
    until(
        "the clients that read nothing have lost their places",
        || (status(address, &status_line) == Some(200)).then_some(()),
    );
    drop(deaf);
}
