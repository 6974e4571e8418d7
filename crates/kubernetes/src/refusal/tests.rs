//! Responses of real API servers, and their classification.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const PLACE: &str = "POST /api/v1/namespaces/jobs/pods";

fn failure(code: u16, body: &str) -> Failure {
    of_answer(PLACE, code, None, body.as_bytes())
}

fn status(code: u16, reason: &str, message: &str) -> Failure {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    failure(code, &body.to_string())
}

// spec: A-21
#[test]
fn a_403_is_classified_by_its_message() {
    let kind = |message: &str| status(403, "Forbidden", message).kind;
    assert_eq!(
        kind(
            "pods \"exec-2\" is forbidden: exceeded quota: q, requested: count/pods=1, used: count/pods=1, limited: count/pods=1"
        ),
        FailureKind::Quota
    );
    assert_eq!(
        kind("pods \"e\" is forbidden: status unknown for quota: q, resources: pods"),
        FailureKind::Quota
    );
    // A quota on cpu refuses pods without a cpu limit. No retry helps, so this is a template error.
    assert_eq!(
        kind("pods \"e\" is forbidden: failed quota: q: must specify limits.cpu for: executor"),
        FailureKind::Admission
    );
    assert_eq!(
        kind(
            "pods \"e\" is forbidden: unable to create new content in namespace jobs because it is being terminated"
        ),
        FailureKind::NamespaceTerminating
    );
    // Of a namespace that is a moment old.
    assert_eq!(
        kind(
            "pods \"e\" is forbidden: error looking up service account jobs/default: serviceaccount \"default\" not found"
        ),
        FailureKind::Server
    );
    for admission in [
        "pods \"e\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
        "pods \"e\" is forbidden: maximum cpu usage per Container is 1, but limit is 2",
        "pods \"e\" is forbidden: error looking up service account jobs/x: serviceaccount \"x\" not found",
        "admission webhook \"deny.example.com\" denied the request: not on a Friday",
    ] {
        assert_eq!(kind(admission), FailureKind::Admission, "{admission}");
    }
}

// spec: A-21
#[test]
fn a_missing_permission_is_named_with_the_rule_that_grants_it() {
    let failure = status(
        403,
        "Forbidden",
        "pods is forbidden: User \"system:serviceaccount:jobs:driver\" cannot create resource \"pods\" in API group \"\" in the namespace \"jobs\"",
    );
    assert_eq!(failure.kind, FailureKind::Rights);
    let right = failure.missing_right().unwrap();
    assert_eq!(
        (&*right.verb, &*right.resource, right.namespace.as_deref()),
        ("create", "pods", Some("jobs"))
    );
    assert_eq!(
        right.to_string(),
        "system:serviceaccount:jobs:driver may not create pods in namespace jobs; the rule that would allow it: {apiGroups: [\"\"], resources: [\"pods\"], verbs: [\"create\"]}"
    );
    let lease = MissingRight::in_message(
        "leases.coordination.k8s.io \"l\" is forbidden: User \"u\" cannot get resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"jobs\"",
    )
    .unwrap();
    assert_eq!(lease.group, "coordination.k8s.io");
}

// spec: A-25
#[test]
fn a_409_is_a_taken_name_only_if_the_reason_is_already_exists() {
    let taken = status(409, "AlreadyExists", "pods \"exec-1\" already exists");
    assert_eq!(taken.kind, FailureKind::AlreadyExists);
    // Concurrent creates may conflict on the quota object.
    let quota = status(
        409,
        "Conflict",
        "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified; please apply your changes to the latest version and try again",
    );
    assert_eq!(quota.kind, FailureKind::Conflict);
    assert!(quota.is_refused());
}

// spec: A-23
#[test]
fn a_refused_template_comes_with_its_causes() {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Pod \"exec-1\" is invalid: spec.containers[0].image: Required value",
        "reason": "Invalid", "code": 422,
        "details": {"name": "exec-1", "kind": "Pod", "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers[0].image"}
        ]},
    });
    let failure = failure(422, &body.to_string());
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert_eq!(&*failure.causes[0].field, "spec.containers[0].image");
    let webhook = status(
        400,
        "",
        "admission webhook \"w\" denied the request without explanation",
    );
    assert_eq!(webhook.kind, FailureKind::Admission);
}

// spec: A-20
#[test]
fn a_429_or_503_may_contain_a_retry_after() {
    // The overload filter responds with plain text.
    let text = b"Too many requests, please try again later.\n";
    let busy = of_answer(PLACE, 429, Some(Duration::from_secs(1)), text);
    assert_eq!((busy.kind, busy.is_refused()), (FailureKind::Wait, true));
    assert_eq!(busy.retry_after, Some(Duration::from_secs(1)));
    let later = of_answer(PLACE, 503, Some(Duration::from_secs(3)), b"");
    assert_eq!((later.kind, later.is_refused()), (FailureKind::Wait, false));
    assert_eq!(of_answer(PLACE, 503, None, b"").kind, FailureKind::Server);
    let in_body = json!({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 7}});
    let in_body = failure(429, &in_body.to_string());
    assert_eq!(in_body.retry_after, Some(Duration::from_secs(7)));
    let absurd = of_answer(PLACE, 429, Some(Duration::from_secs(u64::MAX)), b"");
    assert_eq!(absurd.retry_after, Some(MAX_RETRY_AFTER));
}

