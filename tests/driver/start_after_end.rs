//! A start while the executors of the run before still terminate.

use std::time::Duration;

use boatswain::driver::start_in;
use boatswain::exit::Exit;
use boatswain::model::reason::LossClass;

use crate::seconds;
use crate::server::{Server, config};

// spec: O-11, O-31, A-30, L-20
#[actix::test]
async fn executors_that_terminate_when_they_are_found_count_for_nothing() {
    tokio::time::pause();
    let server = Server::with_slow_ends();
    let sets = ["app.id=etl", "failures.max=0"];
    let (handle, running) = start_in(config(4, "end", &sets), server.environment(1));
    let running = actix::spawn(running);
    // Some of them do not even run yet.
    tokio::time::sleep(Duration::from_millis(50)).await;
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Clean);
    assert_eq!(server.pods().await.len(), 4, "they terminate");

    let (handle, running) = start_in(config(4, "end", &sets), server.environment(2));
    let running = actix::spawn(running);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.pods().await.len(), 8, "replaced at once");
    seconds(40).await;
    assert_eq!(server.pods().await.len(), 4);
    let snapshot = handle.look().await.unwrap();
    assert!(
        snapshot
            .entries
            .values()
            .all(|entry| !entry.found_terminating)
    );
    let failed = snapshot
        .entries
        .values()
        .filter_map(|entry| entry.end.as_ref());
    assert_eq!(
        failed.filter(|end| end.class != LossClass::Deleted).count(),
        0
    );
    handle.stop();
    assert_eq!(
        running.await.unwrap(),
        Exit::Clean,
        "no failure was counted"
    );
}
