//! Signs and verifies the tokens of service accounts, and publishes the public key.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use serde_json::{Value, json};

pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The signing key. It lives as long as the server. Tokens signed with another key
/// are invalid.
#[derive(Clone, Debug)]
pub struct Keys(Option<Arc<Key>>);

struct Key {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    id: String,
}

impl Key {
    fn new(pkcs8: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        Some(Self {
            id: BASE64.encode(digest(&SHA256, pair.public_key().as_ref())),
            pair,
            random,
        })
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Key material must not appear in logs.
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Keys {
    /// Generates a key. It is empty if the operating system has no randomness; then nothing can be signed.
    pub fn generate() -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        let key = made.ok().and_then(|der| Key::new(der.as_ref()));
        Self(key.map(Arc::new))
    }

    pub fn token_id(&self) -> Option<String> {
        let mut bytes = [0; 16];
        self.0.as_ref()?.random.fill(&mut bytes).ok()?;
        Some(
            uuid::Builder::from_random_bytes(bytes)
                .into_uuid()
                .to_string(),
        )
    }

    /// Signs the claims: a JWT.
    pub fn sign(&self, claims: &Value) -> Option<String> {
        let key = self.0.as_ref()?;
        let header = json!({"alg": "ES256", "kid": key.id, "typ": "JWT"});
        let part = |value: &Value| BASE64.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = key.pair.sign(&key.random, signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// The claims of a token, if its signature is valid.
    pub fn verify(&self, token: &str) -> Option<Value> {
        let key = self.0.as_ref()?;
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64.decode(signature).ok()?;
        let public = key.pair.public_key().as_ref();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()
    }

    /// The JSON Web Key Set with which clients verify tokens.
    pub fn published(&self) -> Value {
        let keys: Vec<Value> = self
            .0
            .iter()
            .filter_map(|key| {
                // An uncompressed point: a tag byte, then 32 bytes for each coordinate.
                let (x, y) = key
                    .pair
                    .public_key()
                    .as_ref()
                    .get(1..)?
                    .split_at_checked(32)?;
                Some(json!({
                    "use": "sig",
                    "kty": "EC",
                    "kid": key.id,
                    "crv": "P-256",
                    "alg": "ES256",
                    "x": BASE64.encode(x),
                    "y": BASE64.encode(y),
                }))
            })
            .collect();
        json!({"keys": keys})
    }
}

/// The OpenID configuration: tells clients that know only the issuer where the keys are.
pub fn configuration(host: &str) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("http://{host}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_signed_with_this_key_are_verified() {
        let keys = Keys::generate();
        let claims = json!({"sub": "a"});
        let token = keys.sign(&claims).expect("a token");
        assert_eq!(keys.verify(&token), Some(claims));
        assert_eq!(Keys::generate().verify(&token), None);
        let mut parts: Vec<&str> = token.split('.').collect();
        let forged = BASE64.encode(json!({"sub": "b"}).to_string());
        parts[1] = &forged;
        assert_eq!(keys.verify(&parts.join(".")), None);
        for none in ["", ".", "a.b.c", "a.b"] {
            assert_eq!(keys.verify(none), None, "{none}");
        }
    }

    #[test]
    fn the_published_key_verifies_a_token() {
        let keys = Keys::generate();
        let token = keys.sign(&json!({"sub": "a"})).expect("a token");
        let (signed, signature) = token.rsplit_once('.').expect("a signature");
        let published = keys.published();
        let part = |name: &str| {
            let text = published["keys"][0][name].as_str().expect("text");
            BASE64.decode(text).expect("base64")
        };
        let point = [vec![4], part("x"), part("y")].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(
                signed.as_bytes(),
                &BASE64.decode(signature).expect("base64"),
            )
            .expect("the signature is of this key");
    }
}
