//! Requests to stop at any instant of a start.

use std::time::Duration;

use boatswain::driver::start_in;
use boatswain::exit::Exit;
use tokio::time::{Instant, sleep};

use crate::seconds;
use crate::server::{Network, Server, config};

const LATENCY: Duration = Duration::from_millis(100);

/// Longer than a start with this latency.
const INSTANTS: std::ops::Range<u64> = 0..30;

fn instant(n: u64) -> Duration {
    Duration::from_millis(50 * n + 5)
}

/// Runs a driver that is stopped by a signal after this time. Returns how and after what further time it ended.
async fn stopped_after(
    server: &Server,
    holder: u64,
    on_signal: &str,
    after: Duration,
) -> (Exit, Duration) {
    let (handle, running) = start_in(config(3, on_signal, &[]), server.environment(holder));
    let running = actix::spawn(running);
    sleep(after).await;
    handle.stop();
    let stopped = Instant::now();
    let exit = running.await.unwrap();
    (exit, stopped.elapsed())
}

/// A server with three executors of a driver that has handed over.
async fn with_executors() -> Server {
    let server = Server::start();
    let ended = stopped_after(&server, 1, "hand-over", Duration::from_secs(20)).await;
    assert_eq!(ended.0, Exit::Superseded);
    assert_eq!(server.pods().await.len(), 3);
    server.set_latency(LATENCY);
    server
}

// spec: O-106, O-107
#[actix::test]
async fn a_driver_that_hands_over_exits_with_75_whenever_it_is_stopped() {
    tokio::time::pause();
    let server = with_executors().await;
    let pods = server.pods().await;
    for n in INSTANTS {
        let (exit, _) = stopped_after(&server, 2 + n, "hand-over", instant(n)).await;
        assert_eq!(exit, Exit::Superseded, "stopped after {:?}", instant(n));
        seconds(1).await;
        assert_eq!(server.pods().await, pods, "stopped after {:?}", instant(n));
    }
    assert!(server.has_record().await);
}

// spec: O-107, O-11
#[actix::test]
async fn a_successor_that_ends_the_application_deletes_every_executor_whenever_it_is_stopped() {
    tokio::time::pause();
    for n in INSTANTS {
        let server = with_executors().await;
        let (exit, _) = stopped_after(&server, 2 + n, "end", instant(n)).await;
        assert_eq!(exit, Exit::Clean, "stopped after {:?}", instant(n));
        let pods = server.pods().await;
        assert!(pods.is_empty(), "stopped after {:?}: {pods:?}", instant(n));
        assert!(!server.has_record().await);
    }
}

// spec: O-107
#[actix::test]
async fn a_first_start_that_is_stopped_leaves_nothing_and_nothing_is_made_after_the_stop() {
    tokio::time::pause();
    for n in INSTANTS {
        let mut server = Server::start();
        server.set_latency(LATENCY);
        let (exit, took) = stopped_after(&server, 2 + n, "end", instant(n)).await;
        assert_eq!(exit, Exit::Clean, "stopped after {:?}", instant(n));
        seconds(60).await;
        assert_eq!(server.pods().await, [], "stopped after {:?}", instant(n));
        assert!(!server.has_record().await);
        let writes = (server.take_seen().into_iter())
            .filter(|seen| !seen.line.starts_with("GET"))
            .count();
        // Until the record is looked for, nothing was made and nothing has to be.
        if instant(n) < 2 * LATENCY {
            assert!(took <= 2 * LATENCY, "{took:?}");
            assert_eq!(writes, 0, "stopped after {:?}", instant(n));
        }
    }
}

// spec: O-2, O-107, O-11
#[actix::test]
async fn a_stop_without_an_api_server_is_no_clean_end_because_executors_may_be_left() {
    tokio::time::pause();
    for (on_signal, code, within) in [
        ("end", Exit::Unreachable, Duration::from_secs(21)),
        ("auto", Exit::Unreachable, Duration::from_secs(21)),
        ("hand-over", Exit::Superseded, Duration::ZERO),
    ] {
        for network in [Network::Refuses, Network::Silent] {
            let server = with_executors().await;
            server.set_network(network).await;
            let began = Duration::from_millis(300);
            let (exit, took) = stopped_after(&server, 2, on_signal, began).await;
            assert_eq!(exit, code, "{on_signal}");
            assert!(took <= within, "{on_signal}: {took:?}");
            assert_eq!(server.pods().await.len(), 3);
        }
    }
}
