//! Verifies service account tokens with the keys that the cluster publishes (spec O-112). Pure.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
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
    /// ES384: the same.
    P384(Vec<u8>),
}

/// What a token must have been issued for.
#[derive(Debug, Clone)]
pub struct Expected {
    pub audience: String,
    /// The namespace of the pod.
    pub namespace: String,
}

/// A service account, proven by its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// As `namespace/name`.
    pub name: String,
    /// How long ago the token was issued.
    pub age: Duration,
}

/// Whether this may be a token at all: a head can be read.
pub fn is_token(text: &str) -> bool {
    head(text).is_some()
}

impl Trusted {
    /// Parses the discovery document and the key set of a cluster. Keys of unsupported types are
    /// left out. `None` where either cannot be parsed, or no key is left.
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
        let keys: Vec<_> = keys.iter().filter_map(PublicKey::read).collect();
        (!keys.is_empty()).then_some(Self { issuer, keys })
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
        let bound = self.verify(token, &expected.audience, now)?.kubernetes;
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

    /// The service account that a token for this audience was issued for. A token without an expiry,
    /// as Secrets may contain, is refused.
    ///
    /// # Errors
    ///
    /// As [`Trusted::prove`].
    pub fn account(&self, token: &str, audience: &str, now: Timestamp) -> Result<Account, Denied> {
        let claims = self.verify(token, audience, now)?;
        let bound = claims.kubernetes;
        let account = bound.serviceaccount;
        let account = account.ok_or(Denied::Untrue("it names no service account"))?;
        // One that does not say when it was issued is as old as any.
        let age = claims
            .iat
            .map_or(i64::MAX, |issued| now.as_second().saturating_sub(issued));
        Ok(Account {
            name: format!("{}/{}", bound.namespace, account.name),
            age: Duration::from_secs(u64::try_from(age).unwrap_or_default()),
        })
    }

    /// Verifies the signature and the claims that all tokens have.
    fn verify(&self, token: &str, audience: &str, now: Timestamp) -> Result<Claims, Denied> {
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

    fn check(&self, claims: Claims, audience: &str, now: Timestamp) -> Result<Claims, Denied> {
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
        Ok(claims)
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
            ("EC", Some("P-384")) => KeyKind::P384([vec![4], bytes("x")?, bytes("y")?].concat()),
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
            (KeyKind::P384(point), "ES384") => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
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
    iat: Option<i64>,
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
mod tests;
