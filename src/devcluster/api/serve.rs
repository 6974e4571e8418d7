//! Serving the API over HTTP, on loopback only: a cluster whose node runs processes runs whatever it is told to.

use std::future::IntoFuture as _;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use axum::serve::ListenerExt as _;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::devcluster::DevCluster;
use crate::devcluster::control::faults::meddle;
use crate::devcluster::control::socket::{Away, Controlled};

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
    /// Serving broke off.
    #[error("cannot serve the embedded cluster")]
    Serve(#[from] io::Error),
}

/// So long requests that are under way may take when the server is to be away.
const LEAVE: Duration = Duration::from_secs(1);

/// A client that takes nothing of what it is sent for so long is cut off.
const UNREAD: Duration = Duration::from_secs(30);

/// The address of a server that was away may be taken for a moment.
const COME_BACK: Duration = Duration::from_millis(100);

/// A cluster about to be served.
#[derive(Debug)]
pub struct Server {
    cluster: DevCluster,
    listener: TcpListener,
    address: SocketAddr,
    controlled: Option<Controlled>,
}

impl Server {
    /// Takes the address; port 0 takes any that is free.
    pub async fn bind(cluster: DevCluster, address: SocketAddr) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        if !cluster.credentials.are_needed() {
            return Err(ServeError::NoToken);
        }
        let listener = listen(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            cluster,
            listener,
            address,
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
        self.address
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until the cluster is shut down.
    pub async fn run(self) -> Result<(), ServeError> {
        let Self {
            cluster,
            mut listener,
            address,
            controlled,
        } = self;
        let mut router = cluster.router();
        let mut absences = None;
        if let Some(controlled) = controlled {
            router = router.layer(from_fn_with_state(controlled.orders, meddle));
            absences = Some(controlled.absences);
        }
        loop {
            let (tell, mut leaves) = oneshot::channel();
            let serving = axum::serve(listener.tap_io(set_up), router.clone())
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
            listener = loop {
                match listen(address).await {
                    Ok(listener) => break listener,
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

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|e| ServeError::Listen(address, e))
}

fn set_up(connection: &mut TcpStream) {
    // Otherwise an event of a watch may wait for the client's acknowledgement of the one before.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(target: "apiserver.serve", %error, "a connection keeps its delay");
    }
    // A watcher that reads nothing is never asked for its next event, so what it holds only ends with its connection.
    let unread = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = set_tcp_user_timeout(connection, unread) {
        tracing::debug!(target: "apiserver.serve", %error, "a connection stays though nothing is read from it");
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
