//! Defaulting and validation.

pub(crate) mod defaults;
pub(crate) mod names;
pub(crate) mod validate;
pub(crate) mod validate_failure_policy;
pub(crate) mod validate_meta;
pub(crate) mod validate_pod;
pub(crate) mod validate_pod_change;
