//! `ctl`: injects faults into an embedded cluster, for manual tests.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::control::faults::{FailureMode, RequestFilter};
use crate::control::node_faults::{NodeRequest, PodName};
use crate::control::socket::{self, ControlError, Request};

/// Inject faults into an embedded cluster
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// Socket that the cluster was given with `--control`
    #[arg(long, value_name = "SOCKET")]
    control: PathBuf,
    #[command(subcommand)]
    fault: Fault,
}

#[derive(Debug, Subcommand)]
enum Fault {
    /// Print the faults in force
    Status,
    /// End all faults, including those of the node
    Clear,
    /// Delay answers; `0s` ends the fault
    Latency {
        /// Delay: a duration, or a range such as `100ms..2s` from which it is drawn
        #[arg(value_parser = range)]
        by: (Duration, Duration),
        #[command(flatten)]
        only: Only,
    },
    /// Let a share of requests fail; `0` ends the fault
    Errors {
        /// Share of requests, from 0 to 1
        #[arg(value_parser = super::rate)]
        rate: f64,
        /// Kind of failure: an HTTP status, `break` or `break-after` (the connection breaks before
        /// or after the request is carried out), or `lost-race` (a delete is answered as if the
        /// object had been removed at the same time)
        #[arg(long = "as", value_name = "HOW", default_value = "500", value_parser = failing)]
        failing: FailureMode,
        #[command(flatten)]
        only: Only,
    },
    /// Close every open watch
    CutWatches,
    /// Compact the history, so that watches and lists of earlier versions are refused with 410
    Compact,
    /// Send nothing until `thaw`
    Freeze {
        /// Thaw after this time
        #[arg(value_parser = humantime::parse_duration)]
        duration: Option<Duration>,
    },
    /// Resume answering
    Thaw,
    /// Close all connections, refuse new ones for a while, and then return with all data
    Restart {
        /// How long to refuse connections
        #[arg(value_parser = humantime::parse_duration, default_value = "1s")]
        away: Duration,
        /// Return without any data
        #[arg(long)]
        empty: bool,
    },
    /// Make the node not ready, gone, or ready again
    Node {
        #[command(subcommand)]
        node: Node,
    },
    /// Make an image unavailable for pods that start from now on
    ImageMissing {
        /// Image, as the pods name it
        image: String,
        /// Make the image available again
        #[arg(long)]
        off: bool,
    },
    /// Kill a pod's containers as if out of memory
    OutOfMemory {
        #[command(flatten)]
        pod: Pod,
    },
    /// Let a pod's containers exit
    Crash {
        #[command(flatten)]
        pod: Pod,
        /// Exit code
        #[arg(long, default_value_t = 1)]
        code: u8,
    },
    /// Let the node evict a pod for lack of memory
    Evict {
        #[command(flatten)]
        pod: Pod,
    },
}

#[derive(Debug, Subcommand)]
enum Node {
    /// The node stops responding; after a while its pods are evicted, which it does not notice
    /// either
    NotReady {
        /// Name of the node, to be checked
        name: Option<String>,
        /// Evict pods after this time at the latest, instead of the five minutes that they usually
        /// tolerate
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        evict_after: Option<Duration>,
    },
    /// The node responds again
    Ready {
        /// Name of the node, to be checked
        name: Option<String>,
    },
    /// The node is removed, and then its pods
    Gone {
        /// Name of the node, to be checked
        name: Option<String>,
    },
}

/// The pod that a fault applies to.
#[derive(Debug, Args)]
struct Pod {
    /// Name of the pod
    pod: String,
    /// Namespace of the pod
    #[arg(long, short, default_value = "default")]
    namespace: String,
}

impl From<Pod> for PodName {
    fn from(Pod { pod, namespace }: Pod) -> Self {
        Self {
            namespace,
            name: pod,
        }
    }
}

