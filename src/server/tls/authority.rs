//! The driver's own CA, and the certificates that it issues (spec O-62).

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio::time::sleep;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::{Certificate, Holder, Unusable, validity};
use crate::clock::Clock;

/// How long a CA is valid.
const CA_DAYS: i64 = 3_650;

/// How long an issued certificate is valid. A new one is issued when a third of this is left.
const ISSUED_DAYS: i64 = 30;

/// How long before its end a CA is warned about: a driver that restarts has replaced it long
/// before.
const CA_WARNING: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How often it is checked whether a new certificate is due.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error(transparent)]
    Use(#[from] Unusable),
    #[error("the time of this machine is out of bounds: correct its clock")]
    Clock,
    #[error("the CA's certificate cannot be parsed")]
    Malformed,
}

/// A CA. Its subject follows from the day on which it was made, so that certificate and key are
/// all that has to be kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// In PEM, both.
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret.
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes a CA.
    ///
    /// # Errors
    ///
    /// The system provides no randomness, or this machine's time is out of bounds.
    pub fn make(now: Timestamp) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        let made = limit(&mut params, now, CA_DAYS)?;
        let params = of_authority(params, made);
        Ok(Self {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// From when until when the CA is valid.
    ///
    /// # Errors
    ///
    /// The certificate cannot be parsed.
    pub fn validity(&self) -> Result<std::ops::Range<Timestamp>, AuthorityError> {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let der = der.map_err(|_| AuthorityError::Malformed)?;
        validity::of(&der).ok_or(AuthorityError::Malformed)
    }

    /// Whether certificate and key can be read and belong together.
    pub fn is_usable(&self) -> bool {
        Certificate::of_pem(&self.certificate, &self.key, ("", "")).is_ok()
    }

    /// Issues a certificate for a server with these names and addresses.
    ///
    /// # Errors
    ///
    /// The CA cannot be used, or a name is none.
    pub fn issue(&self, names: &[String], now: Timestamp) -> Result<Certificate, AuthorityError> {
        let validity = self.validity()?;
        let made = validity.start.to_zoned(TimeZone::UTC).date();
        let issuer = of_authority(CertificateParams::default(), made);
        let issuer = Issuer::new(issuer, KeyPair::from_pem(&self.key)?);
        let left = validity.end.duration_since(now).as_hours() / 24;
        let mut params = CertificateParams::new(names)?;
        limit(&mut params, now, left.clamp(1, ISSUED_DAYS))?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "boatswain");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let issued = params.signed_by(&key, &issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let names = ("the issued certificate".to_owned(), "its key".to_owned());
        Ok(Certificate::of(vec![issued.der().clone()], key, names)?)
    }
}

fn of_authority(mut params: CertificateParams, made: Date) -> CertificateParams {
    params.distinguished_name = DistinguishedName::new();
    let name = format!("boatswain CA of {made}");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Makes a certificate valid for this many days, and from the day before, because the clocks of
/// clients may be behind. Returns the first day.
fn limit(
    params: &mut CertificateParams,
    now: Timestamp,
    days: i64,
) -> Result<Date, AuthorityError> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let day = |from_today: i64| {
        let date = today.checked_add(from_today.days()).ok()?;
        let part = |part: i8| u8::try_from(part).ok();
        let time = date_time_ymd(date.year().into(), part(date.month())?, part(date.day())?);
        Some((date, time))
    };
    let (first, from) = day(-1).ok_or(AuthorityError::Clock)?;
    let (_, until) = day(days).ok_or(AuthorityError::Clock)?;
    (params.not_before, params.not_after) = (from, until);
    Ok(first)
}

/// Issues the driver's certificate, and a new one in time.
#[derive(Debug)]
pub struct Issuing {
    pub authority: Authority,
    pub names: Vec<String>,
    pub clock: Clock,
}

impl Issuing {
    /// Issues the first certificate.
    ///
    /// # Errors
    ///
    /// As [`Authority::issue`].
    pub fn begin(&self, holder: &Holder) -> Result<Certificate, AuthorityError> {
        let certificate = self.authority.issue(&self.names, self.clock.now().wall)?;
        holder.hold(certificate.clone());
        Ok(certificate)
    }

    /// Replaces a certificate when a third of its life is left. Never returns.
    pub async fn run(self, mut certificate: Certificate, holder: Holder) {
        loop {
            sleep(LOOK_EVERY).await;
            let now = self.clock.now().wall;
            if !is_due(&certificate, now) {
                continue;
            }
            match self.authority.issue(&self.names, now) {
                Ok(issued) => {
                    tracing::info!(expires = %issued.expires, "a new certificate was issued");
                    self.warn(now);
                    holder.hold(issued.clone());
                    certificate = issued;
                }
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "no new certificate can be issued: the earlier one stays"
                ),
            }
        }
    }

    fn warn(&self, now: Timestamp) {
        let end = self
            .authority
            .validity()
            .map_or(now, |validity| validity.end);
        if end.duration_since(now) < CA_WARNING {
            tracing::warn!(expires = %end, "the driver's CA expires soon: restart the driver, and it makes the next one");
        }
    }
}

