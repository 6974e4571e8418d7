//! A profile that the cluster refuses, beside one that it accepts.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::driver::start_in;
use boatswain::exit::Exit;
use tokio::time::Instant;

use crate::seconds;
use crate::server::{Network, Server, config};

// spec
#[actix::test]
async fn a_refused_profile_leaves_the_others_alone_and_is_tried_again() {
    tokio::time::pause();
    let server = Server::start();
    server.set_network(Network::RefusesBig).await;
    // The refused one comes first in every order.
    let big = ["profiles.big.image=none", "profiles.big.executors=1"];
    let (handle, running) = start_in(config(3, "end", &big), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    assert_eq!(server.pods().await.len(), 3);
    server.set_network(Network::Works).await;
    seconds(310).await;
    assert_eq!(server.pods().await.len(), 4, "it is tried again");
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Clean);
}

// spec: A-114
#[actix::test]
async fn a_policy_that_is_taken_back_no_longer_holds_a_profile_up() {
    tokio::time::pause();
    let server = Server::start();
    let big = ["profiles.big.image=none", "profiles.big.executors=1"];
    let (handle, running) = start_in(config(0, "end", &big), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    server.set_network(Network::RefusesBig).await;
    let more = BTreeMap::from([("big".into(), 3)]);
    handle.set_targets(more).await.unwrap().unwrap();
    seconds(60).await;
    assert_eq!(server.pods().await.len(), 1);
    server.set_network(Network::Works).await;
    seconds(11).await;
    assert_eq!(server.pods().await.len(), 3);
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Clean);
}

// spec: A-24
#[actix::test]
async fn a_driver_whose_every_profile_is_refused_ends() {
    tokio::time::pause();
    let server = Server::start();
    server.set_network(Network::RefusesBig).await;
    let big = ["profiles.big.image=none", "profiles.big.executors=1"];
    let began = Instant::now();
    let (_handle, running) = start_in(config(0, "end", &big), server.environment(1));
    assert_eq!(actix::spawn(running).await.unwrap(), Exit::Configuration);
    assert!(began.elapsed() < Duration::from_secs(5));
}
