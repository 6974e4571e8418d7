//! Reads the configuration again while the driver runs (spec C-6).

use std::fs;

use tokio::sync::mpsc;

use super::run::ConfigArgs;
use super::with_causes;
use crate::config::{self, Changes, Reading};
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
        let Some(changes) = self.read() else { return };
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
    fn read(&self) -> Option<Changes> {
        let file = self.args.file();
        // Reading a pipe could wait forever, and its text was read at the start.
        if fs::metadata(file).is_ok_and(|file| !file.is_file()) {
            let file = file.display();
            tracing::error!(%file, hint = "name a file with --config", "{REFUSED}: it was read from a pipe");
            return None;
        }
        let read = self.args.explain().and_then(|(config, effective)| {
            let read = Reading { config, effective };
            let changes = config::compare(&self.reading, &read)?;
            Ok((read, changes))
        });
        let (read, changes) = match read {
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
        if let Err(error) = driver::shapes(&read.config) {
            tracing::error!(error = with_causes(&error), "{REFUSED}");
            return None;
        }
        Some(changes)
    }
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
