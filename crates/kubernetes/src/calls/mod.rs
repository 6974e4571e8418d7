//! Typed Kubernetes API calls. Each call limits the response's size, decodes it leniently and classifies failures.

mod access;
mod applications;
mod claims;
mod config_maps;
mod controllers;
mod events;
mod evidence;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod kept;
mod leases;
mod leftovers;
mod lines;
mod lists;
mod logs;
mod made;
mod nodes;
mod openid;
mod owned_resources;
mod pods;
mod profile_objects;
mod resize;
mod sets;
mod streamed;
mod submitted;
mod transport;
mod watch;
mod workloads;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::sync::watch as channel;
use tokio::time::Instant;
use tracing::{Level, debug};

pub use applications::Application;
pub use config_maps::{ConfigMap, ConfigMapStream};
pub use controllers::{Controlled, ControlledSpec, ControllerKind, Reference};
pub use evidence::Warning;
pub use leases::{Lease, LeaseSpec, LeaseStream, lease_object, micro_time};
pub use logs::{LogLines, LogPart};
pub use made::{CallMade, ServerIsBack, StopCalling, WriteMade};
pub use nodes::{LeavingRules, SeenNode};
pub use pods::{Deleted, ListPage, ListQuery};
pub use profile_objects::{NO_POD_GROUPS, ObjectSeen, PodGroups, ProfileObject, SCHEDULING};
pub use sets::{SetKind, SetSeen};
pub use streamed::NotStreamed;
pub use submitted::JOB_NAME;
pub use watch::{Lines, WatchLine, WatchStream, read_pod_line};

use super::client::{Clients, ConnectError, FileState};
use super::decode::PodReader;
use super::gate::WriteGate;
use super::labels::LabelScheme;
use super::record::record_name;
use super::refusal::Failure;
use boatswain_model::pod::Sighting;
use boatswain_model::{AppId, ResourceVersion};
use transport::{Call, LatestClock, Rejection, garbage};

/// The result of a streamed list: the list's resource version and the pods.
pub type WatchedPods = (ResourceVersion, Vec<Sighting>);

/// The application's settings that the calls need.
#[derive(Debug, Clone)]
pub struct CallsSpec {
    /// The executors' namespace.
    pub namespace: String,
    pub app_id: AppId,
    /// The prefix of the application's pod names.
    pub prefix: String,
    /// The scheme of the label keys to write and read.
    pub labels: LabelScheme,
    /// The name of the executor container.
    pub container: String,
    /// Whether any container that exits with a non-zero code makes the pod count as Failed.
    pub check_all_containers: bool,
    /// The server's time limit for a request. The client gives up one second after it.
    pub request_timeout: Duration,
}

/// The API calls. Clones are cheap and share the connections.
#[derive(Clone)]
pub struct Calls {
    /// Shared by all clones, so that all use the clients made last.
    clients: Arc<channel::Sender<Clients>>,
    /// Shared by all clones.
    server_clock: Arc<LatestClock>,
    at: Arc<Place>,
    /// Called after each call.
    observer: Option<Observer>,
    /// Writes pass it; `None`: they need no permit.
    gate: Option<WriteGate>,
}

/// Called after each API call.
pub type Observer = Arc<dyn Fn(CallMade) + Send + Sync>;

/// The parameters common to all calls.
#[derive(Clone)]
struct Place {
    namespace: String,
    selector: String,
    reader: Arc<PodReader>,
    request_timeout: Duration,
}

impl Calls {
    /// Makes the calls of an application, sent through `clients`.
    pub fn new(clients: Clients, spec: CallsSpec) -> Self {
        let reader = PodReader {
            record: Arc::from(record_name(&spec.prefix)),
            app_id: spec.app_id,
            prefix: Arc::from(spec.prefix),
            labels: spec.labels,
            container: Arc::from(spec.container),
            check_all_containers: spec.check_all_containers,
            of_sets: false,
        };
        let at = Place {
            selector: reader.labels.selector(&reader.app_id),
            namespace: spec.namespace,
            reader: Arc::new(reader),
            request_timeout: spec.request_timeout,
        };
        Self {
            clients: Arc::new(channel::Sender::new(clients)),
            server_clock: Arc::new(channel::Sender::new(None)),
            at: Arc::new(at),
            observer: None,
            gate: None,
        }
    }

    /// Returns the same calls with `observer` called after each of them.
    pub fn observed(self, observer: Observer) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// Returns the same calls for pods made by sets, whose executor id comes from the label only (spec A-80).
    pub fn of_sets(self) -> Self {
        let mut place = Place::clone(&self.at);
        place.reader = Arc::new(PodReader {
            of_sets: true,
            ..PodReader::clone(&place.reader)
        });
        Self {
            at: Arc::new(place),
            ..self
        }
    }

    /// Returns the same calls, whose writes pass this gate (spec O-32).
    pub fn gated(self, gate: WriteGate) -> Self {
        Self {
            gate: Some(gate),
            ..self
        }
    }

    /// Returns the same calls in another namespace.
    pub fn in_namespace(self, namespace: &str) -> Self {
        let mut place = Place::clone(&self.at);
        place.namespace = namespace.to_owned();
        Self {
            at: Arc::new(place),
            ..self
        }
    }

