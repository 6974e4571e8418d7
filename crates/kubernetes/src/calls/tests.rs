//! Whole calls against services that respond wrongly, slowly or not at all: faults of the network. Tests of the
//! responses' meaning use the embedded cluster.

mod cluster;
mod lists;
mod maps;
mod owned;
mod watch;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

use super::*;
use crate::pod_template::PodBody;
use crate::refusal::{Failure, FailureKind};
use crate::testing::calls_spec;
use boatswain_model::pod::Sighting;
use boatswain_model::{PodUid, ResourceVersion};

const REAL: &str = include_str!("../../../../benches/fixtures/pod.json");
const TIMEOUT: Duration = Duration::from_secs(10);

fn calls_to(clients: Clients) -> Calls {
    calls_in("jobs", clients)
}

fn calls_in(namespace: &str, clients: Clients) -> Calls {
    let spec = CallsSpec {
        namespace: namespace.to_owned(),
        app_id: "etl-7f3a".into(),
        prefix: "etl".to_owned(),
        check_all_containers: false,
        request_timeout: TIMEOUT,
        ..calls_spec()
    };
    Calls::new(clients, spec)
}

/// Calls to a service that responds to every request with `answer`.
fn answering<B>(answer: impl Fn(Request<Body>) -> Response<B> + Clone + Send + 'static) -> Calls
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = tower::service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer) }
    });
    calls_to(Clients::in_process(service, "jobs"))
}

fn always(code: u16, body: impl Into<Bytes>) -> Calls {
    let body = body.into();
    answering(move |_| response(code, body.clone()))
}

fn response(code: u16, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    Response::builder()
        .status(code)
        .body(Full::new(body.into()))
        .unwrap()
}

/// Calls to a service that fails with `error` before any response.
fn failing(error: impl Fn() -> io::Error + Clone + Send + 'static) -> Calls {
    let service = tower::service_fn(move |_: Request<Body>| {
        let error = error();
        async move { Err::<Response<Full<Bytes>>, _>(error) }
    });
    calls_to(Clients::in_process(service, "jobs"))
}

type Frames = Pin<Box<dyn futures::Stream<Item = Result<Frame<Bytes>, io::Error>> + Send>>;

/// A body of these pieces, which ends as `last` says.
fn pieces(pieces: Vec<&'static str>, last: Last) -> StreamBody<Frames> {
    let data = futures::stream::iter(pieces)
        .map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
    let end = match last {
        Last::End => futures::stream::empty().left_stream().left_stream(),
        Last::Silence => futures::stream::pending().right_stream().left_stream(),
        Last::Reset => {
            let reset = io::Error::from(io::ErrorKind::ConnectionReset);
            futures::stream::iter([Err(reset)]).right_stream()
        }
    };
    StreamBody::new(data.chain(end).boxed())
}

#[derive(Clone, Copy)]
enum Last {
    End,
    Silence,
    Reset,
}

struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static SPACES: [u8; 65_536] = [b' '; 65_536];
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&SPACES)))))
    }
}

fn uid() -> PodUid {
    "7c0ec8a6-9d4e-4f0b-a7c8-0e5c3a1d9b42".into()
}

fn body() -> PodBody {
    PodBody {
        name: "etl-exec-42".into(),
        json: Bytes::from_static(b"{}"),
    }
}

async fn create(calls: &Calls) -> Failure {
    calls.create_pod(&body()).await.unwrap_err()
}

fn not_found(kind: &str, name: &str) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
        "message": format!("{kind} \"{name}\" not found"), "details": {"name": name, "kind": kind},
    })
    .to_string()
}

fn conflict(message: &str) -> String {
    json!({"kind": "Status", "reason": "Conflict", "code": 409, "message": message}).to_string()
}

/// The request that `call` sends, as `METHOD path?query body`.
async fn asked<T>(call: impl AsyncFnOnce(Calls) -> T) -> String {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let calls = answering(move |request| {
        sender.send(request).unwrap();
        response(500, "")
    });
    call(calls).await;
    let (head, body) = receiver.recv().await.unwrap().into_parts();
    let body = body.collect_bytes().await.unwrap();
    let body = std::str::from_utf8(&body).unwrap();
    format!("{} {} {body}", head.method, head.uri)
        .trim_end()
        .to_owned()
}

