//! What only the holder of a key can make: executors' tokens (spec O-112), and proofs of texts (spec O-58).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ring::hmac;

use super::SecretError;
use boatswain_model::{AppId, ExecutorId};

/// The key from which the tokens of an application's executors are derived.
#[derive(Clone)]
pub struct Key(Arc<hmac::Key>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key must not appear in logs.
        f.write_str("Key")
    }
}

impl Key {
    /// The key in a file, which is created with a new key if it does not exist.
    ///
    /// # Errors
    /// The file cannot be used, or is readable by other users.
    pub fn of_file(path: &Path) -> Result<Self, SecretError> {
        Ok(Self::new(super::read_or_make(path)?.trim().as_bytes()))
    }

    /// A new random key that lasts as long as this process.
    ///
    /// # Errors
    /// The operating system provides no randomness.
    pub fn drawn() -> Result<Self, SecretError> {
        Ok(Self::new(super::make()?.as_bytes()))
    }

    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// A key for one purpose. What it signs cannot be used for another purpose of the same secret.
    #[must_use]
    pub fn for_purpose(&self, purpose: &str) -> Self {
        Self::new(hmac::sign(&self.0, purpose.as_bytes()).as_ref())
    }

    /// The proof that a holder of this key has signed the text, in hexadecimal digits.
    pub fn proof(&self, text: &str) -> String {
        digits_of(hmac::sign(&self.0, text.as_bytes()).as_ref())
    }

    /// Whether a proof is this key's for the text. Compares in constant time.
    pub fn has_signed(&self, text: &str, proof: &str) -> bool {
        bytes_of(proof).is_some_and(|bytes| hmac::verify(&self.0, text.as_bytes(), &bytes).is_ok())
    }

    /// The token of an executor: `ID.SIGNATURE`, with the signature in hexadecimal digits.
    pub fn token(&self, app: &AppId, id: ExecutorId) -> String {
        let signature = hmac::sign(&self.0, signed_text(app, id).as_bytes());
        format!("{id}.{}", digits_of(signature.as_ref()))
    }

    /// The executor whose token this is; `None` if the signature is wrong. Compares in constant time.
    pub fn open(&self, app: &AppId, token: &str) -> Option<ExecutorId> {
        let (id, signature) = token.split_once('.')?;
        let id = ExecutorId::parse(id).ok()?;
        let signature = bytes_of(signature)?;
        let signed_text = signed_text(app, id);
        hmac::verify(&self.0, signed_text.as_bytes(), &signature).ok()?;
        Some(id)
    }
}

impl PartialEq for Key {
    /// Keys are equal if they make the same signature.
    fn eq(&self, other: &Self) -> bool {
        let signature = hmac::sign(&other.0, b"");
        hmac::verify(&self.0, b"", signature.as_ref()).is_ok()
    }
}

impl Eq for Key {}

/// The signed text. Ids contain no line break, so different pairs give different texts.
fn signed_text(app: &AppId, id: ExecutorId) -> String {
    format!("{id}\n{app}")
}

fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| {
        char::from(*b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let digits: Option<Vec<u8>> = digits.as_bytes().iter().map(digit).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(
        digits
            .chunks_exact(2)
            .map(|two| two[0] << 4 | two[1])
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use boatswain_model::testing::id;

    // spec: O-112, B-5
    #[test]
    fn a_token_is_one_executors_of_one_application_under_one_key() {
        let (key, app) = (Key::new(b"key"), AppId::from("app"));
        let token = key.token(&app, id(12));
        assert_eq!(key.open(&app, &token), Some(id(12)));
        let signature = token.split_once('.').unwrap().1;
        for wrong in [
            String::new(),
            ".".to_owned(),
            signature.to_owned(),
            format!("1.{signature}"),
            format!("012.{signature}"),
            format!("12.{}", &signature[1..]),
            format!("12.{}0", &signature[1..]),
            format!("12.{signature}00"),
            format!("12.{}", "é".repeat(32)),
        ] {
            assert!(key.open(&app, &wrong).is_none(), "{wrong}");
        }
        assert!(key.open(&AppId::from("other"), &token).is_none());
        assert!(Key::new(b"other").open(&app, &token).is_none());
        assert_eq!(
            (format!("{key:?}").as_str(), &key),
            ("Key", &Key::new(b"key"))
        );
        assert_ne!(key, Key::new(b"other"));
    }

    // spec: O-112
    #[test]
    fn a_key_in_a_file_survives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let (path, app) = (dir.path().join("key"), AppId::from("app"));
        let token = Key::of_file(&path).unwrap().token(&app, id(1));
        assert!(Key::of_file(&path).unwrap().open(&app, &token).is_some());
        assert!(Key::drawn().unwrap().open(&app, &token).is_none());
    }
}
