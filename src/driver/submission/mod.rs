//! Runs a Spark application in the cluster: `boatswain spark-submit` (spec O-139).

mod objects;
mod state;

use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::config::spark::{Master, Submission};
use crate::exit::Exit;
use crate::kubernetes::calls::{LogLines, LogPart};
use crate::kubernetes::owned_resources::config_map_name;
use crate::kubernetes::secret::{self, SecretError};
use crate::kubernetes::{Calls, ConnectError, Failure, FailureKind, LabelScheme};
use crate::model::PodUid;

use super::clean::{Place, exit_of};
use super::owned_resources::CA;
use objects::objects;

pub use objects::CONTAINER;
pub use state::Seen;

/// How long the pod may take to end before its Job counts as not deleted. A pod has 30 s for it, unless its profile says
/// otherwise.
const END_LIMIT: Duration = Duration::from_secs(120);

/// How long an API server may be away while an application is submitted.
const OUTAGE_LIMIT: Duration = Duration::from_secs(30);

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The hexadecimal digits that make a name unique.
const DIGITS: usize = 8;

/// The longest part of the application's name that is used.
const LONGEST_NAME: usize = 40;

/// Why an application does not run.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("{0}\nlook at the kubeconfig and spark.kubernetes.context")]
    Connect(#[from] ConnectError),
    #[error("{}", .0.explained())]
    Call(Failure),
    #[error(
        "there is no Service {service} in namespace {namespace}: a driver with backend.listen and \
         backend.service_selector makes it\nlook at --master"
    )]
    NoService { service: String, namespace: String },
    #[error(
        "Service {service} in namespace {namespace} is none that a driver of boatswain's has made, which is called \
         PREFIX-driver\nlook at --master"
    )]
    Foreign { service: String, namespace: String },
    #[error("the Spark driver's {resource} request, {request}, is above the limit, {limit}")]
    RequestAboveLimit {
        resource: String,
        request: String,
        limit: String,
    },
    #[error("{cause}\njob/{name} may be left: {why}")]
    Left {
        name: String,
        /// Why not all objects are there.
        cause: String,
        why: String,
    },
    #[error("no name can be made: {0}")]
    Name(#[from] SecretError),
}

impl From<(String, String, String)> for SubmitError {
    fn from((resource, request, limit): (String, String, String)) -> Self {
        Self::RequestAboveLimit {
            resource,
            request,
            limit,
        }
    }
}

impl From<Failure> for SubmitError {
    fn from(failure: Failure) -> Self {
        Self::Call(failure)
    }
}

impl SubmitError {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Connect(_) | Self::RequestAboveLimit { .. } => Exit::Configuration,
            Self::Call(failure) => exit_of(failure),
            Self::Left { .. } => Exit::Unreachable,
            Self::NoService { .. } | Self::Foreign { .. } => Exit::Refused,
            Self::Name(_) => Exit::Bug,
        }
    }
}

/// The boatswain that an application gets its executors from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Boatswain {
    namespace: String,
    /// What its objects' names begin with.
    prefix: String,
    ca: Ca,
}

/// Where the CA's certificate is that boatswain's leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ca {
    /// In the image.
    None,
    Text(String),
    /// In the ConfigMap of boatswain's executors, in the same namespace.
    ConfigMap(String),
}

/// The objects of an application with this name, for `kubectl apply`. The boatswain is taken to have a CA of its own if it
/// is in the same namespace.
///
/// # Errors
/// If the Spark driver's pod would be refused, or the Service is no boatswain's.
pub fn manifests(submission: &Submission, name: &str) -> Result<Vec<Value>, SubmitError> {
    let of_boatswain = &submission.master.namespace;
    let namespace = submission.namespace.as_ref().unwrap_or(of_boatswain);
    let prefix = prefix(submission)?;
    let boatswain = Boatswain {
        namespace: of_boatswain.clone(),
        prefix: prefix.to_owned(),
        ca: match namespace == of_boatswain {
            true => Ca::ConfigMap(config_map_name(prefix)),
            false => Ca::None,
        },
    };
    Ok(objects(submission, name, namespace, &boatswain)?.all())
}

/// An application in the cluster.
pub struct Submitted {
    calls: Calls,
    name: String,
    uid: PodUid,
}

/// Creates the application's objects. All belong to its Job, and go with it.
///
/// # Errors
/// If they are not there. Nothing is left then, unless the API server is away.
pub async fn submit(submission: &Submission) -> Result<Submitted, SubmitError> {
    let place = Place {
        app: String::new(),
        namespace: submission.namespace.clone(),
        kubeconfig: None,
        context: submission.context.clone(),
    };
    let (calls, _): (_, Client) = place.connect().await?;
    let boatswain = boatswain(submission, &calls).await?;
    let name = name(&submission.name, &secret::make()?);
    let wanted = objects(submission, &name, calls.namespace(), &boatswain)?;
    let made = while_away(async || calls.create_job(&name, &wanted.job).await).await;
    let uid = made.map_err(|failure| match failure.kind.is_outage() {
        true => SubmitError::Left {
            name: name.clone(),
            cause: failure.explained().to_string(),
            why: "the answer to its creation was lost".to_owned(),
        },
        false => failure.into(),
    })?;
    let submitted = Submitted { calls, name, uid };
    for (resource, object) in wanted.owned(&submitted.name, &submitted.uid) {
        let create = async || submitted.calls.create_object(resource, &object).await;
        if let Err(failure) = while_away(create).await {
            // Its pod could never start.
            return Err(match submitted.delete().await {
                Ok(()) => failure.into(),
                Err(why) => SubmitError::Left {
                    name: submitted.name,
                    cause: failure.explained().to_string(),
                    why,
                },
            });
        }
    }
    Ok(submitted)
}

