//! Pure functions that apply writes to the state, resource quotas included.

pub(crate) mod admission;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod evict;
pub(crate) mod json_patch;
pub(crate) mod limit_ranges;
pub(crate) mod patch;
pub(crate) mod quota;
pub(crate) mod quota_usage;
mod resize;
pub(crate) mod scale;
pub(crate) mod strategic;
pub(crate) mod update;
pub(crate) mod write;
pub(crate) mod write_options;
