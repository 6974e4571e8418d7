//! For tests of several layers: configurations, calls to an embedded cluster, and actors that speak with each other.

mod plain;
mod speaking;

pub(crate) use crate::model::testing::*;
pub(crate) use plain::{calls_spec, calls_to, config, finish_deletion};
pub(crate) use speaking::{Backend, TIMING, backend, store};
