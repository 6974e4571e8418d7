//! The message handlers of Commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, AsyncContext, AtomicResponse, Context, Handler, MessageResult,
    ResponseFuture, WrapFuture,
};

use super::liveness::Lapse;
use super::messages::{
    CommandOutcome, Decommission, ForgetTargets, GetHeld, Hold, Kill, NotNow, Reconfigure,
    RefusedTargets, Renew, Resume, SetTargets, Stop,
};
use super::picking::{Picked, pick};
use super::targets::{lowered, refused};
use super::{ABANDONED, Commands};
use crate::actors::event_history::event::What;
use crate::actors::event_history::messages::Happened;
use crate::actors::pod_allocator::messages::OverBudget;
use crate::actors::profiles::messages::{ProfileAdded, ProfileRemoved};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{
    AskFor, Decided, LookNow, Retire, Retired, Round, Subscribe, Subscriber, Tell,
};
use crate::exit::OVER_BUDGET;
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::record::Held;
use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News};
use crate::model::{ExecutorId, ProfileName, Snapshot};

/// The parameters of a kill or a decommissioning.
struct Leaving {
    named: BTreeSet<ExecutorId>,
    spare_busy: bool,
    replace: bool,
    why: Why,
    how: How,
}

impl Commands {
    /// Has the store mark the executors that can leave. No other message is handled meanwhile, so
    /// that the targets do not change between the look and the mark.
    fn retire(&mut self, leaving: Leaving) -> AtomicResponse<Self, Result<CommandOutcome, NotNow>> {
        let store = self.store.clone();
        let going = async move {
            let snapshot = look(&store).await?;
            let Leaving {
                named,
                spare_busy,
                replace,
                why,
                how,
            } = leaving;
            let picked = pick(&snapshot, &named, spare_busy);
            // A kill also shortens the time limit of executors that are already leaving.
            let ids = [&picked.chosen[..], &picked.leaving[..]].concat();
            let aim = if replace { Aim::Stay } else { Aim::Fall };
            let retire = Retire { ids, aim, why, how };
            let retired = store.send(retire).await.map_err(|_| NotNow::Ending)?;
            Ok(command_outcome(picked, retired))
        };
        AtomicResponse::new(Box::pin(going.into_actor(self)))
    }

    /// Holds the executors or ends the application if it has been silent for too long (spec B-35).
    fn check_liveness(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        let liveness = self.liveness.as_mut();
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
        if let Some(held) = self.held.take() {
            tracing::info!(targets = ?held.targets, "executors are wanted again");
            self.set_held(None);
            // Before the store sends the batch with the targets, so that this event comes first.
            self.happened(What::Resumed);
            self.store.do_send(Tell(News::Resume));
        }
    }
}

/// The current snapshot, after adoption.
async fn look(store: &actix::Addr<SnapshotStore>) -> Result<Snapshot, NotNow> {
    let look = store.send(LookNow).await.map_err(|_| NotNow::Ending)?;
    match look.0.adopted {
        true => Ok(look.0),
        false => Err(NotNow::BeforeAdoption),
    }
}

fn command_outcome(picked: Picked, retired: Retired) -> CommandOutcome {
    // Since the look, an executor may have ended, or have been retired by another actor.
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

impl Actor for Commands {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Batches have no other use here.
        if self.liveness.is_some() {
            self.store.do_send(Subscribe {
                subscriber: Subscriber::Commands,
                timing: self.timing,
                recipient: ctx.address().recipient(),
            });
        }
    }
}

impl Handler<Round> for Commands {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        if batch.latest().adopted {
            self.check_liveness(ctx);
        }
        self.store.do_send(Decided(Subscriber::Commands));
    }
}

impl Handler<SetTargets> for Commands {
    type Result = AtomicResponse<Self, Result<BTreeMap<ProfileName, u32>, RefusedTargets>>;

    /// Answers with the ledger's targets after the change. No other command comes in between.
    fn handle(&mut self, SetTargets(targets): SetTargets, _: &mut Self::Context) -> Self::Result {
        let refused = refused(&self.profiles, &targets);
        if refused.is_none() {
            for (profile, target) in &targets {
                tracing::info!(profile = profile.as_str(), target, "target set");
            }
        }
        let store = self.store.clone();
        let asking = async move {
            match refused {
                Some(refused) => Err(refused),
                // The store has stopped only if the driver is ending.
                None => Ok(store.send(AskFor(targets)).await.unwrap_or_default()),
            }
        };
        AtomicResponse::new(Box::pin(asking.into_actor(self).map(|asked, this, _| {
            let asked = asked?;
            this.hold_as_well(&asked);
            Ok(asked)
        })))
    }
}

