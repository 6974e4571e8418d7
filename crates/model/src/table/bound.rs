//! Entries with a pod: the columns Pending to Finished of spec E-10.

use std::sync::Arc;

use crate::executor::{Absence, Bound, Gone, GoneEvidence, LeaveMethod, LeaveReason, Leaving};
use crate::planted::{self, Planted};
use crate::pod::{Phase, PodIdentity};
use crate::{Entry, Epoch, Pod, PodState, ProfileName, ResourceVersion, State};

use super::{At, Authority, EntryNews};

pub(super) fn next(entry: &Entry, bound: &Bound, news: &EntryNews<'_>, at: &At) -> Option<Entry> {
    match news {
        EntryNews::Seen(pod, authority) => sighted(entry, bound, pod, *authority, at),
        EntryNews::SeenUnreadable(version, authority) => {
            unreadable(entry, bound, *version, *authority, at)
        }
        EntryNews::FoundThere(pod, sent) => {
            let authority = Authority::LookUp(*sent);
            if is_its_own(entry, pod) {
                sighted(entry, bound, pod, authority, at)
            } else {
                found_relabelled(entry, bound, pod, authority, at)
            }
        }
        EntryNews::FoundNothing(sent) => {
            // A name belongs to one pod at a time, so the pod is gone, unless the look-up was sent
            // before the pod was known: then it may not have existed yet.
            (*sent > bound.since).then(|| gone(entry, bound, GoneEvidence::Missing, at))
        }
        EntryNews::Deleted(pod) if pod.deletion.is_some() => {
            let last = with_pod(bound, pod, at.epoch);
            Some(gone(entry, &last, GoneEvidence::Deleted, at))
        }
        EntryNews::Deleted(pod) if !is_newer(bound, &pod.version, at.epoch) => None,
        EntryNews::Deleted(pod) => {
            let now = with_pod(bound, pod, at.epoch);
            Some(missed(entry, bound, now, &pod.version, at))
        }
        EntryNews::Lacked(version) => {
            let as_of = version.unwrap_or(&bound.pod.version);
            let outdated = as_of < held_version(bound, at.epoch);
            let known = bound.absent.is_some() && !needs_no_look_up(entry, bound);
            (!outdated && !known).then(|| missed(entry, bound, bound.clone(), as_of, at))
        }
        EntryNews::DeleteFoundNothing => {
            Some(gone(entry, bound, GoneEvidence::DeleteFoundNothing, at))
        }
        EntryNews::Inactive => Some(gone(entry, bound, GoneEvidence::Kept, at)),
        EntryNews::SentAgain
        | EntryNews::Created(_)
        | EntryNews::Refused(_)
        | EntryNews::Broke(_)
        | EntryNews::NameTaken
        | EntryNews::NoAnswer
        | EntryNews::Reported(_)
        | EntryNews::Leave(..)
        | EntryNews::Session(..)
        | EntryNews::Promote => None,
    }
}

fn sighted(
    entry: &Entry,
    bound: &Bound,
    pod: &Arc<Pod>,
    authority: Authority<'_>,
    at: &At,
) -> Option<Entry> {
    let same = is_same(bound, &pod.version, at.epoch);
    let accepted = if same {
        is_news_at_same_version(bound, pod, authority)
    } else {
        accepts(bound, &pod.version, authority, at.epoch)
    };
    if !same && !accepted {
        return None;
    }
    let state = pod.state();
    let looked_for =
        !is_its_own(entry, pod) && !is_known_mislabelled(entry) && state != PodState::Terminating;
    let absent = if looked_for {
        let absence = bound.absent.clone();
        absence.or_else(|| Some(absence_at(&pod.version, at)))
    } else {
        still_absent(bound, Some(&pod.version), authority, at.epoch)
    };
    if !accepted && absent == bound.absent {
        return None;
    }
    let after = Bound {
        absent,
        running_since: (bound.running_since)
            .or_else(|| (state == PodState::Running).then_some(at.now)),
        ..with_pod(bound, pod, at.epoch)
    };
    let mut sighted = with_state(entry, State::Bound(after));
    // A restored server may show it as it was before.
    sighted.found_terminating &= pod.deletion.is_some();
    let learnt = profile_learnt(entry, bound, pod).or_else(|| promoted_before(entry, pod));
    if let Some(profile) = learnt {
        sighted.profile = profile;
    }
    Some(sighted)
}

