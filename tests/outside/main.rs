//! Tests the binary as a process, with real sockets and real time; each file covers one behaviour.
//!
//! Each test has an API server of its own, a `boatswain dev-cluster` process. `tests/real/outside` runs the same tests on
//! real clusters (`real`): most of them each in a namespace of its own, those that stop the API server one after the other.
//! What a real cluster cannot do is passed over, with the reason. If `BOATSWAIN_TEST_KUBECONFIG` names a cluster, the tests
//! that can use only what it shows of itself do so, each in a namespace of its own; a node of it has to start each pod at
//! once.
//!
//! Tests wait for conditions. The bounds are generous enough for a busy machine and are not performance requirements.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod api;
mod cluster;
mod convergence;
mod drains;
mod driver;
mod process;
mod real;
#[path = "../support/untested.rs"]
mod untested;
mod users;

mod adoption;
mod alerts;
mod asking;
mod browser;
mod clean;
mod credentials;
mod cut_paths;
mod events_file;
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
mod reaching;
mod reload;
mod reopening;
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
mod told_once;
mod traces;
mod unreadable_keys;
