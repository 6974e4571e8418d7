//! Serves the API and the page over HTTP and HTTPS, on loopback only, because a process node executes what pods specify.

use std::future::IntoFuture as _;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::middleware::{from_fn, from_fn_with_state};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::listen::ApiListener;
use super::page;
use super::tls::{Tls, TlsError};
use crate::DevCluster;
use crate::control::faults::inject_faults;
use crate::control::socket::{ControlReceiver, Downtime};

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other machines could reach the address.
    #[error(
        "{0} is not a loopback address; the embedded cluster starts processes, so it is served on loopback only"
    )]
    NotLoopback(SocketAddr),
    /// Every local user could use the cluster.
    #[error("the embedded cluster is not served without a token")]
    NoToken,
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot serve the embedded cluster")]
    Serve(#[from] io::Error),
}

/// How long open requests may take to complete when the server goes away.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// How long to wait before listening again on an address that is still in use.
const REBIND_DELAY: Duration = Duration::from_millis(100);

/// A server that listens, and is ready to run.
#[derive(Debug)]
pub struct Server {
    cluster: DevCluster,
    listener: ApiListener,
    tls: Tls,
    controlled: Option<ControlReceiver>,
}

impl Server {
    /// Listens on an address; port 0 selects a free port.
    pub async fn bind(cluster: DevCluster, address: SocketAddr) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let token = cluster.credentials.own_token();
        let tls = Tls::of(token.ok_or(ServeError::NoToken)?)?;
        let listener = ApiListener::open(address, tls.acceptor.clone());
        let listener = listener.await.map_err(|e| ServeError::Listen(address, e))?;
        Ok(Self {
            cluster,
            listener,
            tls,
            controlled: None,
        })
    }

    pub fn controlled(mut self, controlled: ControlReceiver) -> Self {
        self.controlled = Some(controlled);
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The API's URL. The server accepts `https` at the same address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn authority(&self) -> &str {
        &self.tls.authority
    }

    /// Serves until the cluster is shut down.
    pub async fn run(self) -> Result<(), ServeError> {
        let Self {
            cluster,
            mut listener,
            tls,
            controlled,
        } = self;
        let address = listener.address();
        let mut router = cluster.router();
        let mut downtimes = None;
        if let Some(controlled) = controlled {
            router = router.layer(from_fn_with_state(controlled.faults, inject_faults));
            downtimes = Some(controlled.downtimes);
        }
        let service = router.layer(from_fn(page::serve)).into_make_service();
        loop {
            let (report, mut ended_by) = oneshot::channel();
            let serving = axum::serve(listener, service.clone())
                .with_graceful_shutdown(until_shutdown(cluster.clone(), downtimes, report))
                .into_future();
            let mut serving = pin!(serving);
            let left = tokio::select! {
                biased;
                left = &mut ended_by => left,
                served = &mut serving => return Ok(served?),
            };
            let Ok((Downtime(away), rest)) = left else {
                return Ok(serving.await?);
            };
            // Requests that have not completed by then lose their connection.
            let _ = timeout(SHUTDOWN_GRACE, serving).await;
            sleep(away).await;
            listener = loop {
                match ApiListener::open(address, tls.acceptor.clone()).await {
                    Ok(listener) => break listener,
                    Err(error) => {
                        tracing::warn!(target: "apiserver.serve", %error, "cannot listen again yet, will retry");
                        sleep(REBIND_DELAY).await;
                    }
                }
            };
            downtimes = Some(rest);
        }
    }
}

/// Waits until the cluster stops or a fault makes the server go away for a while.
async fn until_shutdown(
    cluster: DevCluster,
    downtimes: Option<mpsc::Receiver<Downtime>>,
    report: oneshot::Sender<(Downtime, mpsc::Receiver<Downtime>)>,
) {
    let mut published = cluster.store.published();
    let away = async {
        let mut downtimes = downtimes?;
        Some((downtimes.recv().await?, downtimes))
    };
    let away = async {
        match away.await {
            Some(away) => away,
            None => std::future::pending().await,
        }
    };
    let stopping = async {
        // An error means that the store is gone, which also ends the server.
        let _ = published.wait_for(|p| p.stopping).await;
    };
    tokio::select! {
        biased;
        () = stopping => {}
        away = away => {
            cluster.cut_watches().await;
            // If the receiver is gone, the server has ended and does not come back.
            let _ = report.send(away);
        }
    }
}