    /// Returns the same calls for the application with this id.
    pub fn of_app(self, app_id: AppId) -> Self {
        let mut place = Place::clone(&self.at);
        place.selector = place.reader.labels.selector(&app_id);
        place.reader = Arc::new(PodReader {
            app_id,
            ..PodReader::clone(&place.reader)
        });
        Self {
            at: Arc::new(place),
            ..self
        }
    }

    fn clients(&self) -> Clients {
        self.clients.borrow().clone()
    }

    /// Reloads the credentials and replaces the clients of every clone. Returns false if there are no credentials to
    /// reload (spec A-22).
    ///
    /// # Errors
    /// If the new clients cannot be made; the old ones then stay in use.
    pub async fn renew_credentials(&self) -> Result<bool, ConnectError> {
        let Some(renew) = self.clients().renew else {
            return Ok(false);
        };
        self.clients.send_replace(renew().await?);
        Ok(true)
    }

    /// The states of the files that the credentials in use were read from; they differ when a file was changed.
    pub fn credential_files(&self) -> Vec<FileState> {
        self.clients().file_states()
    }

    async fn answer(&self, client: &kube::Client, call: Call) -> Result<Bytes, Rejection> {
        self.answer_within(client, self.at.request_timeout, call)
            .await
    }

    /// Reads an answer whose text is JSON.
    async fn read_json<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let place = call.place();
        let body = self.answer(&self.clients().reads, call).await;
        let body = body.map_err(|rejection| rejection.failure)?;
        serde_json::from_str(&transport::text(&body))
            .map_err(|error| garbage(&place, &error.to_string()))
    }

    /// The same of an object; `None` if the answer says that there is none of this name.
    async fn read_if_there<T: DeserializeOwned>(
        &self,
        call: Call,
        resource: &str,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        let place = call.place();
        match self.answer(&self.clients().reads, call).await {
            Ok(body) => serde_json::from_str(&transport::text(&body))
                .map(Some)
                .map_err(|error| garbage(&place, &error.to_string())),
            Err(rejection) if pods::is_missing(&rejection, resource, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    async fn answer_within(
        &self,
        client: &kube::Client,
        limit: Duration,
        call: Call,
    ) -> Result<Bytes, Rejection> {
        let measure = self.measure(&call);
        let gate = self.gate.as_ref().filter(|_| call.is_guarded());
        let place = gate.map_or_else(String::new, |_| call.place());
        let answered = transport::answer(client, limit, call, &self.server_clock);
        let answered = match gate {
            Some(gate) => gate.pass(&place, answered).await,
            None => answered.await,
        };
        measure(answered.as_ref().err());
        answered
    }

    async fn opened(&self, client: &kube::Client, call: Call) -> Result<Response<Body>, Rejection> {
        let measure = self.measure(&call);
        let limit = self.at.request_timeout;
        let opened = transport::opened(client, limit, call, &self.server_clock).await;
        measure(opened.as_ref().err());
        opened
    }

    /// Starts timing a call. The returned function logs the call's outcome at debug (spec O-46) and reports it to the
    /// observer.
    fn measure(&self, call: &Call) -> impl FnOnce(Option<&Rejection>) + use<> {
        let observer = self.observer.clone();
        let (verb, resource) = (call.verb(), call.resource());
        let path = tracing::enabled!(Level::DEBUG).then(|| call.path.clone());
        let object = call.is_write().then(|| call.object());
        let began = Instant::now();
        move |rejection| {
            let call = CallMade {
                verb,
                resource,
                failure: rejection.map(|rejection| rejection.failure.kind),
                took: began.elapsed(),
                write: object.map(|(resource, name)| {
                    let failure = rejection.map(|rejection| &rejection.failure);
                    WriteMade::new((&resource, &name), failure)
                }),
            };
            if let Some(path) = path {
                let duration_ms = u64::try_from(call.took.as_millis()).unwrap_or(u64::MAX);
                let outcome = call.outcome();
                debug!(verb, path, outcome, duration_ms, "API call");
            }
            if let Some(observer) = observer {
                observer(call);
            }
        }
    }

    /// The API server's time; `None` if no answer of its has had a date yet (spec O-68).
    pub fn server_time(&self) -> Option<Timestamp> {
        let clock = *self.server_clock.borrow();
        clock.map(|clock| clock.at(Instant::now()))
    }

    /// The URL of the API server, without a password.
    pub fn server(&self) -> String {
        self.clients.borrow().server.clone()
    }

    /// The executors' namespace.
    pub fn namespace(&self) -> &str {
        &self.at.namespace
    }

    /// The label selector of the application's executors.
    pub fn selector(&self) -> &str {
        &self.at.selector
    }

    /// The decoder for pods.
    pub fn reader(&self) -> &PodReader {
        &self.at.reader
    }

    /// The server's time limit for a request.
    pub fn request_timeout(&self) -> Duration {
        self.at.request_timeout
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("namespace", &self.at.namespace)
            .field("selector", &self.at.selector)
            .field("request_timeout", &self.at.request_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
