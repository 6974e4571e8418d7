//! `boatswain run`: reads the configuration and runs a driver until it ends or a signal stops it.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use boatswain_agent::logs::Logs;
use tokio::sync::mpsc;

use super::cluster::Cluster;
use super::reload::Reload;
use super::signals::{HANG_UP, Signals, has_terminal};
use super::{fail_with, in_system, progress, say};
use crate::config::{Config, ConfigError, Effective, Reading};
use crate::driver::{self, Remainder, Remaining};
use crate::exit::Exit;
use crate::telemetry::{self, Level};

/// Supervisors, terminals and shells deliver one signal twice: within this time it is one (spec O-109).
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// The configuration and its overrides.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ConfigArgs {
    /// Configuration file; see config/reference.toml for all keys
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Override a key, as in --set poll.interval=10s; takes precedence over
    /// BOATSWAIN__POLL__INTERVAL in the environment, which takes precedence over the file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl ConfigArgs {
    /// Like [`Self::explain`], with the environment of a driver's pod instead of this process's. The pod's name is not
    /// known yet, but that it has one.
    pub(super) fn for_a_pod(&self) -> Result<(Config, Effective), ConfigError> {
        Config::explain(&self.config, [of_pod()], &self.sets)
    }

    /// The same without overrides.
    pub(super) fn of_file(&self) -> Result<(Config, Effective), ConfigError> {
        Config::explain(&self.config, [of_pod()], &[])
    }

    pub(super) fn file(&self) -> &Path {
        &self.config
    }

    pub(super) fn sets(&self) -> &[String] {
        &self.sets
    }

    /// The configuration, with the origin of each value.
    pub(super) fn explain(&self) -> Result<(Config, Effective), ConfigError> {
        // Variables that are not Unicode cannot be overrides.
        let env = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Config::explain(&self.config, env, &self.sets)
    }
}

/// What the environment of a driver's pod says, and some configurations need.
fn of_pod() -> (String, String) {
    ("BOATSWAIN__DRIVER__POD_NAME".to_owned(), "pod".to_owned())
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the objects that a first start would create in its first round, as YAML for kubectl
    /// create -f, and exit. No cluster is contacted: a start that finds its application record and
    /// executors creates fewer. If app.id is not set, a random one is shown
    #[arg(long)]
    dry_run: bool,
}

/// Runs a driver until it ends.
pub(super) fn run(args: &RunArgs) -> Exit {
    let reading = match args.config.explain() {
        Ok((config, effective)) => Reading { config, effective },
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    let config = &reading.config;
    if args.dry_run {
        let shown = driver::dry_run(config).map(say);
        return shown.unwrap_or_else(|error| fail_with(Exit::Configuration, &error));
    }
    // Before any request to a cluster.
    if let Err(error) = driver::shapes(config) {
        return fail_with(Exit::Configuration, &error);
    }
    let (level, logs) = match telemetry::init(config.log.format, &config.log.level) {
        Ok(set_up) => set_up,
        Err(error) => return fail_with(Exit::Bug, &error),
    };
    telemetry::exit_on_panic(Some(logs.clone()));
    let exit = in_system(drive(args.config.clone(), reading, level, logs.clone()));
    logs.finish();
    exit
}

/// Runs the driver. The first signal stops it, a second SIGTERM or SIGINT ends the process at once (spec
/// O-109). SIGHUP has the configuration read again (spec C-6).
async fn drive(args: ConfigArgs, reading: Reading, level: Level, logs: Logs) -> Exit {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "cannot listen for signals");
            return Exit::Bug;
        }
    };
    let had_terminal = has_terminal();
    let on_terminal = telemetry::on_terminal(reading.config.log.format);
    let config = reading.config.clone();
    let cluster = match Cluster::start(&config) {
        Ok(cluster) => cluster,
        Err(exit) => return exit,
    };
    let (handle, running) = driver::start(config.clone(), cluster.clients(&config));
    let mut running = pin!(async {
        let exit = running.await;
        cluster.leave().await;
        exit
    });
    // One request that waits stands for all later ones.
    let (reload, asked) = mpsc::channel(1);
    let driver = handle.clone();
    let reloading = Reload {
        args,
        reading,
        level,
        driver,
    };
    actix::spawn(reloading.run(asked));
    let mut told: Option<Instant> = None;
    let mut remainder = None;
    let mut asked_what_is_left = pin!(handle.remainder());
    let mut is_asked = true;
    let mut progress = pin!(progress::show(handle.clone(), logs));
    let mut progressing = on_terminal;
    loop {
        tokio::select! {
            biased;
            exit = &mut running => return exit,
            left = &mut asked_what_is_left, if is_asked => (remainder, is_asked) = (left, false),
            signal = signals.next() => {
                // It also comes when the terminal is closed in which the driver was started.
                if signal == HANG_UP && has_terminal() == had_terminal {
                    let _ = reload.try_send(());
                    continue;
                }
                // A terminal that is closed may send it twice.
                if told.is_some_and(|told| signal == HANG_UP || told.elapsed() < ONE_SIGNAL) {
                    continue;
                }
                if told.is_some() {
                    say_what_is_left(signal, remainder.as_ref().and_then(Remainder::now));
                    return Exit::Interrupted;
                }
                tracing::info!(signal, "stopping; a second signal ends the process at once");
                told = Some(Instant::now());
                progressing = false;
                handle.stop();
            }
            () = &mut progress, if progressing => progressing = false,
        }
    }
}

/// `left`: `None` if the driver has not taken over, and knows no executor.
fn say_what_is_left(signal: &str, left: Option<Remaining>) {
    let Some(left) = left else {
        tracing::warn!(
            signal,
            executors = "unknown",
            "second signal: exiting at once, without cleaning up"
        );
        return;
    };
    tracing::warn!(
        signal,
        executors = left.executors,
        terminating = left.terminating,
        removed_by = left.removed_by,
        clean = left.clean,
        "second signal: exiting at once, without cleaning up"
    );
}
