//! An outage of the API server: all callers resume soon after its first answer to any of them.

use std::time::Duration;

use boatswain::config::OnSignal;
use boatswain::driver::start_in;
use boatswain::exit::Exit;
use tokio::time::Instant;

use crate::seconds;
use crate::server::{Network, Seen, Server, config};

/// From the server's return to its first answer.
const FOUND_OUT: Duration = Duration::from_millis(2_500);

/// From the first answer until all callers have resumed.
const RESUMED: Duration = Duration::from_secs(1);

fn is_watch(seen: &Seen) -> bool {
    seen.line.contains("/pods?") && seen.line.contains("watch=")
}

fn is_record_watch(seen: &Seen) -> bool {
    seen.line.contains("/configmaps") && seen.line.contains("watch=")
}

fn is_record_write(seen: &Seen) -> bool {
    seen.line.starts_with("PUT") && seen.line.contains("/configmaps/")
}

/// A driver with two executors, and an outage of 25 s with a change that it has to write meanwhile. Returns the
/// requests during the outage, and when it ended and those of 5 s after it.
async fn outage(network: Network) -> (Vec<Seen>, Instant, Vec<Seen>) {
    tokio::time::pause();
    let mut server = Server::start();
    let (handle, running) = start_in(config(2, "end", &[]), server.environment(7));
    let running = actix::spawn(running);
    seconds(10).await;
    let targets = [("default".into(), 3)].into();
    server.take_seen();
    server.set_network(network).await;
    handle.set_targets(targets).await.unwrap().unwrap();
    seconds(25).await;
    let during = server.take_seen();
    server.set_network(Network::Works).await;
    let back = Instant::now();
    seconds(5).await;
    let after = server.take_seen();
    // A request without an answer may have to be waited for.
    seconds(60).await;
    assert_eq!(server.pods().await.len(), 3);
    handle.stop_by(OnSignal::End);
    assert_eq!(running.await.unwrap(), Exit::Clean);
    (during, back, after)
}

fn resumes(back: Instant, after: &[Seen]) {
    let first = after[0].at;
    assert!(first - back <= FOUND_OUT, "{:?}", first - back);
    type Is = fn(&Seen) -> bool;
    let watch: (&str, Is) = ("the watch is open", is_watch);
    let record = ("the record is written", is_record_write as Is);
    let record_watch = ("the record's watch is open", is_record_watch as Is);
    for (what, is) in [watch, record, record_watch] {
        let at = after.iter().find(|seen| is(seen)).map(|seen| seen.at);
        let at = at.unwrap_or_else(|| panic!("not {what} within 5 s: {after:?}"));
        assert!(
            at - first <= RESUMED,
            "{what} {:?} after the first answer",
            at - first
        );
    }
}

// spec: W-14
#[actix::test]
async fn after_refused_connections_watch_and_record_resume_within_a_second_of_the_first_answer() {
    let (during, back, after) = outage(Network::Refuses).await;
    resumes(back, &after);
    assert!(during.iter().all(|seen| !seen.answered));
    assert!(
        during.len() <= 60,
        "an absent server is not hammered: {} calls in 25 s",
        during.len()
    );
}

// spec: W-14
#[actix::test]
async fn after_a_silence_the_watch_is_opened_again_because_its_connection_may_be_dead() {
    let (_, back, after) = outage(Network::Silent).await;
    resumes(back, &after);
}
