//! The message handlers of DriverBackend: each asks a part, and carries out what it decides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    ActorFutureExt, AtomicResponse, Context, ContextFutureSpawner, Handler, MailboxError,
    MessageResult, ResponseActFuture, ResponseFuture, WrapFuture,
};
use tokio::time::timeout;

use super::DriverBackend;
use super::messages::{
    AddProfile, Command, CommandOutcome, GetCounts, GetStatus, PostDemand, Reconfigure, Refused,
    RefusedDemand, RefusedProfile, RefusedRemoval, RefusedReset, RemoveProfile, ResetProfile, Stop,
};
use super::plan::Plan;
use crate::actors::event_history::event::What;
use crate::actors::event_history::messages::Happened;
use crate::actors::executor_registry::messages::SessionsChanged;
use crate::actors::pod_allocator::messages::OverBudget;
use crate::actors::pod_allocator::pause::Paused;
use crate::actors::record_keeper::messages::RecordProfiles;
use crate::actors::snapshot_store::messages::{Look, LookNow};
use crate::metrics::Measure;
use crate::model::news::News;
use crate::model::snapshot::asked;
use crate::model::{ProfileName, Tick};

/// How long a client waits for the record. Shorter than the API's own patience with an actor.
const RECORDED: Duration = Duration::from_secs(4);

impl DriverBackend {
    fn command(
        &mut self,
        command: Command,
    ) -> ResponseActFuture<Self, Result<CommandOutcome, Refused>> {
        let now = self.clock.now().tick;
        let decided = (self.expanded(command, now))
            .and_then(|command| (self.commands).decide(command, &self.latest, &self.profiles, now));
        let (picked, plan) = match decided {
            Ok(decided) => decided,
            Err(refused) => return Box::pin(actix::fut::ready(Err(refused))),
        };
        Box::pin(
            self.carry_out(plan)
                .map(move |marked, this, _| Ok(picked.outcome(&marked?, this.latest.clone()))),
        )
    }

    /// The command with targets of profiles instead of pools (spec B-74), which renews these profiles.
    fn expanded(&mut self, command: Command, now: Tick) -> Result<Command, Refused> {
        let Command::SetTargets(targets) = command else {
            return Ok(command);
        };
        let targets = self.pools.expanded(targets, &self.latest)?;
        self.profiles.renew(targets.keys(), now);
        Ok(Command::SetTargets(targets))
    }

    fn reconfigure(
        &mut self,
        mut new: Reconfigure,
        known: Vec<ProfileName>,
    ) -> ResponseActFuture<Self, Result<Vec<ProfileName>, RefusedProfile>> {
        let most = (new.config.profiles.iter())
            .filter(|(name, _)| !known.contains(name))
            .map(|(name, profile)| (name.clone(), profile.max_executors));
        self.profiles.limit(&most.collect());
        self.autoscaler.reconfigure(Arc::clone(&new.config));
        self.pools.reconfigure(Arc::clone(&new.config));
        self.pools.reshare(&mut new.targets, &self.latest);
        let configured: Vec<ProfileName> = new.targets.keys().cloned().collect();
        let (latest, profiles) = (&self.latest, &self.profiles);
        let plan = (self.commands).reconfigure(new.config, new.targets, latest, profiles);
        Box::pin(self.carry_out(plan).map(move |_, this, _| {
            // After the store has the targets, so that no batch says that they were set at run time.
            let configured = RecordProfiles::Configured(configured);
            this.to.record.do_send(configured);
            Ok(known)
        }))
    }

    fn has_failed(&self, profile: &ProfileName) -> bool {
        self.latest.failed.contains_key(profile)
    }

    /// The requested targets, once the record is written; `None` if that takes too long.
    fn targets_once<R: Future<Output = Result<(), MailboxError>>>(
        &self,
        recorded: R,
    ) -> impl Future<Output = Option<BTreeMap<ProfileName, u32>>> + use<R> {
        let store = self.to.store.clone();
        async move {
            timeout(RECORDED, recorded).await.ok()?.ok()?;
            let look = store.send(LookNow).await;
            Some(look.map_or_else(|_| BTreeMap::new(), |Look(latest)| asked(&latest.targets)))
        }
    }