/// The profile, if the labels were unreadable at adoption and are readable now.
fn profile_learnt(entry: &Entry, bound: &Bound, pod: &Pod) -> Option<ProfileName> {
    let PodIdentity::Executor { profile: None, .. } = &bound.pod.identity else {
        return None;
    };
    let PodIdentity::Executor { profile, .. } = &pod.identity else {
        return None;
    };
    let learns = entry.adopted && bound.pod.phase.is_unreadable() && !pod.phase.is_unreadable();
    profile.clone().filter(|_| learns)
}

/// The profile of a spare that an earlier driver has promoted, whose call came late.
fn promoted_before(entry: &Entry, pod: &Pod) -> Option<ProfileName> {
    let promoted = entry.profile.spares_of()?;
    (pod.identity.profile() == Some(&promoted)).then_some(promoted)
}

/// Handles an unreadable sighting: the pod exists and is Odd (spec S-15), unless it is finished.
fn unreadable(
    entry: &Entry,
    bound: &Bound,
    version: Option<&ResourceVersion>,
    authority: Authority<'_>,
    at: &At,
) -> Option<Entry> {
    let mut after = Bound {
        absent: still_absent(bound, version, authority, at.epoch),
        ..bound.clone()
    };
    let news = version.is_none_or(|version| is_newer(bound, version, at.epoch));
    if news && !bound.pod.state().is_finished() {
        let mut odd = Pod::clone(&bound.pod);
        odd.phase = Phase::unreadable();
        if let Some(version) = version {
            odd.version = version.clone();
            after.epoch = at.epoch;
        }
        after.pod = Arc::new(odd);
    }
    (after != *bound).then(|| with_state(entry, State::Bound(after)))
}

/// A look-up has found the pod without our labels.
fn found_relabelled(
    entry: &Entry,
    bound: &Bound,
    pod: &Arc<Pod>,
    authority: Authority<'_>,
    at: &At,
) -> Option<Entry> {
    let same = is_same(bound, &pod.version, at.epoch);
    if !same && !accepts(bound, &pod.version, authority, at.epoch) {
        return None;
    }
    let after = Bound {
        absent: still_absent(bound, Some(&pod.version), authority, at.epoch),
        ..with_pod(bound, pod, at.epoch)
    };
    if is_over(bound) || pod.state().is_finished() {
        return Some(gone(entry, &after, GoneEvidence::RelabelledAfterEnd, at));
    }
    let mut found = with_state(entry, State::Bound(after));
    found.leaving.get_or_insert_with(|| Leaving {
        why: LeaveReason::Mislabelled(missing_label(&pod.identity)),
        how: LeaveMethod::Delete,
        since: at.now,
    });
    (found != *entry).then_some(found)
}

/// The entry of a missing pod: absent, or gone if no look-up is needed.
fn missed(entry: &Entry, before: &Bound, now: Bound, as_of: &ResourceVersion, at: &At) -> Entry {
    if needs_no_look_up(entry, before) {
        return gone(entry, &now, GoneEvidence::NoLongerListed, at);
    }
    if planted::is(Planted::AbsentIsGone) {
        return gone(entry, &now, GoneEvidence::Missing, at);
    }
    let mut absence = absence_at(as_of, at);
    if let Some(known) = &before.absent {
        absence.since = known.since;
        if known.epoch == at.epoch {
            absence.as_of = absence.as_of.max(known.as_of.clone());
        }
    }
    let absent = Some(absence);
    with_state(entry, State::Bound(Bound { absent, ..now }))
}

fn gone(entry: &Entry, last: &Bound, how: GoneEvidence, at: &At) -> Entry {
    let gone = Gone {
        bound: Some(last.clone()),
        how,
        at: at.now,
    };
    with_state(entry, State::Gone(gone))
}

fn with_state(entry: &Entry, state: State) -> Entry {
    Entry {
        state,
        ..entry.clone()
    }
}

