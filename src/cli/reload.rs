//! Reads the configuration again while the driver runs (spec C-6).

use std::fs;
use std::io;

use boatswain_agent::file;
use tokio::sync::mpsc;

use super::run::ConfigArgs;
use super::with_causes;
use crate::config::{self, Changes, ConfigError, Reading};
use crate::driver::{self, Handle};
use crate::telemetry::Level;

const REFUSED: &str = "the configuration was not read again: nothing has changed";

/// What is needed to read the configuration again.
pub(super) struct Reload {
    pub args: ConfigArgs,
    /// The configuration that applies.
    pub reading: Reading,
    pub level: Level,
    pub driver: Handle,
}

impl Reload {
    /// Reads the configuration each time that it is asked to.
    pub async fn run(mut self, mut asked: mpsc::Receiver<()>) {
        while asked.recv().await.is_some() {
            self.once().await;
        }
    }

    async fn once(&mut self) {
        let Some(changes) = self.read().await else {
            return;
        };
        if changes.taken.is_empty() && changes.added.is_empty() {
            tell(&changes);
            return;
        }
        match self.driver.reconfigure(Box::new(changes)).await {
            None => tracing::warn!(
                hint = "send SIGHUP again, or restart the driver, once it runs",
                "the configuration was not read again: the driver starts, stands by or ends"
            ),
            Some(Err(error)) => tracing::error!(%error, "{REFUSED}"),
            Some(Ok(changes)) => {
                let level = &changes.reading.config.log.level;
                if let Err(error) = self.level.set(level) {
                    tracing::error!(%error, "the log level stays as it is");
                }
                tell(&changes);
                self.reading = changes.reading;
            }
        }
    }

    /// What has changed; `None` after logging why it cannot take effect.
    async fn read(&self) -> Option<Changes> {
        let args = self.args.clone();
        let read = match file::aside(move || read(&args)).await.flatten() {
            Ok(read) => read,
            Err(error) => {
                let file = self.args.file().display();
                tracing::error!(%file, %error, "{REFUSED}");
                return None;
            }
        };
        let compared = read.and_then(|(read, shapes)| {
            let changes = config::compare(&self.reading, &read)?;
            Ok((shapes, changes))
        });
        let (shapes, changes) = match compared {
            Ok(both) => both,
            Err(error) => {
                for mistake in &error.mistakes {
                    tracing::error!(
                        key = mistake.key,
                        error = error.shown(mistake),
                        "mistake in the configuration"
                    );
                }
                tracing::error!(mistakes = error.mistakes.len(), "{REFUSED}");
                return None;
            }
        };
        if let Err(error) = shapes {
            tracing::error!(error, "{REFUSED}");
            return None;
        }
        Some(changes)
    }
}

/// What is configured, and why no pods can be made of it, if so.
type Read = Result<(Reading, Result<(), String>), ConfigError>;

/// Reads all files of the configuration. May block the thread.
fn read(args: &ConfigArgs) -> io::Result<Read> {
    // The text of a pipe was read at the start.
    if fs::metadata(args.file()).is_ok_and(|file| !file.is_file()) {
        return Err(io::Error::other(
            "it was read from a pipe: name a file with --config",
        ));
    }
    Ok(args.explain().map(|(config, effective)| {
        let shapes = driver::shapes(&config).map(drop);
        let shapes = shapes.map_err(|error| with_causes(&error));
        (Reading { config, effective }, shapes)
    }))
}

/// Says what has taken effect, and what has not.
fn tell(changes: &Changes) {
    let taken = changes.taken.iter().map(ToString::to_string);
    let added = (changes.added.iter()).map(|profile| format!("profiles.{profile}: added"));
    let taken: Vec<String> = taken.chain(added).collect();
    let changed = match taken.is_empty() {
        true => "nothing".to_owned(),
        false => taken.join(", "),
    };
    tracing::info!(changed, "the configuration was read again");
    if !changes.at_next_start.is_empty() {
        let keys: Vec<&str> = changes.at_next_start.iter().map(String::as_str).collect();
        let keys = keys.join(", ");
        tracing::warn!(
            keys,
            "changed in the configuration, but takes effect at the next start"
        );
    }
}
