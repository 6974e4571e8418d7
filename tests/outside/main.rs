//! Tests the binary as a process, with real sockets and real time; each file covers one behaviour.
//!
//! Each test has an API server of its own, a `boatswain dev-cluster` process. If `BOATSWAIN_TEST_KUBECONFIG` names a
//! real cluster, the tests that neither stop nor kill the API server use that cluster instead, each in a namespace of
//! its own. A node of that cluster has to start each pod at once.
//!
//! Tests wait for conditions. The bounds are generous enough for a busy machine and are not performance requirements.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod api;
mod cluster;
mod drains;
mod driver;
mod process;

mod asking;
mod browser;
mod clean;
mod credentials;
mod cut_paths;
mod examples;
mod executors;
mod faults_by_hand;
mod hostile_answers;
mod hostile_pods;
mod listeners;
mod local_run;
mod manifests;
mod page;
mod page_states;
mod ports;
mod quiet;
mod reload;
mod rights;
mod rust_client;
mod server_faults;
mod signals;
mod standby;
mod starting;
mod stopping;
mod succession;
mod talking;
mod through_pods;
mod tls;
mod unreadable_keys;
