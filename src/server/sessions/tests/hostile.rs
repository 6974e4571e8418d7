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

// spec: O-113
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

// spec: O-113
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

// spec: O-113
#[actix::test]
async fn silent_sessions_leave_room_again_once_they_are_closed() {
    let driver = Driver::with_room(8, 7).await;
    let mut bystander = driver.registered(8).await;
    let mut silent = Vec::new();
    for n in 1..=6 {
        silent.push(driver.socket(n).await);
    }
    assert!(
        driver.socket_with(&driver.token(7)).await.is_err(),
        "no room is left"
    );
    still_works(&mut bystander).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    still_works(&mut bystander).await;
    driver.registered(7).await;
}

// spec: O-116
#[actix::test]
async fn of_an_executors_unregistered_connections_only_the_newest_stays() {
    let driver = Driver::with_room(2, 8).await;
    let mut bystander = driver.registered(2).await;
    let mut registered = driver.registered(1).await;
    let mut last = driver.socket(1).await;
    for _ in 0..1_000 {
        let newer = driver.socket(1).await;
        let mut older = std::mem::replace(&mut last, newer);
        assert_eq!(
            hear(&mut older).await,
            json!({"close": 1000, "why": "the session is over"})
        );
    }
    still_works(&mut registered).await;
    still_works(&mut bystander).await;
    let answer = ask(&mut last, &registration(1)).await;
    assert_eq!(answer["type"], "registered");
    assert_eq!(hear(&mut registered).await["type"], "superseded");
}

// spec: O-56
#[actix::test]
async fn an_executor_that_sends_without_end_is_read_slowly() {
    let driver = Driver::with(2).await;
    let mut bystander = driver.registered(2).await;
    let mut eager = driver.registered(1).await;
    let began = tokio::time::Instant::now();
    for _ in 0..400 {
        ask(&mut eager, &json!({"type": "dance"})).await;
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(10), "{took:?}");
    still_works(&mut bystander).await;
}

// spec: O-56
#[actix::test]
async fn an_executor_that_posts_without_end_is_refused_with_429() {
    let driver = Driver::with(1).await;
    let token = driver.token(1);
    let (_, answer) = driver.post(&token, registration(1).to_string()).await;
    let session = &answer["messages"][0]["session"];
    let beat = json!({"type": "heartbeat", "session": session, "busy_slots": 0}).to_string();
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let (status, answer) = driver.post(&token, beat.clone()).await;
        statuses.push((status.as_u16(), answer["code"].clone()));
    }
    assert_eq!(statuses[0], (200, Value::Null));
    assert_eq!(statuses[39], (429, json!("too-many-messages")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (status, _) = driver.post(&token, beat).await;
    assert_eq!(status, StatusCode::OK);
}

// spec: O-57
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
