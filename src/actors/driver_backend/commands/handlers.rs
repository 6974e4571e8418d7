//! What the driver's backend does about what is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{
    ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, ResponseFuture, WrapFuture,
};

use super::ABANDONED;
use super::liveness::Lapse;
use super::messages::{CommandOutcome, Decommission, Hold, Kill, NotNow, Renew, Resume, Stop};
use super::picking::{Picked, pick};
use crate::actors::driver_backend::DriverBackend;
use crate::actors::driver_backend::event_history::event::What;
use crate::actors::pod_allocator::messages::OverBudget;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{AskFor, LookNow, Retire, Retired, Tell};
use crate::exit::OVER_BUDGET;
use crate::kubernetes::record::Held;
use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News};
use crate::model::{ExecutorId, ProfileName, Snapshot};

/// Who is to go, and how.
struct Wish {
    named: BTreeSet<ExecutorId>,
    spare_busy: bool,
    replace: bool,
    why: Why,
    how: How,
}

impl DriverBackend {
    /// Has the store mark those that can go. Nothing else is handled meanwhile, so that no other wish for targets comes
    /// in between.
    fn go(&mut self, wish: Wish) -> AtomicResponse<Self, Result<CommandOutcome, NotNow>> {
        let store = self.store.clone();
        let going = async move {
            let snapshot = look(&store).await?;
            let Wish {
                named,
                spare_busy,
                replace,
                why,
                how,
            } = wish;
            let picked = pick(&snapshot, &named, spare_busy);
            // Those that are leaving may be hurried by it.
            let ids = [&picked.chosen[..], &picked.leaving[..]].concat();
            let aim = if replace { Aim::Stay } else { Aim::Fall };
            let retire = Retire { ids, aim, why, how };
            let retired = store.send(retire).await.map_err(|_| NotNow::Ending)?;
            Ok(command_outcome(picked, retired))
        };
        AtomicResponse::new(Box::pin(going.into_actor(self)))
    }

    /// What comes of the application's silence, if anything does now (spec B-35).
    pub(in crate::actors::driver_backend) fn check_liveness(&mut self, ctx: &mut Context<Self>) {
        if self.event_history.snapshot().is_none() {
            return;
        }
        let now = self.clock.now().tick;
        let liveness = self.commands.liveness.as_mut();
        match liveness.and_then(|liveness| liveness.lapse(now)) {
            None => {}
            Some(Lapse::Hold) => {
                tracing::warn!("the application has been silent for app.ttl: its executors go");
                ctx.notify(Hold { by: None });
            }
            Some(Lapse::End) => {
                tracing::warn!("the application has been silent for twice app.ttl: it ends");
                ctx.notify(Stop::End {
                    exit_code: ABANDONED,
                });
            }
        }
    }

    fn resume(&mut self) {
        if let Some(held) = self.commands.held() {
            tracing::info!(targets = ?held.targets, "executors are wanted again");
            self.commands.set_held(None);
            self.store.do_send(Tell(News::Resume));
            self.happened(What::Resumed);
        }
    }
}

/// All that is known, once the driver knows what is there.
async fn look(store: &actix::Addr<SnapshotStore>) -> Result<Snapshot, NotNow> {
    let look = store.send(LookNow).await.map_err(|_| NotNow::Ending)?;
    match look.0.adopted {
        true => Ok(look.0),
        false => Err(NotNow::BeforeAdoption),
    }
}

fn command_outcome(picked: Picked, retired: Retired) -> CommandOutcome {
    // Between the look and the mark one may have ended, or have been told to go by somebody else.
    let (leaving, overtaken): (Vec<_>, Vec<_>) =
        (picked.chosen.into_iter()).partition(|id| retired.marked.contains(id));
    let mut already_leaving = [picked.leaving, overtaken].concat();
    already_leaving.sort_unstable();
    CommandOutcome {
        leaving,
        already_leaving,
        busy: picked.busy,
        unknown: picked.unknown,
        targets: retired.targets,
    }
}

impl Handler<Kill> for DriverBackend {
    type Result = AtomicResponse<Self, Result<CommandOutcome, NotNow>>;

