//! The table of spec E-10 as one function: what each piece of news does to an entry.

mod bound;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Tick;
use crate::executor::{
    Absence, Bound, Class, Gone, GoneEvidence, LeaveMethod, LeaveReason, Leaving, Request, Session,
    Unanswered,
};
use crate::planted::{self, Planted};
use crate::{Entry, Epoch, ExecutorId, LossReason, Pod, PodState, ResourceVersion, State};

/// News about one executor. If it is about a pod, the pod is known to be this executor's.
#[derive(Debug, Clone)]
pub enum EntryNews<'a> {
    SentAgain,
    Created(&'a Arc<Pod>),
    Refused(&'a Arc<str>),
    /// The outcome is unknown.
    Broke(&'a Arc<str>),
    NameTaken,
    Seen(&'a Arc<Pod>, Authority<'a>),
    /// The pod was seen, but is unreadable. With its version, if that is readable.
    SeenUnreadable(Option<&'a ResourceVersion>, Authority<'a>),
    /// A DELETED event. Without a deletionTimestamp the pod has left the selector.
    Deleted(&'a Arc<Pod>),
    /// A full list of this version lacks the pod, or a DELETED event was unreadable.
    Lacked(Option<&'a ResourceVersion>),
    /// A look-up sent at this time found the pod.
    FoundThere(&'a Arc<Pod>, Tick),
    /// A look-up sent at this time found no pod of this executor.
    FoundNothing(Tick),
    NoAnswer,
    DeleteFoundNothing,
    /// The inactive label is confirmed.
    Inactive,
    Reported(&'a Arc<LossReason>),
    Leave(&'a LeaveReason, LeaveMethod),
    Session(Session),
    /// The executor is a spare no more.
    Promote,
}

/// How much a sighting proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority<'a> {
    /// An event, an answer or an item of a stale list. It is accepted if it is newer.
    Event,
    /// An item of a full list of this version. It is accepted unless something newer is known.
    FullList(&'a ResourceVersion),
    /// The answer to a look-up sent at this time: the state at some time after that.
    LookUp(Tick),
}

#[derive(Debug, Clone, Copy)]
pub struct At {
    pub now: Tick,
    /// The ledger's count of news.
    pub count: u64,
    pub epoch: Epoch,
    /// How long the server may take to commit a request.
    pub server_timeout: Duration,
}

/// Returns the entry after the news; `None` if the news changes nothing.
pub fn next(entry: &Entry, news: &EntryNews<'_>, at: &At) -> Option<Entry> {
    match news {
        EntryNews::Leave(why, how) => return mark(entry, why, *how, at),
        EntryNews::Session(session) => return with_session(entry, *session),
        EntryNews::Promote => return promoted(entry, at),
        EntryNews::Reported(reason) => return reported(entry, reason),
        _ => {}
    }
    let state = match &entry.state {
        State::Sent(request) => sent(entry.id, *request, news, at)?,
        State::Unknown(unanswered) => unknown(entry.id, unanswered, news, at)?,
        State::Bound(bound) => return bound::next(entry, bound, news, at),
        State::Gone(_) => return None,
    };
    (state != entry.state).then(|| Entry {
        state,
        ..entry.clone()
    })
}

/// The column "Sent".
fn sent(id: ExecutorId, request: Request, news: &EntryNews<'_>, at: &At) -> Option<State> {
    match news {
        EntryNews::Created(pod) => Some(bind(id, pod, request.epoch, at)),
        EntryNews::Refused(why) => Some(not_created(why, at)),
        EntryNews::NameTaken => Some(not_created(&Arc::from("its name is taken"), at)),
        EntryNews::Broke(why) if planted::is(Planted::OutcomeForgotten) => {
            Some(not_created(why, at))
        }
        EntryNews::Broke(why) => Some(State::Unknown(Unanswered {
            request,
            since: at.now,
            repeats: 0,
            in_flight: false,
            look_up: false,
            why: Arc::clone(why),
        })),
        EntryNews::Seen(pod, _) | EntryNews::FoundThere(pod, _) => {
            Some(bind(id, pod, at.epoch, at))
        }
        EntryNews::Deleted(pod) => seen_deleted_first(pod, at),
        EntryNews::SentAgain
        | EntryNews::SeenUnreadable(..)
        | EntryNews::Lacked(_)
        | EntryNews::FoundNothing(_)
        | EntryNews::NoAnswer
        | EntryNews::DeleteFoundNothing
        | EntryNews::Inactive
        | EntryNews::Reported(_)
        | EntryNews::Leave(..)
        | EntryNews::Session(..)
        | EntryNews::Promote => None,
    }
}

/// The column "Unknown".
fn unknown(
    id: ExecutorId,
    unanswered: &Unanswered,
    news: &EntryNews<'_>,
    at: &At,
) -> Option<State> {
    match news {
        EntryNews::SentAgain if unanswered.in_flight => None,
        // A request that was sent counts even if the entry was marked meanwhile (spec L-14): only a
        // look-up after this request settles it.
        EntryNews::SentAgain => Some(State::Unknown(Unanswered {
            request: Request {
                sent: at.now,
                epoch: at.epoch,
            },
            repeats: unanswered.repeats.saturating_add(1),
            in_flight: true,
            ..unanswered.clone()
        })),
        EntryNews::Created(pod) => Some(bind(id, pod, unanswered.request.epoch, at)),
        EntryNews::Refused(why) => Some(State::Unknown(Unanswered {
            in_flight: false,
            look_up: true,
            why: Arc::clone(why),
            ..unanswered.clone()
        })),
        EntryNews::NameTaken => Some(State::Unknown(Unanswered {
            in_flight: false,
            look_up: true,
            ..unanswered.clone()
        })),
        EntryNews::Broke(why) => Some(State::Unknown(Unanswered {
            in_flight: false,
            why: Arc::clone(why),
            ..unanswered.clone()
        })),
        EntryNews::Seen(pod, _) | EntryNews::FoundThere(pod, _) => {
            Some(bind(id, pod, at.epoch, at))
        }
        EntryNews::Deleted(pod) => seen_deleted_first(pod, at),
        EntryNews::FoundNothing(sent) => {
            // Before that the request may still commit, and a 404 proves nothing (spec A-13).
            let settled = !unanswered.in_flight
                && *sent >= unanswered.request.sent + at.server_timeout
                || planted::is(Planted::LookedUpTooSoon);
            settled.then(|| not_created(&unanswered.why, at))
        }
        EntryNews::SeenUnreadable(..)
        | EntryNews::Lacked(_)
        | EntryNews::NoAnswer
        | EntryNews::DeleteFoundNothing
        | EntryNews::Inactive
        | EntryNews::Reported(_)
        | EntryNews::Leave(..)
        | EntryNews::Session(..)
        | EntryNews::Promote => None,
    }
}

fn bind(id: ExecutorId, pod: &Arc<Pod>, epoch: Epoch, at: &At) -> State {
    let ours = pod.identity.executor() == Some(id);
    let state = pod.state();
    State::Bound(Bound {
        pod: Arc::clone(pod),
        epoch,
        bound_at: at.count,
        since: at.now,
        running_since: (state == PodState::Running).then_some(at.now),
        absent: (!ours && state != PodState::Terminating).then(|| Absence {
            since: at.now,
            as_of: pod.version.clone(),
            epoch,
        }),
    })
}

/// The first news of the pod is its deletion: the entry is bound and gone at once.
fn seen_deleted_first(pod: &Arc<Pod>, at: &At) -> Option<State> {
    pod.deletion?;
    let bound = Bound {
        pod: Arc::clone(pod),
        epoch: at.epoch,
        bound_at: at.count,
        since: at.now,
        running_since: None,
        absent: None,
    };
    Some(State::Gone(Gone {
        bound: Some(bound),
        how: GoneEvidence::Deleted,
        at: at.now,
    }))
}

fn not_created(why: &Arc<str>, at: &At) -> State {
    State::Gone(Gone {
        bound: None,
        how: GoneEvidence::NotCreated(Arc::clone(why)),
        at: at.now,
    })
}

/// A mark on a leaving entry may make `how` more urgent. The reason stays the first one.
fn mark(entry: &Entry, why: &LeaveReason, how: LeaveMethod, at: &At) -> Option<Entry> {
    if let Some(known) = &entry.leaving {
        let hurried = !entry.has_ended() && how.is_harder_than(known.how);
        return hurried.then(|| Entry {
            leaving: Some(Leaving {
                how,
                since: at.now,
                ..known.clone()
            }),
            ..entry.clone()
        });
    }
    let settled = match &entry.state {
        State::Gone(_) => true,
        State::Bound(bound) => {
            let state = bound.pod.state();
            state.is_finished() || state == PodState::Terminating
        }
        State::Sent(_) | State::Unknown(_) => false,
    };
    if settled {
        return None;
    }
    let leaving = Some(Leaving {
        why: why.clone(),
        how,
        since: at.now,
    });
    Some(Entry {
        leaving,
        ..entry.clone()
    })
}

/// An end may be reported while the pod still exists (spec E-9, L-3), but requires a pod.
fn reported(entry: &Entry, reason: &Arc<LossReason>) -> Option<Entry> {
    (entry.had_a_pod() && !entry.is_reported()).then(|| Entry {
        end: Some(Arc::clone(reason)),
        ..entry.clone()
    })
}

/// Only one whose pod is known can be: its label has to be changed. It runs from now on.
fn promoted(entry: &Entry, at: &At) -> Option<Entry> {
    let class = entry.class();
    let profile = entry.profile.spares_of()?;
    let State::Bound(bound) = &entry.state else {
        return None;
    };
    let running_since = bound.running_since.map(|_| at.now);
    (class.is_live() && class != Class::Absent).then(|| Entry {
        profile,
        state: State::Bound(Bound {
            running_since,
            ..bound.clone()
        }),
        ..entry.clone()
    })
}

fn with_session(entry: &Entry, session: Session) -> Option<Entry> {
    (session != entry.session).then(|| Entry {
        session,
        ..entry.clone()
    })
}