fn is_due(certificate: &Certificate, now: Timestamp) -> bool {
    let life = certificate.expires.duration_since(certificate.valid_from);
    certificate.expires.duration_since(now) <= life / 3
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::server::tls::tests::shaken;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    // spec: O-62
    #[tokio::test]
    async fn a_ca_that_was_kept_issues_certificates_that_its_clients_trust() {
        let now = Timestamp::now();
        let made = Authority::make(now).unwrap();
        let kept = Authority {
            certificate: made.certificate.clone(),
            key: made.key.clone(),
        };
        let names = ["etl-driver.jobs.svc".to_owned(), "10.0.0.1".to_owned()];
        let holder = Holder::empty();
        holder.hold(kept.issue(&names, now).unwrap());
        for name in ["etl-driver.jobs.svc", "10.0.0.1"] {
            assert_eq!(shaken(&made.certificate, name, &holder).await, Ok(()));
        }
        let error = shaken(&made.certificate, "other", &holder)
            .await
            .unwrap_err();
        assert!(error.contains("not valid for name"), "{error}");
        let other = Authority::make(now).unwrap();
        let error = shaken(&other.certificate, "10.0.0.1", &holder)
            .await
            .unwrap_err();
        assert!(error.contains("certificate"), "{error}");
        // Clients trust two CAs of the same day while one replaces the other.
        let both = format!("{}{}", other.certificate, made.certificate);
        assert_eq!(shaken(&both, "10.0.0.1", &holder).await, Ok(()));
        assert!(kept.issue(&["not a name \u{e4}".to_owned()], now).is_err());
    }

    // spec: O-118
    #[test]
    fn a_new_certificate_is_due_in_the_last_third_and_never_outlives_its_ca() {
        let made = Authority::make(at("2026-03-31T10:00:00Z")).unwrap();
        let names = ["localhost".to_owned()];
        let issued = made.issue(&names, at("2026-12-31T12:00:00Z")).unwrap();
        assert_eq!(issued.valid_from, at("2026-12-30T00:00:00Z"));
        assert_eq!(issued.expires, at("2027-01-30T00:00:00Z"));
        assert!(!is_due(&issued, at("2027-01-19T00:00:00Z")));
        assert!(is_due(&issued, at("2027-01-20T00:00:00Z")));
        let end = made.validity().unwrap().end;
        let late = end - SignedDuration::from_hours(72);
        let issued = made.issue(&names, late).unwrap();
        assert!(issued.expires <= end && issued.expires > late);
    }

    // spec: O-118
    #[tokio::test(start_paused = true)]
    async fn the_certificate_is_replaced_in_time_while_the_driver_runs() {
        let start = at("2026-03-31T10:00:00Z");
        let issuing = Issuing {
            authority: Authority::make(start).unwrap(),
            names: vec!["localhost".to_owned()],
            clock: Clock::starting_at(start),
        };
        let holder = Holder::empty();
        let mut tls = holder.tls();
        let first = issuing.begin(&holder).unwrap();
        assert_eq!(tls.expiry().await, Some(first.expires));
        let began = Instant::now();
        tokio::spawn(issuing.run(first.clone(), holder));
        assert!(tls.replaced().await);
        let days = began.elapsed().as_secs() / (24 * 3600);
        assert!((18..=20).contains(&days), "{days}");
        assert!(tls.expiry().await.unwrap() > first.expires);
    }
}
