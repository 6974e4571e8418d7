//! Checks a driver's ledger against its previous snapshot and against the driver's requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use boatswain::model::executor::{Class, LeaveReason};
use boatswain::model::{
    Batch, Entry, ExecutorId, LossClass, PodUid, ProfileName, ResourceVersion, Snapshot,
};
use tokio::time::Instant;

use super::reasons::is_on_silent_node;
use super::{Checks, CreatedPod, PodDelete, REQUEST_DELAY, Verdict};
use crate::node::short;

/// A driver may need this long to notice that the server's history was replaced.
const HISTORY_NOTICE_DELAY: Duration = Duration::from_secs(120);

/// Whether an executor is leaving for this reason, other than by a mark that an earlier driver wrote to its pod.
fn is_scaled_down(entry: &Entry) -> bool {
    let inherited = entry.adopted && entry.pod().is_some_and(|pod| pod.draining.is_some());
    (entry.leaving.as_ref()).is_some_and(|mark| mark.why == LeaveReason::ScaledDown && !inherited)
}

/// The ordinal of an executor's pod in its StatefulSet. `None` for a pod of another profile's set, whose profile label
/// was removed.
fn ordinal(entry: &Entry) -> Option<u32> {
    let (set, ordinal) = entry.pod()?.name.rsplit_once('-')?;
    let of_its_profile = set.ends_with(&format!("-{}", entry.profile));
    of_its_profile.then(|| ordinal.parse().ok()).flatten()
}

/// Whether an executor ran when its gang was released, though it stays then because it was adopted (spec B-64).
fn was_wrongly_released(entry: &Entry) -> bool {
    let ran = entry.bound().and_then(|bound| bound.running_since);
    (entry.leaving.as_ref()).is_some_and(|mark| {
        matches!(mark.why, LeaveReason::GangMissed(_))
            && entry.adopted
            && ran.is_some_and(|ran| ran < mark.since)
    })
}

impl Checks {
    // spec: I-2
    pub(super) fn check_none_lost(
        &mut self,
        driver: usize,
        before: &Snapshot,
        now: &Snapshot,
    ) -> Verdict {
        let view = self.drivers.entry(driver).or_default();
        for (id, uid) in std::mem::take(&mut view.unreported) {
            if !view.reported.contains_key(&(id, Some(uid.clone()))) {
                return violated!("I-2: the end of {id} ({uid}) was never reported by d{driver}");
            }
        }
        for (id, entry) in before.entries.iter() {
            match now.entry(id) {
                None if !now.ended.contains(id) => {
                    return violated!("I-2: d{driver} lost {id}: neither in its ledger nor ended");
                }
                None if entry.adopted
                    && (self.recorded_ends.contains_key(&id)
                        || self.recorded_late.contains(&id)
                        || self.reported.contains(&id)) => {}
                None => view
                    .unreported
                    .extend(entry.uid().map(|uid| (id, uid.clone()))),
                Some(_) if now.ended.contains(id) => {
                    return violated!("I-2: d{driver} has {id} in its ledger, and it has ended");
                }
                Some(_) => {}
            }
        }
        for id in view.open.iter().filter_map(|id| ExecutorId::new(*id)) {
            if now.entry(id).is_none() && !now.ended.contains(id) {
                return violated!("I-2: d{driver} lost {id}, which it had requested");
            }
        }
        // An ended executor never returns (spec E-9), which the loop over `before` has checked.
        let ended = |id: &u64| ExecutorId::new(*id).is_some_and(|id| now.ended.contains(id));
        view.open.retain(|id| !ended(id));
        Ok(())
    }

    // spec: I-5, S-10
    pub(super) fn check_versions(
        &mut self,
        driver: usize,
        before: &Snapshot,
        changed: &[Arc<Entry>],
    ) -> Verdict {
        let view = self.drivers.entry(driver).or_default();
        for entry in changed {
            let id = entry.id;
            let Some((new, old)) = entry.bound().zip(before.entry(id).and_then(|e| e.bound()))
            else {
                continue;
            };
            let went_back = new.epoch == old.epoch
                && new.pod.uid == old.pod.uid
                && new.pod.version < old.pod.version;
            if went_back && !view.may_go_back.remove(&new.pod.uid) {
                let (new, old): (&ResourceVersion, _) = (&new.pod.version, &old.pod.version);
                return violated!("I-5: d{driver} took {id} back from version {old} to {new}");
            }
        }
        Ok(())
    }

