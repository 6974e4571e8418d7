use std::collections::BTreeMap;
use std::sync::Arc;

use crate::actors::pod_allocator::pause::{Cause, Pause};
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::model::{ProfileName, Snapshot, Tick};

use super::Allocation;

impl Allocation {
    /// The paused profiles (spec A-31), in O(profiles). Of several reasons, a refusal comes first:
    /// it is the one the operator can remove.
    pub fn pauses(&self, latest: &Snapshot) -> BTreeMap<ProfileName, Pause> {
        let wanted = (latest.targets.iter()).filter(|(_, target)| target.executors > 0);
        wanted
            .filter_map(|(profile, target)| {
                let counts = latest.counts(profile);
                let lacks = counts.live() < target.executors;
                let unanswered = counts.sent + counts.unknown;
                let waits = counts.live() - unanswered < target.executors;
                let group = self.groups_refused.get(profile);
                let group = group.filter(|_| lacks && self.gangs.is_whole(profile, latest));
                let pause = (group.cloned()).or_else(|| self.pause_of(profile, lacks));
                let pause = pause.or_else(|| self.failure().filter(|_| waits));
                Some((profile.clone(), pause?))
            })
            .collect()
    }

    /// PodGroups are refused, or no longer. Pods that name one that does not exist would wait for ever (spec A-115).
    pub fn groups_refused(
        &mut self,
        refused: BTreeMap<ProfileName, (RefusalKind, Arc<str>)>,
        now: Tick,
    ) {
        let before = std::mem::take(&mut self.groups_refused);
        let pause = |(profile, (kind, why))| {
            let since = before.get(&profile).map_or(now, |pause| pause.since);
            let cause = Cause::Refused(kind);
            let pause = Pause {
                cause,
                why,
                since,
                until: None,
            };
            (profile, pause)
        };
        self.groups_refused = refused.into_iter().map(pause).collect();
    }

    /// A refusal matters only while executors or their claims are missing or a test request is in flight.
    fn pause_of(&self, profile: &ProfileName, lacks: bool) -> Option<Pause> {
        let pause = self.refusal_pauses.get(profile);
        let lacks_some = lacks || self.claims.making.holds(profile);
        if let Some(pause) = pause.filter(|pause| lacks_some || pause.is_trying()) {
            return Some(Pause {
                cause: Cause::Refused(pause.kind),
                why: Arc::clone(&pause.why),
                since: pause.since,
                until: pause.next_try(),
            });
        }
        let looping = self.crash_loops.get(profile);
        let looping = looping.and_then(|looping| Some((looping, looping.backs_off()?)));
        if let Some((looping, (since, until))) = looping {
            return Some(Pause {
                cause: Cause::CrashLoop,
                why: looping.why(),
                since,
                until,
            });
        }
        if let Some((since, until)) = self.gangs.missed(profile) {
            return Some(Pause {
                cause: Cause::GangMissed,
                why: Arc::from("too few executors came in time to be of use together"),
                since,
                until,
            });
        }
        self.queue.as_ref()?.pause_of(profile, lacks)
    }

    /// Whether requests fail, whosever they are (spec A-26).
    fn failure(&self) -> Option<Pause> {
        let (since, why) = self.failing.as_ref()?;
        Some(Pause {
            cause: Cause::Failing,
            why: Arc::clone(why),
            since: *since,
            until: None,
        })
    }
}
