//! Service account tokens: issues them, and authenticates requests that carry one.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::rights::{AUTHENTICATED, SERVICE_ACCOUNTS, User};
use super::signing::{ISSUER, Keys};
use crate::api::status::{ApiError, Causes};
use crate::changes::write::seconds;
use crate::objects::object::{Key, at, list, number, strings, text, text_or};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The lifetime of a token in seconds, if the request sets none.
const DEFAULT_LIFETIME: i64 = 3_600;

/// The shortest lifetime of a token, in seconds.
const MIN_LIFETIME: i64 = 600;

/// The audiences whose tokens this server accepts.
pub fn own_audiences() -> &'static [&'static str] {
    &[ISSUER]
}

/// The groups of every service account of a namespace.
pub fn groups(namespace: &str) -> [String; 2] {
    [
        SERVICE_ACCOUNTS.to_owned(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
    ]
}

/// The verified content of a token.
#[derive(Clone, Debug)]
pub struct Account {
    claims: Value,
    audiences: Vec<String>,
}

const CLAIMS: &str = "kubernetes.io";

impl Account {
    /// Verifies a token: its signature, its validity period, and that its account and the pod it is bound to still
    /// exist.
    pub fn read(keys: &Keys, token: &str, state: &State, now: Timestamp) -> Option<Self> {
        let claims = keys.verify(token)?;
        let time = |name: &str| claims.get(name).and_then(Value::as_i64);
        if time("exp")? <= now.as_second() || time("nbf")? > now.as_second() {
            return None;
        }
        let namespace = text(&claims, &[CLAIMS, "namespace"]);
        for (field, resource) in [
            ("serviceaccount", Resource::ServiceAccounts),
            ("pod", Resource::Pods),
        ] {
            let Some(bound) = at(&claims, &[CLAIMS, field]) else {
                continue;
            };
            let found = state.get(&Key::new(resource, namespace, text(bound, &["name"])))?;
            if found.uid() != text(bound, &["uid"]) {
                return None;
            }
        }
        let audiences = strings(&claims, &["aud"]).map(str::to_owned).collect();
        Some(Self { claims, audiences })
    }

    /// Whether the token is for one of these audiences.
    pub fn is_for(&self, audiences: &[&str]) -> bool {
        self.audiences
            .iter()
            .any(|a| audiences.contains(&a.as_str()))
    }

    /// The user that the token authenticates.
    pub fn user(&self) -> User {
        let claim = |path: &[&str]| text(at(&self.claims, &[CLAIMS]).unwrap_or(&Value::Null), path);
        let namespace = claim(&["namespace"]);
        let mut extra = json!({
            "authentication.kubernetes.io/credential-id": [format!("JTI={}", text(&self.claims, &["jti"]))],
        });
        for (name, path) in [
            ("pod-name", ["pod", "name"]),
            ("pod-uid", ["pod", "uid"]),
            ("node-name", ["node", "name"]),
        ] {
            if !claim(&path).is_empty() {
                extra[format!("authentication.kubernetes.io/{name}")] = json!([claim(&path)]);
            }
        }
        User {
            name: text(&self.claims, &["sub"]).to_owned(),
            uid: claim(&["serviceaccount", "uid"]).to_owned(),
            groups: groups(namespace)
                .into_iter()
                .chain([AUTHENTICATED.to_owned()])
                .collect(),
            extra,
        }
    }
}

pub fn request(
    keys: &Keys,
    state: &State,
    key: &Key,
    request: &Value,
    now: Timestamp,
) -> Result<Value, ApiError> {
    let account = state
        .get(key)
        .ok_or_else(|| ApiError::not_found("serviceaccounts", "", &key.name))?;
    let given = text(request, &["metadata", "name"]);
    if !given.is_empty() && given != &*key.name {
        return Err(ApiError::bad_request(
            "metadata.name must match service account name if specified",
        ));
    }
    let lasts = number(request, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_LIFETIME);
    let limit = 1_i64 << 32;
    if !(MIN_LIFETIME..=limit).contains(&lasts) {
        let why = if lasts < MIN_LIFETIME {
            "may not specify a duration less than 10 minutes"
        } else {
            "may not specify a duration larger than 2^32 seconds"
        };
        let causes = Causes::of(|causes| causes.invalid("spec.expirationSeconds", lasts, why));
        causes.check("TokenRequest", "authentication.k8s.io", "")?;
    }
    let mut audiences = list(request, &["spec", "audiences"]).to_vec();
    if audiences.is_empty() {
        audiences = own_audiences().iter().map(|a| Value::from(*a)).collect();
    }
    let mut claims = json!({
        "namespace": &*key.namespace,
        "serviceaccount": {"name": &*key.name, "uid": account.uid()},
    });
    if let Some(bound) = at(request, &["spec", "boundObjectRef"]).filter(|b| b.is_object()) {
        bind(state, key, bound, &mut claims)?;
    }
    let ends = now
        .checked_add(SignedDuration::from_secs(lasts))
        .unwrap_or(Timestamp::MAX);
    let token = keys.sign(&json!({
        "aud": audiences,
        "exp": ends.as_second(),
        "iat": now.as_second(),
        "iss": ISSUER,
        "jti": keys.token_id(),
        CLAIMS: claims,
        "nbf": now.as_second(),
        "sub": format!("system:serviceaccount:{}:{}", key.namespace, key.name),
    }));
    let token = token.ok_or_else(|| {
        ApiError::unclassified("the operating system has no randomness to sign with")
    })?;
    let mut answer = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": &*key.name, "namespace": &*key.namespace, "creationTimestamp": seconds(now)},
        "spec": {"audiences": audiences, "expirationSeconds": lasts},
        "status": {"token": token, "expirationTimestamp": seconds(ends)},
    });
    if let Some(bound) = at(request, &["spec", "boundObjectRef"]) {
        answer["spec"]["boundObjectRef"] = bound.clone();
    }
    Ok(answer)
}

