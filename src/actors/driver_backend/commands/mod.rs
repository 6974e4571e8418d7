//! Commands: targets that are set, kill, decommission, hold, resume, stop (spec B-25, B-28 to B-35).
//!
//! Decides what the ledger is told. Only the ledger has the targets and the hold. It marks executors and lowers targets in
//! one step, so that no snapshot shows one without the other (spec E-5).

pub mod liveness;
pub mod picking;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::messages::{Command, Refused, Stop, Way};
use super::plan::Plan;
use super::profiles::Profiles;
use crate::actors::event_history::event::What;
use crate::config::Config;
use crate::exit::OVER_BUDGET;
use crate::kubernetes::record::Held;
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::snapshot::asked;
use crate::model::{ExecutorId, ProfileName, Snapshot, Tick};
use liveness::{Lapse, Liveness};
use picking::{Picked, pick};

/// The exit code of an application that was silent for too long (spec B-35).
pub const ABANDONED: u8 = 12;

#[derive(Debug)]
pub struct Commands {
    config: Arc<Config>,
    liveness: Option<Liveness>,
    /// Whether the driver was asked to stop.
    ending: bool,
}

impl Commands {
    pub fn new(config: Arc<Config>, now: Tick) -> Self {
        Self {
            liveness: config.app.ttl.map(|ttl| Liveness::new(ttl, now)),
            config,
            ending: false,
        }
    }

    /// Decides on the ledger as it is now.
    ///
    /// # Errors
    /// Why nothing is changed.
    pub fn decide(
        &mut self,
        command: Command,
        latest: &Snapshot,
        profiles: &Profiles,
        now: Tick,
    ) -> Result<(Picked, Plan), Refused> {
        let plan = match command {
            Command::SetTargets(targets) => set(targets, profiles, latest)?,
            Command::Retire {
                ids,
                replace,
                way,
                by,
            } => {
                let aim = if replace {
                    TargetChange::Stay
                } else {
                    TargetChange::Fall
                };
                return self.retire(&ids, aim, way, by, latest);
            }
            Command::Hold { by } => {
                let within = self.config.backend.decommission_timeout;
                hold(by, LeaveMethod::Drain { within }, latest)?
            }
            Command::Resume => resume(latest),
            Command::Renew => self.renew(latest, now),
        };
        Ok((Picked::default(), plan))
    }

    /// Has the ledger mark the executors that can leave.
    fn retire(
        &self,
        named: &BTreeSet<ExecutorId>,
        aim: TargetChange,
        way: Way,
        by: Arc<str>,
        latest: &Snapshot,
    ) -> Result<(Picked, Plan), Refused> {
        if !latest.adopted {
            return Err(Refused::BeforeAdoption);
        }
        let grace = self.config.backend.kill_grace;
        let usual = self.config.backend.decommission_timeout;
        let (spare_busy, why, how) = match way {
            Way::Kill { force } => (!force, LeaveReason::Killed(by), LeaveMethod::Kill { grace }),
            Way::Decommission { within } => {
                let within = within.unwrap_or(usual);
                (
                    false,
                    LeaveReason::Decommissioned(by),
                    LeaveMethod::Drain { within },
                )
            }
        };
        let picked = pick(latest, named, spare_busy);
        // A kill also shortens the time limit of executors that are already leaving.
        let ids = [&picked.chosen[..], &picked.leaving[..]].concat();
        Ok((picked, News::Retire { ids, aim, why, how }.into()))
    }

    fn renew(&mut self, latest: &Snapshot, now: Tick) -> Plan {
        let Some(liveness) = &mut self.liveness else {
            return Plan::default();
        };
        liveness.renew(now);
        // Only a hold that silence caused ends with the silence.
        match &latest.held {
            Some(held) if held.by.is_none() => resume(latest),
            Some(_) | None => Plan::default(),
        }
    }

