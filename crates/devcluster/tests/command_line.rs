//! Tests the `devcluster` binary: what it serves, its output and its exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn devcluster() -> Command {
    Command::new(env!("CARGO_BIN_EXE_devcluster"))
}

fn output(arguments: &[&str]) -> Output {
    devcluster().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A cluster, killed with the test.
struct Served {
    process: Child,
    /// Of the form `127.0.0.1:1`.
    address: String,
}

impl Served {
    fn start(directory: &Path) -> Self {
        let mut process = devcluster()
            .current_dir(directory)
            .args(["--token-file", "token", "--kubeconfig", "kubeconfig"])
            .args(["--control", "control", "--node", "simulated"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut url).unwrap();
        let address = url.trim().strip_prefix("http://").unwrap().to_owned();
        Self { process, address }
    }

    /// The status line of the answer to a request with these headers.
    fn answer(&self, path: &str, headers: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer)
            .lines()
            .next()
            .unwrap()
            .to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

// spec: O-71, O-72, O-88
#[test]
fn it_serves_api_and_page_and_is_controlled_until_a_signal_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(directory.path());
        let token = fs::read_to_string(at("token")).unwrap();
        let kubeconfig = fs::read_to_string(at("kubeconfig")).unwrap();
        assert!(kubeconfig.contains(&format!("server: https://{}\n", served.address)));
        assert!(kubeconfig.contains(token.trim()));
        let authorized = format!("authorization: Bearer {}\r\n", token.trim());
        let pods = "/api/v1/pods";
        assert_eq!(served.answer(pods, &authorized), "HTTP/1.1 200 OK");
        let guessed = "authorization: Bearer guessed\r\n";
        assert_eq!(served.answer(pods, guessed), "HTTP/1.1 401 Unauthorized");
        assert_eq!(
            served.answer("/", "accept: text/html\r\n"),
            "HTTP/1.1 200 OK"
        );

        let control = at("control");
        let control = control.to_str().unwrap();
        let told = output(&["ctl", "--control", control, "latency", "1ms"]);
        assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
        assert!(text(&told.stdout).contains("1ms"), "{}", text(&told.stdout));

        kill_process(Pid::from_child(&served.process), signal).unwrap();
        assert_eq!(served.process.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(!at("control").exists());
    }
}

// spec: O-2
#[test]
fn an_invalid_command_line_exits_with_64() {
    for arguments in [
        &[][..],
        &["--token-file"],
        &["--token-file", "x", "--crash-rate", "2"],
        &["sail"],
        &["ctl", "status"],
    ] {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    for asked in ["--help", "--version"] {
        let output = output(&[asked]);
        assert_eq!(output.status.code(), Some(0), "{asked}");
        assert!(text(&output.stdout).contains("devcluster"), "{asked}");
    }
}

// spec: O-2, O-72
#[test]
fn what_cannot_be_served_or_controlled_exits_with_78_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let open = at("open");
    fs::write(&open, "token\n").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let (token, none) = (at("token"), at("none"));
    for (arguments, why) in [
        (&["--token-file", &open][..], "chmod 600"),
        (
            &["--token-file", &token, "--token-auth-file", &open],
            "chmod 600",
        ),
        (&["--token-file", &token, "--rbac", &none], "No such file"),
        (
            &["--token-file", &token, "--listen", "0.0.0.0:0"],
            "loopback",
        ),
        (&["ctl", "--control", &none, "status"], "none"),
    ] {
        let output = output(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}
