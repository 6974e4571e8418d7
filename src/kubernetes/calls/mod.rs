//! The calls that boatswain makes, typed. Each body is read here, bounded and leniently, and each failure classified.

mod claims;
mod config_maps;
mod controllers;
mod events;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lines;
mod made;
mod openid;
mod owned_resources;
mod pod_groups;
mod pods;
mod sets;
mod streamed;
mod transport;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use kube::client::Body;
use tokio::sync::watch as channel;
use tokio::time::Instant;

pub use config_maps::{ConfigMap, ConfigMapStream};
pub use controllers::{Controlled, Reference};
pub use made::CallMade;
pub use pod_groups::PodGroupSeen;
pub use pods::{Deleted, ListPage, ListQuery};
pub use sets::{SetKind, SetSeen};
pub use streamed::NotStreamed;
pub use watch::{Lines, WatchLine, WatchStream, read_pod_line};

use super::client::{Clients, ConnectError};
use super::decode::PodReader;
use super::labels::LabelScheme;
use super::record::record_name;
use crate::model::pod::Sighting;
use crate::model::{AppId, ResourceVersion};
use transport::{Call, Rejection};

/// A list that came as a stream: its version, and the pods.
pub type WatchedPods = (ResourceVersion, Vec<Sighting>);

/// What the calls have to know of the application.
#[derive(Debug, Clone)]
pub struct CallsSpec {
    /// The executors' namespace.
    pub namespace: String,
    /// The application.
    pub app_id: AppId,
    /// What its pods' names begin with.
    pub prefix: String,
    /// Whose label keys are written and read.
    pub labels: LabelScheme,
    /// The executor container's name.
    pub container: String,
    /// Whether any container that ends non-zero makes a pod Failed (spec E-12).
    pub check_all_containers: bool,
    /// How long the server may work on a request (spec A-11). An answer that takes a second more is given up.
    pub request_timeout: Duration,
}

/// The calls. A copy costs nothing and shares the connections.
#[derive(Clone)]
pub struct Calls {
    /// All copies are to use those that were made last.
    clients: Arc<channel::Sender<Clients>>,
    at: Arc<Place>,
    /// Who is told of each call.
    observer: Option<Observer>,
}

/// Is told of each call that is over.
pub type Observer = Arc<dyn Fn(CallMade) + Send + Sync>;

/// What is the same in every call.
#[derive(Clone)]
struct Place {
    namespace: String,
    selector: String,
    reader: Arc<PodReader>,
    request_timeout: Duration,
}

impl Calls {
    /// Calls by these clients, for this application.
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
            at: Arc::new(at),
            observer: None,
        }
    }

    /// The same calls, of which this one is told.
    pub fn observed(self, observer: Observer) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// The same calls, for pods that sets have made: which executor one is, only its label says (spec A-80).
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

    fn clients(&self) -> Clients {
        self.clients.borrow().clone()
    }

    /// Reads the credentials anew, for all calls from now on, of every copy; whether there are any to read (spec A-22).
    ///
    /// # Errors
    /// Where there is nothing to go by any more; then all stays as it was.
    pub async fn renew_credentials(&self) -> Result<bool, ConnectError> {
        let Some(renew) = self.clients().renew else {
            return Ok(false);
        };
        self.clients.send_replace(renew().await?);
        Ok(true)
    }

    async fn answer(&self, client: &kube::Client, call: Call) -> Result<Bytes, Rejection> {
        let measure = self.measure(&call);
        let answered = transport::answer(client, self.at.request_timeout, call).await;
        measure(answered.as_ref().err());
        answered
    }

    async fn opened(&self, client: &kube::Client, call: Call) -> Result<Response<Body>, Rejection> {
        let measure = self.measure(&call);
        let opened = transport::opened(client, self.at.request_timeout, call).await;
        measure(opened.as_ref().err());
        opened
    }

    /// To be called with what became of a call that begins now.
    fn measure(&self, call: &Call) -> impl FnOnce(Option<&Rejection>) + use<> {
        let observer = self.observer.clone();
        let (verb, resource) = (call.verb(), call.resource());
        let began = Instant::now();
        move |rejection| {
            if let Some(observer) = observer {
                observer(CallMade {
                    verb,
                    resource,
                    outcome: rejection.map_or("ok", |rejection| rejection.failure.kind.word()),
                    answered: !rejection.is_some_and(|r| r.failure.kind.is_outage()),
                    took: began.elapsed(),
                });
            }
        }
    }

    /// The executors' namespace.
    pub fn namespace(&self) -> &str {
        &self.at.namespace
    }

    /// The selector of the application's executors.
    pub fn selector(&self) -> &str {
        &self.at.selector
    }

    /// How a pod is read.
    pub fn reader(&self) -> &PodReader {
        &self.at.reader
    }

    /// How long the server may work on a request.
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
