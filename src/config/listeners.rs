//! The sections about listeners beside the API and the sessions: metrics and probes (spec O-59).

use std::net::SocketAddr;
use std::path::PathBuf;

use super::declare::section;
use super::kinds::{ADDRESS, PATH};

section! {
    /// `[metrics]`: a listener of its own for Prometheus.
    pub struct Metrics {
        /// `None`: only the API serves metrics.
        pub listen: Option<SocketAddr> = option(ADDRESS);
        /// The file with the tokens that may read the metrics. `None`: no token is needed.
        pub token_file: Option<PathBuf> = option(PATH);
    }
}

section! {
    /// `[probes]`: a listener of its own for the kubelet.
    pub struct Probes {
        /// `None`: only the API answers probes.
        pub listen: Option<SocketAddr> = option(ADDRESS);
    }
}
