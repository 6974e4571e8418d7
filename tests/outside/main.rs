//! The binary from outside: real processes, real sockets, real time, a file a behaviour.
//!
//! Each test has an API server of its own, a `boatswain dev-cluster` process. Where `BOATSWAIN_TEST_KUBECONFIG` names a
//! real cluster, those tests that neither stop nor kill the API server use that one instead, each in a namespace of its
//! own; a node there has to start each pod at once.
//!
//! Tests wait for conditions, with bounds that are generous enough for a busy machine; how fast something is they do
//! not say.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod api;
mod cluster;
mod driver;
mod process;

mod asking;
mod examples;
mod executors;
mod faults_by_hand;
mod hostile_answers;
mod hostile_pods;
mod local_run;
mod quiet;
mod server_faults;
mod starting;
mod stopping;
mod succession;
mod talking;
