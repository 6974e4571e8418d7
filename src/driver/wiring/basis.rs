//! What every part of the wiring reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::{Config, Where};
use crate::driver::listener::{self, Listener};
use crate::driver::owned_resources;
use crate::driver::profile_proofs::ProfileProofs;
use crate::driver::provisioners;
use crate::driver::succession::{self, Application};
use crate::kubernetes::SetKind;
use crate::model::delivery::Timing;
use crate::model::{Now, ProfileName};

pub(super) struct Basis<'a> {
    pub(super) config: Arc<Config>,
    pub(super) application: &'a Application,
    pub(super) listener: Option<&'a Listener>,
    pub(super) clock: Clock,
    pub(super) now: Now,
    pub(super) timing: Timing,
    pub(super) prefix: Arc<str>,
    /// The kind of set that makes the pods; `None` if the driver creates them itself.
    pub(super) set_kind: Option<SetKind>,
    /// The wanted executors of each profile, without regard to a hold.
    pub(super) targets: BTreeMap<ProfileName, u32>,
    /// The URL for executors; `None` without a listener.
    pub(super) driver_url: Option<String>,
    /// The path of the agent's binary, if executors are local processes.
    pub(super) agent: Option<String>,
    pub(super) has_claims: bool,
    /// How profiles are read that are added later.
    pub(super) profile_place: Where,
    /// How a successor is shown that they were added by a driver.
    pub(super) profile_proofs: ProfileProofs,
}

impl<'a> Basis<'a> {
    pub(super) fn new(
        config: Arc<Config>,
        application: &'a Application,
        listener: Option<&'a Listener>,
        clock: Clock,
    ) -> Self {
        let url = |listener: &Listener| {
            let (prefix, namespace) = (&application.prefix, &application.namespace);
            listener::url(&config, listener.address, prefix, namespace)
        };
        Self {
            application,
            listener,
            clock,
            now: clock.now(),
            timing: Timing {
                interval: config.lifecycle.interval,
                quiet_latency: config.tuning.quiet_latency,
                min_gap: config.tuning.min_gap,
                max_buffered: config.tuning.max_buffered as usize,
            },
            prefix: Arc::from(application.prefix.as_str()),
            set_kind: provisioners::set_kind(config.allocation.strategy),
            targets: succession::targets(&config, &application.record),
            driver_url: listener.map(url),
            agent: listener.and_then(|_| listener::agent(&config)),
            has_claims: owned_resources::has_claims(&config),
            profile_place: Where::of(&config),
            profile_proofs: ProfileProofs::of(&config),
            config,
        }
    }

    pub(super) fn must_register(&self) -> bool {
        self.config.must_register()
    }
}
