//! For tests of several layers: configurations, calls to an embedded cluster, and actors that speak with each other.

mod speaking;

pub(crate) use crate::kubernetes::testing::{calls_spec, calls_to, finish_deletion};
pub(crate) use crate::model::testing::*;
pub(crate) use speaking::{Backend, Habits, backend, backend_with, metrics, profiles, store};

use crate::config::Config;

pub(crate) fn config(text: &str) -> Config {
    Config::from_toml(text, "a.toml", [], &[]).unwrap_or_else(|error| panic!("{error}"))
}
