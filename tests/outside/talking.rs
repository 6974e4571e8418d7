//! Tests executor sessions: the agent, its child process, the driver, and what an operator sees when one of them ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::driver::Driver;
use super::local_run::{Local, first_of, nothing_is_left};
use super::process::{Log, Program, boatswain, processes_with, until};
use super::real::host_for_pods;

/// The processes of an executor: the agent and its child.
pub fn agent_and_child(local: &mut Local, executor: u64) -> (Pid, Pid) {
    let pid = |raw: u32| Pid::from_raw(i32::try_from(raw).unwrap()).unwrap();
    until("the agent has its child", || {
        let of_executor = local.processes_of(executor);
        let agent = first_of(&of_executor)?;
        let (child, _) = *of_executor.iter().find(|(_, parent)| *parent == agent)?;
        Some((pid(agent), pid(child)))
    })
}

pub fn registered(local: &mut Local, executors: &[u64]) {
    local
        .driver
        .until(&format!("{executors:?} have registered"), |log| {
            let there = log.executors("executor registered");
            executors.iter().all(|id| there.contains(id)).then_some(())
        });
}

// spec: O-60, B-1, L-20
#[test]
fn a_killed_child_is_reported_with_its_code_and_its_replacement_registers() {
    let mut local = Local::start(&[]);
    registered(&mut local, &[1, 2, 3, 4]);
    local.driver.says("ready");
    let (_, child) = agent_and_child(&mut local, 2);
    kill_process(child, Signal::KILL).unwrap();
    let end = local.driver.end_of(2);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&json!("Exited"), &json!(137))
    );
    registered(&mut local, &[5]);
    let disabled = local
        .driver
        .log()
        .executors("executor disabled: its connection is lost");
    assert!(
        disabled.is_empty(),
        "the agent has said that it exits: {disabled:?}"
    );
    let mark = local.mark();
    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
}

// spec: A-117, A-118, B-77, O-146
#[test]
fn a_spare_whose_program_is_held_back_takes_the_place_of_an_executor_that_is_killed() {
    let sets = ["profiles.default.executors=2", "profiles.default.spares=1"];
    let mut local = Local::start(&sets);
    registered(&mut local, &[1, 2]);
    let running = |log: &Log| {
        let mut lines = log.lines("executor running").into_iter();
        let spare = lines.find(|line| line["profile"] == "default-spares" && line["executor"] == 3);
        spare.map(|_| ())
    };
    local.driver.until("the spare runs", running);
    assert_eq!(local.processes_of(3).len(), 1, "the agent alone");
    let (_, child) = agent_and_child(&mut local, 1);
    kill_process(child, Signal::KILL).unwrap();
    registered(&mut local, &[3]);
    agent_and_child(&mut local, 3);
    let log = local.driver.log();
    let promoted = log.executors("executor promoted: it was a spare");
    assert_eq!(promoted, [3].into());
    let next = log
        .lines("executor requested")
        .into_iter()
        .next_back()
        .unwrap();
    assert_eq!(
        (&next["executor"], &next["profile"]),
        (&json!(4), &json!("default-spares"))
    );
    let mark = local.mark();
    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
}

// spec: O-60, B-14
#[test]
fn killing_an_agent_kills_its_child_and_the_executor_is_replaced() {
    let mut local = Local::start(&[]);
    registered(&mut local, &[1, 2, 3, 4]);
    let (agent, child) = agent_and_child(&mut local, 3);
    kill_process(agent, Signal::KILL).unwrap();
    let end = local.driver.end_of(3);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&json!("Exited"), &json!(137))
    );
    registered(&mut local, &[5]);
    let gone = Path::new("/proc").join(child.as_raw_nonzero().to_string());
    until("the child is gone", || (!gone.exists()).then_some(()));
}

