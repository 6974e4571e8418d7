//! An executor's session as the API shows it (spec O-43).

use std::collections::BTreeMap;

use serde::Serialize;

use super::registry::{About, Account, Reach};
use crate::model::Tick;
use boatswain_agent::protocol::Usage;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionView {
    pub session: u64,
    /// `connected`, `asking` (without a connection) or `disabled`.
    pub state: &'static str,
    pub heard_seconds_ago: u64,
    /// The number of busy slots; `None` before the first heartbeat.
    pub busy_slots: Option<u32>,
    #[serde(flatten)]
    pub about: About,
    /// The metrics of the newest heartbeat that had any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// What its container used at the newest heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl SessionView {
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
            usage: account.usage,
        }
    }
}