    fn handle(&mut self, kill: Kill, _: &mut Self::Context) -> Self::Result {
        self.go(Wish {
            named: kill.ids,
            spare_busy: !kill.force,
            replace: kill.replace,
            why: Why::Killed(kill.by),
            how: How::Kill {
                grace: self.commands.settings.kill_grace,
            },
        })
    }
}

impl Handler<Decommission> for DriverBackend {
    type Result = AtomicResponse<Self, Result<CommandOutcome, NotNow>>;

    fn handle(&mut self, wanted: Decommission, _: &mut Self::Context) -> Self::Result {
        let usual = self.commands.settings.decommission_timeout;
        self.go(Wish {
            named: wanted.ids,
            spare_busy: false,
            replace: wanted.replace,
            why: Why::Decommissioned(wanted.by),
            how: How::Drain {
                within: wanted.within.unwrap_or(usual),
            },
        })
    }
}

impl Handler<Hold> for DriverBackend {
    type Result = AtomicResponse<Self, Result<Held, NotNow>>;

    fn handle(&mut self, Hold { by }: Hold, _: &mut Self::Context) -> Self::Result {
        let known = self.commands.held.clone();
        let (store, within) = (
            self.store.clone(),
            self.commands.settings.decommission_timeout,
        );
        let holding = async move {
            if let Some(known) = known {
                return Ok((known, false));
            }
            let snapshot = look(&store).await?;
            let who: Arc<str> = match &by {
                Some(by) => Arc::from(format!("{by}'s hold")),
                None => Arc::from("the hold of a silent application"),
            };
            let retire = Retire {
                ids: snapshot.entries.keys().collect(),
                aim: Aim::Hold,
                why: Why::Decommissioned(who),
                how: How::Drain { within },
            };
            let retired = store.send(retire).await.map_err(|_| NotNow::Ending)?;
            let targets = retired.asked;
            Ok((Held { targets, by }, true))
        };
        AtomicResponse::new(Box::pin(holding.into_actor(self).map(|held, this, _| {
            let (held, new) = held?;
            if new {
                tracing::info!(targets = ?held.targets, "executors are held: all of them finish and go");
                this.commands.set_held(Some(held.clone()));
                let by = held.by.as_deref().map(str::to_owned);
                this.happened(What::Held { by });
            }
            Ok(held)
        })))
    }
}

impl Handler<Resume> for DriverBackend {
    type Result = ResponseFuture<BTreeMap<ProfileName, u32>>;

    fn handle(&mut self, _: Resume, _: &mut Self::Context) -> Self::Result {
        self.resume();
        let asked = self.store.send(AskFor(BTreeMap::new()));
        // Where the store is gone the driver ends.
        Box::pin(async move { asked.await.unwrap_or_default() })
    }
}

impl Handler<Renew> for DriverBackend {
    type Result = ();

    fn handle(&mut self, _: Renew, _: &mut Self::Context) {
        let now = self.clock.now().tick;
        let Some(liveness) = &mut self.commands.liveness else {
            return;
        };
        liveness.renew(now);
        // What silence has brought about ends with it; what somebody asked for does not.
        if (self.commands.held.as_ref()).is_some_and(|held| held.by.is_none()) {
            self.resume();
        }
    }
}

impl Handler<OverBudget> for DriverBackend {
    type Result = ();

    fn handle(&mut self, OverBudget { why }: OverBudget, ctx: &mut Self::Context) {
        Handler::handle(self, Stop::OverBudget { why }, ctx);
    }
}

impl Handler<Stop> for DriverBackend {
    type Result = ();

    fn handle(&mut self, stop: Stop, _: &mut Self::Context) {
        if std::mem::replace(&mut self.commands.ending, true) {
            return;
        }
        match &stop {
            Stop::End { exit_code } => self.happened(What::Ending {
                exit_code: *exit_code,
            }),
            Stop::OverBudget { .. } => self.happened(What::Ending {
                exit_code: OVER_BUDGET,
            }),
            Stop::HandOver => {}
        }
        self.commands.stop.do_send(stop);
    }
}
