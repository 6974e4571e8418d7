//! Serving the API over HTTP and HTTPS, on loopback only: a cluster whose node runs processes runs whatever it is told to.

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
    /// Others could reach it.
    #[error(
        "{0} is not a loopback address; the embedded cluster starts processes, so it is served on loopback only"
    )]
    NotLoopback(SocketAddr),
    /// Anybody on this machine could use it.
    #[error("the embedded cluster is not served without a token")]
    NoToken,
    /// The address cannot be had.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// It has no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Serving broke off.
    #[error("cannot serve the embedded cluster")]
    Serve(#[from] io::Error),
}

/// So long requests that are under way may take when the server is to be away.
const LEAVE: Duration = Duration::from_secs(1);

/// The address of a server that was away may be taken for a moment.
const COME_BACK: Duration = Duration::from_millis(100);

/// A cluster about to be served.
#[derive(Debug)]
pub struct Server {
    cluster: DevCluster,
    door: Door,
    tls: Tls,
    controlled: Option<Controlled>,
}

impl Server {
    /// Takes the address; port 0 takes any that is free.
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

    /// Has it misbehave as somebody at a control socket wants.
    pub fn controlled(mut self, controlled: Controlled) -> Self {
        self.controlled = Some(controlled);
        self
    }

    /// The address it was given.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// Where clients find it. With `https` in place of `http` they find it there, too.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The certificate in PEM of the authority that vouches for it over HTTPS.
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
            // Those that are not done by then have no connection any more.
            let _ = timeout(LEAVE, serving).await;
            sleep(away).await;
            door = loop {
                match Door::open(address, tls.acceptor.clone()).await {
                    Ok(door) => break door,
                    Err(error) => {
                        tracing::warn!(target: "apiserver.serve", %error, "trying again");
                        sleep(COME_BACK).await;
                    }
                }
            };
            absences = Some(rest);
        }
    }
}

/// Waits until the server is to go: for ever, where nothing is told, otherwise for a while.
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
        // An error means that the store is gone, which is the end as well.
        let _ = published.wait_for(|p| p.stopping).await;
    };
    tokio::select! {
        biased;
        () = stopping => {}
        away = away => {
            cluster.cut_watches().await;
            // The server is gone: then it need not come back.
            let _ = tell.send(away);
        }
    }
}