/// The requests that a fault applies to; all by default.
#[derive(Debug, Args)]
struct Only {
    /// Only requests with this HTTP method
    #[arg(long, value_name = "METHOD")]
    verb: Option<String>,
    /// Only requests with this text in their path and query, such as `/pods` or `watch=`
    #[arg(long, value_name = "TEXT")]
    path: Option<String>,
}

impl From<Only> for RequestFilter {
    fn from(Only { verb, path }: Only) -> Self {
        Self { verb, path }
    }
}

impl From<Fault> for Request {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Status => Self::Status,
            Fault::Clear => Self::Clear,
            Fault::Latency {
                by: (from, to),
                only,
            } => Self::Latency {
                from,
                to,
                matching: only.into(),
            },
            Fault::Errors {
                rate,
                failing,
                only,
            } => Self::Errors {
                rate,
                failing,
                matching: only.into(),
            },
            Fault::CutWatches => Self::CutWatches,
            Fault::Compact => Self::Compact,
            Fault::Freeze { duration } => Self::Freeze(duration),
            Fault::Thaw => Self::Thaw,
            Fault::Restart { away, empty } => Self::Restart { away, empty },
            Fault::Node { node } => Self::Node(match node {
                Node::NotReady { name, evict_after } => NodeRequest::NotReady { name, evict_after },
                Node::Ready { name } => NodeRequest::Ready(name),
                Node::Gone { name } => NodeRequest::Gone(name),
            }),
            Fault::ImageMissing { image, off } => {
                Self::Node(NodeRequest::ImageMissing { image, off })
            }
            Fault::OutOfMemory { pod } => Self::Node(NodeRequest::OutOfMemory(pod.into())),
            Fault::Crash { pod, code } => Self::Node(NodeRequest::Crash {
                pod: pod.into(),
                code,
            }),
            Fault::Evict { pod } => Self::Node(NodeRequest::Evict(pod.into())),
        }
    }
}

fn range(text: &str) -> Result<(Duration, Duration), String> {
    let duration = |text: &str| humantime::parse_duration(text).map_err(|error| error.to_string());
    match text.split_once("..") {
        None => duration(text).map(|both| (both, both)),
        Some((from, to)) => match (duration(from)?, duration(to)?) {
            (from, to) if from <= to => Ok((from, to)),
            _ => Err("the first of two durations must be the shorter one".to_owned()),
        },
    }
}

fn failing(text: &str) -> Result<FailureMode, String> {
    match (text, text.parse()) {
        ("break", _) => Ok(FailureMode::Break),
        ("break-after", _) => Ok(FailureMode::BreakAfter),
        ("lost-race", _) => Ok(FailureMode::LostRace),
        (_, Ok(code)) if (400..600).contains(&code) => Ok(FailureMode::Status(code)),
        _ => Err(
            "expected an HTTP status from 400 to 599, `break`, `break-after` or `lost-race`"
                .to_owned(),
        ),
    }
}

/// Sends the fault to the cluster, and prints the faults in force.
pub async fn run(args: CtlArgs) -> Result<(), ControlError> {
    let said = socket::ask(&args.control, &args.fault.into()).await?;
    // A closed stdout is not an error.
    let _ = writeln!(io::stdout(), "{said}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_a_duration_or_two() {
        let millis = Duration::from_millis;
        assert_eq!(range("100ms"), Ok((millis(100), millis(100))));
        assert_eq!(range("100ms..2s"), Ok((millis(100), millis(2_000))));
        for bad in ["", "2s..1s", "..", "1s..", "fast"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_are_a_status_or_a_broken_connection() {
        assert_eq!(failing("503"), Ok(FailureMode::Status(503)));
        assert_eq!(failing("break"), Ok(FailureMode::Break));
        assert_eq!(failing("break-after"), Ok(FailureMode::BreakAfter));
        assert_eq!(failing("lost-race"), Ok(FailureMode::LostRace));
        for bad in ["200", "", "600", "breaking"] {
            assert!(failing(bad).is_err(), "{bad}");
        }
    }
}
