//! Tests that the binary goes on, and exits when that is decided, whatever hangs around it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Far longer than anything here takes, even with all cores busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shorter than what hangs, and than the limits after which a process would give it up.
const SOON: Duration = Duration::from_secs(30);

/// Half of the time after which a file that hangs is given up (spec O-129).
const LITTLE_LONGER: Duration = Duration::from_secs(5);

/// Two signals within a second are one (spec O-109).
const ANOTHER_SIGNAL: Duration = Duration::from_millis(1_500);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(Duration::from_millis(50));
    }
}

/// A process that is killed when this is dropped.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn exit(&mut self) -> ExitStatus {
        until("the process exits", || self.0.try_wait().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn boatswain() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boatswain"));
    command.env_remove("KUBECONFIG");
    command
}

fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

const PROFILE: &str = "[profiles.default]\nimage = \"none:1\"\n";

/// The arguments of a driver for a cluster whose credential plugin hangs as soon as it has made the file `begun`.
fn with_hanging_plugin(directory: &Path) -> Command {
    let begun = directory.join("begun");
    let kubeconfig = directory.join("kubeconfig");
    let plugin = format!(
        "{{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'touch {}; exec sleep 120'], \
         interactiveMode: Never}}",
        begun.display()
    );
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:1\"}}}}]\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{exec: {plugin}}}}}]\n"
    );
    fs::write(&kubeconfig, text).unwrap();
    let config = directory.join("config.toml");
    fs::write(&config, PROFILE).unwrap();
    let mut command = boatswain();
    command.arg("run").arg("--config").arg(config);
    command.arg("--set");
    command.arg(format!("cluster.kubeconfig={}", kubeconfig.display()));
    command.stderr(Stdio::null());
    command
}

/// How long a driver lives after these signals, and how it exits.
fn stopped(on_signal: &str, signals: &[Signal]) -> (Duration, Option<i32>) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = with_hanging_plugin(directory.path());
    command.arg("--set");
    command.arg(format!("shutdown.on_signal={on_signal}"));
    // Its end may take longer than this test waits.
    command.args(["--set", "shutdown.grace=5m"]);
    let mut driver = Program::start(&mut command);
    let begun = directory.path().join("begun");
    until("the plugin runs", || begun.exists().then_some(()));
    let (first, more) = signals.split_first().unwrap();
    let began = Instant::now();
    driver.signal(*first);
    for signal in more {
        sleep(ANOTHER_SIGNAL);
        driver.signal(*signal);
    }
    let exit = driver.exit();
    (began.elapsed(), exit.code())
}

// spec: O-132, O-109
#[test]
fn a_driver_whose_credential_plugin_hangs_is_ended_by_a_second_signal() {
    let (took, code) = stopped("end", &[Signal::TERM, Signal::INT]);
    assert_eq!(code, Some(130));
    assert!(took < SOON, "{took:?}");
}

// spec: O-132, O-107
#[test]
fn a_driver_whose_credential_plugin_hangs_hands_over_at_once() {
    let (took, code) = stopped("hand-over", &[Signal::TERM]);
    assert_eq!(code, Some(75));
    assert!(took < SOON, "{took:?}");
}

/// How long an agent with this token file lives whose child exits with 3, and what it logs.
fn agent_with(token: &Path) -> (Duration, String) {
    let log = token.with_extension("log");
    let mut command = boatswain();
    command.args(["agent", "--driver", "http://127.0.0.1:1", "--app", "a"]);
    command.args(["--executor", "1", "--pod-uid", "u", "--token-file"]);
    command
        .arg(token)
        .args(["--", "sh", "-c", "sleep 1; exit 3"]);
    command.stderr(fs::File::create(&log).unwrap());
    let began = Instant::now();
    let exit = Program::start(&mut command).exit();
    let took = began.elapsed();
    assert_eq!(exit.code(), Some(3));
    (took, fs::read_to_string(log).unwrap())
}

// spec: O-132, O-129
#[test]
fn an_agent_ends_with_its_child_while_its_token_file_is_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let (token, hanging) = (
        directory.path().join("token"),
        directory.path().join("pipe"),
    );
    fs::write(&token, "1.0\n").unwrap();
    pipe(&hanging);
    let (usual, _) = agent_with(&token);
    let (took, log) = agent_with(&hanging);
    assert!(took < usual + LITTLE_LONGER, "{took:?} and not {usual:?}");
    let said = log.lines().find(|line| line.contains("is no regular file"));
    let path = hanging.display().to_string();
    assert!(said.is_some_and(|line| line.contains(&path)), "{log}");
}

/// A driver with an embedded cluster that logs all it can, and answers probes.
struct Talkative {
    command: Command,
    probes: SocketAddr,
    directory: TempDir,
}

fn talkative() -> Talkative {
    let directory = tempfile::tempdir().unwrap();
    // Free a moment ago; the log, which says the port, is not read.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let probes = free.local_addr().unwrap();
    let config = directory.path().join("config.toml");
    let text = format!(
        "[app]\nname = \"t\"\n{PROFILE}executors = 200\n\
         [cluster]\nmode = \"embedded\"\n[embedded]\nnode = \"simulated\"\n\
         [probes]\nlisten = \"{probes}\"\n[log]\nformat = \"json\"\nlevel = \"trace\"\n"
    );
    fs::write(&config, text).unwrap();
    let mut command = boatswain();
    command.arg("run").arg("--config").arg(config);
    Talkative {
        command,
        probes,
        directory,
    }
}

/// The status of the answer to a probe; `None` if there is none.
fn asked(probes: SocketAddr, path: &str) -> Option<u16> {
    let mut connection = TcpStream::connect(probes).ok()?;
    connection.set_read_timeout(Some(SOON)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: driver\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    answer.split_whitespace().nth(1)?.parse().ok()
}

fn is_ready_and_ends(driver: &mut Program, probes: SocketAddr) {
    until("the driver is ready", || {
        (asked(probes, "/readyz") == Some(200)).then_some(())
    });
    assert_eq!(asked(probes, "/healthz"), Some(200));
    let began = Instant::now();
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit().code(), Some(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

// spec: O-130
#[test]
fn a_driver_whose_log_nobody_reads_answers_and_ends() {
    let mut talkative = talkative();
    let mut driver = Program::start(talkative.command.stderr(Stdio::piped()));
    is_ready_and_ends(&mut driver, talkative.probes);
    // Until it was full, the pipe took what was written: far more than it holds was to be written.
    let mut log = String::new();
    let mut stderr = driver.0.stderr.take().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(log.len() > 60_000, "the log was too short: {}", log.len());
}

// spec: O-130
#[test]
fn a_log_file_that_has_reached_its_limit_ends_nothing() {
    let talkative = talkative();
    let log = talkative.directory.path().join("log");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 8 && exec \"$0\" \"$@\""]);
    limited.arg(talkative.command.get_program());
    limited.args(talkative.command.get_args());
    limited.stderr(fs::File::create(&log).unwrap());
    let mut driver = Program::start(&mut limited);
    is_ready_and_ends(&mut driver, talkative.probes);
    let length = fs::metadata(&log).unwrap().len();
    assert!((4_096..=8_192).contains(&length), "{length}");
}
