//! Finds an application's driver in a cluster, and what a client of its API needs to reach it (spec O-124).

use kube::Client;

use crate::config::{Config, ConfigError};
use crate::kubernetes::calls::Application;
pub use crate::kubernetes::driver_pod::DriverPod;
use crate::kubernetes::owned_resources::config_map_name;
use crate::kubernetes::{Calls, ConnectError, Failure, Record};
use crate::model::AppId;
use crate::server::api::tokens::{Tokens, TokensError};

use super::applications::{NotNamed, id_of};
use super::clean::Place;
use super::owned_resources::CA;

/// A driver whose API can be reached through its pod.
pub struct Located {
    pub pod: DriverPod,
    pub port: u16,
    pub has_tls: bool,
    /// The first token of its token file, if that is in a Secret.
    pub token: Option<String>,
    /// The CA of its certificate, in PEM, if the driver hands one to executors.
    pub ca: Option<String>,
}

/// Why no driver was found.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error("{0}\nlook at --kubeconfig and --context")]
    Connect(#[from] ConnectError),
    #[error("{}", .0.explained())]
    Call(Failure),
    #[error("{0}")]
    NotNamed(#[from] NotNamed),
    #[error(
        "no driver of application {app} runs in a pod of namespace {namespace}\nlook at --app and --namespace; a driver outside the cluster is reached with --server"
    )]
    None { app: String, namespace: String },
    #[error(
        "pod {pod} reads its configuration from no ConfigMap that it mounts\nforward its port with kubectl port-forward, and use --server"
    )]
    Unknown { pod: String },
    #[error("pod {pod} has a configuration that this version of boatswain cannot read: {why}")]
    Configuration { pod: String, why: Box<ConfigError> },
    #[error("the API of the driver in pod {pod} is off\nset api.listen in its configuration")]
    Closed { pod: String },
    #[error("the driver's tokens cannot be used: {0}")]
    Tokens(#[from] TokensError),
}

impl From<Failure> for LocateError {
    fn from(failure: Failure) -> Self {
        Self::Call(failure)
    }
}

/// Finds the driver by the application's record, and reads its configuration. The token is only read if `wants_token`.
///
/// # Errors
/// If there is no driver whose API can be reached, or a right is missing.
pub async fn locate(place: Place, wants_token: bool) -> Result<Located, LocateError> {
    let given = place.app.clone();
    let (calls, client) = place.connect().await?;
    let all = calls.list_applications(false).await?;
    let app = AppId::from(id_of(&given, calls.namespace(), &all)?.as_str());
    let application = all.into_iter().find(|one| one.id == app.as_str());
    let Some(pod) = holder(&calls, client, application).await? else {
        return Err(LocateError::None {
            app: app.to_string(),
            namespace: calls.namespace().to_owned(),
        });
    };
    let name = || pod.name().to_owned();
    let Some(given) = pod.configuration(&calls).await? else {
        return Err(LocateError::Unknown { pod: name() });
    };
    let config = Config::from_toml(&given.text, &given.file, given.env, &given.sets);
    let config = config.map_err(|why| LocateError::Configuration {
        pod: name(),
        why: Box::new(why),
    })?;
    let Some(listen) = config.api.listen else {
        return Err(LocateError::Closed { pod: name() });
    };
    let has_tls = config.tls.is_on() && !config.api.plain_http;
    let ca = match has_tls {
        true => ca_of(&calls, &config).await?,
        false => None,
    };
    let tokens = match config.api.token_file.filter(|_| wants_token) {
        Some(path) => pod.secret(&path).await?,
        None => None,
    };
    let tokens = tokens.map(|text| Tokens::parse(&text, "the driver's Secret"));
    Ok(Located {
        port: listen.port(),
        has_tls,
        ca,
        token: tokens.transpose()?.map(|tokens| tokens.first().to_owned()),
        pod,
    })
}

/// The CA that executors are told to trust (spec K-8).
async fn ca_of(calls: &Calls, config: &Config) -> Result<Option<String>, Failure> {
    let name = config_map_name(&config.pod_name_prefix());
    let map = calls.get_config_map(&name).await?;
    Ok(map.and_then(|map| map.data.get(CA).cloned()))
}

/// The pod of the driver that holds the record, if it has not ended.
async fn holder(
    calls: &Calls,
    client: Client,
    application: Option<Application>,
) -> Result<Option<DriverPod>, Failure> {
    let record = application.and_then(|application| application.record.ok());
    let Some((name, uid)) = record.as_ref().and_then(Record::driver_pod) else {
        return Ok(None);
    };
    let pod = DriverPod::read(client, calls.namespace(), name).await?;
    Ok(pod.filter(|pod| pod.is_alive(uid)))
}
