//! Tests the traces that a collector gets.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::until;

/// Takes requests by OTLP on this port.
fn collector(port: u16) -> Receiver<(String, Value)> {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (took, taken) = channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            while let Some(request) = request(&connection) {
                let answer = "{\"partialSuccess\":{}}";
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
                write!(connection, "{head} {}\r\n\r\n{answer}", answer.len()).unwrap();
                if took.send(request).is_err() {
                    return;
                }
            }
        }
    });
    taken
}

/// The first line and the body; `None` at the connection's end.
fn request(connection: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(connection);
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end();
        if first.is_empty() {
            first = line.to_owned();
        } else if line.is_empty() {
            break;
        } else if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, serde_json::from_slice(&body).unwrap()))
}

/// The value of a text or a number.
fn attributes(span: &Value) -> BTreeMap<String, String> {
    let all = span["attributes"].as_array().unwrap().iter();
    all.map(|attribute| {
        let value = attribute["value"].as_object().unwrap().values().next();
        let value = value.and_then(Value::as_str).unwrap();
        (
            attribute["key"].as_str().unwrap().to_owned(),
            value.to_owned(),
        )
    })
    .collect()
}

// spec: O-141
#[test]
fn a_collector_gets_each_executors_life_also_what_happened_while_it_was_away() {
    let cluster = Cluster::any();
    // Nobody listens there yet.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let set = format!("traces.collector=http://127.0.0.1:{port}");
    let mut driver = Driver::start(&cluster, 1, &[&set]);
    cluster.settles(1);
    let said = driver
        .says("events cannot be handed over: the driver keeps the last 10,000, and tries again");
    assert_eq!(said["to"], "traces.collector");
    cluster.api.kill_for_memory("t-exec-1");
    driver.end_of(1);
    let taken = collector(port);
    driver.says("events are handed over again");
    let mut spans = Vec::new();
    until("the first one's life is told", || {
        let (first, body) = taken.try_recv().ok()?;
        assert_eq!(first, "POST /v1/traces HTTP/1.1");
        let of = &body["resourceSpans"][0];
        let resource = attributes(&of["resource"]);
        assert_eq!(resource["service.name"], "boatswain");
        spans.extend(of["scopeSpans"][0]["spans"].as_array().unwrap().clone());
        let is_over = |span: &Value| span["name"] == "executor";
        spans.iter().any(is_over).then_some(())
    });
    let life = spans
        .iter()
        .find(|span| span["name"] == "executor")
        .unwrap();
    let told = attributes(life);
    assert_eq!(told["boatswain.executor"], "1");
    assert_eq!(told["boatswain.reason"], "OomKilled");
    assert_eq!(life["status"]["code"], 2);
    let of_life = spans
        .iter()
        .filter(|span| span["parentSpanId"] == life["spanId"]);
    let phases: Vec<&str> = of_life.map(|span| span["name"].as_str().unwrap()).collect();
    assert!(
        phases.starts_with(&["requested"]) && phases.contains(&"running"),
        "{phases:?}"
    );
}