    /// No executors of this profile are wanted any more. May be repeated.
    fn remove(
        &mut self,
        name: &ProfileName,
        ctx: &mut Context<Self>,
    ) -> Result<(), RefusedRemoval> {
        self.profiles.remove(name)?;
        self.carry_out_first(News::Remove(name.clone()).into(), ctx);
        Ok(())
    }

    /// Removes the profiles whose engines are silent (spec B-69).
    pub(super) fn look_after_silent(&mut self, ctx: &mut Context<Self>) {
        if !*self.adopted.borrow() {
            return;
        }
        for (name, ttl) in self.profiles.silent(self.clock.now().tick) {
            let ttl = humantime::format_duration(ttl);
            tracing::warn!(
                profile = name.as_str(),
                %ttl,
                "no request has renewed a profile for its ttl: its engine is taken for gone"
            );
            // Of one that is known and not configured.
            if self.remove(&name, ctx).is_ok() {
                self.to.events.do_send(Happened(What::Silent {
                    profile: name.to_string(),
                    why: format!("no request has renewed it for its ttl, {ttl}"),
                }));
                self.to.record.do_send(RecordProfiles::Removing(name));
            }
        }
    }

    fn carry_out_first(&mut self, plan: Plan, ctx: &mut Context<Self>) {
        self.carry_out(plan).map(|_, _, _| ()).wait(ctx);
    }
}

impl Handler<Command> for DriverBackend {
    type Result = AtomicResponse<Self, Result<CommandOutcome, Refused>>;

    /// Decides on the ledger as it is now: the client may have seen executors that no batch has shown yet. No other message
    /// is handled meanwhile, so that the targets do not change between the look and the mark.
    fn handle(&mut self, command: Command, _: &mut Self::Context) -> Self::Result {
        let look = self.to.store.send(LookNow).into_actor(self);
        let decided = look.then(|look, this, _| match look {
            Ok(Look(latest)) => {
                this.keep(latest);
                this.command(command)
            }
            Err(_) => Box::pin(actix::fut::ready(Err(Refused::Ending))),
        });
        AtomicResponse::new(Box::pin(decided))
    }
}

impl Handler<Measure> for DriverBackend {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        self.status.measure(&metrics);
    }
}

impl Handler<Stop> for DriverBackend {
    type Result = ();

    fn handle(&mut self, stop: Stop, ctx: &mut Self::Context) {
        let plan = self.commands.stop(stop);
        self.carry_out_first(plan, ctx);
    }
}

impl Handler<OverBudget> for DriverBackend {
    type Result = ();

    fn handle(&mut self, OverBudget { why }: OverBudget, ctx: &mut Self::Context) {
        let plan = self.commands.stop(Stop::OverBudget { why });
        self.carry_out_first(plan, ctx);
    }
}

impl Handler<PostDemand> for DriverBackend {
    type Result = Result<BTreeMap<ProfileName, u32>, RefusedDemand>;

    fn handle(&mut self, post: PostDemand, _: &mut Self::Context) -> Self::Result {
        let (prefer, now) = (&self.to.prefer, self.clock.now().tick);
        self.profiles.renew(post.demands.keys(), now);
        let (mut wanted, nodes) =
            (self.autoscaler).demand(post, &self.pools, &self.profiles, prefer.is_some(), now)?;
        for (_, executors) in (wanted.iter_mut()).filter(|(name, _)| self.has_failed(name)) {
            *executors = 0;
        }
        if let Some(prefer) = prefer {
            prefer.do_send(nodes);
        }
        Ok(wanted)
    }
}

impl Handler<AddProfile> for DriverBackend {
    type Result = AtomicResponse<Self, Result<BTreeMap<ProfileName, u32>, RefusedProfile>>;

