//! The API's TLS certificate, and the certificate authority that signs it.
//!
//! kubectl sends credentials only over TLS. Both keys are derived from the cluster's own token: its holder may do
//! anything here anyway, a kubeconfig stays valid over a restart, and no key file has to be stored.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, date_time_ymd,
};
use ring::hmac;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// The names in the certificate; the server is reached on loopback only.
const NAMES: [&str; 5] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default.svc",
];

/// The prefix that turns a 32-byte Ed25519 key into PKCS #8 (RFC 8410).
const ED25519_PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot make the server's certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot use the server's certificate")]
    Setup(#[from] tokio_rustls::rustls::Error),
}

#[derive(Clone)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// The authority's certificate in PEM, with which clients verify the server.
    pub authority: String,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Derives the certificates from the server's own token; the same token yields the same certificates.
    pub fn of(token: &str) -> Result<Self, TlsError> {
        let mut authority = valid(Vec::new())?;
        let name = "devcluster authority";
        authority.distinguished_name.push(DnType::CommonName, name);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = key(token, name)?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let mut server = valid(NAMES.map(str::to_owned).to_vec())?;
        let name = "devcluster";
        server.distinguished_name.push(DnType::CommonName, name);
        server.use_authority_key_identifier_extension = true;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = key(token, name)?;
        let certificate = server.signed_by(&server_key, &issuer)?;

        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(server_key.serialize_der()).into(),
            )?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: authority_pem,
        })
    }
}

/// Fixed dates, so that the certificate is always the same.
fn valid(names: Vec<String>) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(names)?;
    params.not_before = date_time_ymd(2024, 1, 1);
    params.not_after = date_time_ymd(2124, 1, 1);
    Ok(params)
}

fn key(token: &str, purpose: &str) -> Result<KeyPair, TlsError> {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let seed = hmac::sign(&secret, purpose.as_bytes());
    let der = [&ED25519_PKCS8, seed.as_ref()].concat();
    Ok(KeyPair::from_pkcs8_der_and_sign_algo(
        &PrivatePkcs8KeyDer::from(der),
        &PKCS_ED25519,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_authority_is_derived_from_the_token() {
        let authority = |token| Tls::of(token).expect("a certificate").authority;
        assert_eq!(authority("a"), authority("a"));
        assert_ne!(authority("a"), authority("b"));
        assert!(authority("a").starts_with("-----BEGIN CERTIFICATE-----"));
    }
}
