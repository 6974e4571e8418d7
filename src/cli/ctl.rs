//! `boatswain dev-cluster ctl`: faults on demand, for tests by hand.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use devcluster::control::ask_node::{NodeRequest, PodName};
use devcluster::control::faults::{Failing, Matching};
use devcluster::control::socket::{self, ControlError, Request};

/// Which cluster, and what it is to do.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// The socket that the cluster was given with `--control`.
    #[arg(long, value_name = "SOCKET")]
    control: PathBuf,
    #[command(subcommand)]
    fault: Fault,
}

#[derive(Debug, Subcommand)]
enum Fault {
    /// Say what is in force.
    Status,
    /// End all that is in force, the node's faults too.
    Clear,
    /// Answer later; `0s` ends it.
    Latency {
        /// By how much: a duration, or two, `100ms..2s`, between which it is drawn.
        #[arg(value_parser = range)]
        by: (Duration, Duration),
        #[command(flatten)]
        only: Only,
    },
    /// Have a share of requests fail; `0` ends it.
    Errors {
        /// The share, from 0 to 1.
        #[arg(value_parser = super::dev_cluster::rate)]
        rate: f64,
        /// How: an HTTP status, `break` or `break-after` (the connection breaks before or after the request is
        /// carried out).
        #[arg(long = "as", value_name = "HOW", default_value = "500", value_parser = failing)]
        failing: Failing,
        #[command(flatten)]
        only: Only,
    },
    /// End every open watch.
    CutWatches,
    /// Forget all history, so that watches and lists of earlier versions are refused with 410.
    Compact,
    /// Answer nothing and send nothing, until `thaw`.
    Freeze {
        /// For so long only.
        #[arg(value_parser = humantime::parse_duration)]
        duration: Option<Duration>,
    },
    /// Answer again.
    Thaw,
    /// Close all connections, take none for a while, and then be there again with all that there was.
    Restart {
        /// For how long.
        #[arg(value_parser = humantime::parse_duration, default_value = "1s")]
        away: Duration,
        /// Come back as if nothing had ever been written.
        #[arg(long)]
        empty: bool,
    },
    /// Have the node be not ready, gone, or well again.
    Node {
        #[command(subcommand)]
        node: Node,
    },
    /// Have pods that start from now on wait for an image.
    ImageMissing {
        /// The image, as the pods name it.
        image: String,
        /// It can be had again.
        #[arg(long)]
        off: bool,
    },
    /// Kill a pod's containers for want of memory.
    OutOfMemory {
        #[command(flatten)]
        pod: Pod,
    },
    /// Have a pod's containers exit.
    Crash {
        #[command(flatten)]
        pod: Pod,
        /// With this code.
        #[arg(long, default_value_t = 1)]
        code: u8,
    },
    /// Have the node end a pod because it runs short of memory.
    Evict {
        #[command(flatten)]
        pod: Pod,
    },
}

#[derive(Debug, Subcommand)]
enum Node {
    /// Nothing is heard from it; after a while its pods are evicted, which it does not hear either.
    NotReady {
        /// Its name, where it is to be checked.
        name: Option<String>,
        /// Evict pods after this time at the latest, rather than after the five minutes that they usually tolerate.
        #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
        evict_after: Option<Duration>,
    },
    /// It goes on.
    Ready {
        /// Its name, where it is to be checked.
        name: Option<String>,
    },
    /// It is removed, and its pods after it.
    Gone {
        /// Its name, where it is to be checked.
        name: Option<String>,
    },
}

/// Which pod is meant.
#[derive(Debug, Args)]
struct Pod {
    /// The pod's name.
    pod: String,
    /// Its namespace.
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

/// Which requests are meant; all, where nothing is said.
#[derive(Debug, Args)]
struct Only {
    /// Only requests with this HTTP method.
    #[arg(long, value_name = "METHOD")]
    verb: Option<String>,
    /// Only requests whose path and query have this in them, such as `/pods` or `watch=`.
    #[arg(long, value_name = "TEXT")]
    path: Option<String>,
}

impl From<Only> for Matching {
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
            _ => Err("the first of two durations is the shorter one".to_owned()),
        },
    }
}

fn failing(text: &str) -> Result<Failing, String> {
    match (text, text.parse()) {
        ("break", _) => Ok(Failing::Break),
        ("break-after", _) => Ok(Failing::BreakAfter),
        (_, Ok(code)) if (400..600).contains(&code) => Ok(Failing::Status(code)),
        _ => Err("an HTTP status from 400 to 599, `break` or `break-after`".to_owned()),
    }
}

/// Asks the cluster, and prints what is in force then.
pub async fn run(args: CtlArgs) -> Result<(), ControlError> {
    let said = socket::ask(&args.control, &args.fault.into()).await?;
    // Nobody has to read it.
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
        assert_eq!(failing("503"), Ok(Failing::Status(503)));
        assert_eq!(failing("break"), Ok(Failing::Break));
        assert_eq!(failing("break-after"), Ok(Failing::BreakAfter));
        for bad in ["200", "", "600", "breaking"] {
            assert!(failing(bad).is_err(), "{bad}");
        }
    }
}