    // spec: I-3
    pub(super) fn check_requests(
        &mut self,
        driver: usize,
        before: &Snapshot,
        now: &Snapshot,
        changed: &[Arc<Entry>],
    ) -> Verdict {
        // The profile of an executor whose object could not be decoded becomes known when it is read again. What is
        // requested at the same instant was decided before.
        let view = self.drivers.entry(driver).or_default();
        let (since, moved) = (view.last_at, &mut view.moved);
        moved.retain(|_, at| *at == Instant::now());
        for entry in changed {
            let was = before.entry(entry.id);
            if was.is_some_and(|was| was.profile != entry.profile) {
                moved.insert(entry.id, Instant::now());
            }
        }
        for (profile, counts) in &now.counts {
            let target = (self.targets.get(profile).into_iter().flatten())
                .filter(|(at, _)| since.is_some_and(|since| *at >= since))
                .map(|(_, target)| *target)
                .fold(now.target(profile).max(before.target(profile)), u32::max);
            let moved = moved.keys().filter_map(|id| now.entry(*id));
            let moved = moved.filter(|entry| entry.profile == *profile && entry.class().is_live());
            if counts.live() as usize <= target as usize + moved.count() {
                continue;
            }
            let new = |entry: &&Arc<Entry>| {
                entry.profile == *profile && !entry.adopted && before.entry(entry.id).is_none()
            };
            let requested = now.entries.values().filter(new).count();
            if requested > 0 {
                return violated!(
                    "I-3: d{driver} requested {requested} of {profile}, and now {} are live, target {target}",
                    counts.live()
                );
            }
        }
        Ok(())
    }

    /// A driver scales down to the target and not below it. A StatefulSet deletes its last pods, so there the driver
    /// retires those beyond the target, even if others are leaving as well.
    // spec: I-12, A-40, A-41, A-80
    pub(super) fn check_scaled_down(
        &self,
        driver: usize,
        before: Option<&Snapshot>,
        now: &Snapshot,
        changed: &[Arc<Entry>],
    ) -> Verdict {
        let old = |entry: &Entry| before.and_then(|before| before.entry(entry.id));
        let is_new = |entry: &&Arc<Entry>| {
            is_scaled_down(entry) && old(entry).is_none_or(|old| old.leaving.is_none())
        };
        let mut marked: BTreeMap<&ProfileName, Vec<&Arc<Entry>>> = BTreeMap::new();
        for entry in changed.iter().filter(is_new) {
            marked.entry(&entry.profile).or_default().push(entry);
        }
        let since = (self.drivers.get(&driver)).and_then(|view| view.last_at);
        for (profile, marked) in marked {
            let appeared = changed.iter().filter(|entry| {
                entry.profile == *profile
                    && old(entry)
                        .is_none_or(|old| !old.class().is_live() || old.profile != *profile)
            });
            let live = before.map_or(0, |before| before.counts(profile).live() as usize);
            let live = live + appeared.count();
            let lowest = (self.targets.get(profile).into_iter().flatten())
                .filter(|(at, _)| since.is_none_or(|since| *at >= since))
                .map(|(_, target)| *target)
                .chain(before.map(|before| before.target(profile)))
                .fold(now.target(profile), u32::min);
            let too_many = match self.is_of_stateful_sets() {
                true => marked
                    .iter()
                    .filter_map(|entry| ordinal(entry))
                    .any(|ordinal| ordinal < lowest),
                false => live.saturating_sub(marked.len()) < lowest as usize,
            };
            if too_many {
                let ids: Vec<_> = marked.iter().map(|entry| entry.id.get()).collect();
                return violated!(
                    "I-12: d{driver} scales {profile} down by {ids:?}, and at most {live} were live, target {lowest}"
                );
            }
        }
        Ok(())
    }