/// Makes a call that may be repeated, again and again while the API server is away, but not for ever.
async fn while_away<T>(call: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
    let began = Instant::now();
    loop {
        match call().await {
            Err(failure) if failure.kind.is_outage() && began.elapsed() < OUTAGE_LIMIT => {
                sleep(BETWEEN_LOOKS).await;
            }
            answered => return answered,
        }
    }
}

/// What a boatswain's objects begin with, by the name of its Service.
fn prefix(submission: &Submission) -> Result<&str, SubmitError> {
    let prefix = submission.master.service.strip_suffix("-driver");
    prefix.ok_or_else(|| foreign(submission))
}

fn foreign(submission: &Submission) -> SubmitError {
    let Master { service, namespace } = submission.master.clone();
    SubmitError::Foreign { service, namespace }
}

/// Finds out what the Service belongs to.
async fn boatswain(submission: &Submission, calls: &Calls) -> Result<Boatswain, SubmitError> {
    let Master { service, namespace } = submission.master.clone();
    let calls = calls.clone().in_namespace(&namespace);
    let Some(found) = calls.get_object("services", &service).await? else {
        return Err(SubmitError::NoService { service, namespace });
    };
    let prefix = prefix(submission)?.to_owned();
    let labels = &found["metadata"]["labels"];
    if [LabelScheme::Boatswain, LabelScheme::Spark]
        .iter()
        .all(|scheme| labels[scheme.keys().app_id].is_null())
    {
        return Err(foreign(submission));
    }
    let map = config_map_name(&prefix);
    let map = calls.get_config_map(&map).await?;
    let ca = map.and_then(|mut map| map.data.remove(CA));
    Ok(Boatswain {
        namespace,
        prefix,
        ca: ca.map_or(Ca::None, Ca::Text),
    })
}

/// A name for all objects of an application, which can be the first label of a host's name.
fn name(of_app: &str, random: &str) -> String {
    let mut name = String::new();
    for c in of_app.chars().take(LONGEST_NAME) {
        match c.is_ascii_alphanumeric() {
            true => name.push(c.to_ascii_lowercase()),
            false if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            false => {}
        }
    }
    // A Service's name begins with a letter.
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "spark-");
    }
    let random: String = random.chars().take(DIGITS).collect();
    format!("{}-{random}", name.trim_end_matches('-'))
}

impl Submitted {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn namespace(&self) -> &str {
        self.calls.namespace()
    }

    /// Where the application is.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses.
    pub async fn look(&self) -> Result<Seen, Failure> {
        match self.seen().await {
            // An application may run for longer than a token is valid.
            Err(failure) if failure.kind == FailureKind::Credentials => {
                match self.calls.renew_credentials().await {
                    Ok(true) => self.seen().await,
                    _ => Err(failure),
                }
            }
            seen => seen,
        }
    }

    async fn seen(&self) -> Result<Seen, Failure> {
        // In this order: a Job that has ended has no pod to come.
        let job = self.calls.get_job(&self.name).await?;
        let job = job.filter(|job| job.metadata.uid.as_deref() == Some(self.uid.as_str()));
        let pods = self.calls.pods_of_job(&self.name).await?;
        Ok(state::seen(job.as_ref(), &pods))
    }

    /// Opens the Spark driver's log.
    ///
    /// # Errors
    /// If there is none.
    pub async fn log(&self, pod: &str, part: LogPart) -> Result<LogLines, Failure> {
        self.calls.log(pod, part).await
    }

    /// Deletes the application's objects, and waits until its pod is gone. A failed try is repeated.
    ///
    /// # Errors
    /// Why it may still be there, after two minutes or if it is refused.
    pub async fn delete(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let why = match self.deleted().await {
                Ok(true) => return Ok(()),
                Ok(false) => "its pod has not ended yet".to_owned(),
                Err(failure) if !failure.kind.is_outage() => {
                    return Err(failure.explained().to_string());
                }
                Err(failure) => failure.explained().to_string(),
            };
            if began.elapsed() >= END_LIMIT {
                return Err(why);
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    async fn deleted(&self) -> Result<bool, Failure> {
        self.calls.delete_job(&self.name, &self.uid).await?;
        Ok(state::have_ended(
            &self.calls.pods_of_job(&self.name).await?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-139
    #[test]
    fn the_name_begins_with_the_application_s_and_can_be_a_host_s() {
        for (app, expected) in [
            ("Word count", "word-count-01234567"),
            ("org.example.Main$", "org-example-main-01234567"),
            ("7 days", "spark-7-days-01234567"),
            ("日本", "spark-01234567"),
            ("", "spark-01234567"),
        ] {
            assert_eq!(name(app, "0123456789abcdef"), expected);
        }
        let long = name(&"x".repeat(300), "0123456789abcdef");
        assert!(crate::config::is_dns_label(&long, 63), "{long}");
    }
}
