//! Serving the API over HTTP, on loopback only: a cluster whose node runs processes runs whatever it is told to.

use std::io;
use std::net::SocketAddr;

use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use super::DevCluster;

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

/// A cluster about to be served.
#[derive(Debug)]
pub struct Server {
    cluster: DevCluster,
    listener: TcpListener,
    address: SocketAddr,
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
        let listener = TcpListener::bind(address)
            .await
            .map_err(|e| ServeError::Listen(address, e))?;
        let address = listener.local_addr()?;
        Ok(Self {
            cluster,
            listener,
            address,
        })
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
        let mut published = self.cluster.store.published();
        let stopping = async move {
            // An error means that the store is gone, which is the end as well.
            let _ = published.wait_for(|p| p.stopping).await;
        };
        let listener = self.listener.tap_io(|connection| {
            // Without it an event of a watch may wait for the client's acknowledgement of the one before.
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!(target: "apiserver.serve", %error, "a connection keeps its delay");
            }
        });
        axum::serve(listener, self.cluster.router())
            .with_graceful_shutdown(stopping)
            .await?;
        Ok(())
    }
}
