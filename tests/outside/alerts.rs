//! Tests that each alert of the chart fires by a real Prometheus when what it is about happens, and no other one does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::cluster::Cluster;
use super::driver::Driver;
use super::listeners::get;
use super::local_run::Local;
use super::process::{Program, until};
use super::talking::{agent_and_child, free_address, registered};
use super::untested;

const ALERTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/deploy/chart/files/alerts.yaml"
);

/// Four times Prometheus' interval.
const SOON: Duration = Duration::from_secs(2);

const SETTINGS: &str = "
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yaml]
scrape_configs: [{job_name: boatswain, static_configs: [{targets: [\"TARGET\"]}]}]
";

/// A Prometheus that reads a driver's metrics.
struct Prometheus {
    address: String,
    _program: Program,
}

impl Prometheus {
    /// `None` where Prometheus (Debian's `prometheus`) is not installed, which is said, and fails in CI. `driver`: where the
    /// driver's metrics are.
    fn start(folder: &Path, driver: &str) -> Option<Self> {
        if !untested::has("prometheus") {
            return None;
        }
        let settings = folder.join("prometheus.yml");
        fs::write(&settings, SETTINGS.replace("TARGET", driver)).unwrap();
        fs::write(folder.join("alerts.yaml"), hastened()).unwrap();
        let address = free_address();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", settings.display()));
        command.arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ));
        command.arg(format!("--web.listen-address={address}"));
        command.args(["--log.level=warn", "--storage.tsdb.retention.time=2h"]);
        let program = Program::start("Prometheus", &mut command, &folder.join("prometheus.log"));
        let prometheus = Self {
            address,
            _program: program,
        };
        until("Prometheus is ready", || {
            let (status, _) = get(&prometheus.address, "/-/ready", "")?;
            (status == 200).then_some(())
        });
        Some(prometheus)
    }

    /// The labels of each series that this query finds.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let (_, body) = get(&self.address, &format!("/api/v1/query?query={query}"), "")?;
        let found: Value = serde_json::from_str(&body).ok()?;
        let series = found["data"]["result"].as_array()?.iter();
        Some(series.map(|one| one["metric"].clone()).collect())
    }

    fn firing(&self) -> Option<BTreeSet<String>> {
        let firing = self.query("count by (alertname) (ALERTS{alertstate=\"firing\"})")?;
        let names = firing.iter().filter_map(|one| one["alertname"].as_str());
        Some(names.map(str::to_owned).collect())
    }

    /// Whether it has read the metrics of the driver of this incarnation.
    fn knows(&self, incarnation: &str) -> Option<()> {
        let found = self.query(&format!(
            "boatswain_build_info{{incarnation=\"{incarnation}\"}}"
        ))?;
        (!found.is_empty()).then_some(())
    }

    /// Waits until exactly these fire, and go on to.
    fn fires(&self, wanted: &[&str]) {
        let wanted: BTreeSet<String> = wanted.iter().map(|one| format!("Boatswain{one}")).collect();
        until(&format!("{wanted:?} fire"), || {
            (self.firing()? == wanted).then_some(())
        });
        thread::sleep(SOON);
        assert_eq!(self.firing(), Some(wanted));
    }
}

/// The chart's alerts. They wait a second for each minute, and look at 15 s where they look at five minutes.
fn hastened() -> String {
    let alerts = fs::read_to_string(ALERTS).unwrap();
    let hastened = alerts
        .lines()
        .map(|line| match line.trim_start().strip_prefix("for: ") {
            Some(time) => line.replace(time, &time.replace('m', "s")),
            None => line.replace("[5m]", "[15s]"),
        });
    hastened.map(|line| line + "\n").collect()
}

fn fail_three(cluster: &Cluster) {
    for pod in cluster.api.pods().iter().take(3) {
        cluster.api.kill_for_memory(&pod.name);
    }
}

// spec: O-41
#[test]
fn missing_failing_and_failed_executors_a_silent_api_server_and_absent_drivers_are_alerted() {
    let Some(cluster) = Cluster::own() else {
        return;
    };
    let driver = free_address();
    let Some(prometheus) = Prometheus::start(cluster.directory.path(), &driver) else {
        return;
    };
    prometheus.fires(&["DriverAbsent"]);
    let metrics = format!("metrics.listen={driver}");
    let sets = [
        &*metrics,
        "failures.max=5",
        "failures.on_exceeded=profile",
        "failures.stable_after=1s",
        "cluster.request_timeout=1s",
        "shutdown.on_signal=hand-over",
    ];
    let start = |executors| Driver::start(&cluster, executors, &sets);
    let mut running = start(4);
    cluster.converges(4);
    prometheus.fires(&[]);

    cluster.api.create_quota("small", 4);
    running.kill();
    running = start(6);
    prometheus.fires(&["ExecutorsMissing", "RequestsPaused"]);
    cluster.api.delete("resourcequotas", "small");
    cluster.converges(6);
    prometheus.fires(&[]);

    cluster.freeze();
    prometheus.fires(&["ApiServerUnreachable"]);
    cluster.thaw();
    prometheus.fires(&[]);

    // All at once: Prometheus has seen none of these failures begin.
    fail_three(&cluster);
    prometheus.fires(&["ExecutorsFailing"]);
    cluster.converges(6);
    fail_three(&cluster);
    running.says(
        "a profile has failed too often: its executors go, and the application goes on without it",
    );
    prometheus.fires(&["ExecutorsFailing", "ProfileFailed"]);

    for _ in 0..5 {
        running.kill();
        running = start(6);
        let scraped = running.says("application taken over")["incarnation"].to_string();
        until("the driver is scraped", || prometheus.knows(&scraped));
    }
    prometheus.fires(&["DriverRestarts", "ExecutorsFailing", "ProfileFailed"]);
}

// spec: O-41, B-58
#[test]
fn a_driver_that_suspects_itself_is_alerted() {
    let (driver, folder) = (free_address(), tempfile::tempdir().unwrap());
    let metrics = format!("metrics.listen={driver}");
    let mut local = Local::start(&[
        &metrics,
        "backend.heartbeat_interval=500ms",
        "backend.heartbeat_timeout=2s",
    ]);
    registered(&mut local, &[1, 2, 3, 4]);
    let Some(prometheus) = Prometheus::start(folder.path(), &driver) else {
        return;
    };
    prometheus.fires(&[]);
    let agents: Vec<_> = (1..=4)
        .map(|id| agent_and_child(&mut local, id).0)
        .collect();
    for agent in &agents {
        kill_process(*agent, Signal::STOP).unwrap();
    }
    prometheus.fires(&["DriverDegraded"]);
    for agent in &agents {
        kill_process(*agent, Signal::CONT).unwrap();
    }
    prometheus.fires(&[]);
}
