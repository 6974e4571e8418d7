//! Tests the Rust client against a driver.

use boatswain_client::{Client, ClientError, Kill, Reason, Token};

use super::asking::Asked;
use super::cluster::Cluster;

// spec: B-25, B-28, B-50, O-43
#[test]
fn an_engine_in_rust_scales_kills_and_reads_why_an_executor_ended() {
    let cluster = Cluster::any();
    let asked = Asked::start(&cluster, 1);
    let client = |token| Client::new(asked.server.parse().unwrap(), token, None).unwrap();
    let driver = client(Token::File(asked.tokens.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let reason = runtime.block_on(async {
        let mut events = driver.events(None).await.unwrap();
        let living = events.next().await.unwrap().unwrap();
        assert_eq!(living.event().unwrap().event, "living");
        driver.put_target("default", 2).await.unwrap();
        loop {
            let Some(message) = events.next().await.unwrap() else {
                continue;
            };
            let event = message.event().unwrap();
            if event.event == "running" && event.executor == Some(2) {
                let kill = Kill {
                    executors: vec![2],
                    by: Some("engine".to_owned()),
                    ..Kill::default()
                };
                let outcome = driver.kill(&kill).await.unwrap();
                assert_eq!((outcome.leaving, outcome.targets["default"]), (vec![2], 1));
            }
            if event.event == "ended" {
                assert_eq!(event.executor, Some(2));
                return event.reason;
            }
        }
    });
    assert_eq!(reason, Some(Reason::Killed));
    let history = runtime.block_on(driver.executor(2)).unwrap();
    assert_eq!(history.events.last().unwrap().reason, Some(Reason::Killed));
    let refused = runtime.block_on(driver.put_target("g p/u", 1)).unwrap_err();
    assert!(
        refused.to_string().contains("there is no profile g p/u"),
        "{refused}"
    );
    let stranger = client(Token::Text("wrong".to_owned()));
    let refused = runtime.block_on(stranger.status()).unwrap_err();
    assert!(matches!(refused, ClientError::Refused { status, .. } if status == 401));
}
