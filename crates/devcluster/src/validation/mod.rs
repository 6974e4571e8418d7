//! Defaulting and validation.

pub(crate) mod defaults;
pub(crate) mod names;
mod rules;
pub(crate) mod validate;
pub(crate) mod validate_meta;
mod validate_placement;
pub(crate) mod validate_pod;
pub(crate) mod validate_pod_change;
mod validate_resources;
mod validate_security;