/// Binds a token to a pod, so that it is invalid once the pod is gone.
fn bind(state: &State, account: &Key, bound: &Value, claims: &mut Value) -> Result<(), ApiError> {
    let (version, kind) = (text(bound, &["apiVersion"]), text(bound, &["kind"]));
    if (version, kind) != ("v1", "Pod") {
        return Err(ApiError::bad_request(format!(
            "cannot bind token to object of type {version}, Kind={kind}"
        )));
    }
    let name = text(bound, &["name"]);
    let pod = state
        .get(&Key::new(Resource::Pods, &account.namespace, name))
        .ok_or_else(|| ApiError::not_found("pods", "", name))?;
    let of_pod = text_or(pod.value(), &["spec", "serviceAccountName"], "default");
    if of_pod != &*account.name {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount \"{}\" to pod running with different serviceaccount name \"{of_pod}\"",
            account.name
        )));
    }
    let uid = text(bound, &["uid"]);
    if !uid.is_empty() && uid != pod.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        );
        return Err(ApiError::conflict("pods", "", name, &why));
    }
    claims["pod"] = json!({"name": name, "uid": pod.uid()});
    let node = text(pod.value(), &["spec", "nodeName"]);
    if let Some(found) = state.get(&Key::new(Resource::Nodes, "", node)) {
        claims["node"] = json!({"name": node, "uid": found.uid()});
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (Keys, State, Key) {
        let mut state = State::new(10);
        let account = Key::new(Resource::ServiceAccounts, "ns", "a");
        let pod = Key::new(Resource::Pods, "ns", "p");
        state
            .put(
                account.clone(),
                json!({"metadata": {"name": "a", "uid": "u-a"}}),
            )
            .expect("stored");
        let value =
            json!({"metadata": {"name": "p", "uid": "u-p"}, "spec": {"serviceAccountName": "a"}});
        state.put(pod, value).expect("stored");
        (Keys::generate(), state, account)
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).expect("a time")
    }

    fn bound_to(name: &str) -> Value {
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name}}})
    }

    // spec: O-112
    #[test]
    fn a_token_is_valid_while_its_account_and_pod_exist() {
        let (keys, mut state, account) = world();
        let answer = request(&keys, &state, &account, &bound_to("p"), now()).expect("a token");
        let token = text(&answer, &["status", "token"]);
        let read = |state: &State, at: Timestamp| Account::read(&keys, token, state, at);
        let user = read(&state, now()).expect("an account").user();
        assert_eq!(user.name, "system:serviceaccount:ns:a");
        assert!(user.is_of("system:serviceaccounts:ns"));
        assert_eq!(
            user.extra["authentication.kubernetes.io/pod-uid"],
            json!(["u-p"])
        );
        let over = now() + SignedDuration::from_secs(DEFAULT_LIFETIME);
        assert!(read(&state, over).is_none());
        state.remove(&Key::new(Resource::Pods, "ns", "p"));
        assert!(read(&state, now()).is_none());
    }

    #[test]
    fn a_token_has_the_requested_audience() {
        let (keys, state, account) = world();
        let wanted = json!({"spec": {"audiences": ["driver"]}});
        let answer = request(&keys, &state, &account, &wanted, now()).expect("a token");
        let token = text(&answer, &["status", "token"]);
        let read = Account::read(&keys, token, &state, now()).expect("an account");
        assert!(read.is_for(&["driver"]) && !read.is_for(own_audiences()));
    }

    #[test]
    fn an_unknown_bound_object_or_a_too_short_lifetime_is_refused() {
        let (keys, state, account) = world();
        let code = |body: Value| {
            request(&keys, &state, &account, &body, now())
                .expect_err("refused")
                .code
        };
        assert_eq!(code(bound_to("none")), 404);
        assert_eq!(
            code(
                json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "n"}}})
            ),
            400
        );
        assert_eq!(code(json!({"spec": {"expirationSeconds": 60}})), 422);
        let mut other = bound_to("p");
        other["spec"]["boundObjectRef"]["uid"] = json!("x");
        assert_eq!(code(other), 409);
        let nobody = Key::new(Resource::ServiceAccounts, "ns", "none");
        let error = request(&keys, &state, &nobody, &json!({}), now()).expect_err("none");
        assert_eq!(error.code, 404);
    }
}
