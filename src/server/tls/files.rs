//! A certificate in files, which are read again when they change (spec O-53).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;

use super::reload::{Contents, Expiry, Reload, Step};
use super::{Certificate, Holder, Tls};
use crate::clock::Clock;
use crate::secret;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The longest file of certificates, in bytes.
const LONGEST: usize = 1024 * 1024;

/// The link in a mounted Secret that leads to the directory with its files. Kubernetes replaces all
/// files at once by replacing this link.
const DATA: &str = "..data";

/// Why the driver does not start with these files.
#[derive(Debug, thiserror::Error)]
#[error("{why}: put a certificate and its key there, in PEM, or set tls.certificate_file and tls.key_file to others")]
pub struct FilesError {
    why: String,
}

/// The files of a certificate, and the certificate that they had last.
#[derive(Debug)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    reload: Reload,
    expiry: Expiry,
    validity: (Timestamp, Timestamp),
    holder: Holder,
    clock: Clock,
}

impl Files {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    ///
    /// A file cannot be read or parsed, or they do not belong together.
    pub fn read(certificate: &Path, key: &Path, clock: Clock) -> Result<Self, FilesError> {
        let mut files = Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            reload: Reload::default(),
            expiry: Expiry::default(),
            validity: (Timestamp::MAX, Timestamp::MAX),
            holder: Holder::empty(),
            clock,
        };
        match files.look() {
            Step::Use(certificate) => files.hold(certificate),
            Step::Complain(why) => return Err(FilesError { why }),
            Step::Nothing => {}
        }
        files.warn();
        Ok(files)
    }

    pub fn tls(&self) -> Tls {
        self.holder.tls()
    }

    /// Never returns. A certificate that cannot be used leaves the earlier one: a mistake in it must
    /// not lock out everyone.
    pub async fn run(mut self) {
        loop {
            sleep(LOOK_EVERY).await;
            match self.look() {
                Step::Nothing => {}
                Step::Use(certificate) => {
                    let expires = %certificate.expires;
                    tracing::info!(%expires, "a new certificate is used for new connections");
                    self.hold(certificate);
                }
                Step::Complain(error) => tracing::warn!(
                    error,
                    "the changed certificate cannot be used: the earlier one stays"
                ),
            }
            self.warn();
        }
    }

    fn hold(&mut self, certificate: Certificate) {
        self.validity = (certificate.valid_from, certificate.expires);
        self.holder.hold(certificate);
    }

    fn look(&mut self) -> Step {
        let shown = |path: &Path| path.display().to_string();
        let names = (shown(&self.certificate), shown(&self.key));
        let names = (&*names.0, &*names.1);
        let contents = contents(&self.certificate, &self.key);
        self.reload.look(contents, names)
    }

    fn warn(&mut self) {
        let (from, until) = self.validity;
        if self.expiry.warns(from, until, self.clock.now().wall) {
            tracing::warn!(
                expires = %until,
                file = %self.certificate.display(),
                "the certificate expires soon, or has expired: clients and executors will refuse it. Renew it in its file"
            );
        }
    }
}

/// Reads both files, once more if they are being replaced.
fn contents(certificate: &Path, key: &Path) -> Result<Contents, String> {
    read_both(certificate, key).or_else(|_| read_both(certificate, key))
}

fn read_both(certificate: &Path, key: &Path) -> Result<Contents, String> {
    // Both through one link, so that they are from one Secret's version.
    let data = data(certificate);
    let certificate = within(certificate, data.as_deref());
    let key = within(key, data.as_deref());
    let text = fs::read_to_string(&certificate)
        .map_err(|error| format!("{} cannot be read: {error}", certificate.display()))?;
    if text.len() > LONGEST {
        return Err(format!("{} is too long", certificate.display()));
    }
    let key = secret::read(&key).map_err(|error| described(&error))?;
    Ok(Contents {
        certificate: text,
        key,
    })
}

fn described(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
