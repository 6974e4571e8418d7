//! What is told of every call to the API server.

use std::time::Duration;

use actix::Message;

/// A call to the API server is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct CallMade {
    /// What was called, as `GET`.
    pub verb: &'static str,
    /// On what, as `pods`.
    pub resource: &'static str,
    /// What became of it: `ok`, or the kind of its failure.
    pub outcome: &'static str,
    /// Whether it was answered by an API server that does its work.
    pub answered: bool,
    /// From its beginning to the end of its answer; of a watch, to the answer's head.
    pub took: Duration,
}
