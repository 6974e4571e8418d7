//! Roller: replaces executors one by one (spec B-32).
//!
//! The pure [`rolling`] decides, with the executors' metrics where its policy needs them.

pub mod rolling;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::Plan;
use crate::config::Config;
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::{ExecutorId, Snapshot, Tick};

use rolling::{Rolling, Step};

/// The latest metrics of each executor.
pub type Figures = BTreeMap<ExecutorId, BTreeMap<String, f64>>;

#[derive(Debug)]
pub struct Roller {
    rolling: Rolling,
    config: Arc<Config>,
}

impl Roller {
    /// The first replacement begins one interval from now.
    pub fn new(config: Arc<Config>, now: Tick) -> Self {
        Self {
            rolling: Rolling::new(config.roll.clone(), now),
            config,
        }
    }

    /// Whether the next decision needs the executors' metrics.
    pub fn needs_figures(&self, latest: &Snapshot, now: Tick) -> bool {
        self.rolling.needs_metrics(latest, now)
    }

    pub fn decide(&mut self, latest: &Snapshot, figures: &Figures, now: Tick) -> Plan {
        let figure = |id, metric: &str| figures.get(&id)?.get(metric).copied();
        let Some(step) = self.rolling.decide(latest, figure, now) else {
            return Plan::default();
        };
        match step {
            Step::Begin { profile, old } => {
                let (executor, name) = (old.get(), profile.as_str());
                tracing::info!(executor, profile = name, "rolling: it is to be replaced");
                News::Surge { profile, by: 1 }.into()
            }
            Step::Finish { profile, old } => News::Retire {
                ids: vec![old],
                aim: TargetChange::Surge([(profile, 0)].into()),
                why: LeaveReason::Decommissioned("the roll".into()),
                how: LeaveMethod::Drain {
                    within: self.config.backend.decommission_timeout,
                },
            }
            .into(),
            Step::GiveUp { profile, old } => {
                tracing::warn!(
                    executor = old.get(),
                    profile = profile.as_str(),
                    "rolling: given up, it has gone by itself, or no replacement came to run"
                );
                News::Surge { profile, by: 0 }.into()
            }
            Step::Forget { old } => {
                tracing::info!(
                    executor = old.get(),
                    "rolling: given up, because the target has changed"
                );
                Plan::default()
            }
        }
    }
}
