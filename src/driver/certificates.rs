//! Where the certificate of API and sessions comes from (spec O-53, O-62).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use http::Uri;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::kubernetes::owned_resources::service_name;
use crate::metrics::Metrics;
use crate::server::api::tokens::ca_beside;
use crate::server::tls::files::{Files, FilesError};
use crate::server::tls::{Holder, Tls};
use boatswain_agent::file;

use super::listener::Listener;
use super::succession::Application;

pub(super) enum Source {
    /// There is no TLS.
    None,
    Files(Tls),
    /// By the driver's own CA, which is known only once the application is taken over.
    Issued {
        tls: Tls,
        /// Until the first certificate is issued.
        holder: Option<Holder>,
        clock: Clock,
    },
}

impl Source {
    /// Reads the certificate from its files, and from then on whenever they change.
    ///
    /// # Errors
    ///
    /// The files cannot be used.
    pub(super) async fn open(
        tls: &config::Tls,
        clock: Clock,
        tasks: &mut JoinSet<()>,
    ) -> Result<Self, FilesError> {
        if tls.generate {
            let holder = Holder::empty();
            return Ok(Self::Issued {
                tls: holder.tls(),
                holder: Some(holder),
                clock,
            });
        }
        let (Some(certificate), Some(key)) = (&tls.certificate_file, &tls.key_file) else {
            return Ok(Self::None);
        };
        let files = Files::read(certificate, key, clock).await?;
        let used = files.tls();
        tasks.spawn(files.run());
        Ok(Self::Files(used))
    }

    pub(super) fn tls(&self) -> Option<Tls> {
        match self {
            Self::None => None,
            Self::Files(tls) | Self::Issued { tls, .. } => Some(tls.clone()),
        }
    }
}

/// The names and addresses by which clients and executors reach this driver.
pub(super) fn names(
    config: &Config,
    application: &Application,
    listener: Option<&Listener>,
) -> Vec<String> {
    let (service, namespace) = (service_name(&application.prefix), &application.namespace);
    let mut names = BTreeSet::from(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    names.insert(format!("{service}.{namespace}.svc"));
    names.insert(format!("{service}.{namespace}"));
    names.insert(service);
    let url = config.backend.sessions.url.as_deref();
    let url = url.and_then(|url| url.parse::<Uri>().ok());
    if let Some(host) = url.as_ref().and_then(Uri::host) {
        names.insert(host.trim_matches(['[', ']']).to_owned());
    }
    let listens = [config.api.listen, listener.map(|listener| listener.address)];
    let specified = |address: &SocketAddr| !address.ip().is_unspecified();
    let addresses = listens.into_iter().flatten().filter(specified);
    names.extend(addresses.map(|address| address.ip().to_string()));
    names.extend(config.tls.names.iter().cloned());
    names.into_iter().collect()
}

/// Writes what clients trust beside the token file, where this machine's find it (spec O-62).
pub(super) async fn write_ca_beside(token_file: &Path, trusted: String) {
    let path = ca_beside(token_file);
    let to = path.clone();
    let write = move || {
        let mut new = to.clone().into_os_string();
        new.push(".new");
        std::fs::write(&new, trusted)?;
        std::fs::rename(new, to)
    };
    if let Err(error) = file::aside(write).await.and_then(|written| written) {
        let file = path.display();
        tracing::info!(%file, %error, "the CA was not written for this machine's clients: they need --ca-file");
    }
}

/// Shows when the certificate expires, each time there is another one.
pub(super) async fn show_expiry(mut tls: Tls, metrics: Metrics) {
    while let Some(expires) = tls.expiry().await {
        let of_both = ["api,sessions".into()];
        metrics.certificate.of(of_both).set(expires.as_second());
        if !tls.replaced().await {
            return;
        }
    }
}
