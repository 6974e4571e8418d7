//! Decides how many executors are requested, of which profile, under which ids (spec ).

use super::{Allocation, sum};
use crate::actors::pod_allocator::caps::share;
use crate::actors::pod_allocator::crash_loop::Permission;
use crate::actors::pod_allocator::decision::{Action, Decision, Notice};
use crate::actors::pod_allocator::demand::{Demand, View};
use crate::actors::pod_allocator::slots::split_evenly;
use crate::model::snapshot::Counts;
use crate::model::{ProfileName, Snapshot, Tick};

impl Allocation {
    pub(super) fn request_missing(
        &mut self,
        latest: &Snapshot,
        now: Tick,
        decision: &mut Decision,
    ) {
        let view = View {
            latest,
            settings: &self.settings,
            crash_loops: &self.crash_loops,
            refusal_pauses: &self.refusal_pauses,
            gangs: &self.gangs,
            groups_refused: &self.groups_refused,
            repeatable: &self.repeatable,
            server_back: self.server_back,
            now,
        };
        let promoted = self.spares.needed(&view);
        let mut demands = view.demands(&promoted, decision);
        for (profile, ids) in promoted {
            let looping = self.crash_loops.entry(profile).or_default();
            ids.iter().for_each(|id| looping.requested(*id));
            decision.actions.push(Action::Promote(ids));
        }
        if demands.is_empty() {
            self.pace.rest();
            return;
        }
        self.keep_within_caps(latest, &mut demands, decision);
        if let Some(queue) = &self.queue {
            queue.limit(&mut demands);
        }
        self.claims.limit(latest, &mut demands, decision);
        let new: Vec<u32> = demands.iter().map(|demand| demand.new).collect();
        let ids = self.ids.assignable(sum(&new), now, decision);
        for (demand, new) in demands.iter_mut().zip(split_evenly(ids, &new)) {
            demand.new = new;
        }
        // The first profile changes from round to round. Otherwise, with one slot at a time, a
        // profile whose requests always fail would starve the others (spec A-45).
        let next = |demand: &Demand| Some(&demand.profile) > self.served_first.as_ref();
        let first = demands.iter().position(next).unwrap_or(0);
        demands.rotate_left(first);

        let room = self.pace.room(now);
        decision.wake_at(self.pace.next_room(now), now);
        let slots = room.min(self.settings.batch_size);
        let wants: Vec<u32> = demands.iter().map(Demand::total).collect();
        if slots < room && slots < sum(&wants) {
            decision.wake = Some(now);
        }
        if slots > 0
            && let Some(demand) = demands.first()
        {
            self.served_first = Some(demand.profile.clone());
        }
        for (mut demand, given) in demands.into_iter().zip(split_evenly(slots, &wants)) {
            demand.cut_to(given);
            self.send(demand, latest, now, decision);
        }
    }

    /// Tries one refused claim of each profile whose pause allows it (spec A-61).
    pub(super) fn try_refused_claims(&mut self, now: Tick, decision: &mut Decision) {
        if self.claims.is_listing() {
            return;
        }
        for profile in self.claims.making.held_profiles() {
            let Some(pause) = self.refusal_pauses.get_mut(&profile) else {
                continue;
            };
            decision.wake_at(Some(pause.until), now);
            if pause.allows_a_try(now)
                && let Some(ensure) = self.claims.making.try_one(&profile)
            {
                pause.try_one(now);
                decision.actions.push(Action::EnsureClaim(ensure));
            }
        }
    }

    /// Applies the limits on pending executors and on executors over the application's life (spec
    /// Repeats are counted already.
    fn keep_within_caps(
        &mut self,
        latest: &Snapshot,
        demands: &mut [Demand],
        decision: &mut Decision,
    ) {
        let making = &self.claims.making;
        let waiting = |profile: &ProfileName| making.waiting(profile);
        self.settings.caps.limit_pending(latest, demands, waiting);
        let Some(most) = self.settings.caps.over_life else {
            return;
        };
        let unborn = |counts: &Counts| u64::from(counts.sent) + u64::from(counts.unknown);
        let unborn: u64 = latest.counts.values().map(unborn).sum();
        let made = self.made.count();
        let left = u64::from(most).saturating_sub(made + unborn);
        share(demands, u32::try_from(left).unwrap_or(u32::MAX));
        if made >= u64::from(most) && !std::mem::replace(&mut self.said_enough, true) {
            decision.say(Notice::Enough { made });
        }
    }

    /// Repeats are sent first because they are older.
    fn send(&mut self, demand: Demand, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        let Demand {
            profile,
            repeats,
            new,
        } = demand;
        if let Some(pause) = self.refusal_pauses.get_mut(&profile)
            && pause.holds_back()
            && (!repeats.is_empty() || new > 0)
        {
            pause.try_one(now);
        }
        for id in repeats {
            self.pace.sent();
            self.repeatable.remove(&id);
            let profile = profile.clone();
            decision.actions.push(Action::Repeat { id, profile });
        }
        for _ in 0..new {
            let Some(id) = self.ids.take() else { return };
            self.pace.sent();
            let looping = self.crash_loops.entry(profile.clone()).or_default();
            let freely = looping.permission() == Permission::Free;
            self.gangs.request(id, &profile, latest, freely);
            looping.requested(id);
            self.claims.give(id, &profile);
            if let Some(queue) = &mut self.queue {
                queue.give(id, &profile);
            }
            let profile = profile.clone();
            decision.actions.push(Action::Request { id, profile });
        }
    }
}
