//! How many connections the driver accepts, by how many files it may have open (spec O-55).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections of API clients that have proved who they are.
const API: usize = 1_024;

/// The most event streams.
const FOLLOWERS: usize = 256;

/// The most connections of executors that post messages.
const REQUESTS: usize = 4_096;

/// The most sessions over a WebSocket.
const SESSIONS: usize = 50_000;

/// The most connections of a port whose clients have not proved who they are.
const UNAUTHENTICATED: usize = 256;

/// The most ports: API, sessions, metrics and probes.
const PORTS: usize = 4;

/// The descriptors kept for everything but calls and connections: the runtime, the log, listeners,
/// files, lists and watches.
const OTHERS: usize = 48;

/// How many connections of each kind are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of API clients with a token, event streams included.
    pub api: usize,
    pub followers: usize,
    /// Of executors that post messages.
    pub requests: usize,
    /// Of executors with a WebSocket.
    pub sessions: usize,
    /// Of clients that have proved nothing yet, on each port.
    pub unauthenticated: usize,
}

impl Limits {
    /// With this many descriptors, of which this many are needed for calls to the API server at a
    /// time. With few descriptors, half of them are kept for the driver's own use.
    pub fn of(descriptors: usize, calls: usize) -> Self {
        let own = calls.saturating_add(OTHERS).min(descriptors / 2);
        let rest = descriptors - own;
        let most = |most: usize, share: usize| most.min(rest / share).max(1);
        let (api, requests) = (most(API, 8), most(REQUESTS, 8));
        let unauthenticated = most(UNAUTHENTICATED, 16);
        let others = api + requests + PORTS * unauthenticated;
        Self {
            api,
            followers: FOLLOWERS.min(api / 2).max(1),
            requests,
            sessions: SESSIONS.min(rest.saturating_sub(others)).max(1),
            unauthenticated,
        }
    }

    /// Of this process, as its limit of open files is now.
    pub fn of_process(calls: usize) -> Self {
        let files = getrlimit(Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok());
        Self::of(files.unwrap_or(usize::MAX), calls)
    }
}

/// Raises this process' soft limit of open files to the hard one.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised: few connections are accepted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-55
    #[test]
    fn with_many_descriptors_only_the_fixed_limits_apply() {
        let limits = Limits {
            api: 1_024,
            followers: 256,
            requests: 4_096,
            sessions: 50_000,
            unauthenticated: 256,
        };
        assert_eq!(Limits::of(1_048_576, 128), limits);
        assert_eq!(Limits::of(usize::MAX, 4_000), limits);
    }

    // spec: O-55
    #[test]
    fn connections_and_calls_never_need_more_descriptors_than_there_are() {
        for descriptors in [16, 40, 64, 256, 1_024, 4_096, 20_000, 65_536] {
            for calls in [4, 128, 4_000] {
                let limits = Limits::of(descriptors, calls);
                let connections = limits.api + limits.requests + limits.sessions;
                let connections = connections + PORTS * limits.unauthenticated;
                let own = (calls + OTHERS).min(descriptors / 2);
                assert!(
                    connections + own <= descriptors,
                    "{descriptors}: {limits:?}"
                );
                assert!(limits.sessions >= descriptors / 8 || limits.sessions == SESSIONS);
            }
        }
    }

    // spec: O-55
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
