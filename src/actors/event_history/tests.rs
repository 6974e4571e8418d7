use std::time::Duration;

use actix::Addr;

use super::*;
use crate::actors::executor_registry::registry::SessionStep;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::Tell;
use crate::config::Config;
use crate::model::news::{News, Outcome};
use crate::telemetry::LogFormat;
use crate::telemetry::testing::logged;
use crate::testing::{Backend, Scenario, backend, id, store};

/// The history of a driver's backend over an empty store.
fn world() -> (Addr<SnapshotStore>, Backend) {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 2)]).ledger, clock);
    let backend = backend(&store, clock, &[("default", 2)], Config::default());
    (store, backend)
}

async fn a_moment() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn names(backend: &Backend, n: u64) -> Vec<String> {
    let explanation = backend.history.send(Explain(id(n))).await.unwrap();
    let name = |event: &std::sync::Arc<event::Event>| {
        let event = serde_json::to_value(&**event).unwrap();
        event["event"].as_str().unwrap().to_owned()
    };
    let events = explanation.map(|explanation| explanation.history.events);
    events.unwrap_or_default().iter().map(name).collect()
}

// spec: O-46
#[test]
fn each_round_is_logged_at_debug() {
    let log = logged(LogFormat::Json, || {
        actix::System::with_tokio_rt(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        })
        .block_on(async {
            let _world = world();
            a_moment().await;
        });
    });
    let line = log
        .lines()
        .find(|line| line.contains("a round was decided") && line.contains("History"));
    assert!(
        line.is_some_and(|line| line.contains("duration_ms")),
        "{log}"
    );
}

// spec: B-51
#[actix::test]
async fn a_step_of_an_executor_waits_for_the_batch_that_shows_it() {
    let (store, backend) = world();
    a_moment().await;
    let step = SessionEvent::Step(id(1), "default".into(), SessionStep::Disabled);
    backend.history.send(step).await.unwrap();
    let measure = Measure(backend.metrics.clone());
    backend.history.send(measure).await.unwrap();
    let depth = backend.metrics.depths.of(["session-events".into()]);
    assert_eq!(depth.get(), 1);
    assert_eq!(names(&backend, 1).await, [""; 0]);
    let profile = "default".into();
    let outcome = Outcome::Sent { profile };
    store.do_send(Tell(News::Requested { id: id(1), outcome }));
    a_moment().await;
    assert_eq!(names(&backend, 1).await, ["requested", "disabled"]);
}

// spec: B-50
#[actix::test]
async fn watchers_see_the_number_of_events_grow_with_each_event() {
    let (_store, backend) = world();
    a_moment().await;
    let Growth(mut growth) = backend.history.send(FollowEvents).await.unwrap();
    let before = *growth.borrow_and_update();
    backend.history.send(Happened(What::Resumed)).await.unwrap();
    assert_eq!(*growth.borrow_and_update(), before + 1);
}