    // spec: I-3
    pub(super) fn check_live(&self, driver: usize, now: &Snapshot) -> Verdict {
        let application = self.application_of(driver);
        for (profile, counts) in &now.counts {
            if counts.live() <= now.target(profile) {
                continue;
            }
            let requested: Vec<_> = (now.entries.values())
                .filter(|entry| entry.profile == *profile && entry.class().is_live())
                .filter(|entry| !self.is_surplus(entry))
                .filter(|entry| entry.uid().is_none_or(|uid| !self.was_leaving(uid)))
                .map(|entry| (application, entry.id.get()))
                .collect();
            let live = requested.len();
            let oldest = requested
                .iter()
                .filter_map(|key| self.requested.get(key))
                .min();
            let Some(oldest) = oldest else { continue };
            let highest = self.highest_target(profile, *oldest);
            if live > highest as usize {
                return violated!(
                    "I-3: d{driver} counts {live} live of {profile}, target {highest}"
                );
            }
        }
        Ok(())
    }

    /// The highest target in force since an executor was requested.
    pub(super) fn highest_target(&self, profile: &ProfileName, requested: Instant) -> u32 {
        let history = self.targets.get(profile).map_or(&[][..], Vec::as_slice);
        // The decision precedes the sending of the request.
        let decided = requested - REQUEST_DELAY;
        let before = history.iter().rev().find(|(since, _)| *since <= decided);
        let after = history.iter().filter(|(since, _)| *since > decided);
        let targets = before.into_iter().chain(after).map(|(_, target)| *target);
        targets.max().unwrap_or(0)
    }

    /// The highest target of each profile so far.
    pub fn highest_targets(&self) -> impl Iterator<Item = (&ProfileName, u32)> {
        self.targets.iter().map(|(profile, history)| {
            let highest = history.iter().map(|(_, target)| *target).max();
            (profile, highest.unwrap_or(0))
        })
    }

    // spec: I-1
    pub(super) fn check_one_pod_per_id(
        &mut self,
        driver: usize,
        changed: &[Arc<Entry>],
    ) -> Verdict {
        let application = self.application_of(driver);
        for entry in changed {
            let id = entry.id;
            let Some(uid) = entry.uid() else {
                if entry.leaving.is_some() {
                    self.left_unbound.insert((application, id.get()));
                }
                continue;
            };
            self.ever_bound.insert(uid.clone());
            if let Some(mark) = &entry.leaving {
                self.ever_leaving.insert(uid.clone());
                if mark.why == LeaveReason::ApplicationEnded {
                    self.note_end_of_application(driver);
                    if self.may_end_application(driver) {
                        self.ended_with_its_application.insert(uid.clone());
                    }
                }
            }
            // A copy made while no driver ran is indistinguishable from the executor whose labels it has.
            if entry.adopted && self.excuses.foreign.contains(uid.as_str()) {
                continue;
            }
            if entry.adopted && self.has_changed_id(uid) {
                continue;
            }
            // The record has no uids: a request that was held up on its way until the first pod was deleted gives a
            // successor's executor another one.
            let too_late = self.created.get(uid).is_some_and(|pod| pod.too_late);
            if entry.adopted && (too_late || self.is_of_later_application(uid, driver)) {
                continue;
            }
            if self.repeats_its_own_request(uid, driver) {
                continue;
            }
            // A superseded driver may end its successor's executor before the successor knows that its request has made
            // one. The request is repeated then.
            let successors = self.created.get(uid).is_some_and(|pod| pod.driver > driver);
            if entry.adopted && successors {
                continue;
            }
            if self.ids_meet_in_an_emptied_server(uid, (application, id)) {
                continue;
            }
            let counted = self
                .counted
                .entry((application, id))
                .or_insert_with(|| uid.clone());
            if counted != uid && entry.class().is_live() {
                return violated!(
                    "I-1: d{driver} counts {uid} for {id}, for which {counted} was counted"
                );
            }
        }
        Ok(())
    }

    /// Whether a younger driver of another application created the pod. A driver that first lists pods long after it
    /// took over, and does not know yet that its application was ended and begun again, counts it for a moment.
    pub(super) fn is_of_later_application(&self, uid: &PodUid, driver: usize) -> bool {
        self.created.get(uid).is_some_and(|created| {
            self.application_of(created.driver) != self.application_of(driver)
                && self.is_younger(created.driver, driver)
        })
    }

