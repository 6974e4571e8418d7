//! Authentication and authorization.

use super::*;
use crate::KnownUser;
use crate::Seed;

const ROLES: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: ns}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: ns}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: ns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: User, name: ann}
- {kind: ServiceAccount, name: default, namespace: default}
"#;

fn guarded() -> DevCluster {
    let ann = KnownUser {
        token: "of-ann".to_owned(),
        name: "ann".to_owned(),
        uid: String::new(),
        groups: Vec::new(),
    };
    super::super::start(Options {
        token: Some("own".to_owned()),
        users: vec![ann],
        roles: Some(Seed::parse(ROLES).expect("roles")),
        ..options()
    })
}

async fn call(
    cluster: &DevCluster,
    token: &str,
    method: Method,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json");
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let request = request.body(body).expect("a request");
    let response = cluster.router().oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body");
    (
        code,
        serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default(),
    )
}

async fn read(cluster: &DevCluster, token: &str, path: &str) -> (u16, Value) {
    call(cluster, token, Method::GET, path, Value::Null).await
}

#[tokio::test(start_paused = true)]
async fn a_user_is_authorized_by_its_role_and_refused_otherwise() {
    let cluster = guarded();
    assert_eq!(
        read(&cluster, "of-ann", "/api/v1/namespaces/ns/pods")
            .await
            .0,
        200
    );
    assert_eq!(read(&cluster, "own", "/api/v1/pods").await.0, 200);
    let (code, status) = call(
        &cluster,
        "of-ann",
        Method::POST,
        "/api/v1/namespaces/ns/pods",
        pod("a"),
    )
    .await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(
        status["message"],
        "pods is forbidden: User \"ann\" cannot create resource \"pods\" in API group \"\" in the namespace \"ns\""
    );
    assert_eq!(status["details"], json!({"kind": "pods"}));
    let (code, status) = read(&cluster, "of-ann", "/api/v1/nodes/x").await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "nodes \"x\" is forbidden: User \"ann\" cannot get resource \"nodes\" in API group \"\" at the cluster scope"
    );
    assert_eq!(status["details"], json!({"kind": "nodes", "name": "x"}));
    assert_eq!(read(&cluster, "of-ann", "/apis").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn changed_roles_take_effect_at_once() {
    let cluster = guarded();
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings/readers";
    assert_eq!(
        call(&cluster, "own", Method::DELETE, path, Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        read(&cluster, "of-ann", "/api/v1/namespaces/ns/pods")
            .await
            .0,
        403
    );
}

async fn may(cluster: &DevCluster, token: &str, verb: &str, namespace: &str) -> Value {
    let question = json!({"spec": {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": namespace}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, answer) = call(cluster, token, Method::POST, path, question).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_user_can_review_its_own_access() {
    let cluster = guarded();
    let yes = may(&cluster, "of-ann", "list", "ns").await;
    assert_eq!(yes["allowed"], true);
    assert_eq!(
        may(&cluster, "of-ann", "delete", "ns").await,
        json!({"allowed": false})
    );
    assert_eq!(may(&cluster, "own", "delete", "ns").await["allowed"], true);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (_, answer) = call(
        &cluster,
        "of-ann",
        Method::POST,
        rules,
        json!({"spec": {"namespace": "ns"}}),
    )
    .await;
    let resources = answer["status"]["resourceRules"]
        .as_array()
        .expect("rules")
        .clone();
    assert!(
        resources.iter().any(|r| r["resources"] == json!(["pods"])),
        "{resources:?}"
    );
    let neither = call(
        &cluster,
        "own",
        Method::POST,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        json!({}),
    )
    .await;
    assert_eq!(refusal(neither), refused(422, "Invalid"));
}

// spec: O-112
#[tokio::test(start_paused = true)]
async fn a_service_account_token_authenticates_while_the_account_exists() {
    let cluster = guarded();
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    let request =
        json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}});
    let (code, answer) = call(
        &cluster,
        "own",
        Method::POST,
        &format!("{account}/token"),
        request,
    )
    .await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    assert_eq!(
        read(&cluster, &token, "/api/v1/namespaces/ns/pods").await.0,
        200
    );
    assert_eq!(
        read(&cluster, &token, "/api/v1/namespaces/default/pods")
            .await
            .0,
        403
    );
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    let question = json!({"spec": {"token": token}});
    let (_, answer) = call(&cluster, "own", Method::POST, review, question.clone()).await;
    assert_eq!(answer["status"]["authenticated"], true);
    assert_eq!(
        answer["status"]["user"]["username"],
        "system:serviceaccount:default:default"
    );
    let other = json!({"spec": {"token": token, "audiences": ["somebody"]}});
    let (_, answer) = call(&cluster, "own", Method::POST, review, other).await;
    assert_eq!(answer["status"].get("authenticated"), None);
    // The new account has another uid.
    assert_eq!(
        call(&cluster, "own", Method::DELETE, account, Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        read(&cluster, &token, "/api/v1/namespaces/ns/pods").await.0,
        401
    );
    let (_, answer) = call(&cluster, "own", Method::POST, review, question).await;
    assert_eq!(answer["status"]["error"], "invalid bearer token");
}

#[tokio::test(start_paused = true)]
async fn impersonation_requires_authorization() {
    let cluster = guarded();
    let as_ann = async |token: &str, path: &str| {
        let request = Request::get(path)
            .header("authorization", format!("Bearer {token}"))
            .header("impersonate-user", "ann");
        let request = request.body(Body::empty()).expect("a request");
        cluster
            .router()
            .oneshot(request)
            .await
            .expect("an answer")
            .status()
            .as_u16()
    };
    assert_eq!(as_ann("own", "/api/v1/namespaces/ns/pods").await, 200);
    assert_eq!(as_ann("own", "/api/v1/pods").await, 403);
    assert_eq!(as_ann("of-ann", "/api/v1/namespaces/ns/pods").await, 403);
}
