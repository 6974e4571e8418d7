//! For tests of several layers: configurations, calls to an embedded cluster, and actors that speak with each other.

mod speaking;

pub(crate) use crate::kubernetes::testing::{calls_spec, calls_to, finish_deletion};
pub(crate) use crate::model::testing::*;
pub(crate) use speaking::{Backend, TIMING, backend, backend_with, metrics, profiles, store};

use crate::actors::profile_messages::{AddedProfile, Bounds};
use crate::config::Config;
use crate::kubernetes::ProfileSpec;

pub(crate) fn config(text: &str) -> Config {
    Config::from_toml(text, "a.toml", [], &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// A profile that was added while the driver ran.
pub(crate) fn added_profile(name: &str) -> AddedProfile {
    AddedProfile {
        name: name.into(),
        kept: None,
        executors: 2,
        bounds: Bounds {
            slots: 1,
            least: 2,
            most: 9,
        },
        spec: ProfileSpec::default(),
        max_pending: None,
        min_available: None,
    }
}
