//! Proofs that a driver of this application added a profile (spec O-58).
//!
//! A profile that is added while the driver runs is kept in the application record. Whoever may write ConfigMaps could
//! put a profile there, and so run any program with any rights that pods of the namespace can have. So a successor
//! takes over only profiles whose proof was made with a secret that is not in a ConfigMap.

use std::path::PathBuf;

use serde_json::Value;

use crate::config::Config;
use crate::model::{AppId, ProfileName};
use crate::secret::seal::Key;
use crate::server::api::tokens::Tokens;

/// The least length of an API token from which proofs are made, in bytes. Everyone who may read ConfigMaps can try
/// tokens against a proof, which is hopeless only for random ones.
const LEAST_TOKEN: usize = 32;

const PURPOSE: &str = "boatswain.dev/profiles";

/// Where the secret is.
#[derive(Debug, Clone, Default)]
pub(super) struct ProfileProofs {
    key_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
}

impl ProfileProofs {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            key_file: config.backend.sessions.key_file.clone(),
            token_file: config.api.token_file.clone(),
        }
    }

    /// The keys, of which the first makes proofs. They are read each time, because files can be rotated. None if there
    /// is no secret that a successor would have too.
    fn keys(&self) -> Vec<Key> {
        let keys = match (&self.key_file, &self.token_file) {
            (Some(file), _) => Key::of_file(file).map(|key| vec![key]).ok(),
            (None, Some(file)) => Tokens::read(file)
                .map(|tokens| {
                    let long = tokens.full().filter(|token| token.len() >= LEAST_TOKEN);
                    long.map(|token| Key::new(token.as_bytes())).collect()
                })
                .ok(),
            (None, None) => None,
        };
        let keys = keys.unwrap_or_default();
        keys.iter().map(|key| key.for_purpose(PURPOSE)).collect()
    }

    /// `None` without a secret.
    pub(super) fn prove(
        &self,
        app: &AppId,
        name: &ProfileName,
        described: &Value,
    ) -> Option<String> {
        let key = self.keys().into_iter().next()?;
        Some(key.proof(&signed(app, name, described)))
    }

    /// Checks a profile of the record.
    ///
    /// # Errors
    /// Says why the profile must not be used.
    pub(super) fn check(
        &self,
        app: &AppId,
        name: &ProfileName,
        described: &Value,
        proof: Option<&str>,
    ) -> Result<(), &'static str> {
        let proof = proof.ok_or("it has no proof that a driver of this application added it")?;
        let keys = self.keys();
        if keys.is_empty() {
            return Err("there is no secret to verify its proof with");
        }
        let text = signed(app, name, described);
        match keys.iter().any(|key| key.has_signed(&text, proof)) {
            true => Ok(()),
            false => Err("its proof is wrong: it was changed, or the secret was replaced"),
        }
    }
}

/// What is signed. Neither an application's id nor a profile's name contains a line break.
fn signed(app: &AppId, name: &ProfileName, described: &Value) -> String {
    format!("{app}\n{name}\n{}", canonical(described))
}

/// The one text of a JSON value: the keys of objects are in order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            let fields = fields.into_iter();
            let fields =
                fields.map(|(k, v)| format!("{}:{}", Value::from(k.as_str()), canonical(v)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt as _;

    use serde_json::json;

    use super::*;

    fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> Option<PathBuf> {
        let path = dir.path().join(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        Some(path)
    }

    // spec: O-58
    #[test]
    fn a_proof_is_for_one_profile_of_one_application() {
        let dir = tempfile::tempdir().unwrap();
        let proofs = ProfileProofs {
            key_file: file(&dir, "key", &"k".repeat(64)),
            token_file: None,
        };
        let (app, name) = (AppId::from("app"), ProfileName::from("gpu"));
        let described = json!({"image": "engine:2", "cpu": 0.5, "env": {"B": "1", "A": "2"}});
        let proof = proofs.prove(&app, &name, &described).unwrap();
        let reordered: Value =
            serde_json::from_str(r#"{"env":{"A":"2","B":"1"},"cpu":0.5,"image":"engine:2"}"#)
                .unwrap();
        let check = |app: &str, name: &str, described: &Value, proof: Option<&str>| {
            proofs.check(&app.into(), &name.into(), described, proof)
        };
        assert_eq!(check("app", "gpu", &reordered, Some(&proof)), Ok(()));
        let other = json!({"image": "evil", "cpu": 0.5, "env": {"B": "1", "A": "2"}});
        assert!(check("app", "gpu", &other, Some(&proof)).is_err());
        assert!(check("app", "cpu", &described, Some(&proof)).is_err());
        assert!(check("other", "gpu", &described, Some(&proof)).is_err());
        assert!(check("app", "gpu", &described, None).is_err());
        for wrong in ["", "00", &"0".repeat(64), &proof.replace('a', "b")[1..]] {
            assert!(check("app", "gpu", &described, Some(wrong)).is_err());
        }
        file(&dir, "key", &"l".repeat(64));
        assert!(check("app", "gpu", &described, Some(&proof)).is_err());
    }

    // spec: O-58
    #[test]
    fn without_a_key_file_full_tokens_of_the_api_make_proofs_unless_they_can_be_guessed() {
        let dir = tempfile::tempdir().unwrap();
        let (app, name, described) = (AppId::from("app"), ProfileName::from("gpu"), json!({}));
        let with = |tokens: &str| ProfileProofs {
            key_file: None,
            token_file: file(&dir, "tokens", tokens),
        };
        let (first, second) = ("a".repeat(32), "b".repeat(32));
        let proofs = with(&format!("{first}\n{second}\n"));
        let proof = proofs.prove(&app, &name, &described).unwrap();
        let check = |proofs: &ProfileProofs| proofs.check(&app, &name, &described, Some(&proof));
        assert_eq!(check(&proofs), Ok(()));
        assert_eq!(check(&with(&format!("{second}\n{first}\n"))), Ok(()));
        assert!(check(&with(&format!("{second}\n"))).is_err(), "revoked");
        assert!(check(&with(&format!("{second}\n{first} read\n"))).is_err());
        for none in ["short\n", &format!("{first} read\n")] {
            assert_eq!(with(none).prove(&app, &name, &described), None);
            assert!(check(&with(none)).is_err());
        }
        let none = ProfileProofs::default();
        assert_eq!(none.prove(&app, &name, &described), None);
        assert!(check(&none).is_err());
    }
}
