//! What each piece of news does to an entry: the table of spec E-10, as one function.

use std::sync::Arc;
use std::time::Duration;

use crate::model::clock::Tick;
use crate::model::executor::{Bound, Doubt, Gone, How, HowGone, Leaving, Request, Why};
use crate::model::pod::{Claim, Phase};
use crate::model::{Entry, Epoch, ExecutorId, Pod, PodState, ResourceVersion, State};

/// News about one executor, already known to be about its pod where it is about a pod.
#[derive(Debug, Clone)]
pub enum EntryNews<'a> {
    /// The request is about to be sent again.
    SentAgain,
    /// The request was answered 201 with this pod.
    Created(&'a Arc<Pod>),
    /// The request was refused.
    Refused(&'a Arc<str>),
    /// The request broke.
    Broke(&'a Arc<str>),
    /// The request was answered 409.
    NameTaken,
    /// The pod was seen.
    Seen(&'a Arc<Pod>, Authority<'a>),
    /// The pod was seen, but could not be read (spec S-15).
    SeenUnreadable(Option<&'a ResourceVersion>),
    /// A DELETED event; whether a deletionTimestamp is set is in the pod.
    Deleted(&'a Arc<Pod>),
    /// A full list that judges it lacks it (spec S-12).
    Lacked,
    /// Looked up by name: its pod is there.
    FoundThere(&'a Arc<Pod>),
    /// Looked up by name: nothing of its own is there. When the look-up was sent.
    FoundNothing(Tick),
    /// A look-up got no answer.
    NoAnswer,
    /// A delete found nothing of that uid.
    DeleteFoundNothing,
    /// The inactive label of its pod is confirmed.
    Inactive,
    /// Its end was announced.
    Told,
    /// It was chosen to go.
    Leave(&'a Why, How),
    /// Its session's facts: registered, idle.
    Session(bool, bool),
}

/// How much the sight of a pod proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority<'a> {
    /// An event, an answer, an item of a stale list: it counts where it is newer (spec S-10).
    Event,
    /// An item of a full list of this version: what the list shows is so, unless something newer is known.
    FullList(&'a ResourceVersion),
}

/// The circumstances in which news arrives.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// Now.
    pub now: Tick,
    /// The store's count of news.
    pub count: u64,
    /// The history that the news belongs to.
    pub epoch: Epoch,
    /// How long the server may take to commit a request (spec A-11).
    pub server_timeout: Duration,
}

/// The entry after the news; `None` where the news changes nothing.
pub fn next(entry: &Entry, news: &EntryNews<'_>, at: &At) -> Option<Entry> {
    match news {
        EntryNews::Leave(why, how) => return mark(entry, why, *how, at),
        EntryNews::Session(registered, idle) => return session(entry, *registered, *idle),
        EntryNews::Told => {
            return (entry.has_ended() && !entry.told).then(|| Entry {
                told: true,
                ..entry.clone()
            });
        }
        _ => {}
    }
    let state = match &entry.state {
        State::Sent(request) => sent(entry, *request, news, at)?,
        State::Unknown(doubt) => unknown(entry, doubt, news, at)?,
        State::Bound(bound) => return bound_to(entry, bound, news, at),
        State::Gone(_) => return None,
    };
    Some(Entry {
        state,
        ..entry.clone()
    })
}

/// The column "Sent".
fn sent(entry: &Entry, request: Request, news: &EntryNews<'_>, at: &At) -> Option<State> {
    match news {
        EntryNews::Created(pod) => Some(bind(entry.id, pod, request.epoch, at)),
        EntryNews::Refused(why) => Some(not_created(why, at)),
        EntryNews::NameTaken => Some(not_created(&Arc::from("its name is taken"), at)),
        EntryNews::Broke(why) => Some(State::Unknown(Doubt {
            request,
            since: at.now,
            repeats: 0,
            in_flight: false,
            look_up: false,
            why: Arc::clone(why),
        })),
        EntryNews::Seen(pod, _) | EntryNews::FoundThere(pod) => {
            Some(bind(entry.id, pod, at.epoch, at))
        }
        EntryNews::Deleted(pod) => seen_deleted_first(pod, at),
        EntryNews::SentAgain
        | EntryNews::SeenUnreadable(_)
        | EntryNews::Lacked
        | EntryNews::FoundNothing(_)
        | EntryNews::NoAnswer
        | EntryNews::DeleteFoundNothing
        | EntryNews::Inactive
        | EntryNews::Told
        | EntryNews::Leave(..)
        | EntryNews::Session(..) => None,
    }
}

/// The column "Unknown".
fn unknown(entry: &Entry, doubt: &Doubt, news: &EntryNews<'_>, at: &At) -> Option<State> {
    match news {
        EntryNews::SentAgain if doubt.in_flight || entry.leaving.is_some() => None,
        EntryNews::SentAgain => Some(State::Unknown(Doubt {
            request: Request {
                sent: at.now,
                epoch: at.epoch,
            },
            repeats: doubt.repeats.saturating_add(1),
            in_flight: true,
            ..doubt.clone()
        })),
        EntryNews::Created(pod) => Some(bind(entry.id, pod, doubt.request.epoch, at)),
        EntryNews::Refused(why) => Some(State::Unknown(Doubt {
            in_flight: false,
            look_up: true,
            why: Arc::clone(why),
            ..doubt.clone()
        })),
        EntryNews::NameTaken => Some(State::Unknown(Doubt {
            in_flight: false,
            look_up: true,
            ..doubt.clone()
        })),
        EntryNews::Broke(why) => Some(State::Unknown(Doubt {
            in_flight: false,
            why: Arc::clone(why),
            ..doubt.clone()
        })),
        EntryNews::Seen(pod, _) | EntryNews::FoundThere(pod) => {
            Some(bind(entry.id, pod, at.epoch, at))
        }
        EntryNews::Deleted(pod) => seen_deleted_first(pod, at),
        EntryNews::FoundNothing(sent) => {
            // Until then the request may still commit, and a 404 proves nothing (spec A-13).
            let settled = !doubt.in_flight && *sent >= doubt.request.sent + at.server_timeout;
            settled.then(|| not_created(&doubt.why, at))
        }
        EntryNews::SeenUnreadable(_)
        | EntryNews::Lacked
        | EntryNews::NoAnswer
        | EntryNews::DeleteFoundNothing
        | EntryNews::Inactive
        | EntryNews::Told
        | EntryNews::Leave(..)
        | EntryNews::Session(..) => None,
    }
}

/// The columns "Pending, Running, Odd, Absent" and "Terminating, Finished".
fn bound_to(entry: &Entry, bound: &Bound, news: &EntryNews<'_>, at: &At) -> Option<Entry> {
    let state = bound.pod.state();
    let over = state.is_finished() || state == PodState::Terminating;
    let gone = |how: HowGone, pod: &Arc<Pod>| {
        let last = Bound {
            pod: Arc::clone(pod),
            ..bound.clone()
        };
        let state = State::Gone(Gone {
            bound: Some(last),
            how,
            at: at.now,
        });
        Some(Entry {
            state,
            ..entry.clone()
        })
    };
    let absent = |since| {
        let state = State::Bound(Bound {
            absent: Some(since),
            ..bound.clone()
        });
        Some(Entry {
            state,
            ..entry.clone()
        })
    };
    match news {
        EntryNews::Seen(pod, authority) => take(entry, bound, pod, at, |held| {
            accepts(bound, held, pod, *authority)
        }),
        EntryNews::FoundThere(pod) => {
            let ours = pod.claim.executor() == Some(entry.id);
            if !ours && (over || pod.state().is_finished()) {
                return gone(HowGone::RelabelledAfterEnd, pod);
            }
            let newer = take(entry, bound, pod, at, |held| {
                held < &pod.version || bound.absent.is_some()
            });
            if ours {
                return newer;
            }
            let mut found = newer.unwrap_or_else(|| entry.clone());
            // Found, so it is not looked for any more, whosever it says it is.
            if let State::Bound(bound) = &mut found.state {
                bound.absent = None;
            }
            found.leaving.get_or_insert_with(|| Leaving {
                why: Why::Mislabelled(missing_label(&pod.claim)),
                how: How::Delete,
                since: at.now,
            });
            Some(found)
        }
        EntryNews::SeenUnreadable(version) => {
            if state.is_finished() || version.is_some_and(|v| !is_newer(bound, v, at.epoch)) {
                return None;
            }
            let mut odd = Pod::clone(&bound.pod);
            odd.phase = Phase::Odd(Arc::from("unreadable"));
            if let Some(version) = version {
                odd.version = (*version).clone();
            }
            let state = State::Bound(Bound {
                pod: Arc::new(odd),
                epoch: at.epoch,
                absent: None,
                ..bound.clone()
            });
            Some(Entry {
                state,
                ..entry.clone()
            })
        }
        EntryNews::Deleted(pod) if pod.deletion.is_some() => gone(HowGone::Deleted, pod),
        EntryNews::Deleted(pod) if !is_newer(bound, &pod.version, at.epoch) => None,
        EntryNews::Deleted(_) | EntryNews::Lacked if over || entry.told => {
            gone(HowGone::NoLongerListed, &bound.pod)
        }
        EntryNews::Lacked if bound.absent.is_some() => None,
        EntryNews::Deleted(_) | EntryNews::Lacked => absent(at.now),
        EntryNews::FoundNothing(sent) => {
            // A look-up that began before the pod was missed says nothing about it.
            let asked_since = bound.absent.is_some_and(|since| *sent >= since);
            if asked_since {
                gone(HowGone::Missing, &bound.pod)
            } else {
                None
            }
        }
        EntryNews::DeleteFoundNothing => gone(HowGone::DeleteFoundNothing, &bound.pod),
        EntryNews::Inactive => gone(HowGone::Kept, &bound.pod),
        EntryNews::SentAgain
        | EntryNews::Created(_)
        | EntryNews::Refused(_)
        | EntryNews::Broke(_)
        | EntryNews::NameTaken
        | EntryNews::NoAnswer
        | EntryNews::Told
        | EntryNews::Leave(..)
        | EntryNews::Session(..) => None,
    }
}

/// The entry with this news of its pod, where it is accepted; the closure gets the version that counts as held.
fn take(
    entry: &Entry,
    bound: &Bound,
    pod: &Arc<Pod>,
    at: &At,
    accept: impl FnOnce(&ResourceVersion) -> bool,
) -> Option<Entry> {
    if bound.epoch > at.epoch {
        return None;
    }
    let held = held_version(bound, at.epoch);
    let same_news = held == &pod.version && bound.epoch == at.epoch;
    if same_news && bound.absent.is_none() {
        return None;
    }
    if !same_news && !accept(held) {
        return None;
    }
    let ours = pod.claim.executor() == Some(entry.id);
    let known_mislabelled = entry
        .leaving
        .as_ref()
        .is_some_and(|mark| matches!(mark.why, Why::Mislabelled(_)));
    let state = pod.state();
    let absent = (!ours && !known_mislabelled && state != PodState::Terminating)
        .then(|| bound.absent.unwrap_or(at.now));
    let running_since = bound
        .running_since
        .or_else(|| (state == PodState::Running).then_some(at.now));
    if same_news && absent == bound.absent {
        return None;
    }
    let state = State::Bound(Bound {
        pod: Arc::clone(pod),
        epoch: at.epoch,
        bound_at: bound.bound_at,
        running_since,
        absent,
    });
    Some(Entry {
        state,
        ..entry.clone()
    })
}

/// Whether news of a pod is accepted over what is held (spec S-10).
fn accepts(bound: &Bound, held: &ResourceVersion, pod: &Pod, authority: Authority<'_>) -> bool {
    match authority {
        Authority::Event => held < &pod.version,
        // One history cannot show an object at an older version in a list that is not older than the held one:
        // the server's history was replaced unnoticed (spec S-13), and what it holds now is what the list says.
        Authority::FullList(list) => {
            held < &pod.version || (&pod.version < held && &bound.pod.version <= list)
        }
    }
}

/// The version that counts as held: versions of an earlier epoch count as 0 (spec S-13).
fn held_version(bound: &Bound, epoch: Epoch) -> &ResourceVersion {
    if bound.epoch < epoch {
        &ResourceVersion::ZERO
    } else {
        &bound.pod.version
    }
}

fn is_newer(bound: &Bound, version: &ResourceVersion, epoch: Epoch) -> bool {
    bound.epoch <= epoch && held_version(bound, epoch) < version
}

fn bind(id: ExecutorId, pod: &Arc<Pod>, epoch: Epoch, at: &At) -> State {
    let ours = pod.claim.executor() == Some(id);
    let state = pod.state();
    State::Bound(Bound {
        pod: Arc::clone(pod),
        epoch,
        bound_at: at.count,
        running_since: (state == PodState::Running).then_some(at.now),
        absent: (!ours && state != PodState::Terminating).then_some(at.now),
    })
}

/// A pod whose deletion is the first thing seen of it: bound, and gone.
fn seen_deleted_first(pod: &Arc<Pod>, at: &At) -> Option<State> {
    pod.deletion?;
    let bound = Bound {
        pod: Arc::clone(pod),
        epoch: at.epoch,
        bound_at: at.count,
        running_since: None,
        absent: None,
    };
    Some(State::Gone(Gone {
        bound: Some(bound),
        how: HowGone::Deleted,
        at: at.now,
    }))
}

fn not_created(why: &Arc<str>, at: &At) -> State {
    State::Gone(Gone {
        bound: None,
        how: HowGone::NotCreated(Arc::clone(why)),
        at: at.now,
    })
}

fn missing_label(claim: &Claim) -> Arc<str> {
    match claim {
        Claim::Foreign { label } => Arc::clone(label),
        Claim::Stranger { why } => Arc::clone(why),
        Claim::Executor { .. } => Arc::from("executor id"),
    }
}

fn mark(entry: &Entry, why: &Why, how: How, at: &At) -> Option<Entry> {
    let settled = match &entry.state {
        State::Gone(_) => true,
        State::Bound(bound) => {
            let state = bound.pod.state();
            state.is_finished() || state == PodState::Terminating
        }
        State::Sent(_) | State::Unknown(_) => false,
    };
    if settled || entry.leaving.is_some() {
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

fn session(entry: &Entry, registered: bool, idle: bool) -> Option<Entry> {
    let mut changed = entry.clone();
    changed.session.registered = registered;
    changed.session.idle = idle;
    (changed.session != entry.session).then_some(changed)
}