// spec: A-11, W-1, W-3, P-1, S-13
#[tokio::test]
async fn requests_have_the_specified_paths_and_parameters() {
    let selector = "labelSelector=boatswain.dev%2Fapp-id%3Detl-7f3a%2Cboatswain.dev%2Frole%3Dexecutor%2Cboatswain.dev%2Finactive%21%3Dtrue";
    let pods = "/api/v1/namespaces/jobs/pods";
    let version = ResourceVersion::from(7);

    let quorum = asked(async |calls| calls.list_pods(&ListQuery::default()).await).await;
    assert_eq!(quorum, format!("GET {pods}?{selector}"));
    let first = ListQuery {
        limit: Some(500),
        at_least: Some(version.clone()),
        continue_token: None,
    };
    let page = asked(async |calls| calls.list_pods(&first).await).await;
    assert_eq!(
        page,
        format!(
            "GET {pods}?{selector}&limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan"
        )
    );
    let second = ListQuery {
        continue_token: Some("a+b/c=".to_owned()),
        ..first
    };
    let page = asked(async |calls| calls.list_pods(&second).await).await;
    assert_eq!(
        page,
        format!("GET {pods}?{selector}&limit=500&continue=a%2Bb%2Fc%3D")
    );
    let watch = asked(async |calls| calls.watch_pods(&version, 300).await.err()).await;
    assert_eq!(
        watch,
        format!(
            "GET {pods}?{selector}&watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=7"
        )
    );
    let create = asked(async |calls| calls.create_pod(&body()).await).await;
    assert_eq!(create, format!("POST {pods}?timeout=10s {{}}"));
    let get = asked(async |calls| calls.get_pod("../secrets").await).await;
    assert_eq!(
        get,
        format!("GET {pods}/..%2Fsecrets"),
        "a name stays in its place"
    );
    let grace = Some(Duration::ZERO);
    let delete = asked(async |calls| calls.delete_pod("etl-exec-42", &uid(), grace).await).await;
    let (head, options) = delete.split_once(" {").unwrap();
    assert_eq!(head, format!("DELETE {pods}/etl-exec-42?timeout=10s"));
    let options: Value = serde_json::from_str(&format!("{{{options}")).unwrap();
    assert_eq!(options["preconditions"]["uid"], uid().as_str());
    assert_eq!(options["gracePeriodSeconds"], 0);
    let patch = asked(async |calls| calls.patch_pod("etl-exec-42", &json!({"a": 1})).await).await;
    assert_eq!(
        patch,
        format!("PATCH {pods}/etl-exec-42?timeout=10s {{\"a\":1}}")
    );
}

// spec: A-12, A-13
#[tokio::test]
async fn a_failed_connect_is_a_refusal_and_a_broken_connection_is_not() {
    let refused = failing(|| io::ErrorKind::ConnectionRefused.into());
    let failure = create(&refused).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Unreachable, true)
    );
    assert!(
        failure
            .message
            .starts_with("POST /api/v1/namespaces/jobs/pods: "),
        "{failure}"
    );
    let reset = failing(|| io::ErrorKind::ConnectionReset.into());
    let failure = create(&reset).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Broken, false)
    );
}

// spec: A-13
#[tokio::test]
async fn a_2xx_that_cannot_be_read_is_an_unknown_outcome() {
    let cut_short = REAL.get(..REAL.len() / 2).unwrap();
    for body in [
        "",
        "ok",
        "<html>",
        "null",
        "{}",
        "{\"kind\":\"Status\"}",
        cut_short,
    ] {
        let failure = create(&always(201, body)).await;
        assert_eq!(
            (failure.kind, failure.is_refused()),
            (FailureKind::Garbage, false),
            "{body:.30}"
        );
    }
    let broken = answering(|_| Response::new(pieces(vec!["{\"kind\":\"Pod\""], Last::Reset)));
    let failure = create(&broken).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Garbage, false)
    );
    let endless = answering(|_| Response::new(Endless));
    let failure = create(&endless).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Garbage, false)
    );
    let seen = always(201, REAL).create_pod(&body()).await.unwrap();
    assert!(matches!(seen, Sighting::Read(_)));
}

// spec: A-12
#[tokio::test]
async fn a_refusal_counts_even_if_its_body_is_lost() {
    let busy = answering(|_| {
        let mut answer = Response::new(pieces(vec!["Too ma"], Last::Reset));
        *answer.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
        answer
            .headers_mut()
            .insert("retry-after", "3".parse().unwrap());
        answer
    });
    let failure = create(&busy).await;
    assert_eq!(
        (failure.kind, failure.is_refused()),
        (FailureKind::Wait, true)
    );
    assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
}

