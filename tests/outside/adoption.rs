//! What clients are told while a driver is killed and started again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::until;
use super::talking::free_address;

const MANY: usize = 50;

/// How many times the driver is killed.
const KILLS: u64 = 3;

const EACH: Duration = Duration::from_millis(2);

/// What a client was told.
#[derive(Debug, Default)]
struct Told {
    /// How often it was asked to come again.
    deferred: usize,
    /// What was wrong.
    wrong: Vec<String>,
}

/// The status, the headers, and the first line of the body that has JSON; `None` if nobody listens.
fn ask(address: &str, token: &str, path: &str) -> Option<(u16, String, Value)> {
    let mut connection = TcpStream::connect(address).ok()?;
    let patience = Some(Duration::from_secs(20));
    connection.set_read_timeout(patience).unwrap();
    // An event of an incarnation that never was: the stream begins with the executors that live, after a gap.
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {token}\r\nlast-event-id: 0-7\r\n\r\n"
    )
    .ok()?;
    let mut head = String::new();
    for line in BufReader::new(connection).lines() {
        let line = line.ok()?;
        let json = line.strip_prefix("data:").unwrap_or(&line);
        if let Ok(told @ Value::Object(_)) = serde_json::from_str(json) {
            let status = head.split(' ').nth(1)?.parse().ok()?;
            return Some((status, head.to_lowercase(), told));
        }
        head.push_str(&line);
        head.push('\n');
    }
    None
}

/// The incarnation whose event an answer is.
fn incarnation(head: &str) -> Option<u64> {
    let id = head.lines().find_map(|line| line.strip_prefix("id: "));
    id.and_then(|id| id.split_once('-')?.0.parse().ok())
}

/// Asks for the executors and for the first event, again and again, until it is told to stop. Each time that it was told
/// all of both, it says by which incarnation.
fn ask_all_the_time(
    address: &str,
    token: &str,
    stop: &Receiver<()>,
    answered: &Sender<u64>,
) -> Told {
    let mut told = Told::default();
    while matches!(stop.try_recv(), Err(TryRecvError::Empty)) {
        let mut is_listed = false;
        for path in ["/v1/executors", "/v1/events"] {
            let Some((status, head, answer)) = ask(address, token, path) else {
                continue;
            };
            let listed = answer["executors"].as_array().map_or(0, Vec::len);
            match status {
                503 if head.contains("retry-after: ") => told.deferred += 1,
                200 if listed == MANY && path == "/v1/executors" => is_listed = true,
                200 if listed == MANY && answer["event"] == "living" => {
                    if let Some(incarnation) = incarnation(&head).filter(|_| is_listed) {
                        answered.send(incarnation).unwrap();
                    }
                }
                _ => (told.wrong).push(format!("{path}: {status}, {listed} executors: {head}")),
            }
        }
        thread::sleep(EACH);
    }
    told
}

// spec: B-55, I-13
#[test]
fn a_client_that_asks_all_the_time_is_never_told_that_the_executors_of_a_killed_driver_are_gone() {
    let cluster = Cluster::any();
    let address = free_address();
    let tokens = cluster.directory.path().join("api-token");
    let settings = [
        format!("api.listen={address}"),
        format!("api.token_file={}", tokens.display()),
    ];
    let settings = settings.each_ref().map(String::as_str);
    let mut driver = Driver::start(&cluster, MANY, &settings);
    let before = cluster.converges(MANY);
    let token = std::fs::read_to_string(&tokens).unwrap();
    let (stop, stopped) = mpsc::channel();
    let (answered, answers) = mpsc::channel();
    let asking = {
        let (address, token) = (address.clone(), token.trim().to_owned());
        thread::spawn(move || ask_all_the_time(&address, &token, &stopped, &answered))
    };
    let answers_by = |incarnation| {
        until("the client has been told all", || {
            answers.try_iter().any(|by| by == incarnation).then_some(())
        });
    };
    answers_by(1);
    for incarnation in 2..=KILLS + 1 {
        driver.kill();
        driver = Driver::start(&cluster, MANY, &settings);
        driver.says("executors adopted");
        answers_by(incarnation);
    }
    stop.send(()).unwrap();
    let told = asking.join().unwrap();
    assert_eq!(told.wrong, [""; 0], "{told:?}");
    assert_eq!(cluster.settles(MANY), before);
}
