//! `boatswain run`: from a configuration to a running driver, and from a signal to its end.

use std::io;
use std::path::PathBuf;
use std::pin::pin;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{complain, progress, say};
use crate::config::{Config, ConfigError, Effective};
use crate::driver;
use crate::exit::Exit;
use crate::telemetry;

/// Which configuration.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// The configuration file; see config/reference.toml for every key.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Overrides a key, as --set poll.interval=10s; wins over BOATSWAIN__POLL__INTERVAL in the
    /// environment, which wins over the file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

impl ConfigArgs {
    /// The configuration, with where each value came from.
    pub(super) fn explain(&self) -> Result<(Config, Effective), ConfigError> {
        // What is not Unicode cannot be an override that means something.
        let env = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Config::explain(&self.config, env, &self.sets)
    }
}

/// The arguments of `boatswain run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print what a first start would ask for in its first round, as YAML for kubectl create -f, and do nothing. No
    /// cluster is asked, so it is what happens where nothing is there yet: a start that finds its record and executors
    /// asks for less. An app.id that is not set is made up anew.
    #[arg(long)]
    dry_run: bool,
}

/// Runs a driver until it ends.
pub(super) fn run(args: &RunArgs) -> Exit {
    let config = match args.config.explain() {
        Ok((config, _)) => config,
        Err(error) => {
            complain(error);
            return Exit::Configuration;
        }
    };
    if args.dry_run {
        return match driver::dry_run(&config) {
            Ok(yaml) => say(yaml),
            Err(error) => {
                complain(error);
                Exit::Configuration
            }
        };
    }
    // Before a cluster is asked for anything.
    if let Err(error) = driver::shapes(&config) {
        complain(error);
        return Exit::Configuration;
    }
    if let Err(error) = telemetry::init(config.log.format, &config.log.level) {
        complain(error);
        return Exit::Bug;
    }
    telemetry::exit_on_panic();
    let on_terminal = telemetry::on_terminal(config.log.format);
    actix::System::new().block_on(drive(config, on_terminal))
}

/// The driver, told to stop by the first signal and left to itself by the second (spec O-11).
async fn drive(config: Config, on_terminal: bool) -> Exit {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "signals cannot be listened for");
            return Exit::Bug;
        }
    };
    let (handle, running) = driver::start(config);
    let mut running = pin!(running);
    let mut told = false;
    let mut progress = pin!(progress::show(handle.clone()));
    let mut progressing = on_terminal;
    loop {
        tokio::select! {
            biased;
            exit = &mut running => return exit,
            signal = signals.next() => {
                if told {
                    tracing::warn!(signal, "a second signal, ending at once: what is left is left");
                    return Exit::Interrupted;
                }
                tracing::info!(signal, "stopping; a second signal ends it at once");
                told = true;
                progressing = false;
                handle.stop();
            }
            () = &mut progress, if progressing => progressing = false,
        }
    }
}

/// The signals that ask a process to stop.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one's name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