// spec: A-12, A-13
#[test]
fn only_an_api_servers_own_4xx_is_a_refusal() {
    let page = "<html><body><h1>404 Not Found</h1><hr>nginx</body></html>";
    for code in [400, 403, 404, 405, 409, 413, 418, 422] {
        let own = status(code, "Whatever", "no");
        assert!(own.is_refused(), "{code}");
        let foreign = failure(code, page);
        assert_eq!(
            (foreign.kind, foreign.is_refused()),
            (FailureKind::Garbage, false),
            "{code}"
        );
    }
    for code in [301, 302, 307, 408, 500, 502, 503, 504, 599] {
        assert!(!status(code, "Whatever", "no").is_refused(), "{code}");
        assert!(!failure(code, page).is_refused(), "{code}");
    }
    assert!(failure(401, page).is_refused());
    assert_eq!(
        status(401, "Unauthorized", "Unauthorized").kind,
        FailureKind::Credentials
    );
    let unsent = [
        FailureKind::Unreachable,
        FailureKind::Broken,
        FailureKind::TimedOut,
    ];
    assert_eq!(
        unsent.map(|kind| Failure::new(kind, "").is_refused()),
        [true, false, false]
    );
}

// spec: W-2, P-1
#[test]
fn versions_too_old_and_too_new_are_distinguished() {
    let old = status(
        410,
        "Expired",
        "The resourceVersion for the provided list is too old.",
    );
    assert_eq!(old.kind, FailureKind::Expired);
    assert_eq!(
        status(410, "Gone", "too old resource version: 1 (1000)").kind,
        FailureKind::Expired
    );
    let new = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Timeout: Too large resource version: 9999999, current: 2301", "reason": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1},
        "code": 504,
    });
    let new = failure(504, &new.to_string());
    assert_eq!(
        (new.kind, new.is_refused()),
        (FailureKind::TooLargeVersion, false)
    );
    assert_eq!(
        status(
            504,
            "Timeout",
            "Timeout: Too large resource version: 7, current: 2"
        )
        .kind,
        FailureKind::TooLargeVersion
    );
    let slow = status(
        504,
        "Timeout",
        "Timeout: request did not complete within requested timeout",
    );
    assert_eq!(slow.kind, FailureKind::TimedOut);
}

// spec: A-24, E-10
#[test]
fn a_404_is_about_one_object_or_about_something_else() {
    let body = |kind: &str, name: &str| {
        json!({
            "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": format!("{kind} \"{name}\" not found"), "details": {"name": name, "kind": kind},
        })
        .to_string()
    };
    assert_eq!(
        failure(404, &body("namespaces", "jobs")).kind,
        FailureKind::NamespaceMissing
    );
    assert_eq!(
        failure(404, &body("pods", "exec-1")).kind,
        FailureKind::NotFound
    );
    let says = |body: &str| {
        StatusBody::parse(body.as_bytes()).is_some_and(|s| s.says_missing("pods", "exec-1"))
    };
    assert!(says(&body("pods", "exec-1")));
    for other in [
        body("pods", "exec-2"),
        body("namespaces", "exec-1"),
        r#"{"kind":"Status","reason":"NotFound","code":404}"#.to_owned(),
        r#"{"kind":"Pod","reason":"NotFound","details":{"name":"exec-1","kind":"pods"}}"#
            .to_owned(),
        "404 page not found".to_owned(),
    ] {
        assert!(!says(&other), "{other}");
    }
}

// spec: O-40
#[test]
fn a_message_is_one_line_that_names_the_call_and_quotes_the_server() {
    let failure = status(403, "Forbidden", "no\nreally\u{1b}[31m not");
    assert_eq!(
        failure.to_string(),
        "POST /api/v1/namespaces/jobs/pods: 403 Forbidden: no really [31m not"
    );
    let long = status(400, "BadRequest", &"ü".repeat(1_000_000));
    assert!(long.message.len() <= MAX_MESSAGE_BYTES + '…'.len_utf8());
    let many = json!({"kind": "Status", "details": {"causes": vec![json!({"field": "x"}); 1000]}});
    assert_eq!(
        self::failure(422, &many.to_string()).causes.len(),
        MAX_CAUSES
    );
}

proptest! {
    #[test]
    fn any_response_is_classified_without_a_panic(code: u16, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = of_answer(PLACE, code, None, &body);
    }

    // spec: A-13
    #[test]
    fn no_5xx_is_ever_a_refusal(code in 500u16..600, reason in "\\PC{0,20}", message in "\\PC{0,80}") {
        prop_assert!(!status(code, &reason, &message).is_refused());
    }
}
