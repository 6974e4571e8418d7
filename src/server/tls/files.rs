//! A certificate in files, which are read again when they change (spec O-114).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use boatswain_agent::file;
use jiff::Timestamp;
use tokio::time::sleep;

use super::reload::{Contents, Expiry, Reload, Step};
use super::{Certificate, Holder, Tls};
use crate::clock::Clock;
use crate::secret;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The link in a mounted Secret that leads to the directory with its files. Kubernetes replaces all
/// files at once by replacing this link.
const DATA: &str = "..data";

/// Why the driver does not start with these files.
#[derive(Debug, thiserror::Error)]
#[error(
    "{why}: put a certificate and its key there, in PEM, or set tls.certificate_file and tls.key_file to others"
)]
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
    /// Reads a certificate and its key, within a time limit.
    ///
    /// # Errors
    ///
    /// A file cannot be read or parsed, or they do not belong together.
    pub async fn read(certificate: &Path, key: &Path, clock: Clock) -> Result<Self, FilesError> {
        let (from, with) = (certificate.to_owned(), key.to_owned());
        let read = file::aside(move || contents(&from, &with)).await;
        let read = read.unwrap_or_else(|error| {
            let (certificate, key) = (certificate.display(), key.display());
            Err(format!("{certificate} or {key} cannot be read: {error}"))
        });
        let mut files = Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            reload: Reload::default(),
            expiry: Expiry::default(),
            validity: (Timestamp::MAX, Timestamp::MAX),
            holder: Holder::empty(),
            clock,
        };
        match files.look(read) {
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

    /// Returns when the process ends. A certificate that cannot be used leaves the earlier one: a mistake in it must
    /// not lock out everyone.
    pub async fn run(mut self) {
        loop {
            sleep(LOOK_EVERY).await;
            let (certificate, key) = (self.certificate.clone(), self.key.clone());
            let read = file::patiently(&self.certificate, move || contents(&certificate, &key));
            let Some(read) = read.await else { return };
            match self.look(read) {
                Step::Nothing => {}
                Step::Use(certificate) => {
                    let expires = certificate.expires;
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

    fn look(&mut self, read: Result<Contents, String>) -> Step {
        let shown = |path: &Path| path.display().to_string();
        let names = (shown(&self.certificate), shown(&self.key));
        let names = (&*names.0, &*names.1);
        self.reload.look(read, names)
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
    // Both through one link, so that they are of one version of a mounted Secret.
    let mounted = Mounted::of(certificate);
    let current = |path: &Path| match &mounted {
        Some(mounted) => mounted.current(path),
        None => path.to_owned(),
    };
    let certificate = current(certificate);
    let failed = |error: io::Error| format!("{} cannot be read: {error}", certificate.display());
    let text = file::read_text(&certificate).map_err(failed)?;
    let key = secret::read(&current(key)).map_err(|error| described(&error))?;
    Ok(Contents {
        certificate: text,
        key,
    })
}

/// The folder of a mounted Secret, and the folder inside it that has its files at present.
struct Mounted {
    folder: PathBuf,
    present: PathBuf,
}

impl Mounted {
    fn of(path: &Path) -> Option<Self> {
        let folder = path.parent()?;
        let present = fs::read_link(folder.join(DATA)).ok()?;
        Some(Self {
            folder: folder.to_owned(),
            present: folder.join(present),
        })
    }

    fn current(&self, path: &Path) -> PathBuf {
        match path.file_name() {
            Some(name) if path.parent() == Some(&self.folder) => self.present.join(name),
            _ => path.to_owned(),
        }
    }
}

fn described(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Writes a pair to this folder.
    fn write_pair(folder: &Path) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        fs::create_dir_all(folder).unwrap();
        fs::write(
            folder.join("tls.crt"),
            params.self_signed(&key).unwrap().pem(),
        )
        .unwrap();
        fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
        let owner_only = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.join("tls.key"), owner_only).unwrap();
    }

    /// A mounted Secret, as the kubelet makes it.
    struct Secret(tempfile::TempDir);

    impl Secret {
        fn mounted() -> Self {
            let secret = Self(tempfile::tempdir().unwrap());
            secret.update("..1");
            for name in ["tls.crt", "tls.key"] {
                symlink(Path::new(DATA).join(name), secret.path(name)).unwrap();
            }
            secret
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn update(&self, version: &str) {
            write_pair(&self.path(version));
            let earlier = fs::read_link(self.path(DATA)).ok();
            symlink(version, self.path("..data_tmp")).unwrap();
            fs::rename(self.path("..data_tmp"), self.path(DATA)).unwrap();
            if let Some(earlier) = earlier {
                fs::remove_dir_all(self.0.path().join(earlier)).unwrap();
            }
        }

        async fn files(&self) -> Result<Files, FilesError> {
            let (certificate, key) = (self.path("tls.crt"), self.path("tls.key"));
            Files::read(&certificate, &key, Clock::system()).await
        }
    }

    // spec: O-114
    #[tokio::test(start_paused = true)]
    async fn a_mounted_secret_that_is_replaced_gives_a_new_certificate_and_a_bad_one_none() {
        let secret = Secret::mounted();
        let files = secret.files().await.unwrap();
        let mut tls = files.tls();
        let first = tls.expiry().await;
        assert!(first.is_some());
        let running = tokio::spawn(files.run());
        let mut changed = tls.clone();
        let mut replaced = async || {
            let within = LOOK_EVERY + Duration::from_secs(1);
            tokio::time::timeout(within, changed.replaced())
                .await
                .is_ok()
        };
        assert!(!replaced().await, "nothing has changed");
        secret.update("..2");
        assert!(replaced().await);
        // A key without its certificate, and no files at all.
        fs::write(
            secret.path("..2/tls.key"),
            KeyPair::generate().unwrap().serialize_pem(),
        )
        .unwrap();
        assert!(!replaced().await);
        fs::remove_file(secret.path(DATA)).unwrap();
        assert!(!replaced().await);
        assert!(tls.expiry().await.is_some(), "the earlier one stays");
        secret.update("..3");
        assert!(replaced().await);
        running.abort();
    }

    // spec: O-114
    #[tokio::test]
    async fn a_driver_without_a_usable_certificate_does_not_start_and_says_why() {
        let secret = Secret::mounted();
        let key = secret.path("tls.key");
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&key, readable).unwrap();
        let error = secret.files().await.unwrap_err().to_string();
        assert!(
            error.contains("chmod 600") && error.contains("defaultMode"),
            "{error}"
        );
        fs::remove_file(&key).unwrap();
        let error = secret.files().await.unwrap_err().to_string();
        assert!(
            error.contains("tls.key") && error.contains("tls.key_file"),
            "{error}"
        );
    }
}
