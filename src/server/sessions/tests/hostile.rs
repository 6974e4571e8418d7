//! Tests of malicious and faulty clients: each gets a clear answer, and other executors are not
//! affected (spec O-50, I-11).

use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;

use super::*;
use boatswain_agent::protocol::MESSAGE_LIMIT;

/// Another executor's session still works.
async fn still_works(socket: &mut Socket) {
    let beat = json!({"type": "heartbeat", "busy_slots": 1});
    assert_eq!(ask(socket, &beat).await, json!({"type": "ack"}));
}

// spec: B-11, I-11
#[actix::test]
async fn invalid_messages_are_answered_and_the_session_continues() {
    let driver = Driver::with(2).await;
    let mut bystander = driver.registered(2).await;
    let mut socket = driver.socket(1).await;
    let beat = json!({"type": "heartbeat", "busy_slots": 0});
    assert_eq!(ask(&mut socket, &beat).await["type"], "register");
    let mut negative = registration(1);
    negative["slots"] = json!(-3);
    for (message, code) in [
        (json!({"type": "dance"}), "unknown-type"),
        (negative, "bad-message"),
        (json!([]), "bad-message"),
    ] {
        let answer = ask(&mut socket, &message).await;
        assert_eq!(
            (&answer["type"], &answer["code"]),
            (&json!("problem"), &json!(code))
        );
    }
    for bytes in [&b"\xff\xfe"[..], b"", b"{"] {
        socket.send(Message::binary(bytes.to_vec())).await.unwrap();
        assert_eq!(hear(&mut socket).await["code"], "bad-message");
    }
    assert_eq!(
        ask(&mut socket, &registration(1)).await["type"],
        "registered"
    );
    still_works(&mut bystander).await;
}

// spec: I-11
#[actix::test]
async fn invalid_requests_without_a_connection_have_an_error_status_too() {
    let driver = Driver::with(1).await;
    let token = driver.token(1);
    let huge = json!({"type": "register", "app": "x".repeat(MESSAGE_LIMIT)}).to_string();
    let mut negative = registration(1);
    negative["slots"] = json!(-3);
    for (body, status, code) in [
        (b"\xff".to_vec(), 400, "bad-message"),
        (b"{\"type\": \"dance\"}".to_vec(), 400, "unknown-type"),
        (negative.to_string().into_bytes(), 400, "bad-message"),
        (huge.into_bytes(), 413, "too-large"),
    ] {
        let (got, answer) = driver.post(&token, body).await;
        assert_eq!(
            (got.as_u16(), &answer["code"]),
            (status, &json!(code)),
            "{answer}"
        );
    }
    let slow = Body::from_stream(futures::stream::pending::<Result<&str, std::io::Error>>());
    let (status, answer) = driver.post(&token, slow).await;
    assert_eq!(
        (status.as_u16(), &answer["code"]),
        (408, &json!("too-slow"))
    );
}

// spec: O-50
#[actix::test]
async fn a_message_that_is_too_long_ends_its_own_session_only() {
    let driver = Driver::with(2).await;
    let mut bystander = driver.registered(2).await;
    let mut huge = driver.registered(1).await;
    huge.send(Message::text("x".repeat(MESSAGE_LIMIT + 1)))
        .await
        .unwrap();
    assert_eq!(hear(&mut huge).await["code"], "unreadable");
    assert_eq!(hear(&mut huge).await["close"], 1008);
    still_works(&mut bystander).await;
}

// spec: O-50
#[actix::test]
async fn a_session_that_does_not_register_is_closed() {
    let driver = Driver::with(2).await;
    let mut bystander = driver.registered(2).await;
    let mut silent = driver.socket(1).await;
    let closed = hear(&mut silent).await;
    assert_eq!(
        (&closed["close"], &closed["why"]),
        (&json!(1008), &json!("nobody has registered"))
    );
    still_works(&mut bystander).await;
}

// spec: O-50
#[actix::test]
async fn a_thousand_silent_sessions_leave_room_again_once_they_are_closed() {
    let driver = Driver::with_room(2, 1_001).await;
    let mut bystander = driver.registered(2).await;
    let mut silent = Vec::new();
    for _ in 0..1_000 {
        silent.push(driver.socket(1).await);
    }
    assert!(
        driver.socket_with(&driver.token(1)).await.is_err(),
        "the house is full"
    );
    still_works(&mut bystander).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    drop(silent);
    still_works(&mut bystander).await;
    driver.registered(1).await;
}

// spec: O-50
#[actix::test]
async fn an_executor_that_reads_nothing_is_disconnected_and_delays_no_other() {
    let driver = Driver::with(2).await;
    let mut bystander = driver.registered(2).await;
    // The pipe is so small that nothing fits into it but the handshake.
    let (mut near, far) = tokio::io::duplex(512);
    let service = TowerToHyperService::new(driver.sessions.router());
    tokio::spawn(async move {
        let builder = hyper::server::conn::http1::Builder::new();
        let _ = builder
            .serve_connection(TokioIo::new(far), service)
            .with_upgrades()
            .await;
    });
    let token = driver.token(1);
    let request = format!(
        "GET /v1/session HTTP/1.1\r\nhost: d\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    near.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 512];
    let _ = near.read(&mut head).await.unwrap();
    let frame = |message: &Value| {
        let text = message.to_string();
        let length = u8::try_from(text.len().min(125)).unwrap();
        assert_eq!(usize::from(length), text.len(), "fits a short frame");
        // Masked with zeros, which leaves the text unchanged.
        [&[0x81, 0x80 | length, 0, 0, 0, 0], text.as_bytes()].concat()
    };
    let short = json!({"type": "register", "app": "app", "executor": 1, "pod_uid": "u1"});
    near.write_all(&frame(&short)).await.unwrap();
    let flood = frame(&json!({"type": "dance"}));
    // Writes until the driver stops reading, and never reads itself.
    let flooded = tokio::time::timeout(Duration::from_secs(60), async {
        while near.write_all(&flood).await.is_ok() {}
    });
    assert!(flooded.await.is_ok(), "it is cut off");
    still_works(&mut bystander).await;
    assert_eq!(driver.shown(1).await["state"], "disabled");
}
