//! Reaches a driver through its pod, with the caller's rights in the cluster (spec O-86).

use std::net::Ipv4Addr;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use clap_complete::ArgValueCandidates;
use http::Uri;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::cli::generate::applications;
use crate::cli::place::PlaceArgs;
use crate::cli::{complain, fail};
use crate::driver::clean::{Place, exit_of};
use crate::driver::locate::{DriverPod, LocateError, Located, locate};
use crate::exit::Exit;

/// How long finding the driver may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The pause after an error of the listener: a lack of descriptors does not pass at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Which driver is called in a cluster, instead of one at an address.
#[derive(Debug, Args)]
pub(super) struct InCluster {
    /// Application whose driver runs in a pod, by its id or its name: the driver is called through a port-forward, with
    /// the token in its Secret, instead of --server. `boatswain list` shows them
    #[arg(long, value_name = "APP", value_parser = NonEmptyStringValueParser::new(),
          add = ArgValueCandidates::new(applications))]
    app: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// A driver's API on this machine's loopback, as long as the runtime lives.
pub(super) struct Reached {
    pub(super) server: Uri,
    pub(super) token: Option<String>,
    /// In PEM.
    pub(super) ca: Option<String>,
    /// The driver's.
    pub(super) pod: String,
}

impl InCluster {
    pub(super) fn is_given(&self) -> bool {
        self.app.is_some()
    }

    /// The application that was named, and how its cluster is reached.
    pub(super) fn place(&self) -> Option<Place> {
        self.is_given().then(|| self.of_pods())
    }

    /// Whether a cluster is given without an application in it.
    pub(super) fn lacks_an_app(&self) -> bool {
        self.place.is_given() && !self.is_given()
    }

    /// Where the executors' pods are.
    pub(super) fn of_pods(&self) -> Place {
        self.place.of(self.app.clone().unwrap_or_default())
    }

    /// Finds the driver and forwards a port to it; `None` if no application was named. Failures are reported.
    pub(super) async fn reach(&self, wants_token: bool) -> Result<Option<Reached>, Exit> {
        let Some(place) = self.place() else {
            return Ok(None);
        };
        let located = match timeout(LIMIT, locate(place, wants_token)).await {
            Ok(located) => located.map_err(|error| fail(exit_of_error(&error), error))?,
            Err(_) => {
                let limit = LIMIT.as_secs();
                let why = format_args!("the API server does not answer within {limit} s");
                return Err(fail(Exit::Unreachable, why));
            }
        };
        let Located {
            pod,
            port,
            has_tls,
            token,
            ca,
        } = located;
        let name = pod.name().to_owned();
        let opened = async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            tokio::spawn(forward(listener, pod, port));
            let scheme = if has_tls { "https" } else { "http" };
            let server = format!("{scheme}://{address}").parse();
            server.map_err(std::io::Error::other)
        };
        match opened.await {
            Ok(server) => Ok(Some(Reached {
                server,
                token,
                ca,
                pod: name,
            })),
            Err(error) => {
                let why = format_args!("no port of this machine can be forwarded: {error}");
                Err(fail(Exit::Bug, why))
            }
        }
    }
}

fn exit_of_error(error: &LocateError) -> Exit {
    match error {
        LocateError::Call(failure) => exit_of(failure),
        LocateError::None { .. } => Exit::Unreachable,
        LocateError::NotNamed(_) => Exit::Refused,
        LocateError::Connect(_)
        | LocateError::Unknown { .. }
        | LocateError::Configuration { .. }
        | LocateError::Closed { .. }
        | LocateError::Tokens(_) => Exit::Configuration,
    }
}

/// Connects each connection to the pod's port.
async fn forward(listener: TcpListener, pod: DriverPod, port: u16) {
    loop {
        let Ok((mut local, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let pod = pod.clone();
        tokio::spawn(async move {
            match pod.connect(port).await {
                // Either side may end the connection.
                Ok(mut remote) => drop(copy_bidirectional(&mut local, &mut remote).await),
                Err(failure) => complain(format_args!(
                    "the port is not forwarded: {}",
                    failure.explained()
                )),
            }
        });
    }
}
