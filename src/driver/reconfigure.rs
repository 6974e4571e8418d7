//! Has changes of the configuration take effect while the driver runs (spec C-6).
//!
//! Only profiles can be refused, so they come first. Each other actor gets the settings that it has,
//! changed or not.

use std::collections::BTreeMap;

use crate::actors::autoscaler::messages::NewSettings;
use crate::actors::commands::messages::Reconfigure;
use crate::actors::executor_registry::messages::Timeouts;
use crate::actors::lifecycle_manager::messages::NewPolicy;
use crate::actors::poll_source::messages::NewInterval;
use crate::actors::profiles::messages::{AddConfigured, RefusedProfile};
use crate::config::{Changes, Config};
use crate::model::ProfileName;

use super::actors::Actors;
use super::settings;

impl Actors {
    /// Returns what has taken effect: a new profile that was added by the API before stays as it is.
    pub(super) async fn reconfigure(
        &self,
        mut changes: Box<Changes>,
    ) -> Result<Box<Changes>, RefusedProfile> {
        let profiles = &changes.reading.config.profiles;
        let added = (changes.added.iter())
            .filter_map(|name| Some((name.clone(), settings::added(profiles.get(name)?.clone()))))
            .collect();
        let known = self.api.profiles.send(AddConfigured(added)).await;
        for profile in known.map_err(|_| RefusedProfile::NotNow)?? {
            changes.leave(&profile);
        }
        let targets = changes.targets.clone();
        self.send_settings(&changes.reading.config, targets).await;
        Ok(changes)
    }

    async fn send_settings(&self, config: &Config, targets: BTreeMap<ProfileName, u32>) {
        // Otherwise the lists have an interval of their own.
        if config.poll.enabled {
            self.poll.do_send(NewInterval(config.poll.interval));
        }
        self.lifecycle
            .do_send(NewPolicy(settings::keep_policy(&config.lifecycle)));
        self.provisioner
            .limits
            .do_send(settings::new_limits(config));
        let sessions = &config.backend.sessions;
        self.registry.do_send(Timeouts {
            heartbeat: sessions.heartbeat_timeout,
            loss_reason: sessions.loss_reason_timeout,
            mass_loss: sessions.mass_loss,
            registration: config.allocation.registration_timeout,
        });
        let most: BTreeMap<ProfileName, u32> = (config.profiles.iter())
            .map(|(name, profile)| (name.clone(), profile.max_executors))
            .collect();
        self.api.autoscaler.do_send(NewSettings {
            settings: settings::scaling(&config.autoscaling),
            most: most.clone(),
        });
        let reconfigure = Reconfigure {
            kill_grace: config.backend.kill_grace,
            most,
            targets,
        };
        // Commands has stopped only if the driver is ending.
        let _ = self.api.commands.send(reconfigure).await;
    }
}
