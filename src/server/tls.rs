//! The certificate with which API and sessions speak HTTPS (spec O-53).
//!
//! - [`Tls`]: what listeners use: the certificate for each new connection.
//! - [`authority`]: the driver's own CA.
//! - [`files`]: certificate and key in files that may be replaced at any time.
//! - [`reload`]: what a look at these files means: pure functions.
//! - [`validity`]: until when a certificate is valid.

pub mod authority;
pub mod files;
pub mod reload;
pub mod validity;

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::server::TlsStream;

/// HTTP/2, as a client names it that chooses it.
pub(super) const HTTP2: &[u8] = b"h2";

/// What is offered, the preferred one first. Clients of WebSockets ask for HTTP/1.1.
const ALPN: [&[u8]; 2] = [HTTP2, b"http/1.1"];

/// A certificate with its key, ready for use.
#[derive(Debug, Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    pub valid_from: Timestamp,
    pub expires: Timestamp,
}

/// Why a certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("{0} contains no certificate in PEM: -----BEGIN CERTIFICATE-----")]
    NoCertificate(String),
    #[error("{0} contains no private key in PEM: -----BEGIN PRIVATE KEY-----, without a password")]
    NoKey(String),
    #[error(
        "the key in {key} is not that of the first certificate in {certificate}, or is of a type that is not supported: {why}"
    )]
    NotAPair {
        certificate: String,
        key: String,
        why: String,
    },
    #[error("the first certificate in {0} cannot be parsed")]
    Malformed(String),
}

impl Certificate {
    /// Reads a chain of certificates, the server's own first, and its key. `names` are those of
    /// both in error messages.
    ///
    /// # Errors
    ///
    /// One cannot be parsed, or they do not belong together.
    pub fn of_pem(chain: &str, key: &str, names: (&str, &str)) -> Result<Self, Unusable> {
        let (certificate_name, key_name) = (names.0.to_owned(), names.1.to_owned());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| Unusable::NoCertificate(certificate_name.clone()))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|_| Unusable::NoKey(key_name.clone()))?;
        Self::of(chain, key, (certificate_name, key_name))
    }

    fn of(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        (certificate_name, key_name): (String, String),
    ) -> Result<Self, Unusable> {
        let validity = chain.first().and_then(|first| validity::of(first));
        let validity = validity.ok_or_else(|| Unusable::Malformed(certificate_name.clone()))?;
        let no_pair = |error: tokio_rustls::rustls::Error| Unusable::NotAPair {
            certificate: certificate_name.clone(),
            key: key_name.clone(),
            why: error.to_string(),
        };
        let provider = Arc::new(default_provider());
        // Compares the key with the certificate's.
        let pair = CertifiedKey::from_der(chain, key, &provider).map_err(no_pair)?;
        Ok(Self {
            config: Arc::new(server_config(pair, provider).map_err(no_pair)?),
            valid_from: validity.start,
            expires: validity.end,
        })
    }
}

/// Whether a text has certificates in PEM, and all of them can be read.
pub fn is_ca(text: &str) -> bool {
    let mut any = false;
    let all = CertificateDer::pem_slice_iter(text.as_bytes()).all(|certificate| {
        any = true;
        certificate.is_ok_and(|certificate| validity::of(&certificate).is_some())
    });
    any && all
}

fn server_config(
    pair: CertifiedKey,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, tokio_rustls::rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// The certificate of new connections. All copies have the same; a connection that is open keeps
/// the one that it began with.
#[derive(Debug, Clone)]
pub struct Tls(watch::Receiver<Option<Certificate>>);

/// Replaces the certificate of new connections.
#[derive(Debug)]
pub struct Holder(watch::Sender<Option<Certificate>>);

impl Holder {
    /// Holds nothing until the first certificate is known. Until then handshakes wait.
    pub fn empty() -> Self {
        Self(watch::Sender::new(None))
    }

    pub fn hold(&self, certificate: Certificate) {
        self.0.send_replace(Some(certificate));
    }

    pub fn tls(&self) -> Tls {
        Tls(self.0.subscribe())
    }
}

impl Tls {
    /// Makes a handshake with the certificate of now. Waits for as long as there is none: the
    /// caller limits the time.
    ///
    /// # Errors
    ///
    /// The handshake fails.
    pub(crate) async fn accept<S>(mut self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = match self.0.wait_for(Option::is_some).await {
            Ok(certificate) => certificate.as_ref().map(|it| Arc::clone(&it.config)),
            Err(_) => None,
        };
        let config = config.ok_or_else(|| io::Error::other("the driver is ending"))?;
        TlsAcceptor::from(config).accept(stream).await
    }

    /// When the certificate expires. Waits for the first one; `None` if there will be none.
    pub async fn expiry(&mut self) -> Option<Timestamp> {
        loop {
            let expires = self.0.borrow_and_update().as_ref().map(|it| it.expires);
            if expires.is_some() {
                return expires;
            }
            self.0.changed().await.ok()?;
        }
    }

    /// Waits until the certificate is replaced; false if it never will be.
    pub async fn replaced(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;

    /// Makes a handshake as a client that trusts this CA and asks for a server of this name.
    pub(crate) async fn shaken(ca: &str, name: &str, holder: &Holder) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let (client, _) = tokio::join!(connector.connect(name, near), holder.tls().accept(far));
        client.map(drop).map_err(|error| error.to_string())
    }
}