    /// Holds the executors or ends the application if it has been silent for too long (spec B-35).
    pub fn check_liveness(&mut self, latest: &Snapshot, now: Tick) -> Plan {
        let liveness = self.liveness.as_mut();
        match liveness.and_then(|liveness| liveness.lapse(now)) {
            None => Plan::default(),
            Some(Lapse::Hold) => {
                tracing::warn!("the application has been silent for app.ttl: its executors go");
                let within = self.config.backend.decommission_timeout;
                hold(None, LeaveMethod::Drain { within }, latest).unwrap_or_default()
            }
            Some(Lapse::End) => {
                tracing::warn!("the application has been silent for twice app.ttl: it ends");
                self.stop(Stop::End {
                    exit_code: ABANDONED,
                })
            }
        }
    }

    /// Only the first request counts.
    pub fn stop(&mut self, stop: Stop) -> Plan {
        if std::mem::replace(&mut self.ending, true) {
            return Plan::default();
        }
        let ending = |exit_code, why| vec![What::Ending { exit_code, why }];
        Plan {
            events: match &stop {
                Stop::End { exit_code } => ending(*exit_code, None),
                Stop::OverBudget { why } => ending(OVER_BUDGET, Some(Arc::clone(why))),
                Stop::HandOver | Stop::LetGo | Stop::Collected => Vec::new(),
            },
            news: Vec::new(),
            stop: Some(stop),
        }
    }

    /// Sets the targets that the configuration has changed, and lowers those above what is allowed now (spec C-6).
    pub fn reconfigure(
        &mut self,
        config: Arc<Config>,
        targets: BTreeMap<ProfileName, u32>,
        latest: &Snapshot,
        profiles: &Profiles,
    ) -> Plan {
        self.config = config;
        let mut all = asked(&latest.targets);
        all.extend(targets.clone());
        let most = |profile: &ProfileName| profiles.bounds(profile).map(|bounds| bounds.most);
        let lowered = all.into_iter().filter_map(|(profile, target)| {
            let most = most(&profile).filter(|most| target > *most)?;
            Some((profile, most))
        });
        let news = [News::Configured(targets), News::Targets(lowered.collect())];
        Plan {
            news: news.into(),
            ..Plan::default()
        }
    }
}

fn set(
    targets: BTreeMap<ProfileName, u32>,
    profiles: &Profiles,
    latest: &Snapshot,
) -> Result<Plan, Refused> {
    for (profile, target) in &targets {
        let (profile, target) = (profile.clone(), *target);
        let Some(bounds) = profiles.bounds(&profile) else {
            let known: Vec<&str> = profiles.names().map(ProfileName::as_str).collect();
            let known = known.join(", ");
            return Err(Refused::UnknownProfile { profile, known });
        };
        let most = bounds.most;
        if target > most {
            return Err(Refused::TooMany {
                profile,
                target,
                most,
            });
        }
        if let Some(why) = latest.failed.get(&profile).filter(|_| target > 0).cloned() {
            return Err(Refused::Failed { profile, why });
        }
    }
    for (profile, target) in &targets {
        tracing::info!(profile = profile.as_str(), target, "target set");
    }
    Ok(match targets.is_empty() {
        true => Plan::default(),
        false => News::Targets(targets).into(),
    })
}

/// Nothing, if executors are held already.
fn hold(by: Option<Arc<str>>, how: LeaveMethod, latest: &Snapshot) -> Result<Plan, Refused> {
    if latest.held.is_some() {
        return Ok(Plan::default());
    }
    if !latest.adopted {
        return Err(Refused::BeforeAdoption);
    }
    tracing::info!(
        targets = ?asked(&latest.targets),
        "executors are held: all of them finish and go"
    );
    let held = What::Held {
        by: by.as_deref().map(str::to_owned),
    };
    Ok(Plan {
        events: vec![held],
        news: vec![News::Hold { by, how }],
        stop: None,
    })
}

fn resume(latest: &Snapshot) -> Plan {
    let Some(held) = Held::of(latest) else {
        return Plan::default();
    };
    tracing::info!(targets = ?held.targets, "executors are wanted again");
    Plan {
        events: vec![What::Resumed],
        news: vec![News::Resume],
        stop: None,
    }
}

#[cfg(test)]
mod tests;
