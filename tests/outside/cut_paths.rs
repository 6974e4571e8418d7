//! Tests a driver whose executors, with real agents, cannot reach it for a while, although the API server answers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::local_run::{Ground, Local, nothing_is_left};
use super::process::{boatswain, until};
use super::real::host_for_pods;
use super::talking::free_address_for_pods;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Connections break, and new ones end at once.
    Broken,
    /// Connections stay, and nothing passes.
    Silent,
}

/// The network path between the executors and a driver.
struct Path {
    address: String,
    shared: Arc<Mutex<(State, Vec<TcpStream>)>>,
}

impl Path {
    /// A path to this address. Its threads end with the test's process.
    fn to(target: String) -> Self {
        let listener = TcpListener::bind((host_for_pods(), 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Mutex::new((State::Open, Vec::new())));
        let all = Arc::clone(&shared);
        thread::spawn(move || {
            for executor in listener.incoming().map_while(Result::ok) {
                connect(executor, &target, &all);
            }
        });
        Self { address, shared }
    }

    /// Changes the path; the connections so far break, unless it falls silent.
    fn set(&self, state: State) {
        let mut shared = self.shared.lock().unwrap();
        shared.0 = state;
        if state != State::Silent {
            for connection in shared.1.drain(..) {
                // Its other end may have closed it.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }
}

fn connect(executor: TcpStream, target: &str, all: &Arc<Mutex<(State, Vec<TcpStream>)>>) {
    let mut shared = all.lock().unwrap();
    if shared.0 == State::Broken {
        return;
    }
    let Ok(driver) = TcpStream::connect(target) else {
        return;
    };
    for (from, to) in [(&executor, &driver), (&driver, &executor)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let all = Arc::clone(all);
        thread::spawn(move || copy(from, to, &all));
    }
    shared.1.extend([executor, driver]);
}

fn copy(mut from: TcpStream, mut to: TcpStream, all: &Mutex<(State, Vec<TcpStream>)>) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let passes = all.lock().unwrap().0 == State::Open;
        if passes && to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A driver with short timeouts whose executors reach it over a path.
struct World {
    local: Local,
    path: Path,
    server: String,
    directory: TempDir,
}

impl World {
    fn start(executors: usize, more: &[&str]) -> Self {
        let ground = Ground::new();
        let (address, directory) = (free_address_for_pods(), tempfile::tempdir().unwrap());
        let path = Path::to(address.clone());
        let sets = [
            "api.listen=127.0.0.1:0".to_owned(),
            format!(
                "api.token_file={}",
                directory.path().join("token").display()
            ),
            format!("backend.listen={address}"),
            "backend.plain_http=true".to_owned(),
            format!("backend.url=http://{}", path.address),
            "backend.heartbeat_interval=300ms".to_owned(),
            "backend.heartbeat_timeout=1s".to_owned(),
            "backend.loss_reason_timeout=1s".to_owned(),
            // One failure ends the application.
            "failures.max=0".to_owned(),
            format!("profiles.default.executors={executors}"),
        ];
        let sets = sets.iter().map(String::as_str);
        let sets: Vec<&str> = sets.chain(more.iter().copied()).collect();
        let mut local = Local::start_on(ground, &sets);
        let served = local.driver.says("the API is listening");
        let server = format!("http://{}", served["address"].as_str().unwrap());
        let world = Self {
            local,
            path,
            server,
            directory,
        };
        world.is_whole(1..=executors as u64);
        world
    }

    fn ask(&self, what: &str) -> Value {
        let mut command = boatswain();
        command.args([what, "-o", "json", "--server", &self.server, "--token-file"]);
        let said = command.arg(self.directory.path().join("token")).output();
        serde_json::from_slice(&said.unwrap().stdout).unwrap_or_default()
    }

    /// Waits until exactly these executors have sessions, and the driver does not doubt its path.
    fn is_whole(&self, executors: impl Iterator<Item = u64>) {
        let all: Vec<u64> = executors.collect();
        until("all executors have sessions", || {
            let shown = self.ask("executors");
            let shown = shown["executors"].as_array()?.iter();
            let with_session = shown.filter(|one| one["session"]["state"] == "connected");
            let ids: Vec<u64> = with_session
                .filter_map(|one| one["executor"].as_u64())
                .collect();
            (ids == all && self.ask("status")["degraded"].is_null()).then_some(())
        });
    }

    fn is_degraded(&self) {
        until("the driver is degraded", || {
            (!self.ask("status")["degraded"].is_null()).then_some(())
        });
    }

    fn ends(mut self) {
        let mark = self.local.mark();
        self.local.driver.signal(Signal::INT);
        assert_eq!(self.local.driver.exit(), Some(0));
        nothing_is_left(&mark);
    }
}

fn loses_nobody(executors: usize) {
    let world = World::start(executors, &[]);
    for cut in [State::Broken, State::Silent, State::Broken] {
        world.path.set(cut);
        world.is_degraded();
        // Several of its timeouts, and fewer than the ten after which two executors are given up.
        thread::sleep(Duration::from_secs(4));
        world.path.set(State::Open);
        world.is_whole(1..=executors as u64);
    }
    let log = world.local.driver.log();
    assert_eq!(log.count("executor ended"), 0);
    assert_eq!(log.count("executor requested"), executors);
    world.ends();
}

// spec: B-13, B-15, O-122, I-12
#[test]
fn a_path_that_is_cut_three_times_ends_no_executor_of_two() {
    loses_nobody(2);
}

// spec: B-13, B-15, O-122, I-12
#[test]
fn a_path_that_is_cut_three_times_ends_no_executor_of_six() {
    loses_nobody(6);
}

// spec: O-123, L-20, L-30
#[test]
fn executors_whose_agents_have_waited_long_enough_are_abandoned_and_no_failures() {
    let command = r#"profiles.default.command=["$(BOATSWAIN_AGENT)", "agent", "--driver-timeout", "1s", "--", "/bin/sh", "-c"]"#;
    let mut world = World::start(2, &[command]);
    world.path.set(State::Broken);
    for executor in [1, 2] {
        let end = world.local.driver.end_of(executor);
        let shown = (&end["reason"], &end["exit_code"], &end["failure"]);
        assert_eq!(shown, (&json!("Abandoned"), &json!(79), &json!(false)));
    }
    world.path.set(State::Open);
    world.is_whole(3..=4);
    world.ends();
}
