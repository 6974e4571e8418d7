//! Has changes of the configuration take effect while the driver runs (spec C-6).
//!
//! Only profiles can be refused, so they come first. Each other actor gets the settings that it has,
//! changed or not.

use std::sync::Arc;

use crate::actors::driver_backend::messages::{Reconfigure, RefusedProfile};
use crate::actors::lifecycle_manager::messages::NewPolicy;
use crate::actors::poll_source::messages::NewInterval;
use crate::actors::profile_messages::NewConfig;
use crate::config::{Changes, Config};

use super::actors::Actors;
use super::settings;

impl Actors {
    /// Returns what has taken effect: a new profile that was added by the API before stays as it is.
    pub(super) async fn reconfigure(
        &self,
        mut changes: Box<Changes>,
    ) -> Result<Box<Changes>, RefusedProfile> {
        let config = &changes.reading.config;
        let added = (changes.added.iter())
            .filter_map(|name| {
                Some(settings::added(
                    name.clone(),
                    config.profiles.get(name)?.clone(),
                ))
            })
            .collect();
        let known = self.api.backend.send(Reconfigure {
            added,
            config: Arc::new(config.clone()),
            targets: changes.targets.clone(),
        });
        for profile in known.await.map_err(|_| RefusedProfile::NotNow)?? {
            changes.leave(&profile);
        }
        self.send_settings(&changes.reading.config);
        Ok(changes)
    }

    fn send_settings(&self, config: &Config) {
        // Otherwise the lists have an interval of their own.
        if config.poll.enabled {
            let (interval, is_firm) = (config.poll.interval, false);
            self.poll.do_send(NewInterval { interval, is_firm });
        }
        self.lifecycle
            .do_send(NewPolicy(settings::keep_policy(&config.lifecycle)));
        self.provisioner
            .limits
            .do_send(settings::new_limits(config));
        self.registry.do_send(NewConfig(Arc::new(config.clone())));
    }
}