    fn may_end_application(&self, driver: usize) -> bool {
        self.ended_by.contains(&driver) || self.may_be_spent(driver)
    }

    // spec: I-9, I-12
    pub(super) fn check_deletes(&mut self, driver: usize, now: &Snapshot) -> Verdict {
        let own: Vec<PodDelete> = (self.deletes)
            .extract_if(.., |delete| delete.driver == driver)
            .collect();
        for PodDelete { id, uid, .. } in own {
            let view = self.drivers.entry(driver).or_default();
            let entry = id
                .and_then(|id| now.entry(id))
                .filter(|entry| entry.uid() == Some(&uid));
            let reported = id.and_then(|id| view.reported.get(&(id, Some(uid.clone()))).copied());
            let class = match (entry, reported) {
                (Some(entry), _) if entry.leaving.is_some() => {
                    Some(boatswain::model::reasoning::reason_of(entry).class)
                }
                (_, reported) => reported,
            };
            // The end of another pod of this id was reported, so this one came too late.
            let id_ended = (view.reported.keys())
                .any(|(ended, other)| Some(*ended) == id && other.as_ref() != Some(&uid));
            let since = Instant::now().checked_sub(HISTORY_NOTICE_DELAY);
            let was_history_replaced = since.is_some_and(|at| self.was_history_replaced_since(at));
            let excuses = &self.excuses;
            let edited =
                excuses.relabelled.contains(uid.as_str()) || excuses.foreign.contains(uid.as_str());
            let orphan = entry.is_none()
                && (id_ended
                    || self.may_be_orphan(driver, &uid)
                    || self.has_other_pod_with_changed_id(id, &uid, now)
                    || self.was_assigned_in_other_history(&uid));
            let excused = match class {
                // Whether there were too many is checked when they are marked.
                Some(LossClass::ScaledDown) => {
                    !entry.is_some_and(|entry| was_wrongly_released(entry))
                }
                Some(LossClass::Killed) => {
                    // The decision to remove an executor is never revoked, even if its history was replaced.
                    let inherited = entry.is_some_and(|entry| entry.adopted)
                        && (self.ended_with_its_application.contains(&uid)
                            || excuses.may_leave.contains(uid.as_str()));
                    self.may_end_application(driver)
                        || inherited
                        || id.is_some_and(|id| excuses.killed.contains(&id))
                }
                // An injected fault withholds something that these waited for.
                Some(LossClass::PendingTimeout | LossClass::StartFailed) => {
                    entry.is_some_and(|entry| entry.leaving.is_some())
                        || edited
                        || was_history_replaced
                }
                // Whether these were silent is checked when their end is reported.
                Some(
                    LossClass::HeartbeatTimeout
                    | LossClass::Disconnected
                    | LossClass::Unreachable
                    | LossClass::RegistrationTimeout,
                ) => true,
                Some(LossClass::NodeLost) => entry.is_some_and(|entry| is_on_silent_node(entry)),
                Some(LossClass::NodeLeaving) => entry.is_some_and(|one| excuses.has_to_leave(one)),
                Some(LossClass::Decommissioned) => {
                    // The mark stays on a pod whose id an injected fault changes afterwards.
                    let first = entry
                        .filter(|entry| entry.adopted && self.has_changed_id(&uid))
                        .and_then(|_| self.first_id(&uid));
                    (id.into_iter().chain(first)).any(|id| excuses.decommissioned.contains(&id))
                        || excuses.may_leave.contains(uid.as_str())
                        || self.was_held(&uid)
                }
                Some(LossClass::Mislabelled) if self.is_of_sets() => {
                    edited || self.was_assigned_before_restore(&uid)
                }
                // It had ended in a history of which the driver does not yet know that it was replaced.
                Some(_) if reported.is_some() => edited || was_history_replaced,
                // The same, and a predecessor had reported its end.
                None if entry
                    .is_some_and(|entry| entry.adopted && entry.class() == Class::Finished) =>
                {
                    edited || was_history_replaced
                }
                Some(_) | None => edited,
            };
            if !(orphan || excused) {
                let id = id.map_or(0, ExecutorId::get);
                return violated!(
                    "I-12: d{driver} ended {id} ({}), which was healthy, as {class:?}",
                    short(uid.as_str())
                );
            }
        }
        Ok(())
    }

