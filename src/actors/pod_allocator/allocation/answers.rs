//! What the API server's answers to requests mean for further requests (spec ).

use std::sync::Arc;

use rand::RngExt;

use super::Allocation;
use crate::actors::pod_allocator::claims::making::{Ensure, Ensured};
use crate::actors::pod_allocator::decision::{Answer, Decision, Notice};
use crate::actors::pod_allocator::pace::{Health, PaceChange};
use crate::actors::pod_allocator::refusal::{RefusalKind, RefusalPause};
use crate::model::{LossReason, Now, ProfileName, Tick};

/// What an executor is made of, by a template of its profile each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Pod,
    Claim,
}

impl Allocation {
    /// A request sent at `sent` was answered or failed. The store has been informed already.
    pub fn answered(
        &mut self,
        profile: &ProfileName,
        sent: Tick,
        answer: &Answer,
        now: Now,
    ) -> Vec<Notice> {
        let mut said = Vec::new();
        let health = match answer {
            Answer::Created | Answer::NameTaken => Health::Works,
            Answer::Refused(..) => Health::Refused,
            Answer::Trouble(Some(wait), _) => Health::Wait(Some(*wait)),
            Answer::Trouble(None, _) => Health::Trouble,
        };
        let turn = self.pace.answered(sent, health, now, self.rng.random());
        match (turn, answer) {
            (Some(PaceChange::Degraded), Answer::Trouble(_, why)) => {
                self.failing = Some((now.tick, Arc::clone(why)));
                said.push(Notice::Degraded {
                    why: Arc::clone(why),
                });
            }
            (Some(PaceChange::Recovered(after)), _) => {
                self.failing = None;
                said.push(Notice::Recovered { after });
            }
            _ => {}
        }
        let (wall, now) = (now, now.tick);
        match answer {
            Answer::Created => {
                self.had_an_executor = true;
                self.accepted(Object::Pod, profile, sent, now);
            }
            Answer::Refused(kind, why) => {
                said.extend(self.refused(Object::Pod, profile, sent, *kind, why, wall))
            }
            Answer::NameTaken | Answer::Trouble(..) => {
                self.may_have_one |= matches!(answer, Answer::Trouble(..)) && !self.had_an_executor;
                if let Some(pause) = self.refusal_pauses.get_mut(profile) {
                    pause.try_over(sent);
                }
            }
        }
        said
    }

    /// A call about a claim sent at `sent` was answered. A refusal pauses the profile as that of a pod does (spec A-61).
    pub fn claim_answered(
        &mut self,
        ensure: &Ensure,
        sent: Tick,
        ensured: Ensured,
        now: Now,
    ) -> Vec<Notice> {
        let profile = &ensure.profile;
        let change = (self.claims.making).answered(ensure, ensured.clone(), now.tick);
        let mut said: Vec<Notice> = change.map(Notice::Claims).into_iter().collect();
        match ensured {
            Ensured::There => {
                self.accepted(Object::Claim, profile, sent, now.tick);
            }
            Ensured::Refused(kind, why) => {
                said.extend(self.refused(Object::Claim, profile, sent, kind, &why, now));
            }
            Ensured::Taken(_) | Ensured::Failed(_) | Ensured::NotYet => {
                if let Some(pause) = self.refusal_pauses.get_mut(profile) {
                    pause.try_over(sent);
                }
            }
        }
        said
    }

    /// A pod or a claim of this profile was accepted. If it was the try, the rest follow, unless claims are held back:
    /// these are tried one after the other.
    fn accepted(&mut self, object: Object, profile: &ProfileName, sent: Tick, now: Tick) {
        self.accepted.insert((object, profile.clone()));
        if let Some(pause) = self.refusal_pauses.get_mut(profile)
            && pause.is_answer_to_the_try(sent)
        {
            match self.claims.making.holds(profile) {
                true => pause.accepted_one(now),
                false => pause.lift(now),
            }
        }
    }

    /// Ends the pauses of profiles of which nothing was refused for a while (spec A-31).
    pub(super) fn end_refusals(&mut self, now: Tick, decision: &mut Decision) {
        self.refusal_pauses.retain(|profile, pause| {
            let Some((at, after)) = pause.ends_at() else {
                return true;
            };
            let has_ended = at <= now;
            if has_ended {
                let profile = profile.clone();
                decision.say(Notice::RefusalEnded { profile, after });
            } else {
                decision.wake_at(Some(at), now);
            }
            !has_ended
        });
    }

    fn refused(
        &mut self,
        object: Object,
        profile: &ProfileName,
        sent: Tick,
        kind: RefusalKind,
        why: &Arc<str>,
        wall: Now,
    ) -> Vec<Notice> {
        let now = wall.tick;
        let accepted = self.accepted.contains(&(object, profile.clone()));
        let (another, counts) = match self.refusal_pauses.get_mut(profile) {
            Some(pause) => {
                let is_new = pause.is_news(sent);
                (
                    pause.again(kind, Arc::clone(why), accepted, sent, now),
                    is_new,
                )
            }
            None => {
                let pause = RefusalPause::begin(kind, Arc::clone(why), accepted, now);
                self.refusal_pauses.insert(profile.clone(), pause);
                (true, true)
            }
        };
        let never_had_one = !self.had_an_executor && !self.may_have_one;
        if kind.is_fatal_at_start() && never_had_one && self.are_all_refused(profile) {
            let why = Arc::clone(why);
            return vec![Notice::Fatal { kind, why }];
        }
        let mut said = Vec::new();
        if kind == RefusalKind::Blocked && counts && !accepted {
            // The next round finds out whether that was one too many.
            let reason = LossReason::of_a_refusal(why);
            self.failures.refused(profile, &reason, wall);
        }
        if another && let Some(pause) = self.refusal_pauses.get(profile) {
            said.push(Notice::RefusalBegan {
                profile: profile.clone(),
                kind,
                why: Arc::clone(why),
                wait: now.until(pause.until),
            });
        }
        said
    }

    /// Whether no profile of which executors are wanted is left that may get one. `profile` was refused just now.
    // spec: A-24
    fn are_all_refused(&self, profile: &ProfileName) -> bool {
        let is_refused = |profile: &ProfileName| {
            let pause = self.refusal_pauses.get(profile);
            pause.is_some_and(|pause| pause.holds_back() && pause.kind.is_fatal_at_start())
        };
        is_refused(profile) && self.wanted.iter().all(is_refused)
    }
}
