use std::io;

use super::connection::refusal;
use super::*;
use crate::identity::Token;

fn conversation() -> Conversation {
    let registration = serde_json::from_str(r#"{"app": "a", "pod_uid": "u"}"#);
    let identity = Identity {
        driver: "http://etl-driver.jobs.svc:7078".parse().unwrap(),
        registration: registration.unwrap(),
        token: Token::Text("t".to_owned()),
        ca_file: None,
    };
    let status = Status::of(None);
    Conversation::new(identity, status, Some(Duration::from_secs(60)))
}

// spec: K-9
#[tokio::test(start_paused = true)]
async fn a_driver_whose_name_leads_nowhere_yet_is_waited_for() {
    let mut conversation = conversation();
    let unresolved = || Over::Unresolved(io::Error::other("no such name"));
    for _ in 0..30 {
        sleep(Duration::from_secs(10)).await;
        conversation.over(&unresolved());
        assert!(!conversation.is_away(conversation.last_heard));
    }
    // The driver existed before; its name may have been removed with it.
    conversation.over(&Over::Silence);
    sleep(Duration::from_secs(59)).await;
    conversation.over(&unresolved());
    assert!(!conversation.is_away(conversation.last_heard));
    sleep(Duration::from_secs(1)).await;
    assert!(conversation.is_away(conversation.last_heard));
}

// spec: O-122, B-13
#[test]
fn a_driver_that_expects_heartbeats_often_is_tried_as_often() {
    let longest = |interval| reconnect(Duration::from_millis(interval)).delay(100);
    assert_eq!(longest(300), Duration::from_millis(300));
    assert_eq!(longest(10_000), Duration::from_secs(10));
    assert_eq!(longest(60_000), Duration::from_secs(10));
    assert_eq!(longest(1), Duration::from_millis(200));
}

// spec: O-122, O-115
#[tokio::test(start_paused = true)]
async fn a_driver_that_cannot_verify_the_token_now_is_not_away() {
    let mut conversation = conversation();
    for _ in 0..30 {
        sleep(Duration::from_secs(10)).await;
        let before = conversation.last_heard;
        let over = refusal(503, br#"{"code": "no-keys", "message": "try again"}"#);
        assert!(matches!(over, Over::Deferred(_)), "{over}");
        conversation.over(&over);
        assert!(!conversation.is_away(before));
    }
    for (status, body) in [
        (503, &b"upstream connect error"[..]),
        (503, br#"{"code": "unavailable"}"#),
        (401, br#"{"code": "no-keys"}"#),
    ] {
        let over = refusal(status, body);
        assert!(matches!(over, Over::Denied(_)), "{over}");
    }
}
