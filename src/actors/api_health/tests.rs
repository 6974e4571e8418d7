use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use rand::SeedableRng;
use tempfile::NamedTempFile;
use tokio::time::Instant;
use tower::service_fn;

use super::*;
use crate::kubernetes::{Clients, FailureKind};
use crate::testing::calls_to;

/// Clients whose calls are answered with this code.
fn answering(code: StatusCode) -> Clients {
    let service = service_fn(move |_: Request<Body>| async move {
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no","details":{"kind":"pods","name":"a-exec-1"}}"#;
        let mut answer = Response::new(axum::body::Body::from(body));
        *answer.status_mut() = code;
        Ok::<_, std::io::Error>(answer)
    });
    Clients::in_process(service, "default")
}

/// Clients whose connections are refused.
fn unanswered() -> Clients {
    let service = service_fn(|_: Request<Body>| async {
        Err::<Response<axum::body::Body>, _>(std::io::Error::other("handshake"))
    });
    Clients::in_process(service, "default")
}

/// Clients that are accepted if this file says `new`, and refused like `old` before. They read it only when they are
/// made.
fn clients(file: &Path, files: &[PathBuf], old: &Clients) -> Clients {
    let clients_now = match fs::read_to_string(file).unwrap().as_str() {
        "new" => answering(StatusCode::NOT_FOUND),
        _ => old.clone(),
    };
    let (path, paths, old) = (file.to_owned(), files.to_vec(), old.clone());
    Clients {
        renew: Some(Arc::new(move || {
            let clients = clients(&path, &paths, &old);
            async move { Ok(clients) }.boxed()
        })),
        files: files.to_vec(),
        ..clients_now
    }
}

/// Makes a call every `pause` with old credentials, which are rotated 15 s after the first refusal. Returns how long
/// after the rotation the first call is accepted.
async fn accepted_after(
    file: &NamedTempFile,
    files: &[PathBuf],
    (old, why): (&Clients, FailureKind),
    pause: Duration,
) -> Duration {
    fs::write(file.path(), "old").unwrap();
    let calls = calls_to(clients(file.path(), files, old));
    let (shown, health) = watch::channel(Health::default());
    let rngs = [1, 2].map(StdRng::seed_from_u64);
    let actor = ApiHealth::new(calls.clone(), "a", Clock::system(), shown, Vec::new(), rngs);
    let to = actor.start();
    let outcomes = Outcomes { to, health };
    let calls = calls.observed(Arc::new(move |call| outcomes.report(call)));
    let rotated = Instant::now() + Duration::from_secs(15);
    loop {
        let copy = calls.clone();
        match copy.get_pod("a-exec-1").await {
            Ok(_) => return rotated.elapsed(),
            Err(failure) => assert_eq!(failure.kind, why),
        }
        assert!(rotated.elapsed() < Duration::from_secs(600), "never read");
        let next = Instant::now() + pause;
        if Instant::now() < rotated && rotated <= next {
            tokio::time::sleep_until(rotated).await;
            fs::write(file.path(), "new").unwrap();
        }
        tokio::time::sleep_until(next).await;
    }
}

fn paused(test: impl Future<Output = ()>) {
    actix::System::with_tokio_rt(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap()
    })
    .block_on(test);
}

// spec: A-22
#[test]
fn credentials_rotated_after_the_first_refusal_are_read_within_the_backoff() {
    paused(async {
        let file = NamedTempFile::new().unwrap();
        let old = (
            &answering(StatusCode::UNAUTHORIZED),
            FailureKind::Credentials,
        );
        let after = accepted_after(&file, &[], old, Duration::from_secs(1)).await;
        assert!(after <= Duration::from_secs(32), "{after:?}");
    });
}

// spec: A-22
#[test]
fn a_changed_file_is_read_within_a_second_while_calls_are_refused() {
    paused(async {
        let file = NamedTempFile::new().unwrap();
        let files = [file.path().to_owned()];
        // Calls are rare: without the file's state, two of them would be needed to end the backoff.
        let old = (
            &answering(StatusCode::UNAUTHORIZED),
            FailureKind::Credentials,
        );
        let after = accepted_after(&file, &files, old, Duration::from_secs(9)).await;
        assert!(after <= Duration::from_secs(9), "{after:?}");
    });
}

// spec: A-22, A-96
#[test]
fn changed_files_are_read_by_the_second_call_whose_connection_is_refused() {
    paused(async {
        let file = NamedTempFile::new().unwrap();
        let files = [file.path().to_owned()];
        let pause = Duration::from_secs(2);
        let old = (&unanswered(), FailureKind::Broken);
        let after = accepted_after(&file, &files, old, pause).await;
        assert!(after <= 2 * pause, "{after:?}");
    });
}

// spec: A-22
#[tokio::test(start_paused = true)]
async fn all_copies_of_the_calls_use_the_reloaded_credentials() {
    let mut clients = answering(StatusCode::UNAUTHORIZED);
    let good = answering(StatusCode::NOT_FOUND);
    clients.renew = Some(Arc::new(move || {
        let good = good.clone();
        async move { Ok(good) }.boxed()
    }));
    let calls = calls_to(clients);
    let copy = calls.clone();
    let refused = copy.get_pod("a-exec-1").await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Credentials);
    assert_eq!(calls.renew_credentials().await, Ok(true));
    assert_eq!(copy.get_pod("a-exec-1").await, Ok(None));
    assert_eq!(
        calls.renew_credentials().await,
        Ok(false),
        "there is nothing to read"
    );
}
