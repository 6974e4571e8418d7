//! An executor's session, as the API shows it (spec O-43).

use std::collections::BTreeMap;

use serde::Serialize;

use super::registry::{About, Account, Reach};
use crate::model::Tick;

/// An executor's session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionView {
    /// The session's number.
    pub session: u64,
    /// `connected`, `asking` (without a connection) or `disabled`.
    pub state: &'static str,
    /// The seconds since the last sign of life.
    pub heard_seconds_ago: u64,
    /// How many of its slots have work; `None` if it has not said.
    pub busy_slots: Option<u32>,
    /// What it said when it registered.
    #[serde(flatten)]
    pub about: About,
    /// Its own figures.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

impl SessionView {
    /// How an account is shown now.
    pub fn of(account: &Account, now: Tick) -> Self {
        Self {
            session: account.session,
            state: match account.reach {
                Reach::Connected(_) => "connected",
                Reach::Asking => "asking",
                Reach::Lost(_) => "disabled",
            },
            heard_seconds_ago: now.since(account.last_sign).as_secs(),
            busy_slots: account.busy_slots,
            about: account.about.clone(),
            metrics: account.metrics.clone(),
        }
    }
}