/// Sends a message as an HTTP request and returns the answer.
fn post(address: &str, token: &str, message: &Value) -> Value {
    let mut connection = TcpStream::connect(address).unwrap();
    let body = message.to_string();
    let request = format!(
        "POST /v1/session/messages HTTP/1.1\r\nhost: driver\r\nauthorization: Bearer {token}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

/// The value of a variable in a process' environment.
fn variable(process: Pid, name: &str) -> String {
    let path = format!("/proc/{}/environ", process.as_raw_nonzero());
    let environment = std::fs::read(path).unwrap();
    let mut variables = environment.split(|b| *b == 0).map(String::from_utf8_lossy);
    let found = variables.find_map(|v| v.strip_prefix(&format!("{name}=")).map(str::to_owned));
    found.unwrap_or_default()
}

/// The token by which a process proves which executor it is: in its environment, or a file of its container.
fn token_of(process: Pid) -> String {
    let token = variable(process, "BOATSWAIN_TOKEN");
    if !token.is_empty() {
        return token;
    }
    let file = variable(process, "BOATSWAIN_TOKEN_FILE");
    let root = format!("/proc/{}/root", process.as_raw_nonzero());
    std::fs::read_to_string(format!("{root}{file}")).unwrap()
}

// spec: B-2, B-5, O-112, O-60
#[test]
fn the_token_authenticates_the_executor_and_is_hidden_from_the_child() {
    let mut local = Local::start(&[]);
    registered(&mut local, &[1, 2, 3, 4]);
    let (agent, child) = agent_and_child(&mut local, 1);
    assert_eq!(variable(child, "BOATSWAIN_TOKEN"), "");
    let token = token_of(agent);
    let served = local.driver.says("listening for executors' sessions");
    let address = served["address"].as_str().unwrap();
    let registration = json!({
        "type": "register",
        "app": variable(agent, "BOATSWAIN_APP_ID"),
        "executor": 1,
        "pod_uid": variable(agent, "BOATSWAIN_POD_UID"),
    });
    let answer = post(address, &token, &registration);
    let registered = &answer["messages"][0];
    assert_eq!(registered["type"], "registered", "{answer}");
    let session = &registered["session"];
    let beat = json!({"type": "heartbeat", "session": session, "busy_slots": 0});
    assert_eq!(post(address, &token, &beat)["messages"][0]["type"], "ack");
    // The test's request has superseded the agent's session, which the agent then opens again.
    until("the agent has superseded the request", || {
        (post(address, &token, &beat)["messages"][0]["type"] == "superseded").then_some(())
    });
    let other =
        json!({"type": "register", "app": registration["app"], "executor": 2, "pod_uid": "u"});
    assert_eq!(
        post(address, &token, &other)["messages"][0]["code"],
        "not-yours"
    );
    assert_eq!(post(address, "nonsense", &beat)["code"], "unauthorized");
    let log = local.driver.stderr();
    assert!(!log.contains(&token), "no token is logged");
}

/// An address that is free until a driver listens on it.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The same, at which executors in pods reach it.
pub fn free_address_for_pods() -> String {
    free_address().replace("127.0.0.1", host_for_pods())
}

// spec: O-99, O-112, O-122, I-9
#[test]
fn executors_outlive_a_driver_restart_and_register_with_their_pods_tokens() {
    let Some(cluster) = Cluster::with_nodes() else {
        return;
    };
    let listen = format!("backend.listen={}", free_address_for_pods());
    let agent = env!("CARGO_BIN_EXE_boatswain");
    let command = format!(
        "profiles.default.command=[{agent:?}, \"agent\", \"--\", \"sh\", \"-c\", \"sleep 1000 & wait\"]"
    );
    let sets = [
        &*listen,
        &*command,
        "backend.plain_http=true",
        "profiles.default.termination_grace=5s",
    ];
    let all_registered = |driver: &mut Driver| {
        driver.until("both have registered", |log| {
            (log.executors("executor registered") == [1, 2].into()).then_some(())
        });
    };
    let mut first = Driver::start(&cluster, 2, &sets);
    all_registered(&mut first);
    let mark = first.says("application taken over")["app"]
        .as_str()
        .map(str::to_owned);
    let mark = format!("BOATSWAIN_APP_ID={}", mark.unwrap());
    let before = processes_with(&mark);
    first.kill();
    let mut second = Driver::start(&cluster, 2, &sets);
    all_registered(&mut second);
    assert_eq!(processes_with(&mark), before, "nobody has noticed");
    let log = second.log();
    assert_eq!(
        (log.count("executor requested"), log.count("executor ended")),
        (0, 0)
    );
    second.signal(Signal::INT);
    assert_eq!(second.exit(), Some(0));
    nothing_is_left(&mark);
}

/// An agent whose driver is unreachable.
fn agent(sets: &[&str], script: &str, log: &Path) -> Program {
    let mut command: Command = boatswain();
    command.args(["agent", "--driver", "http://127.0.0.1:1", "--app", "a"]);
    command.args(["--executor", "1", "--pod-uid", "u"]);
    command
        .env("BOATSWAIN_TOKEN", "1.00")
        .args(sets)
        .args(["--", "sh", "-c", script]);
    Program::start("agent", &mut command, log)
}

// spec: O-60
#[test]
fn an_agent_without_a_driver_exits_with_its_childs_code() {
    let directory = tempfile::tempdir().unwrap();
    let log = |n: u32| directory.path().join(format!("agent-{n}.log"));
    assert_eq!(agent(&[], "exit 7", &log(1)).exit(), Some(7));
    assert_eq!(agent(&[], "kill -9 $$", &log(2)).exit(), Some(137));
    let mut none = boatswain();
    none.args([
        "agent",
        "--driver",
        "http://127.0.0.1:1",
        "--app",
        "a",
        "--executor",
        "1",
    ]);
    none.args(["--pod-uid", "u", "--", "/no/such/program"])
        .env("BOATSWAIN_TOKEN", "1.00");
    assert_eq!(
        Program::start("agent", &mut none, &log(3)).exit(),
        Some(127)
    );
    none.env_remove("BOATSWAIN_TOKEN");
    assert_eq!(Program::start("agent", &mut none, &log(4)).exit(), Some(64));
}

// spec: O-121
#[test]
fn the_agent_forwards_signals_to_its_child() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap 'exit 5' TERM; trap 'echo hup' HUP; echo up; while :; do sleep 0.1; done";
    let mut agent = agent(&[], script, &directory.path().join("agent.log"));
    until("the child is up", || {
        agent.stdout().contains("up").then_some(())
    });
    agent.signal(Signal::HUP);
    until("it has heard", || {
        agent.stdout().contains("hup").then_some(())
    });
    agent.signal(Signal::TERM);
    assert_eq!(agent.exit(), Some(5));
}

// spec: O-87
#[test]
fn a_renewed_file_is_told_to_the_child_by_a_signal_or_by_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap 'exit 5' TERM; trap 'echo hup' HUP; echo up; while :; do sleep 0.1; done";
    let token = directory.path().join("token");
    let name = token.to_str().unwrap();
    let command = "echo \"new: $BOATSWAIN_RELOAD_FILE\"";
    let cases: [(&[&str], &str); 2] = [
        (&["--reload-file", name], "hup"),
        (&["--reload-file", name, "--reload-command", command], name),
    ];
    for (number, (sets, said)) in cases.into_iter().enumerate() {
        std::fs::write(&token, "1").unwrap();
        let log = directory.path().join(format!("agent-{number}.log"));
        let mut agent = agent(sets, script, &log);
        until("the child is up", || {
            agent.stdout().contains("up").then_some(())
        });
        // As a volume is changed: by another file under the same name.
        let renewed = token.with_extension("new");
        std::fs::write(&renewed, "2").unwrap();
        std::fs::rename(&renewed, &token).unwrap();
        until("it is told", || agent.stdout().contains(said).then_some(()));
        agent.signal(Signal::TERM);
        assert_eq!(agent.exit(), Some(5));
    }
}

