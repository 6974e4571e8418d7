//! What the metrics show of the ledger (spec O-41).

use crate::metrics::{Metrics, Value, whole};
use crate::model::executor::STATES;
use crate::model::{Ending, Entry, LossClass, ProfileName, Snapshot, Tick};

use super::messages::Measures;

/// Counts what an entry's change shows of its executor's start.
pub(super) fn changed(metrics: &Metrics, before: Option<&Entry>, after: &Entry, now: Tick) {
    // This driver did not see how long an adopted executor took to start.
    if after.adopted {
        return;
    }
    let profile = || [after.profile.to_string().into()];
    let registered = |entry: &Entry| entry.session.registered;
    if registered(after) && !before.is_some_and(registered) {
        let took = now.since(after.since).as_secs_f64();
        metrics.registrations.of(profile()).observe(took);
    }
    let running_since = |entry: &Entry| entry.bound().and_then(|bound| bound.running_since);
    if let Some(since) = running_since(after)
        && before.and_then(running_since).is_none()
    {
        let took = since.since(after.since).as_secs_f64();
        metrics.starts.of(profile()).observe(took);
    }
}

pub(super) fn ended(metrics: &Metrics, Ending { entry, reason }: &Ending) {
    let values = of_end(&entry.profile, reason.class, reason.failure);
    metrics.ended.of(values).inc();
}

fn of_end(profile: &ProfileName, class: LossClass, failure: bool) -> [Value; 3] {
    let failure = if failure { "true" } else { "false" };
    [
        profile.to_string().into(),
        class.to_string().into(),
        failure.into(),
    ]
}

/// Removes all values of a removed profile (spec B-52).
pub(super) fn remove_profile(metrics: &Metrics, profile: &ProfileName) {
    let name = || profile.to_string().into();
    metrics.remove_profile(profile.as_str());
    for state in STATES {
        metrics.executors.remove([name(), state.into()]);
    }
    for (_, class) in LossClass::ALL {
        for failure in [true, false] {
            metrics.ended.remove(of_end(profile, *class, failure));
        }
    }
}

/// Shows the size of the store, and when it last received something.
pub(super) fn measured(metrics: &Metrics, measures: &Measures, now: Tick) {
    metrics.waiting.set(whole(measures.waiting));
    for (gauge, at) in [
        (&metrics.snapshot_age, measures.changed),
        (&metrics.bookmark_age, measures.bookmark),
    ] {
        if let Some(at) = at {
            gauge.set(whole(now.since(at).as_secs()));
        }
    }
}

/// Shows the newest snapshot.
pub(super) fn show(metrics: &Metrics, snapshot: &Snapshot, now: Tick) {
    for (profile, target) in &snapshot.targets {
        let name = || profile.to_string().into();
        metrics.targets.of([name()]).set(target.executors.into());
        let counts = snapshot.counts(profile);
        let numbers = [
            counts.sent,
            counts.unknown,
            counts.pending,
            counts.running,
            counts.uncertain,
            counts.leaving + counts.terminating,
        ];
        for (state, number) in STATES.into_iter().zip(numbers) {
            let values = [name(), state.into()];
            metrics.executors.of(values).set(number.into());
        }
    }
    metrics.orphans.set(whole(snapshot.orphans.len()));
    metrics.entries.set(whole(snapshot.entries.len()));
    metrics.adopted.set(snapshot.adopted.into());
    let unseen = snapshot.drifts.saturating_sub(metrics.drifts.get());
    metrics.drifts.inc_by(unseen);
    metrics.held.set(snapshot.held.is_some().into());
    metrics.failed.clear();
    for profile in snapshot.failed.keys() {
        metrics.failed.of([profile.to_string().into()]).set(1);
    }
    if let Some(list) = &snapshot.full_list {
        metrics.list_age.set(whole(now.since(list.asked).as_secs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::snapshot_store::journal::Journal;
    use crate::model::executor::Session;
    use crate::model::ledger::Note;
    use crate::model::news::{News, Outcome};
    use crate::testing::{Scenario, at, id, metrics};

    /// The value in this text of what begins so.
    fn value(text: &str, name: &str) -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    }

    fn apply(scenario: &mut Scenario, journal: &mut Journal, news: News) -> Vec<Note> {
        let now = scenario.now();
        let applied = scenario.ledger.apply(news, now);
        for note in &applied.notes {
            journal.note(note, now.tick);
        }
        applied.notes
    }

    // spec: O-41
    #[test]
    fn ages_count_from_the_last_news() {
        let metrics = metrics();
        let measures = Measures {
            tombstones: 0,
            unrecognised: 0,
            suspects: 0,
            waiting: 7,
            changed: Some(at(10_000)),
            bookmark: None,
        };
        measured(&metrics, &measures, at(42_000));
        let text = metrics.text().unwrap();
        assert_eq!(value(&text, "boatswain_snapshots_waiting"), Some(7.0));
        assert_eq!(value(&text, "boatswain_snapshot_age_seconds"), Some(32.0));
    }

    // spec: O-41, B-52
    #[test]
    fn starts_and_ends_are_counted_once_until_their_profile_is_removed() {
        let metrics = metrics();
        let mut journal = Journal::new(metrics.clone());
        let mut world = Scenario::new(&[("default", 2), ("gpu", 2)]);
        let outcome = Outcome::Sent {
            profile: "gpu".into(),
        };
        apply(
            &mut world,
            &mut journal,
            News::Requested { id: id(1), outcome },
        );
        world.pass(1_500);
        let outcome = Outcome::Created(crate::model::pod::Sighting::Read(std::sync::Arc::new(
            crate::testing::running(world.pod(1)),
        )));
        apply(
            &mut world,
            &mut journal,
            News::Requested { id: id(1), outcome },
        );
        world.pass(500);
        for idle in [true, false] {
            let news = News::Session(id(1), Session::open(idle));
            apply(&mut world, &mut journal, news);
        }
        world.goes(1);
        let reason =
            std::sync::Arc::new(crate::model::reasoning::reason_of(world.entry(1).unwrap()));
        for _ in 0..2 {
            let reason = std::sync::Arc::clone(&reason);
            apply(
                &mut world,
                &mut journal,
                News::Reported { id: id(1), reason },
            );
        }
        show(&metrics, world.current(), at(2_000));
        let text = metrics.text().unwrap();
        let sum = |name| {
            value(
                &text,
                &format!("boatswain_{name}_seconds_sum{{profile=\"gpu\"}}"),
            )
        };
        assert_eq!(sum("executor_start"), Some(1.5), "{text}");
        assert_eq!(sum("executor_registration"), Some(2.0), "{text}");
        let ends = text
            .lines()
            .filter(|line| line.starts_with("boatswain_executors_ended_total{profile=\"gpu\""));
        assert!(
            ends.clone().count() == 1 && ends.clone().all(|line| line.ends_with(" 1")),
            "{text}"
        );

        world.batch();
        world.release();
        apply(&mut world, &mut journal, News::Remove("gpu".into()));
        apply(&mut world, &mut journal, News::ProfileGone("gpu".into()));
        show(&metrics, world.current(), at(2_000));
        let text = metrics.text().unwrap();
        assert!(!text.contains("profile=\"gpu\""), "{text}");
        assert!(text.contains("profile=\"default\""), "{text}");
    }
}
