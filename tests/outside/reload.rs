//! Tests a driver that reads its configuration again on SIGHUP.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::{Program, boatswain, until};

const READ: &str = "the configuration was read again";
const REFUSED: &str = "the configuration was not read again: nothing has changed";
const LATER: &str = "changed in the configuration, but takes effect at the next start";

fn write(cluster: &Cluster, executors: u32, rest: &str) {
    write_with(cluster, "info", executors, rest);
}

fn write_with(cluster: &Cluster, level: &str, executors: u32, rest: &str) {
    let kubeconfig = cluster.kubeconfig.display();
    let namespace = &cluster.api.namespace;
    let text = format!(
        "[app]\nname = \"t\"\n[cluster]\nkubeconfig = \"{kubeconfig}\"\nnamespace = \"{namespace}\"\n\
         [log]\nformat = \"json\"\nlevel = \"{level}\"\n[profiles.default]\nimage = \"registry.example/none:1\"\n\
         command = [\"sleep\", \"infinity\"]\nexecutors = {executors}\n{rest}"
    );
    fs::write(cluster.directory.path().join("reload.toml"), text).unwrap();
}

/// The program with the default action for SIGHUP: tests that run under nohup ignore it, and so would the driver.
fn heeding_hangups() -> Command {
    let program = boatswain();
    let mut command = Command::new("env");
    for (name, _) in program.get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command
        .arg("--default-signal=HUP")
        .arg(program.get_program());
    command
}

fn start(cluster: &Cluster, log: &str) -> Driver {
    let mut command = heeding_hangups();
    command
        .arg("run")
        .arg("--config")
        .arg(cluster.directory.path().join("reload.toml"));
    let sets = ["poll.interval=1s", "shutdown.on_signal=hand-over"];
    let mut driver = Driver::run(&mut command, &sets, &cluster.file(log));
    driver.says("application taken over");
    driver
}

/// Sends SIGHUP and waits for this line once more than before.
fn reads(driver: &mut Driver, message: &str) -> serde_json::Value {
    let before = driver.log().count(message);
    driver.signal(Signal::HUP);
    driver.until(message, |log| {
        log.lines(message).get(before).map(|line| (*line).clone())
    })
}

// spec: C-6, O-80
#[test]
fn a_configuration_that_is_read_again_takes_effect_whole_or_not_at_all() {
    let cluster = Cluster::any();
    write(&cluster, 2, "");
    let mut driver = start(&cluster, "first");
    cluster.converges(2);

    // Twice nothing: no change, and a mistake beside a new target.
    assert_eq!(reads(&mut driver, READ)["changed"], "nothing");
    write(&cluster, 3, "max_executers = 9\nslots = \"many\"\n");
    let refused = reads(&mut driver, REFUSED);
    assert_eq!(refused["mistakes"], 2);
    let mistakes = driver.log().count("mistake in the configuration");
    assert_eq!(mistakes, 2);

    // A target, a new profile and a log level take effect; a variable does not, nor does an
    // interval that is overridden.
    let rest = "env = { PASSWORD = \"hunter2\" }\n[poll]\ninterval = \"9s\"\n[profiles.large]\nexecutors = 1\n\
                image = \"registry.example/none:1\"\ncommand = [\"sleep\", \"infinity\"]\n";
    write_with(&cluster, "debug", 3, rest);
    let read = reads(&mut driver, READ);
    let changed =
        "log.level: \"info\" → \"debug\", profiles.default.executors: 2 → 3, profiles.large: added";
    assert_eq!(read["changed"], changed);
    assert_eq!(driver.says(LATER)["keys"], "profiles.default.env");
    assert!(!driver.stderr().contains("hunter2"));
    cluster.converges(4);
    driver.says("poll completed");
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(75));
}

// spec: O-80, O-30
#[test]
fn a_target_of_the_configuration_is_no_longer_kept_in_the_record() {
    let cluster = Cluster::any();
    write(&cluster, 1, "");
    let mut driver = start(&cluster, "first");
    cluster.converges(1);
    write(&cluster, 3, "");
    reads(&mut driver, READ);
    cluster.converges(3);
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(75));
    let record = cluster.api.config_map(RECORD).unwrap();
    let kept = &record["data"]["targets"];
    assert!(kept.is_null() || kept == "{}", "{kept}");
    write(&cluster, 2, "");
    let mut driver = start(&cluster, "second");
    cluster.converges(2);
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(75));
}

// spec: O-81
#[test]
fn a_driver_that_starts_or_ignores_sighup_changes_nothing() {
    let Some(cluster) = Cluster::own() else {
        return;
    };
    write(&cluster, 1, "");
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("trap '' HUP; exec \"$0\" \"$@\"")
        .arg(boatswain().get_program());
    command
        .arg("run")
        .arg("--config")
        .arg(cluster.directory.path().join("reload.toml"));
    let sets = ["shutdown.on_signal=end"];
    let mut ignoring = Driver::run(&mut command, &sets, &cluster.file("ignoring"));
    ignoring.says("application taken over");
    cluster.converges(1);
    write(&cluster, 2, "");
    ignoring.signal(Signal::HUP);
    ignoring.signal(Signal::TERM);
    assert_eq!(ignoring.exit(), Some(0));
    assert_eq!(ignoring.log().count(READ), 0);

    cluster.freeze();
    let mut command = heeding_hangups();
    command
        .arg("run")
        .arg("--config")
        .arg(cluster.directory.path().join("reload.toml"));
    let mut starting = Driver::run(&mut command, &sets, &cluster.file("starting"));
    let status = format!("/proc/{}/status", starting.pid());
    until("it listens for SIGHUP", || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        (caught & 1 == 1).then_some(())
    });
    write(&cluster, 1, "");
    starting.signal(Signal::HUP);
    starting.says("the configuration was not read again: the driver starts, stands by or ends");
    cluster.thaw();
    cluster.converges(2);
    starting.signal(Signal::TERM);
    assert_eq!(starting.exit(), Some(0));
}

// spec: O-81, O-10
#[test]
fn a_terminal_that_is_closed_stops_the_driver_as_sigterm_does() {
    let cluster = Cluster::any();
    write(&cluster, 2, "");
    let log = cluster.file("in-a-terminal");
    let program = heeding_hangups();
    let words = [program.get_program()]
        .into_iter()
        .chain(program.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = format!(
        "exec {} run --config {} --set shutdown.on_signal=hand-over 2> {}",
        words.join(" "),
        cluster.directory.path().join("reload.toml").display(),
        log.display()
    );
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--command", &line, "/dev/null"]);
    for (name, _) in boatswain().get_envs().filter(|(_, value)| value.is_none()) {
        terminal.env_remove(name);
    }
    let mut terminal = Program::start("terminal", &mut terminal, &cluster.file("terminal"));
    let told = |message: &'static str| {
        until(message, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.contains(message).then_some(text)
        })
    };
    told("first list completed");
    cluster.converges(2);
    terminal.kill();
    let text = told("handed over: executors stay for the successor");
    assert!(text.contains("\"signal\":\"SIGHUP\""), "{text}");
    assert!(!text.contains("second signal: exiting"), "{text}");
    cluster.converges(2);
}
