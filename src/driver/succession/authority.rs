//! The driver's own CA, which is kept in a Secret for its successors (spec O-62).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::{Application, Retries, StartError};
use crate::config::Config;
use crate::driver::Environment;
use crate::exit::Exit;
use crate::kubernetes::owned_resources::{OwnedResource, secret, secret_name};
use crate::kubernetes::pod_template::owner_reference;
use crate::kubernetes::{Calls, Failure, FailureKind};
use crate::server::tls::authority::{Authority, AuthorityError};

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const FORMER: &str = "former.crt";

/// How often a Secret that others change is read and written again.
const ATTEMPTS: u32 = 8;

/// How long executors trust the next CA before it issues certificates. The kubelet brings it to
/// them within minutes.
const KNOWN_BEFORE: SignedDuration = SignedDuration::from_hours(24);

/// The CAs of an application, as they are in its Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorities {
    /// Issues the driver's certificates.
    pub present: Authority,
    /// Is about to replace it.
    next: Option<Authority>,
    /// The certificate of the one before it.
    former: Option<String>,
}

impl Authorities {
    /// The certificates that executors trust, in PEM.
    pub fn trusted(&self) -> String {
        let next = self.next.iter().map(|next| next.certificate.as_str());
        let present = self.present.certificate.as_str();
        let all = std::iter::once(present)
            .chain(next)
            .chain(self.former.as_deref());
        all.map(|certificate| format!("{}\n", certificate.trim_end()))
            .collect()
    }

    fn made(now: Timestamp) -> Result<Self, AuthorityError> {
        Ok(Self {
            present: Authority::make(now)?,
            next: None,
            former: None,
        })
    }