// spec: A-11, A-13
#[tokio::test(start_paused = true)]
async fn no_call_waits_longer_than_the_servers_own_time_and_a_second() {
    let silent = calls_to(Clients::in_process(
        tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
        }),
        "jobs",
    ));
    let half = answering(|_| Response::new(pieces(vec!["{"], Last::Silence)));
    for calls in [silent, half] {
        let begun = Instant::now();
        let failure = create(&calls).await;
        assert_eq!(
            (failure.kind, failure.is_refused()),
            (FailureKind::TimedOut, false)
        );
        assert_eq!(begun.elapsed(), TIMEOUT + Duration::from_secs(1));
        let listed = calls.list_pods(&ListQuery::default()).await.unwrap_err();
        assert_eq!(listed.kind, FailureKind::TimedOut);
    }
}

// spec: E-10, L-35
#[tokio::test]
async fn a_pod_is_gone_only_if_the_api_server_reports_it_for_this_pod() {
    let name = "etl-exec-42";
    let gone = always(404, not_found("pods", name));
    assert_eq!(gone.get_pod(name).await, Ok(None));
    assert_eq!(gone.patch_pod(name, &json!({})).await, Ok(None));
    assert_eq!(
        gone.delete_pod(name, &uid(), None).await,
        Ok(Deleted::NothingThere)
    );
    for (body, kind) in [
        (
            "<html>404 Not Found</html>".to_owned(),
            FailureKind::Garbage,
        ),
        ("404 page not found\n".to_owned(), FailureKind::Garbage),
        (
            not_found("namespaces", "jobs"),
            FailureKind::NamespaceMissing,
        ),
        (not_found("pods", "etl-exec-43"), FailureKind::NotFound),
    ] {
        let calls = always(404, body.clone());
        assert_eq!(calls.get_pod(name).await.unwrap_err().kind, kind, "{body}");
        assert_eq!(
            calls.patch_pod(name, &json!({})).await.unwrap_err().kind,
            kind
        );
        assert_eq!(
            calls.delete_pod(name, &uid(), None).await.unwrap_err().kind,
            kind
        );
    }
}

// spec: L-35
#[tokio::test]
async fn a_delete_that_loses_against_the_removal_counts_as_gone() {
    let answer = |version: &str, uid: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "etl-exec-42", "uid": uid, "resourceVersion": version},
        })
        .to_string()
    };
    let uid = uid();
    let delete = async |body: String| {
        always(200, body)
            .delete_pod("etl-exec-42", &uid, None)
            .await
    };
    let mut lost: Value = serde_json::from_str(&answer("7", uid.as_str())).unwrap();
    lost["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    assert_eq!(delete(lost.to_string()).await, Ok(Deleted::NothingThere));
    for body in [answer("7", uid.as_str()), answer("", "another")] {
        let answered = delete(body.clone()).await;
        assert!(matches!(answered, Ok(Deleted::Accepted(Some(_)))), "{body}");
    }
}

// spec: E-10, L-35
#[tokio::test]
async fn a_delete_that_hits_a_different_uid_counts_as_gone() {
    let delete = async |code, body: String| {
        always(code, body)
            .delete_pod("etl-exec-42", &uid(), None)
            .await
    };
    for another in [
        "Operation cannot be fulfilled on pods \"etl-exec-42\": Precondition failed: UID in precondition: a, UID in object meta: b",
        "Operation cannot be fulfilled on pods \"etl-exec-42\": the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated",
    ] {
        assert_eq!(
            delete(409, conflict(another)).await,
            Ok(Deleted::NothingThere)
        );
    }
    let busy =
        "Operation cannot be fulfilled on pods \"etl-exec-42\": the object has been modified";
    assert_eq!(
        delete(409, conflict(busy)).await.unwrap_err().kind,
        FailureKind::Conflict
    );
    let pod = delete(200, REAL.to_owned()).await.unwrap();
    assert!(matches!(pod, Deleted::Accepted(Some(Sighting::Read(_)))));
    let done = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#.to_owned();
    assert_eq!(delete(200, done).await, Ok(Deleted::Accepted(None)));
    assert_eq!(
        delete(200, "<html>".to_owned()).await.unwrap_err().kind,
        FailureKind::Garbage
    );
}

// spec: O-1
#[tokio::test]
async fn the_servers_version_is_read_from_its_own_response() {
    let version = r#"{"major":"1","minor":"36","gitVersion":"v1.36.0"}"#;
    assert_eq!(
        always(200, version).server_version().await,
        Ok("v1.36.0".to_owned())
    );
    assert_eq!(
        always(200, "<html>")
            .server_version()
            .await
            .unwrap_err()
            .kind,
        FailureKind::Garbage
    );
}