// spec: O-122
#[test]
fn a_refusal_is_logged_once_though_the_driver_was_only_unreachable_before() {
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let driver = format!("http://{address}");
    let mut command = boatswain();
    command.args(["agent", "--driver", &driver, "--app", "a"]);
    command.args(["--executor", "1", "--pod-uid", "u", "--", "sleep", "60"]);
    command.env("BOATSWAIN_TOKEN", "1.00");
    let mut agent = Program::start("agent", &mut command, &directory.path().join("agent.log"));
    let warnings = |agent: &Program| agent.log().count("no session with the driver: retrying");
    until("the driver is unreachable", || {
        (warnings(&agent) == 1).then_some(())
    });
    let listener = TcpListener::bind(&address).unwrap();
    for _ in 0..3 {
        let (mut connection, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&connection).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.is_empty()), "it asked for a session");
        let refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        connection.write_all(refusal).unwrap();
    }
    until("the refusal is logged", || {
        agent.stderr().contains("403").then_some(())
    });
    assert_eq!(warnings(&agent), 2);
    agent.signal(Signal::TERM);
    agent.exit();
}

// spec: O-123
#[test]
fn the_agent_gives_up_on_a_driver_that_stays_unreachable() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap 'exit 6' TERM; while :; do sleep 0.1; done";
    let patience = ["--driver-timeout", "1s"];
    let mut agent = agent(&patience, script, &directory.path().join("agent.log"));
    assert_eq!(agent.exit(), Some(79));
    let log = agent.log();
    assert_eq!(
        log.count("the driver has been unreachable for too long: stopping the command"),
        1
    );
    assert_eq!(log.count("no session with the driver: retrying"), 1, "once");
}

