//! The profiles whose executors are not requested, for the status and the events (spec A-31).

use crate::actors::event_history::event::What;
use crate::actors::pod_allocator::pause::Paused;

/// The pauses that began, ended or changed their reason. The time of the next attempt is ignored.
pub(super) fn changes(before: &Paused, now: &Paused) -> Vec<What> {
    let over = (before.0.keys()).filter(|profile| !now.0.contains_key(*profile));
    let over = over.map(|profile| What::Unpaused {
        profile: profile.to_string(),
    });
    let begun = now.0.iter().filter(|(profile, pause)| {
        (before.0.get(*profile)).is_none_or(|before| before.cause != pause.cause)
    });
    let begun = begun.map(|(profile, pause)| What::Paused {
        profile: profile.to_string(),
        cause: pause.cause.as_str(),
        why: pause.why.to_string(),
    });
    over.chain(begun).collect()
}