    /// Whether the pod counted for this id is that of a successor which this pod's driver did not know of before the server
    /// was emptied: both begin ids beyond those that they know.
    fn ids_meet_in_an_emptied_server(&self, uid: &PodUid, id: (u32, ExecutorId)) -> bool {
        let by = |uid: &PodUid| self.created.get(uid).map(|created| created.driver);
        let counted = self.counted.get(&id).and_then(by);
        counted.zip(by(uid)).is_some_and(|(counted, own)| {
            let began = self.drivers.get(&counted).and_then(|view| view.began);
            self.is_younger(counted, own)
                && began.is_some_and(|at| self.was_history_replaced_since(at))
        })
    }

    /// Whether an operator has held the application since this pod was requested, maybe long before it was created.
    fn was_held(&self, uid: &PodUid) -> bool {
        let created = self.created.get(uid).map(|created| created.at);
        let is_on_its_way = self.left_unbound(uid);
        (self.excuses.held.iter())
            .any(|held| is_on_its_way || created.is_none_or(|at| at <= *held + REQUEST_DELAY))
    }

    /// Whether an executor may exceed the target because of an injected fault: it was not requested in time, its
    /// profile is wrong, or its removal was decided and a replacement requested, which a successor does not know.
    pub(super) fn is_surplus(&self, entry: &Entry) -> bool {
        let Some(uid) = entry.uid() else { return false };
        entry.leaving.is_none() && self.was_leaving(uid) || self.is_surplus_pod(uid)
    }

    /// A driver that dies at once has decided to remove executors that no look at its ledger shows.
    pub fn note_marks(&mut self, batch: &Batch) {
        let changed = batch.changed_executors();
        let entries = changed.iter().filter_map(|id| batch.latest().entry(*id));
        let leaving = entries.filter(|entry| entry.leaving.is_some());
        (self.ever_leaving).extend(leaving.filter_map(|entry| entry.uid().cloned()));
    }

    /// Whether some driver decided to remove this pod, or its executor before it knew the pod.
    pub(super) fn was_leaving(&self, uid: &PodUid) -> bool {
        self.ever_leaving.contains(uid) || self.left_unbound(uid)
    }

    /// Whether some driver decided to remove the executor before it knew this pod of it.
    fn left_unbound(&self, uid: &PodUid) -> bool {
        self.created.get(uid).is_some_and(|created| {
            let id = (self.application_of(created.driver), created.id);
            self.left_unbound.contains(&id)
        })
    }

    /// The same for a pod whose removal no driver has decided.
    pub(super) fn is_surplus_pod(&self, uid: &PodUid) -> bool {
        let created = self.created.get(uid);
        self.excuses.relabelled.contains(uid.as_str())
            || self.excuses.foreign.contains(uid.as_str())
            || created.is_some_and(|created| created.too_late || self.is_after_last_check(created))
            // Its profile and its deletion could not be read.
            || self.excuses.unread.contains(uid)
            // A restore revives executors that had ended and been replaced.
            || created.is_none_or(|created| self.was_history_replaced_since(created.at))
    }

    /// Whether a driver may treat a pod as an orphan although a driver created it (spec E-3).
    fn may_be_orphan(&self, driver: usize, uid: &PodUid) -> bool {
        let Some(created) = self.created.get(uid) else {
            return false;
        };
        let began = self.began(driver);
        let by_another_meanwhile =
            created.driver != driver && began.is_some_and(|began| created.at >= began);
        // It was requested again after an operator had deleted the first pod; at most one pod of an id counts.
        let again = |other: &CreatedPod| (other.driver, other.id) == (created.driver, created.id);
        let is_second = self.created.values().filter(|other| again(other)).count() > 1;
        created.too_late
            || by_another_meanwhile
            || is_second
            // After a restore, another driver gave out the same ids.
            || self.has_outdated_incarnation(created.driver)
            || self.was_history_replaced_since(created.at)
    }
}
