//! Who may ask for what: with the token everything, without one whether the server is there and well.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, Method};

use super::path::Target;
use super::status::ApiError;

/// The user whose password the token is, for clients that know of no other way: kubectl sends no bearer token over
/// plain HTTP, but the user and password of the server's URL.
pub const USER: &str = "boatswain";

/// What a request must bear; nothing where everybody may ask for everything.
#[derive(Clone, Debug)]
pub(super) struct Credentials(Option<Arc<Accepted>>);

#[derive(Debug)]
struct Accepted {
    bearer: String,
    basic: String,
}

impl Credentials {
    /// Accepts this token, as bearer token and as password.
    pub(super) fn new(token: Option<String>) -> Self {
        Self(token.map(|token| {
            let basic = base64(format!("{USER}:{token}").as_bytes());
            Arc::new(Accepted {
                bearer: token,
                basic,
            })
        }))
    }

    /// Whether anything must be borne at all.
    pub(super) fn are_needed(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this may be asked for.
    pub(super) fn check(&self, parts: &Parts, target: &Target) -> Result<(), ApiError> {
        let Some(accepted) = &self.0 else {
            return Ok(());
        };
        let Some(header) = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) else {
            return anonymous(&parts.method, parts.uri.path(), target);
        };
        let space = header
            .iter()
            .position(|b| *b == b' ')
            .unwrap_or(header.len());
        let (scheme, given) = header.split_at(space);
        let expected = match scheme.to_ascii_lowercase().as_slice() {
            b"bearer" => &accepted.bearer,
            b"basic" => &accepted.basic,
            _ => return Err(ApiError::unauthorized()),
        };
        if is_same(given.trim_ascii(), expected.as_bytes()) {
            Ok(())
        } else {
            Err(ApiError::unauthorized())
        }
    }
}

/// Compares in a time that does not tell where the two differ.
fn is_same(given: &[u8], expected: &[u8]) -> bool {
    let differences = given
        .iter()
        .zip(expected)
        .fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0 && given.len() == expected.len()
}

/// The plain alphabet of RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = (bits >> (18 - 6 * i)) as usize & 63;
            text.push(if i <= chunk.len() {
                char::from(ALPHABET[digit])
            } else {
                '='
            });
        }
    }
    text
}

/// Without a token one is nobody, who may ask whether the server is there and well, and nothing else.
fn anonymous(method: &Method, path: &str, target: &Target) -> Result<(), ApiError> {
    const USER: &str = "User \"system:anonymous\" cannot";
    let verb = method.as_str().to_lowercase();
    let (resource, name, namespace) = match target {
        Target::Health | Target::Version => return Ok(()),
        Target::Collection {
            resource,
            namespace,
        }
        | Target::OldWatch {
            resource,
            namespace,
            ..
        } => (*resource, "", namespace.as_deref()),
        Target::Object { key, .. } => (key.resource, &*key.name, Some(&*key.namespace)),
        Target::UnknownResource | Target::Nothing | Target::Malformed => {
            return Err(ApiError::forbidden_path(format!(
                "forbidden: {USER} {verb} path \"{path}\""
            )));
        }
    };
    let traits = resource.traits();
    let verb = match (method, name) {
        (&Method::GET, "") => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, "") => "deletecollection",
        _ => &verb,
    };
    let place = match namespace {
        Some(namespace) if !namespace.is_empty() => format!("in the namespace \"{namespace}\""),
        _ => "at the cluster scope".to_owned(),
    };
    let why = format!(
        "{USER} {verb} resource \"{}\" in API group \"{}\" {place}",
        traits.plural, traits.group
    );
    Err(ApiError::forbidden(traits.plural, traits.group, name, &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    // spec: O-72
    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(is_same(b"secret", b"secret"));
        for wrong in ["", "secre", "secrets", "Secret"] {
            assert!(!is_same(wrong.as_bytes(), b"secret"), "{wrong}");
        }
    }
}
