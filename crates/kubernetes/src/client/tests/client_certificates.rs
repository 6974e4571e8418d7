//! Client certificates that are renewed, against a server that requires them.

use std::fs;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::*;

/// A certificate authority, and what it issues.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// An API server that requires certificates of this authority. The receiver gets that of each connection.
    async fn serve(&self) -> (String, UnboundedReceiver<CertificateDer<'static>>) {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let (certificate, key) = self.issue("server");
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, certificates) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let Ok(mut connection) = acceptor.accept(socket).await else {
                    continue;
                };
                let of_client = connection.get_ref().1.peer_certificates().unwrap();
                let _ = seen.send(of_client.first().unwrap().clone());
                let _ = connection.read(&mut [0; 4096]).await;
                let _ = connection.write_all(VERSION.as_bytes()).await;
                let _ = connection.shutdown().await;
            }
        });
        (format!("https://{address}"), certificates)
    }
}

// spec: A-96
#[tokio::test]
async fn a_client_certificate_that_is_renewed_is_used_once_credentials_are_reloaded() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let (old, new) = (authority.issue("old"), authority.issue("new"));
    let write = |(certificate, key): &(rcgen::Certificate, KeyPair)| {
        fs::write(path("certificate"), certificate.pem()).unwrap();
        fs::write(path("key"), key.serialize_pem()).unwrap();
    };
    fs::write(path("ca"), authority.certificate.pem()).unwrap();
    write(&old);
    let (server, mut certificates) = authority.serve().await;
    let user = format!(
        "{{client-certificate: {:?}, client-key: {:?}}}",
        path("certificate"),
        path("key")
    );
    let file = kubeconfig(&server, &user);
    let text = fs::read_to_string(file.path()).unwrap();
    let with_ca = format!("\"{server}\", certificate-authority: {:?}", path("ca"));
    fs::write(
        file.path(),
        text.replace(&format!("\"{server}\""), &with_ca),
    )
    .unwrap();

    let calls = calls_by(access(&file).connect(Limits::default()).await.unwrap());
    calls.server_version().await.unwrap();
    assert_eq!(certificates.recv().await.as_ref(), Some(old.0.der()));
    write(&new);
    assert_eq!(calls.renew_credentials().await, Ok(true));
    calls.server_version().await.unwrap();
    assert_eq!(certificates.recv().await.as_ref(), Some(new.0.der()));
}
