//! A driver whose start is slow after it took over the record.

use std::time::Duration;

use boatswain::driver::start_in;
use boatswain::exit::Exit;
use tokio::time::sleep;

use crate::seconds;
use crate::server::{Network, Server, config};

// spec: O-100
#[actix::test]
async fn a_driver_that_is_superseded_during_its_start_ends_before_it_begins() {
    tokio::time::pause();
    let mut first = Server::start();
    let second = Server::of(first.cluster.clone());
    // With properties the application has a ConfigMap, which each start ensures after it took over.
    let more = ["app.id=crew-1", "app.properties.key=value"];
    let config = || config(3, "hand-over", &more);

    let (_handle, running) = start_in(config(), first.environment(1));
    let running = actix::spawn(running);
    first.set_latency(Duration::from_millis(10));
    while !first.has_record().await {
        sleep(Duration::from_millis(1)).await;
    }
    first.set_network(Network::Refuses).await;
    // A new record reserves the ids of the pods that are there: they were listed before.
    first.take_seen();
    // The successor begins anew, and no watch from an older version shows it.
    first.cluster.empty().await;
    let (_handle, successor) = start_in(config(), second.environment(2));
    let _successor = actix::spawn(successor);
    seconds(10).await;
    first.set_network(Network::Works).await;

    assert_eq!(running.await.unwrap(), Exit::Superseded);
    // It has not begun: it would list the pods first.
    let seen = first.take_seen();
    assert!(
        seen.iter().all(|seen| !seen.line.contains("/pods")),
        "{seen:?}"
    );
    assert_eq!(second.pods().await.len(), 3);
}
