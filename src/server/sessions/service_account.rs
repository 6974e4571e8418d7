//! Verifies service account tokens with the keys that the cluster publishes (spec O-50). Pure.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::access::Denied;
use crate::actors::executor_registry::registry::Proof;

/// The longest token that is accepted, in bytes.
const LONGEST: usize = 8 * 1024;

/// The tolerated difference between the clocks of several API servers, and between one and what its last answer shows
/// of it, in seconds. A token is replaced long before it expires, so this prolongs none that is in use; and an executor
/// whose pod is gone is not registered whatever its token says.
const SKEW: i64 = 300;

/// A cluster's issuer and public keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    /// The `iss` of tokens.
    issuer: String,
    keys: Vec<PublicKey>,
}

/// A public key that tokens are verified with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PublicKey {
    id: String,
    kind: KeyKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyKind {
    /// RS256.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// ES256: an uncompressed point.
    P256(Vec<u8>),
}

/// What a token must have been issued for.
#[derive(Debug, Clone)]
pub struct Expected {
    pub audience: String,
    /// The namespace of the pod.
    pub namespace: String,
}

impl Trusted {
    /// Parses the discovery document and the key set of a cluster. Keys of unsupported types are
    /// left out. `None` where either cannot be parsed.
    pub fn read(configuration: &[u8], keys: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Configuration {
            issuer: String,
        }
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        let Configuration { issuer } = serde_json::from_slice(configuration).ok()?;
        let Set { keys } = serde_json::from_slice(keys).ok()?;
        let keys = keys.iter().filter_map(PublicKey::read).collect();
        Some(Self { issuer, keys })
    }

    /// Whether the key that a token names is known; true for a malformed token, for which no fetch
    /// would help.
    pub fn knows_key_of(&self, token: &str) -> bool {
        head(token).is_none_or(|head| self.keys.iter().any(|key| key.id == head.kid))
    }

    /// The pod that a token proves its bearer to be.
    ///
    /// # Errors
    ///
    /// The token is malformed, expired, wrongly signed, or for something else.
    pub fn prove(&self, token: &str, expected: &Expected, now: Timestamp) -> Result<Proof, Denied> {
        let bound = self.verify(token, &expected.audience, now)?;
        if bound.namespace != expected.namespace {
            return Err(Denied::Untrue("its pod is in another namespace"));
        }
        let pod = bound.pod;
        let pod = pod.ok_or(Denied::Untrue("it is not bound to a pod"))?;
        Ok(Proof::Pod {
            name: Arc::from(pod.name),
            uid: pod.uid.into(),
        })
    }

    /// The service account, as `namespace/name`, that a token for this audience was issued for. A
    /// token without an expiry, as Secrets may contain, is refused.
    ///
    /// # Errors
    ///
    /// As [`Trusted::prove`].
    pub fn account(&self, token: &str, audience: &str, now: Timestamp) -> Result<String, Denied> {
        let bound = self.verify(token, audience, now)?;
        let account = bound.serviceaccount;
        let account = account.ok_or(Denied::Untrue("it names no service account"))?;
        Ok(format!("{}/{}", bound.namespace, account.name))
    }

    /// Verifies the signature and the claims that all tokens have.
    fn verify(&self, token: &str, audience: &str, now: Timestamp) -> Result<Bound, Denied> {
        let head = head(token).ok_or(Denied::NoToken)?;
        let named = self.keys.iter().find(|key| key.id == head.kid);
        let key = named.ok_or(Denied::Untrue(
            "its key is not among those that the cluster publishes",
        ))?;
        let (signed, signature) = token.rsplit_once('.').ok_or(Denied::NoToken)?;
        let signature = BASE64.decode(signature).map_err(|_| Denied::NoToken)?;
        if !key.has_signed(&head.alg, signed.as_bytes(), &signature) {
            return Err(Denied::Untrue(
                "its signature does not match the key that it names",
            ));
        }
        let claims = signed.split_once('.').map(|(_, claims)| claims);
        let claims = claims.and_then(|claims| BASE64.decode(claims).ok());
        let claims = claims.and_then(|claims| serde_json::from_slice::<Claims>(&claims).ok());
        let claims = claims.ok_or(Denied::Untrue("it lacks the claims of a pod's token"))?;
        self.check(claims, audience, now)
    }

    fn check(&self, claims: Claims, audience: &str, now: Timestamp) -> Result<Bound, Denied> {
        let now = now.as_second();
        if claims.iss != self.issuer {
            return Err(Denied::Untrue("another cluster has issued it"));
        }
        if !claims.aud.includes(audience) {
            return Err(Denied::Untrue("it was made for another audience"));
        }
        if claims.exp <= now.saturating_sub(SKEW) {
            return Err(Denied::Untrue("it has expired"));
        }
        if claims
            .nbf
            .is_some_and(|from| from > now.saturating_add(SKEW))
        {
            return Err(Denied::Untrue(
                "it is not valid yet by the API server's clock",
            ));
        }
        Ok(claims.kubernetes)
    }
}

impl PublicKey {
    fn read(key: &serde_json::Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(serde_json::Value::as_str);
        let bytes = |name: &str| BASE64.decode(text(name)?).ok();
        let kind = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyKind::Rsa {
                n: bytes("n")?,
                e: bytes("e")?,
            },
            ("EC", Some("P-256")) => KeyKind::P256([vec![4], bytes("x")?, bytes("y")?].concat()),
            _ => return None,
        };
        let id = text("kid")?.to_owned();
        Some(Self { id, kind })
    }

    /// Verifies the signature, and that the token's algorithm is the one for this type of key.
    fn has_signed(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        match (&self.kind, algorithm) {
            (KeyKind::Rsa { n, e }, "RS256") => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                .is_ok(),
            (KeyKind::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(signed, signature)
                    .is_ok()
            }
            _ => false,
        }
    }
}

#[derive(Deserialize)]
struct Head {
    alg: String,
    kid: String,
}

fn head(token: &str) -> Option<Head> {
    let token = Some(token).filter(|token| token.len() <= LONGEST)?;
    let head = BASE64.decode(token.split_once('.')?.0).ok()?;
    serde_json::from_slice(&head).ok()
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    exp: i64,
    nbf: Option<i64>,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Bound,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn includes(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

#[derive(Deserialize)]
struct Bound {
    namespace: String,
    pod: Option<BoundPod>,
    serviceaccount: Option<BoundAccount>,
}

#[derive(Deserialize)]
struct BoundAccount {
    name: String,
}

#[derive(Deserialize)]
struct BoundPod {
    name: String,
    uid: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
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

    // spec: O-50
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

    // spec: O-50, O-68, B-5
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

    // spec: O-50
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

    // spec: O-50
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
        assert_eq!(
            account(&claims, "api"),
            Ok("monitoring/prometheus".to_owned())
        );
        let other = account(&claims, "executors").unwrap_err().to_string();
        assert!(other.contains("another audience"), "{other}");
        claims["iss"] = json!("other");
        assert!(account(&claims, "api").is_err());
    }

    // spec: O-50
    #[test]
    fn a_malformed_key_set_is_none() {
        for (configuration, keys) in [
            ("{}", "{\"keys\": []}"),
            ("{\"issuer\": \"a\"}", "[]"),
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

        // spec: O-50, I-11
        #[test]
        fn arbitrary_text_is_not_a_valid_token(text in "[a-zA-Z0-9_.-]{0,200}", any in ".*") {
            let trusted = Cluster::new().trusted();
            for text in [&text, &any] {
                prop_assert!(prove(&trusted, text, 1_500).is_err());
                trusted.knows_key_of(text);
            }
        }
    }
}
