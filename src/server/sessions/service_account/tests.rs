//! Tests of the verification of service account tokens.

use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
};
use serde_json::{Value, json};

use super::*;

struct Cluster(EcdsaKeyPair);

impl Cluster {
    fn new() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    fn trusted(&self) -> Trusted {
        let point = self.0.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let key = json!({"kty": "EC", "crv": "P-256", "kid": "k", "x": BASE64.encode(x), "y": BASE64.encode(y)});
        let odd = json!({"kty": "OKP", "kid": "o"});
        let keys = json!({"keys": [odd, key]}).to_string();
        Trusted::read(br#"{"issuer": "me"}"#, keys.as_bytes()).unwrap()
    }

    fn sign(&self, head: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let signed = format!("{}.{}", part(head), part(claims));
        let signature = self
            .0
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", BASE64.encode(signature))
    }
}

fn claims() -> Value {
    json!({
        "iss": "me", "aud": ["driver"], "exp": 2_000, "nbf": 1_000,
        "kubernetes.io": {"namespace": "ns", "pod": {"name": "a-exec-1", "uid": "u1"}},
    })
}

fn head_of(alg: &str, kid: &str) -> Value {
    json!({"alg": alg, "kid": kid})
}

fn prove(trusted: &Trusted, token: &str, second: i64) -> Result<Proof, Denied> {
    let expected = Expected {
        audience: "driver".to_owned(),
        namespace: "ns".to_owned(),
    };
    trusted.prove(token, &expected, Timestamp::from_second(second).unwrap())
}

// spec: O-112
#[test]
fn a_token_proves_its_pod_until_it_expires() {
    let cluster = Cluster::new();
    let token = cluster.sign(&head_of("ES256", "k"), &claims());
    let proof = Proof::Pod {
        name: "a-exec-1".into(),
        uid: "u1".into(),
    };
    for second in [700, 1_000, 2_299] {
        assert_eq!(
            prove(&cluster.trusted(), &token, second),
            Ok(proof.clone()),
            "{second}"
        );
    }
    for second in [0, 699, 2_300, 9_999] {
        assert!(
            prove(&cluster.trusted(), &token, second).is_err(),
            "{second}"
        );
    }
}

// spec: O-112, O-68, B-5
#[test]
fn api_servers_whose_clocks_differ_by_five_minutes_refuse_no_executor() {
    let cluster = Cluster::new();
    // The kubelet replaces a token of an hour after 48 minutes.
    let (issued, replaced) = (100_000, 100_000 + 48 * 60);
    let mut claims = claims();
    for (claim, second) in [("nbf", issued), ("iat", issued), ("exp", issued + 3_600)] {
        claims[claim] = json!(second);
    }
    let token = cluster.sign(&head_of("ES256", "k"), &claims);
    let trusted = cluster.trusted();
    for second in [
        issued - 299,
        issued,
        replaced,
        replaced + 299,
        issued + 3_899,
    ] {
        let proof = prove(&trusted, &token, second);
        assert!(proof.is_ok(), "{}: {proof:?}", second - issued);
    }
    let denied = prove(&trusted, &token, issued - 301).unwrap_err();
    assert!(denied.to_string().contains("not valid yet"), "{denied}");
    let denied = prove(&trusted, &token, issued + 3_901).unwrap_err();
    assert!(denied.to_string().contains("has expired"), "{denied}");
}

// spec: O-112
#[test]
fn each_mismatch_of_a_token_has_its_own_error() {
    let cluster = Cluster::new();
    for (path, value, why) in [
        ("/iss", json!("other"), "another cluster"),
        ("/aud", json!("api"), "another audience"),
        ("/aud", json!([]), "another audience"),
        (
            "/kubernetes.io/namespace",
            json!("other"),
            "another namespace",
        ),
        ("/kubernetes.io/pod", json!(null), "not bound to a pod"),
        ("/exp", json!("soon"), "lacks the claims"),
    ] {
        let mut claims = claims();
        *claims.pointer_mut(path).unwrap() = value;
        let token = cluster.sign(&head_of("ES256", "k"), &claims);
        let denied = prove(&cluster.trusted(), &token, 1_500).unwrap_err();
        assert!(denied.to_string().contains(why), "{path}: {denied}");
    }
}

// spec: O-112
#[test]
fn only_the_named_key_verifies_a_token_and_only_with_its_own_algorithm() {
    let cluster = Cluster::new();
    for (signer, head, why) in [
        (&Cluster::new(), head_of("ES256", "k"), "signature"),
        (&cluster, head_of("none", "k"), "signature"),
        (&cluster, head_of("HS256", "k"), "signature"),
        (&cluster, head_of("RS256", "k"), "signature"),
        (&cluster, head_of("ES256", "o"), "publishes"),
        (&cluster, head_of("ES256", "rotated"), "publishes"),
    ] {
        let token = signer.sign(&head, &claims());
        let denied = prove(&cluster.trusted(), &token, 1_500).unwrap_err();
        assert!(denied.to_string().contains(why), "{head}: {denied}");
    }
    let rotated = cluster.sign(&head_of("ES256", "rotated"), &claims());
    assert!(!cluster.trusted().knows_key_of(&rotated));
    let token = cluster.sign(&head_of("ES256", "k"), &claims());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    for forged in [
        signed.to_owned(),
        format!("{signed}."),
        format!("{signed}A.{signature}"),
    ] {
        assert!(
            prove(&cluster.trusted(), &forged, 1_500).is_err(),
            "{forged}"
        );
    }
}

// spec: O-112
#[test]
fn a_key_of_384_bits_verifies_its_tokens() {
    let (algorithm, random) = (&ECDSA_P384_SHA384_FIXED_SIGNING, SystemRandom::new());
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(48);
    let key = json!({"kty": "EC", "crv": "P-384", "kid": "k", "x": BASE64.encode(x), "y": BASE64.encode(y)});
    let keys = json!({"keys": [key]}).to_string();
    let trusted = Trusted::read(br#"{"issuer": "me"}"#, keys.as_bytes()).unwrap();
    let cluster = Cluster(pair);
    let token = cluster.sign(&head_of("ES384", "k"), &claims());
    assert!(prove(&trusted, &token, 1_500).is_ok());
    let other = cluster.sign(&head_of("ES256", "k"), &claims());
    assert!(prove(&trusted, &other, 1_500).is_err());
}

// spec: O-64
#[test]
fn a_service_account_is_proven_by_a_token_for_the_audience_whatever_its_pod() {
    let cluster = Cluster::new();
    let account = |claims: &Value, audience: &str| {
        let token = cluster.sign(&head_of("ES256", "k"), claims);
        let now = Timestamp::from_second(1_500).unwrap();
        cluster.trusted().account(&token, audience, now)
    };
    let mut claims = claims();
    claims["aud"] = json!(["api"]);
    let none = account(&claims, "api").unwrap_err().to_string();
    assert!(none.contains("names no service account"), "{none}");
    claims["kubernetes.io"] = json!({
        "namespace": "monitoring",
        "serviceaccount": {"name": "prometheus", "uid": "u"},
    });
    let named = |age| {
        Ok(Account {
            name: "monitoring/prometheus".to_owned(),
            age: Duration::from_secs(age),
        })
    };
    claims["iat"] = json!(1_100);
    assert_eq!(account(&claims, "api"), named(400));
    // Issued by an API server whose clock is ahead.
    claims["iat"] = json!(1_600);
    assert_eq!(account(&claims, "api"), named(0));
    claims["iat"] = json!(null);
    let age = account(&claims, "api").unwrap().age;
    assert!(age > Duration::from_secs(1 << 40), "{age:?}");
    let other = account(&claims, "executors").unwrap_err().to_string();
    assert!(other.contains("another audience"), "{other}");
    claims["iss"] = json!("other");
    assert!(account(&claims, "api").is_err());
}

// spec: O-112
#[test]
fn a_malformed_key_set_is_none() {
    for (configuration, keys) in [
        ("{}", "{\"keys\": []}"),
        ("{\"issuer\": \"a\"}", "[]"),
        ("{\"issuer\": \"a\"}", "{\"keys\": []}"),
        ("", ""),
    ] {
        assert_eq!(
            Trusted::read(configuration.as_bytes(), keys.as_bytes()),
            None
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // spec: O-112, I-11
    #[test]
    fn arbitrary_text_is_not_a_valid_token(text in "[a-zA-Z0-9_.-]{0,200}", any in ".*") {
        let trusted = Cluster::new().trusted();
        for text in [&text, &any] {
            prop_assert!(prove(&trusted, text, 1_500).is_err());
            trusted.knows_key_of(text);
        }
    }
}
