//! What is learned from an API server that is slow, silent or away for a while, and when.

use tokio::sync::watch;

use super::*;

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_driver_that_cannot_learn_why_hands_over_in_time() {
    // Silence; errors; the right to read a Job is missing.
    let silent = Router::new().fallback(std::future::pending::<StatusCode>);
    let broken = Router::new().fallback(|| async { StatusCode::BAD_GATEWAY });
    for (router, grace, within) in [
        (silent.clone(), "20s", 2_000),
        (silent, "5s", 1_000),
        (broken, "20s", 2_000),
    ] {
        let began = Instant::now();
        let grace = format!("shutdown.grace={grace}");
        let meaning = reader(router, JOB, &[&grace]).learn().await;
        assert_eq!(meaning, Stop::HandOver);
        assert_eq!(began.elapsed(), Duration::from_millis(within));
    }
    let pod = deleted_pod(Some(JOB)).value;
    let forbidden = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "jobs.batch \"etl\" is forbidden: User \"u\" cannot get resource \"jobs\" in API group \"batch\" \
                    in the namespace \"default\"",
    });
    let router = Router::new().fallback(move |uri: Uri| {
        let (pod, forbidden) = (pod.clone(), forbidden.clone());
        async move {
            match uri.path().ends_with(POD) {
                true => Json(pod).into_response(),
                false => (StatusCode::FORBIDDEN, Json(forbidden)).into_response(),
            }
        }
    });
    let began = Instant::now();
    assert_eq!(reader(router, JOB, &[]).learn().await, Stop::HandOver);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_slow_api_server_shows_a_deployment_in_time_and_a_replica_set_that_was_orphaned_counts() {
    let slow = |objects: Vec<Object>| {
        let server = server(objects, Instant::now());
        Router::new().fallback(async move |request: axum::extract::Request| {
            tokio::time::sleep(Duration::from_millis(900)).await;
            tower::ServiceExt::oneshot(server, request).await
        })
    };
    let [set, gone] = deployment(deleted());
    let objects = vec![deleted_pod(Some(SET)), set, gone];
    let meaning = reader(slow(objects), DEPLOYMENT, &[]).learn().await;
    assert_eq!(meaning, Stop::DONE);
    // Its Deployment was deleted without it.
    let alone = now(SET, object(SET, None, json!({"spec": {"replicas": 1}})));
    let objects = vec![deleted_pod(Some(SET)), alone];
    let meaning = reader(slow(objects), DEPLOYMENT, &[]).learn().await;
    assert_eq!(meaning, Stop::HandOver);
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_short_outage_of_the_api_server_is_waited_for_and_a_second_look_without_answer_changes_nothing()
 {
    let began = Instant::now();
    let objects = vec![
        at(0, "", Some(json!({"kind": "Proxy"}))),
        at(900, POD, deleted_pod(Some(JOB)).value),
        at(900, JOB, Some(object(JOB, None, deleted()))),
    ];
    let meaning = reader(server(objects, began), JOB, &[]).learn().await;
    assert_eq!(meaning, Stop::DONE);
    assert!(began.elapsed() < Duration::from_millis(1_200));

    let began = Instant::now();
    let objects = vec![
        deleted_pod(Some(JOB)),
        now(JOB, object(JOB, None, json!({}))),
        at(500, "", Some(json!({"kind": "Proxy"}))),
    ];
    let meaning = reader(server(objects, began), JOB, &[]).learn().await;
    assert_eq!(meaning, Stop::HandOver);
}

/// A reader to whom everything is refused with this code, and what shows it whether the record is gone.
fn refused(code: StatusCode, reason: &'static str) -> (Reader, watch::Sender<bool>) {
    let router = Router::new().fallback(move || async move {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
            "message": "it is forbidden: User \"u\" cannot get resource \"pods\" in API group \"\" in the namespace \"default\"",
        });
        (code, Json(status)).into_response()
    });
    let mut reader = reader(router, DEPLOYMENT, &[]);
    let (shows, is_gone) = watch::channel(false);
    reader.follow_record(is_gone);
    (reader, shows)
}

// spec: O-95
#[tokio::test(start_paused = true)]
async fn a_driver_whose_record_and_rights_are_gone_is_over_and_missing_rights_alone_end_nothing() {
    for (code, reason) in [
        (StatusCode::FORBIDDEN, "Forbidden"),
        (StatusCode::UNAUTHORIZED, "Unauthorized"),
    ] {
        let (reader, shows) = refused(code, reason);
        shows.send_replace(true);
        assert_eq!(reader.learn().await, Stop::Collected, "{reason}");

        let (reader, _shows) = refused(code, reason);
        let began = Instant::now();
        assert_eq!(reader.learn().await, Stop::HandOver, "{reason}");
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }
    // The record goes a moment after the signal.
    let (reader, shows) = refused(StatusCode::FORBIDDEN, "Forbidden");
    let (learned, ()) = tokio::join!(reader.learn(), async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        shows.send_replace(true);
    });
    assert_eq!(learned, Stop::Collected);
    // An API server that is away shows nothing, whatever was seen before.
    let (reader, shows) = refused(StatusCode::BAD_GATEWAY, "BadGateway");
    shows.send_replace(true);
    assert_eq!(reader.learn().await, Stop::HandOver);
}