    /// What is in the Secret's data; `None` if that cannot be used.
    fn read(data: &Value) -> Option<Self> {
        let text = |key: &str| {
            let bytes = BASE64.decode(data[key].as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let authority = |certificate: &str, key: &str| {
            let authority = Authority {
                certificate: text(certificate)?,
                key: text(key)?,
            };
            authority.is_usable().then_some(authority)
        };
        Some(Self {
            present: authority(CERTIFICATE, KEY)?,
            next: authority(NEXT_CERTIFICATE, NEXT_KEY),
            former: text(FORMER),
        })
    }

    fn data(&self) -> BTreeMap<&'static str, String> {
        let next = self.next.as_ref();
        let values = [
            (CERTIFICATE, Some(&self.present.certificate)),
            (KEY, Some(&self.present.key)),
            (NEXT_CERTIFICATE, next.map(|next| &next.certificate)),
            (NEXT_KEY, next.map(|next| &next.key)),
            (FORMER, self.former.as_ref()),
        ];
        let there = values.into_iter();
        there
            .filter_map(|(key, value)| Some((key, BASE64.encode(value?))))
            .collect()
    }

    /// The CAs as they should be now: when a third of the present one's life is left, the next one
    /// is made, which executors trust from then on, and at a start at least a day later it replaces
    /// the present one. The certificates of the former stay trusted until the next change.
    fn renewed(mut self, now: Timestamp) -> Result<Self, AuthorityError> {
        let validity = self.present.validity()?;
        let left = validity.end.duration_since(now);
        if !left.is_positive() {
            return Self::made(now);
        }
        let Some(next) = &self.next else {
            if left < validity.end.duration_since(validity.start) / 3 {
                self.next = Some(Authority::make(now)?);
                self.former = None;
            }
            return Ok(self);
        };
        // A CA is valid from the day before it was made.
        let known = now.duration_since(next.validity()?.start);
        if known >= KNOWN_BEFORE * 2 {
            self.former = Some(self.present.certificate.clone());
            self.present = next.clone();
            self.next = None;
        }
        Ok(self)
    }
}

/// Reads the application's CA from its Secret, or makes it.
///
/// # Errors
/// If the cluster stays unreachable or refuses a call, or the system provides no randomness.
pub async fn ensure(
    config: &Config,
    environment: &Environment,
    application: &Application,
) -> Result<(Authorities, OwnedResource), StartError> {
    let retries = Retries::since(Instant::now(), config, environment);
    let calls = &application.calls;
    let name = secret_name(&application.prefix);
    let what = format!("the Secret {name}");
    let owner = owner_reference(&application.prefix, &application.uid);
    let failed = |error: AuthorityError| {
        StartError::new(Exit::Configuration, format!("the driver's CA: {error}"))
    };
    for _ in 0..ATTEMPTS {
        let there = retries.call(&what, || calls.get_secret(&name)).await?;
        let app_id = &application.record.app_id;
        let label = application.labels.keys().app_id;
        let ours = |there: &&Value| there["metadata"]["labels"][label] == app_id.as_str();
        let known = there.as_ref().filter(ours);
        let read = known.and_then(|there| Authorities::read(&there["data"]));
        if known.is_some() && read.is_none() {
            tracing::warn!(
                secret = name,
                "the driver's CA is unusable, and replaced by a new one"
            );
        }
        let now = environment.clock.now().wall;
        let wanted = match read.clone() {
            Some(read) => read.renewed(now),
            None => Authorities::made(now),
        };
        let wanted = wanted.map_err(failed)?;
        let resource = secret(&application.place, app_id, &wanted.data());
        if read.as_ref() == Some(&wanted) {
            return Ok((wanted, resource));
        }
        let put = || put(calls, &resource, there.as_ref(), &owner);
        if retries.call(&what, put).await? {
            tracing::info!(secret = name, "the driver's CA was written");
            return Ok((wanted, resource));
        }
        // Another driver was faster, or an earlier attempt of ours was carried out: its CA counts.
    }
    let why = format!("{what} is changed by another client all the time: find out by whom");
    Err(StartError::new(Exit::Unreachable, why))
}

/// Whether the Secret was written; false if it is to be read again.
async fn put(
    calls: &Calls,
    resource: &OwnedResource,
    there: Option<&Value>,
    owner: &Value,
) -> Result<bool, Failure> {
    match calls.put_secret(resource, there, owner).await {
        Ok(()) => Ok(true),
        Err(failure) => match failure.kind {
            FailureKind::AlreadyExists | FailureKind::Conflict | FailureKind::NotFound => Ok(false),
            _ => Err(failure),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(days: i64) -> Timestamp {
        let start: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        start + SignedDuration::from_hours(24 * days)
    }

    // spec: O-62
    #[test]
    fn what_is_kept_is_read_again_and_damage_is_no_ca() {
        let made = Authorities::made(at(0)).unwrap();
        let data = json!(made.data());
        assert_eq!(Authorities::read(&data), Some(made.clone()));
        for (key, value) in [
            (KEY, BASE64.encode(&Authority::make(at(0)).unwrap().key)),
            (KEY, "!".to_owned()),
            (CERTIFICATE, BASE64.encode("nonsense")),
        ] {
            let mut damaged = data.clone();
            damaged[key] = value.into();
            assert_eq!(Authorities::read(&damaged), None, "{key}");
        }
        assert_eq!(Authorities::read(&Value::Null), None);
        assert!(!format!("{made:?}").contains("KEY"), "a secret");
    }

    // spec: O-62
    #[test]
    fn a_ca_is_replaced_in_two_steps_and_both_are_trusted_meanwhile() {
        let first = Authorities::made(at(0)).unwrap();
        let young = first.clone().renewed(at(2_000)).unwrap();
        assert_eq!(young, first);
        let announced = first.clone().renewed(at(2_500)).unwrap();
        assert_eq!(announced.present, first.present, "it still issues");
        assert_eq!(announced.trusted().matches("BEGIN CERTIFICATE").count(), 2);
        // A start soon after finds executors that may not know the next one yet.
        assert_eq!(announced.clone().renewed(at(2_500)).unwrap(), announced);
        let replaced = announced.clone().renewed(at(2_502)).unwrap();
        assert_eq!(Some(&replaced.present), announced.next.as_ref());
        assert_eq!(replaced.trusted().matches("BEGIN CERTIFICATE").count(), 2);
        assert_eq!(replaced.clone().renewed(at(2_600)).unwrap(), replaced);
        let expired = first.clone().renewed(at(4_000)).unwrap();
        assert_ne!(expired.present, first.present);
    }
}
