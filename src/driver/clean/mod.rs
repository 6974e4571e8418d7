//! Finds and deletes what an application left behind whose driver is gone for good (spec O-33).

mod alive;
mod deleting;
mod reopening;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;

use crate::exit::Exit;
use crate::kubernetes::calls::{Lease, LogLines, LogPart};
use crate::kubernetes::client::Limits;
use crate::kubernetes::labels::is_label_value;
use crate::kubernetes::leftovers::{LEASE, LISTED, Leftover, LeftoverKind, prefix_of_record};
use crate::kubernetes::record::record_name;
use crate::kubernetes::{
    Access, Calls, CallsSpec, ConnectError, Failure, FailureKind, LabelScheme, Record,
};
use crate::model::AppId;

use super::applications::{NotNamed, id_of};

pub use alive::{Alive, Holder};
pub use deleting::{Left, Outcome};
pub use reopening::{Closed, NotOpened};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Whose leftovers, and how the cluster is reached.
#[derive(Debug, Default)]
pub struct Place {
    /// The application's id or name.
    pub app: String,
    /// `None`: the namespace of the kubeconfig's context.
    pub namespace: Option<String>,
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Why what was asked of a cluster is not known.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    #[error("{0}\nlook at --kubeconfig and --context")]
    Connect(#[from] ConnectError),
    #[error("{}", .0.explained())]
    Call(Failure),
}

impl From<Failure> for NotRead {
    fn from(failure: Failure) -> Self {
        Self::Call(failure)
    }
}

impl NotRead {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Connect(_) => Exit::Configuration,
            Self::Call(failure) => exit_of(failure),
        }
    }
}

#[derive(Debug)]
pub struct Cleaner {
    app_id: AppId,
    calls: Calls,
}

/// What was found of an application.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of deletion.
    pub leftovers: Vec<Leftover>,
    pub unseen: Vec<Unseen>,
    record: Option<Record>,
    lease: Option<Lease>,
}

/// A kind of object that could not be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    pub resource: &'static str,
    pub why: String,
}

/// Whether this can be an application's id.
pub fn is_app_id(text: &str) -> bool {
    !text.is_empty() && is_label_value(text)
}

/// The exit code for a failure of the API server.
pub fn exit_of(failure: &Failure) -> Exit {
    match failure.kind {
        FailureKind::Rights | FailureKind::Credentials => Exit::Rights,
        FailureKind::NotFound | FailureKind::Invalid => Exit::Refused,
        _ => Exit::Unreachable,
    }
}

impl Place {
    /// Reads the credentials. No request is sent.
    ///
    /// # Errors
    /// If the cluster's address or credentials are unknown.
    pub(in crate::driver) async fn connect(self) -> Result<(Calls, Client), ConnectError> {
        let access = match (self.kubeconfig, self.context) {
            (None, None) => Access::Infer,
            (path, context) => Access::Kubeconfig { path, context },
        };
        let clients = access.connect(Limits::default()).await?;
        let client = clients.reads.clone();
        let spec = CallsSpec {
            namespace: (self.namespace).unwrap_or_else(|| clients.default_namespace.clone()),
            app_id: AppId::from(self.app.as_str()),
            // None of these calls decodes executors.
            prefix: String::new(),
            labels: LabelScheme::default(),
            container: String::new(),
            check_all_containers: false,
            request_timeout: REQUEST_TIMEOUT,
        };
        Ok((Calls::new(clients, spec), client))
    }
}

/// Opens the log of an executor's container (spec O-138).
///
/// # Errors
/// If the cluster cannot be reached, or has no such log.
pub async fn log(place: Place, pod: &str, part: LogPart) -> Result<LogLines, NotRead> {
    let (calls, _) = place.connect().await?;
    Ok(calls.log(pod, part).await?)
}

/// The names of the pods with these labels.
///
/// # Errors
/// If the selector is refused, or the pods cannot be listed.
pub async fn pods_with(place: Place, selector: &str) -> Result<BTreeSet<String>, NotRead> {
    let (calls, _) = place.connect().await?;
    let pods = calls.pods_with(selector).await?;
    Ok((pods.into_iter())
        .filter_map(|pod| pod.metadata.name)
        .collect())
}