    /// No other message is handled meanwhile: of two profiles of one name the second is refused.
    fn handle(&mut self, add: AddProfile, _: &mut Self::Context) -> Self::Result {
        let AddProfile { name, described } = add;
        self.profiles.renew([&name], self.clock.now().tick);
        if self.pools.is_pool(&name) {
            let refused = RefusedProfile::IsPool(name);
            return AtomicResponse::new(Box::pin(actix::fut::ready(Err(refused))));
        }
        if let Some(why) = self.latest.failed.get(&name).cloned() {
            let failed = RefusedProfile::Failed { name, why };
            return AtomicResponse::new(Box::pin(actix::fut::ready(Err(failed))));
        }
        AtomicResponse::new(match self.profiles.read(&name, &described) {
            Err(refused) => Box::pin(actix::fut::ready(Err(refused))),
            Ok(added) => {
                let published = self.publish(added.into_iter().collect());
                Box::pin(published.map(|done, this, _| {
                    done?;
                    Ok(asked(&this.latest.targets))
                }))
            }
        })
    }
}

impl Handler<RemoveProfile> for DriverBackend {
    type Result = ResponseFuture<Result<BTreeMap<ProfileName, u32>, RefusedRemoval>>;

    /// Others are handled while the record is written. A client that repeats the command waits for that as well.
    fn handle(
        &mut self,
        RemoveProfile(name): RemoveProfile,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        if let Err(refused) = self.remove(&name, ctx) {
            return Box::pin(async move { Err(refused) });
        }
        let recorded = self.to.record.send(RecordProfiles::Removing(name));
        let targets = self.targets_once(recorded);
        Box::pin(async move { targets.await.ok_or(RefusedRemoval::NotRecorded) })
    }
}

impl Handler<ResetProfile> for DriverBackend {
    type Result = ResponseFuture<Result<BTreeMap<ProfileName, u32>, RefusedReset>>;

    fn handle(
        &mut self,
        ResetProfile(name): ResetProfile,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        if self.profiles.bounds(&name).is_none() {
            return Box::pin(async move { Err(RefusedReset::Unknown(name)) });
        }
        tracing::info!(profile = name.as_str(), "profile reset");
        self.carry_out_first(News::Reset(name.clone()).into(), ctx);
        let recorded = self.to.record.send(RecordProfiles::Reset(name));
        let targets = self.targets_once(recorded);
        Box::pin(async move { targets.await.ok_or(RefusedReset::NotRecorded) })
    }
}

impl Handler<Reconfigure> for DriverBackend {
    type Result = AtomicResponse<Self, Result<Vec<ProfileName>, RefusedProfile>>;

    /// Only profiles can be refused, so they come first.
    fn handle(&mut self, mut new: Reconfigure, _: &mut Self::Context) -> Self::Result {
        let added = std::mem::take(&mut new.added);
        let (known, added) = self.profiles.read_configured(added);
        let published = self.publish(added);
        AtomicResponse::new(Box::pin(published.then(
            |published, this, _| match published {
                Ok(()) => this.reconfigure(new, known),
                Err(refused) => Box::pin(actix::fut::ready(Err(refused))),
            },
        )))
    }
}

impl Handler<SessionsChanged> for DriverBackend {
    type Result = ();

    fn handle(&mut self, sessions: SessionsChanged, _: &mut Self::Context) {
        self.status.set_sessions(sessions);
        self.look_whether_ready();
    }
}

impl Handler<Paused> for DriverBackend {
    type Result = ();

    fn handle(&mut self, paused: Paused, ctx: &mut Self::Context) {
        let plan = Plan {
            events: self.status.set_pauses(paused),
            ..Plan::default()
        };
        self.carry_out_first(plan, ctx);
    }
}

impl Handler<GetStatus> for DriverBackend {
    type Result = MessageResult<GetStatus>;

    fn handle(&mut self, _: GetStatus, _: &mut Self::Context) -> Self::Result {
        let now = self.clock.now();
        let pools = self.pools.views(&self.latest, now.tick);
        MessageResult((self.status).view(&self.latest, &self.profiles, pools, now))
    }
}

impl Handler<GetCounts> for DriverBackend {
    type Result = MessageResult<GetCounts>;

    fn handle(&mut self, _: GetCounts, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.status.counts())
    }
}