fn with_pod(bound: &Bound, pod: &Arc<Pod>, epoch: Epoch) -> Bound {
    Bound {
        pod: pod.keeping_evidence(&bound.pod),
        epoch,
        ..bound.clone()
    }
}

fn absence_at(as_of: &ResourceVersion, at: &At) -> Absence {
    Absence {
        since: at.now,
        as_of: as_of.clone(),
        epoch: at.epoch,
    }
}

fn is_its_own(entry: &Entry, pod: &Pod) -> bool {
    pod.identity.executor() == Some(entry.id)
}

fn is_known_mislabelled(entry: &Entry) -> bool {
    (entry.leaving.as_ref()).is_some_and(|mark| matches!(mark.why, LeaveReason::Mislabelled(_)))
}

fn is_over(bound: &Bound) -> bool {
    let state = bound.pod.state();
    state.is_finished() || state == PodState::Terminating
}

fn needs_no_look_up(entry: &Entry, bound: &Bound) -> bool {
    is_over(bound) || entry.is_reported()
}

/// The version to compare with: versions of an earlier epoch count as 0 (spec S-13).
fn held_version(bound: &Bound, epoch: Epoch) -> &ResourceVersion {
    if bound.epoch < epoch {
        &ResourceVersion::ZERO
    } else {
        &bound.pod.version
    }
}

fn is_same(bound: &Bound, version: &ResourceVersion, epoch: Epoch) -> bool {
    bound.epoch == epoch && bound.pod.version == *version
}

/// A pod that becomes readable is news. A full list with another state of a pod is from another history, in which the
/// pod has the same version by coincidence (spec S-13).
fn is_news_at_same_version(bound: &Bound, pod: &Pod, authority: Authority<'_>) -> bool {
    let (was_unreadable, unreadable) = (bound.pod.phase.is_unreadable(), pod.phase.is_unreadable());
    let contradicts =
        matches!(authority, Authority::FullList(_)) && bound.pod.state() != pod.state();
    !unreadable && (was_unreadable || contradicts)
}

fn is_newer(bound: &Bound, version: &ResourceVersion, epoch: Epoch) -> bool {
    held_version(bound, epoch) < version || planted::is(Planted::VersionGuardDropped)
}

/// Whether news with another version than the held one is accepted (spec S-10).
fn accepts(
    bound: &Bound,
    version: &ResourceVersion,
    authority: Authority<'_>,
    epoch: Epoch,
) -> bool {
    let replaced = match authority {
        Authority::Event => false,
        // Within one history, a list as new as the held version cannot show an older one. So the
        // server was restored unnoticed (spec S-26), and the list is right.
        Authority::FullList(list) => bound.pod.version <= *list,
        // The same holds for a look-up sent after the pod was found absent, unless newer news
        // arrived meanwhile.
        Authority::LookUp(sent) => (bound.absent.as_ref())
            .is_some_and(|a| sent >= a.since && *held_version(bound, a.epoch) <= a.as_of),
    };
    is_newer(bound, version, epoch) || replaced
}

/// The absence that remains after a sighting: one that is older than the list that lacked the pod,
/// or was requested before it, does not end the absence.
fn still_absent(
    bound: &Bound,
    version: Option<&ResourceVersion>,
    authority: Authority<'_>,
    epoch: Epoch,
) -> Option<Absence> {
    let absence = bound.absent.as_ref()?;
    let later = match authority {
        Authority::Event => false,
        Authority::FullList(list) => absence.as_of < *list,
        Authority::LookUp(sent) => sent >= absence.since,
    };
    let newer = version.is_some_and(|version| absence.as_of < *version);
    (!later && !newer && absence.epoch == epoch).then(|| absence.clone())
}

fn missing_label(identity: &PodIdentity) -> Arc<str> {
    match identity {
        PodIdentity::Foreign { label } => Arc::clone(label),
        PodIdentity::Unrecognised { why } => Arc::clone(why),
        PodIdentity::Executor { .. } | PodIdentity::UnassignedPod { .. } => {
            Arc::from("executor id")
        }
    }
}