impl Cleaner {
    /// Reads the credentials. No request is sent.
    ///
    /// # Errors
    /// If the cluster's address or credentials are unknown.
    pub async fn connect(place: Place) -> Result<Self, ConnectError> {
        let app_id = AppId::from(place.app.as_str());
        let (calls, _) = place.connect().await?;
        Ok(Self { app_id, calls })
    }

    /// Finds the application that is meant by an id or a name. Returns why none with a record is: then the id of one
    /// without a record may be meant. So it is where the records may not be listed.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub async fn named(&mut self) -> Result<Option<NotNamed>, Failure> {
        let all = match self.calls.list_applications(false).await {
            Ok(all) => all,
            Err(failure) if failure.kind == FailureKind::Rights => return Ok(None),
            Err(failure) => return Err(failure),
        };
        match id_of(self.app_id.as_str(), self.namespace(), &all) {
            Ok(id) => {
                self.app_id = AppId::from(id.as_str());
                self.calls = self.calls.clone().of_app(self.app_id.clone());
                Ok(None)
            }
            Err(why) => Ok(Some(why)),
        }
    }

    pub fn app_id(&self) -> &AppId {
        &self.app_id
    }

    pub fn namespace(&self) -> &str {
        self.calls.namespace()
    }

    /// Lists what there is of the application.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses for another reason than a missing right.
    pub async fn look(&self) -> Result<Found, Failure> {
        let mut found = Found::default();
        for kind in LISTED {
            let Some(kind) = self.calls.served_leftovers(kind).await? else {
                continue;
            };
            let listed = self.calls.list_leftovers(kind, &self.app_id).await;
            if let Some(listed) = found.unless_denied(kind, listed)? {
                found.leftovers.extend(listed);
            }
        }
        let record = found.leftovers.iter().find(|leftover| leftover.is_record());
        let record = record.map(|record| record.name.clone());
        if let Some(name) = &record {
            let map = self.calls.get_config_map(name).await?;
            // A record that cannot be read says nothing of its holder.
            found.record = map.and_then(|map| Record::read_own(&map, &self.app_id).ok());
        }
        let prefix = match &record {
            Some(name) => prefix_of_record(name).map(str::to_owned),
            None => self.prefix_without_record(&found).await?,
        };
        if let Some(prefix) = prefix {
            self.look_for_lease(&prefix, &mut found).await?;
        }
        Ok(found)
    }

    /// The prefix in the name of an executor's pod, unless another application has taken it over.
    async fn prefix_without_record(&self, found: &Found) -> Result<Option<String>, Failure> {
        let mut pods = (found.leftovers.iter()).filter(|one| one.kind.resource == "pods");
        let Some((prefix, _)) = pods.find_map(|pod| pod.name.rsplit_once("-exec-")) else {
            return Ok(None);
        };
        let another = self.calls.get_config_map(&record_name(prefix)).await?;
        Ok(another.is_none().then(|| prefix.to_owned()))
    }

    async fn look_for_lease(&self, prefix: &str, found: &mut Found) -> Result<(), Failure> {
        let name = format!("{prefix}-driver");
        let lease = self.calls.get_lease(&name, REQUEST_TIMEOUT).await;
        let Some(Some(lease)) = found.unless_denied(LEASE, lease)? else {
            return Ok(());
        };
        // Before the record, which comes last.
        found.leftovers.push(Leftover {
            kind: LEASE,
            name,
            uid: lease.uid.clone(),
            deleting: false,
            labels: std::collections::BTreeMap::new(),
            owners: Vec::new(),
        });
        found.lease = Some(lease);
        Ok(())
    }
}

impl Found {
    /// What the record belongs to, as kind and name. While it exists, it may start a driver again.
    pub fn owner(&self) -> Option<&(String, String)> {
        let mut leftovers = self.leftovers.iter();
        let record = leftovers.find(|leftover| leftover.is_record());
        record.and_then(|record| record.owners.first())
    }

    /// Notes a kind that may not be looked at, and passes every other failure on.
    fn unless_denied<T>(
        &mut self,
        kind: LeftoverKind,
        answer: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.kind == FailureKind::Rights => {
                self.unseen.push(Unseen {
                    resource: kind.resource,
                    why: failure.explained().to_string(),
                });
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}
