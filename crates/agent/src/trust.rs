//! Which certificate of a driver is trusted: for the agent and for the client commands (spec O-63).

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use crate::file;

/// Why there is no connection over TLS.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("the CA's file {path} cannot be read", path = .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the CAs to trust cannot be read")]
    Unread(#[source] io::Error),
    #[error("{0} contains no certificate in PEM")]
    NoCa(String),
    #[error("this machine has no CAs that are trusted: name the driver's with --ca-file")]
    NoCas,
    #[error("the driver's certificate is not issued by {0}: name its CA with --ca-file")]
    AnotherCa(String),
    #[error("the driver's certificate has expired, or this machine's clock is wrong: {0}")]
    Expired(String),
    #[error(
        "the driver's certificate is not for this name: use one of those that it is for, or add it (tls.names): {0}"
    )]
    AnotherName(String),
    #[error(
        "the driver speaks no HTTPS there: begin its URL with http://, or use its port for HTTPS"
    )]
    NoHttps,
    #[error("the TLS handshake with the driver fails")]
    Handshake(#[source] io::Error),
    #[error("TLS cannot be set up")]
    Setup(#[from] Error),
}

/// Where the certificates of a CA are.
#[derive(Debug, Clone)]
pub enum Ca {
    /// In this file, in PEM.
    File(PathBuf),
    /// In this PEM.
    Pem(String),
}

impl Ca {
    fn read(&self) -> Result<Cow<'_, [u8]>, TrustError> {
        match self {
            Self::File(path) => match file::read(path) {
                Ok(pem) => Ok(pem.into()),
                Err(source) => Err(TrustError::Unreadable {
                    path: path.clone(),
                    source,
                }),
            },
            Self::Pem(pem) => Ok(pem.as_bytes().into()),
        }
    }
}

/// The settings of a client that trusts this CA or, without one, those of this machine.
///
/// # Errors
///
/// There is no CA there, or the machine has none.
pub fn client_config(ca: Option<&Ca>) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => {
            let pem = ca.read()?;
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            roots.add_parsable_certificates(all.unwrap_or_default());
            if roots.is_empty() {
                return Err(TrustError::NoCa(match ca {
                    Ca::File(path) => format!("the CA's file {}", path.display()),
                    Ca::Pem(_) => "the driver's CA".to_owned(),
                }));
            }
        }
        None => {
            let native = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(native.certs);
            if roots.is_empty() {
                return Err(TrustError::NoCas);
            }
        }
    }
    trusting(roots)
}

/// The settings of a client that trusts nobody, because it uses no TLS.
///
/// # Errors
///
/// TLS cannot be set up.
pub fn no_trust() -> Result<ClientConfig, TrustError> {
    trusting(RootCertStore::empty())
}

fn trusting(roots: RootCertStore) -> Result<ClientConfig, TrustError> {
    Ok(
        ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
}

/// Why a handshake failed, if that is in an error or in one of its causes.
pub fn refusal(error: &(dyn std::error::Error + 'static), ca: Option<&Ca>) -> Option<TrustError> {
    match within(error)? {
        Error::InvalidCertificate(why) => Some(explain(why, ca)),
        Error::InvalidMessage(_) => Some(TrustError::NoHttps),
        _ => None,
    }
}

/// The TLS library's error in an error or in one of its causes. An I/O error hides the one that it
/// was made of.
fn within<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Error> {
    if let Some(found) = error.downcast_ref::<Error>() {
        return Some(found);
    }
    let inner = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    inner
        .and_then(|inner| within(inner))
        .or_else(|| within(error.source()?))
}

/// Why the certificate of a server of Kubernetes was refused, if that is in an error or in one of its causes.
pub fn refused_by_client(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let why = match within(error)? {
        Error::InvalidCertificate(why) => why,
        Error::InvalidMessage(_) => {
            return Some("the API server speaks no HTTPS there: begin its URL with http://, or use its port for HTTPS".to_owned());
        }
        _ => return None,
    };
    Some(match explain(why, None) {
        TrustError::Expired(why) => {
            format!("the API server's certificate has expired, or this machine's clock is wrong: {why}")
        }
        TrustError::AnotherName(why) => {
            format!("the API server's certificate is not for this name: use one of those that it is for: {why}")
        }
        _ => "the API server's certificate is not issued by the CA that is trusted: correct the kubeconfig's \
              certificate-authority, or take a kubeconfig of this cluster"
            .to_owned(),
    })
}

fn explain(refused: &CertificateError, ca: Option<&Ca>) -> TrustError {
    match refused {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => TrustError::Expired(refused.to_string()),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TrustError::AnotherName(refused.to_string())
        }
        _ => TrustError::AnotherCa(match ca {
            Some(Ca::File(path)) => format!("a CA in {}", path.display()),
            Some(Ca::Pem(_)) => "the CA that is in its ConfigMap".to_owned(),
            None => "a CA that this machine trusts".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-63
    #[test]
    fn a_file_without_a_ca_is_refused_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let error = client_config(Some(&Ca::File(path.clone())))
            .unwrap_err()
            .to_string();
        assert!(error.contains("ca.crt cannot be read"), "{error}");
        for text in [
            "",
            "nonsense",
            "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = client_config(Some(&Ca::File(path.clone())))
                .unwrap_err()
                .to_string();
            assert!(error.contains("ca.crt contains no certificate"), "{error}");
        }
    }

    // spec: O-63
    #[test]
    fn a_refused_certificate_is_explained_with_what_to_do() {
        let refused = |why| {
            let error = io::Error::other(io::Error::other(Error::InvalidCertificate(why)));
            refusal(&error, None).unwrap()
        };
        for (why, part) in [
            (CertificateError::UnknownIssuer, "--ca-file"),
            (CertificateError::BadSignature, "--ca-file"),
            (CertificateError::Expired, "clock"),
            (CertificateError::NotValidForName, "tls.names"),
        ] {
            let error = refused(why).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(refusal(&io::Error::other("reset"), None).is_none());
    }

    // spec: O-2
    #[test]
    fn a_refused_certificate_of_an_api_server_is_explained_with_what_to_do() {
        let refused = |why| refused_by_client(&io::Error::other(why)).unwrap();
        for (why, part) in [
            (CertificateError::UnknownIssuer, "certificate-authority"),
            (
                CertificateError::Expired,
                "has expired, or this machine's clock",
            ),
            (CertificateError::NotValidForName, "is not for this name"),
        ] {
            let said = refused(Error::InvalidCertificate(why));
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(refused_by_client(&io::Error::other("reset")), None);
    }
}