impl Handler<Reconfigure> for Commands {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, new: Reconfigure, _: &mut Self::Context) -> Self::Result {
        self.settings.kill_grace = new.kill_grace;
        for (profile, most) in new.most {
            if let Some(bounds) = self.profiles.get_mut(&profile) {
                bounds.most = most;
            }
        }
        let (store, bounds, mut targets) = (self.store.clone(), self.profiles.clone(), new.targets);
        let configured: Vec<ProfileName> = targets.keys().cloned().collect();
        let setting = async move {
            store.do_send(Tell(News::Configured(targets.clone())));
            // The store has stopped only if the driver is ending.
            let asked = store
                .send(AskFor(BTreeMap::new()))
                .await
                .unwrap_or_default();
            let lowered = lowered(&bounds, &asked);
            store.do_send(Tell(News::Targets(lowered.clone())));
            targets.extend(lowered);
            targets
        };
        AtomicResponse::new(Box::pin(setting.into_actor(self).map(
            move |set, this, _| {
                this.hold_as_well(&set);
                // After the store has the targets, so that no batch says that they were set at run time.
                this.forget.do_send(ForgetTargets(configured));
            },
        )))
    }
}

impl Handler<GetHeld> for Commands {
    type Result = MessageResult<GetHeld>;

    fn handle(&mut self, _: GetHeld, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.held.clone())
    }
}

impl Handler<ProfileAdded> for Commands {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        self.profiles.insert(added.name.clone(), added.bounds);
        let targets = BTreeMap::from([(added.name.clone(), added.executors)]);
        self.hold_as_well(&targets);
        self.store.do_send(Tell(match added.kept {
            Some(_) => News::Targets(targets),
            None => News::Configured(targets),
        }));
        Ok(())
    }
}

impl Handler<ProfileRemoved> for Commands {
    type Result = ();

    fn handle(&mut self, ProfileRemoved(name): ProfileRemoved, _: &mut Self::Context) {
        self.profiles.remove(&name);
        let mut held = self.held.clone();
        if (held.as_mut()).is_some_and(|held| held.targets.remove(&name).is_some()) {
            self.set_held(held);
        }
        self.store.do_send(Tell(News::Remove(name)));
    }
}

impl Handler<Kill> for Commands {
    type Result = AtomicResponse<Self, Result<CommandOutcome, NotNow>>;

    fn handle(&mut self, kill: Kill, _: &mut Self::Context) -> Self::Result {
        self.retire(Leaving {
            named: kill.ids,
            spare_busy: !kill.force,
            replace: kill.replace,
            why: Why::Killed(kill.by),
            how: How::Kill {
                grace: self.settings.kill_grace,
            },
        })
    }
}

impl Handler<Decommission> for Commands {
    type Result = AtomicResponse<Self, Result<CommandOutcome, NotNow>>;

    fn handle(&mut self, wanted: Decommission, _: &mut Self::Context) -> Self::Result {
        let usual = self.settings.decommission_timeout;
        self.retire(Leaving {
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

impl Handler<Hold> for Commands {
    type Result = AtomicResponse<Self, Result<Held, NotNow>>;

    fn handle(&mut self, Hold { by }: Hold, _: &mut Self::Context) -> Self::Result {
        let known = self.held.clone();
        let (store, events) = (self.store.clone(), self.events.clone());
        let within = self.settings.decommission_timeout;
        let holding = async move {
            if let Some(known) = known {
                return Ok((known, false));
            }
            let snapshot = look(&store).await?;
            // Before the store sends the batch with the leaving executors, so that this event comes
            // first.
            let operator = by.as_deref().map(str::to_owned);
            events.do_send(Happened(What::Held { by: operator }));
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
                this.set_held(Some(held.clone()));
            }
            Ok(held)
        })))
    }
}

impl Handler<Resume> for Commands {
    type Result = ResponseFuture<BTreeMap<ProfileName, u32>>;

    fn handle(&mut self, _: Resume, _: &mut Self::Context) -> Self::Result {
        self.resume();
        let asked = self.store.send(AskFor(BTreeMap::new()));
        // The store has stopped only if the driver is ending.
        Box::pin(async move { asked.await.unwrap_or_default() })
    }
}

impl Handler<Renew> for Commands {
    type Result = ();

    fn handle(&mut self, _: Renew, _: &mut Self::Context) {
        let now = self.clock.now().tick;
        let Some(liveness) = &mut self.liveness else {
            return;
        };
        liveness.renew(now);
        // Only a hold that silence caused ends with the silence.
        if (self.held.as_ref()).is_some_and(|held| held.by.is_none()) {
            self.resume();
        }
    }
}

impl Handler<OverBudget> for Commands {
    type Result = ();

    fn handle(&mut self, OverBudget { why }: OverBudget, ctx: &mut Self::Context) {
        Handler::handle(self, Stop::OverBudget { why }, ctx);
    }
}

impl Handler<Stop> for Commands {
    type Result = ();

    fn handle(&mut self, stop: Stop, _: &mut Self::Context) {
        if std::mem::replace(&mut self.ending, true) {
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
        // The driver's task may have ended already.
        let _ = self.stop.send(stop);
    }
}