/// Asks the driver to decommission an executor, as a preStop hook does, which knows no session.
pub fn ask_for_decommissioning(local: &mut Local, executor: u64) {
    let process = local.process_of(executor);
    let token = token_of(process);
    let served = local.driver.says("listening for executors' sessions");
    let address = served["address"].as_str().unwrap().to_owned();
    let ask = json!({"type": "decommission-me", "why": "spot notice"});
    assert_eq!(post(&address, &token, &ask)["messages"][0]["type"], "ack");
}

// spec: O-121, B-30
#[test]
fn an_executor_is_drained_by_its_command_if_it_asks_for_that_or_if_its_pod_is_evicted() {
    let command = r#"profiles.default.command=["$(BOATSWAIN_AGENT)", "agent", "--decommission-command", "echo draining >&2; kill -USR1 $PPID", "--", "/bin/sh", "-c"]"#;
    let args = "profiles.default.args=[\"trap 'exit 0' USR1; while :; do sleep 0.1; done\"]";
    let mut local = Local::start(&[command, args, "profiles.default.executors=2"]);
    registered(&mut local, &[1, 2]);
    ask_for_decommissioning(&mut local, 1);
    local.driver.end_of(1);
    registered(&mut local, &[3]);
    // As the kubelet of a pod that is evicted.
    kill_process(local.process_of(2), Signal::TERM).unwrap();
    assert_eq!(local.driver.end_of(2)["exit_code"], 0);
}

// spec: B-21, O-50, O-60
#[test]
fn on_a_shared_port_the_api_shows_only_the_executor_that_reports_it_as_idle() {
    let directory = tempfile::tempdir().unwrap();
    let (address, tokens) = (free_address_for_pods(), directory.path().join("token"));
    let script = "if [ $BOATSWAIN_EXECUTOR_ID = 1 ]; then \
                  echo {\\\"busy_slots\\\": 0} > $BOATSWAIN_STATUS_FILE; fi; sleep 1000 & wait";
    let sets = [
        format!("backend.listen={address}"),
        format!("api.listen={address}"),
        "api.plain_http=true".to_owned(),
        "backend.plain_http=true".to_owned(),
        format!("api.token_file={}", tokens.display()),
        "backend.heartbeat_interval=200ms".to_owned(),
        "profiles.default.executors=2".to_owned(),
        format!("profiles.default.args=['{script}']"),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let mut local = Local::start(&sets);
    registered(&mut local, &[1, 2]);
    let busy = |executors: &Value, n: u64| {
        let executors = executors["executors"].as_array().unwrap();
        // The API's view may lag behind the log.
        let its = executors.iter().find(|view| view["executor"] == n)?;
        Some((
            its["session"]["busy_slots"].clone(),
            its["session"]["slots"].clone(),
        ))
    };
    until("one is idle and one is not", || {
        let mut command = boatswain();
        command.args(["executors", "-o", "json", "--server"]);
        command.arg(format!("http://{address}"));
        command.arg("--token-file").arg(&tokens);
        let said = command.output().unwrap();
        let executors: Value = serde_json::from_slice(&said.stdout).ok()?;
        let (idle, silent) = (busy(&executors, 1)?, busy(&executors, 2)?);
        (idle.0 == 0 && silent.0 == silent.1 && !silent.0.is_null()).then_some(())
    });
    let mark = local.mark();
    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
}
