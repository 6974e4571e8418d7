//! The sections about listeners: metrics and probes (spec O-59), and the certificate (spec O-53).

use std::net::SocketAddr;
use std::path::PathBuf;

use super::declare::section;
use super::kinds::{ADDRESS, Flag, PATH, Text};
use super::names::is_dns_subdomain;

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

section! {
    /// `[tls]`: the certificate with which API and sessions speak HTTPS.
    pub struct Tls {
        /// The file with the certificate and those that lead to its CA.
        pub certificate_file: Option<PathBuf> = option(PATH);
        pub key_file: Option<PathBuf> = option(PATH);
        /// The file with the CA that executors trust. `None`: those of their image.
        pub ca_file: Option<PathBuf> = option(PATH);
        /// Whether the driver is its own CA.
        pub generate: bool = value(Flag) or false;
        /// Further names in a generated certificate.
        pub names: Vec<String> = list(NAME);
    }
}

impl Tls {
    pub fn is_on(&self) -> bool {
        self.generate || self.certificate_file.is_some()
    }
}

const NAME: Text = Text {
    rule: |name| is_dns_subdomain(name) || name.parse::<std::net::IpAddr>().is_ok(),
    allowed: "a DNS name or an IP address, such as \"driver.example.com\"",
};
