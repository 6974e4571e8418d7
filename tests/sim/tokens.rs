//! Service account tokens of pods, as the API server issues them and kubelets renew them, and the rotation of the keys
//! that sign them (spec O-112, O-54).

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::objects::NAMESPACE;

/// The issuer that the embedded cluster publishes.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How long a token is valid.
const LIFE: Duration = Duration::from_secs(3_600);

/// A kubelet renews a token when it is this old.
pub const RENEWED_AFTER: Duration = Duration::from_secs(48 * 60);

/// The API server's signing keys. Nothing that is traced depends on them.
#[derive(Clone)]
pub struct Issuer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    keys: Vec<EcdsaKeyPair>,
    /// The code with which requests for the keys are answered instead.
    withheld: Option<u16>,
}

impl Issuer {
    pub fn new() -> Self {
        let issuer = Self(Arc::default());
        issuer.rotate();
        issuer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Answers requests for the keys with this code from now on; `None`: with the keys.
    pub fn withhold(&self, code: Option<u16>) {
        self.state().withheld = code;
    }

    /// The code with which requests for the keys are answered instead.
    pub fn withheld(&self) -> Option<u16> {
        self.state().withheld
    }

    /// Signs with a new key from now on. The earlier ones are still published, because their tokens are valid.
    pub fn rotate(&self) {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        self.state().keys.push(pair);
    }

    /// The JSON Web Key Set.
    pub fn published(&self) -> Value {
        let key = |(number, pair): (usize, &EcdsaKeyPair)| {
            // An uncompressed point: a tag byte, then 32 bytes for each coordinate.
            let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
            json!({
                "use": "sig",
                "kty": "EC",
                "kid": number.to_string(),
                "crv": "P-256",
                "alg": "ES256",
                "x": BASE64.encode(x),
                "y": BASE64.encode(y),
            })
        };
        json!({"keys": self.state().keys.iter().enumerate().map(key).collect::<Vec<_>>()})
    }

    /// A token of a pod for sessions of this application.
    pub fn token(&self, app: &str, pod: &str, uid: &str, now: Timestamp) -> String {
        let now = now.as_second();
        let state = self.state();
        let (number, pair) = state.keys.iter().enumerate().next_back().unwrap();
        let header = json!({"alg": "ES256", "kid": number.to_string(), "typ": "JWT"});
        let claims = json!({
            "iss": ISSUER,
            "aud": [format!("boatswain.dev/{app}")],
            "iat": now,
            "nbf": now,
            "exp": now + LIFE.as_secs() as i64,
            "kubernetes.io": {
                "namespace": NAMESPACE,
                "pod": {"name": pod, "uid": uid},
                "serviceaccount": {"name": "default", "uid": "0"},
            },
        });
        let part = |value: &Value| BASE64.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64.encode(signature))
    }
}
