//! Serves the API over HTTP and HTTPS, on loopback only, because a process node executes what pods specify.

use std::future::IntoFuture as _;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::listen::Door;
use super::tls::{Tls, TlsError};
use crate::DevCluster;
use crate::control::faults::meddle;
use crate::control::socket::{Away, Controlled};

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
    /// The certificate cannot be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Serving failed.
    #[error("cannot serve the embedded cluster")]
    Serve(#[from] io::Error),
}

/// How long open requests may take to complete when the server goes away.
const LEAVE: Duration = Duration::from_secs(1);

/// How long to wait before listening again on an address that is still in use.
const COME_BACK: Duration = Duration::from_millis(100);

/// A server that listens, and is ready to run.
#[derive(Debug)]
pub struct Server {
    cluster: DevCluster,
    door: Door,
    tls: Tls,
    controlled: Option<Controlled>,
}

impl Server {
    /// Listens on an address; port 0 selects a free port.
    pub async fn bind(cluster: DevCluster, address: SocketAddr) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let token = cluster.credentials.own_token();
        let tls = Tls::of(token.ok_or(ServeError::NoToken)?)?;
        let door = Door::open(address, tls.acceptor.clone());
        let door = door.await.map_err(|e| ServeError::Listen(address, e))?;
        Ok(Self {
            cluster,
            door,
            tls,
            controlled: None,
        })
    }

    /// Accepts fault injection commands from a control socket.
    pub fn controlled(mut self, controlled: Controlled) -> Self {
        self.controlled = Some(controlled);
        self
    }

    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// The API's URL. The server accepts `https` at the same address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The certificate of the authority that signed the server's certificate, in PEM.
    pub fn authority(&self) -> &str {
        &self.tls.authority
    }

    /// Serves until the cluster is shut down.
    pub async fn run(self) -> Result<(), ServeError> {
        let Self {
            cluster,
            mut door,
            tls,
            controlled,
        } = self;
        let address = door.address();
        let mut router = cluster.router();
        let mut absences = None;
        if let Some(controlled) = controlled {
            router = router.layer(from_fn_with_state(controlled.orders, meddle));
            absences = Some(controlled.absences);
        }
        loop {
            let (tell, mut leaves) = oneshot::channel();
            let serving = axum::serve(door, router.clone())
                .with_graceful_shutdown(leave(cluster.clone(), absences, tell))
                .into_future();
            let mut serving = pin!(serving);
            let left = tokio::select! {
                biased;
                left = &mut leaves => left,
                served = &mut serving => return Ok(served?),
            };
            let Ok((Away(away), rest)) = left else {
                return Ok(serving.await?);
            };
            // Requests that have not completed by then lose their connection.
            let _ = timeout(LEAVE, serving).await;
            sleep(away).await;
            door = loop {
                match Door::open(address, tls.acceptor.clone()).await {
                    Ok(door) => break door,
                    Err(error) => {
                        tracing::warn!(target: "apiserver.serve", %error, "cannot listen again yet, will retry");
                        sleep(COME_BACK).await;
                    }
                }
            };
            absences = Some(rest);
        }
    }
}

/// Waits until the cluster stops or a fault makes the server go away for a while.
async fn leave(
    cluster: DevCluster,
    absences: Option<mpsc::Receiver<Away>>,
    tell: oneshot::Sender<(Away, mpsc::Receiver<Away>)>,
) {
    let mut published = cluster.store.published();
    let away = async {
        let mut absences = absences?;
        Some((absences.recv().await?, absences))
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
            let _ = tell.send(away);
        }
    }
}
