//! The keys of the application record.

/// The whole record, in errors.
pub(super) const ALL: &str = "*";
pub(super) const FORMAT: &str = "format";
pub(super) const APP_ID: &str = "app-id";
/// What people call the application.
pub(super) const APP_NAME: &str = "app-name";
pub(super) const INCARNATION: &str = "incarnation";
pub(super) const HOLDER: &str = "holder";
pub(super) const HOLDER_POD: &str = "holder-pod";
pub(super) const ORIGIN: &str = "origin";
pub(super) const TARGETS: &str = "targets";
pub(super) const HELD: &str = "held";
pub(super) const PROFILES: &str = "profiles";
pub(super) const PROFILE_PROOFS: &str = "profile-proofs";
pub(super) const REMOVING: &str = "profiles-being-removed";
pub(super) const RESERVED: &str = "reserved";
pub(super) const ENDED: &str = "ended";
pub(super) const BOUND: &str = "bound";
pub(super) const REPORTED: &str = "reported";
pub(super) const ENDS: &str = "ends";
pub(super) const BACKOFFS: &str = "backoffs";
pub(super) const FAILURES: &str = "failures";
pub(super) const COUNTED: &str = "failures-counted";
pub(super) const MADE: &str = "made";
pub(super) const FINISHED: &str = "finished";
pub(super) const FINISHED_WHY: &str = "finished-why";
