//! What the driver's backend does about replacements.

use super::Step;
use crate::actors::driver_backend::DriverBackend;
use crate::actors::snapshot_store::messages::Tell;
use crate::model::Batch;
use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News};
use crate::model::snapshot::asked;

impl DriverBackend {
    /// Carries out the step that is due.
    pub(in crate::actors::driver_backend) fn roll(&mut self, batch: &Batch) {
        let (latest, now) = (batch.latest(), self.clock.now().tick);
        let Some(roller) = self.roller.as_mut().filter(|_| latest.adopted) else {
            return;
        };
        let registry = &self.sessions.registry;
        let figure = |id, metric: &str| registry.account(id)?.metrics.get(metric).copied();
        let step = roller.decide(latest, &asked(&latest.targets), figure, now);
        let news = match step {
            None => return,
            Some(Step::Begin { profile, old }) => {
                tracing::info!(
                    executor = old.get(),
                    profile = profile.as_str(),
                    "rolling: it is to be replaced"
                );
                let under_way = true;
                News::Surge { profile, under_way }
            }
            Some(Step::Finish { old }) => News::Retire {
                ids: vec![old],
                aim: Aim::EndSurge,
                why: Why::Decommissioned("the roll".into()),
                how: How::Drain {
                    within: self.commands.decommission_timeout(),
                },
            },
            Some(Step::GiveUp { profile, old }) => {
                tracing::warn!(
                    executor = old.get(),
                    profile = profile.as_str(),
                    "rolling: given up, it has gone by itself, or no replacement came to run"
                );
                let under_way = false;
                News::Surge { profile, under_way }
            }
            Some(Step::Forget { old }) => {
                tracing::info!(
                    executor = old.get(),
                    "rolling: given up, for another number is wanted now"
                );
                return;
            }
        };
        self.store.do_send(Tell(news));
    }
}
