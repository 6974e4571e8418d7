//! The bearer token of a client: from a file, or from a credential plugin (spec ).
//!
//! kube reads token files on the thread that sends the request, and waits for a plugin and its output without a limit.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use boatswain_agent::file;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kube::config::{AuthInfo, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::client::ConnectError;

/// How long a plugin may take. It may ask its provider over the network, or a person.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The most that a plugin may write to standard output or error, in bytes.
const PLUGIN_OUTPUT: u64 = 1024 * 1024;

/// How often a token file is read, and the age of a plugin's token is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A plugin's token is replaced this long before it expires.
const BEFORE_EXPIRY: SignedDuration = SignedDuration::from_secs(60);

/// The `Authorization` header of requests. All copies have the newest one.
pub(super) type Bearer = watch::Receiver<HeaderValue>;

/// Where the token comes from.
#[derive(Clone)]
enum Source {
    File(PathBuf),
    Plugin(Box<ExecConfig>),
}

/// A token, and when it expires.
struct Token {
    header: HeaderValue,
    expires: Option<Timestamp>,
}

/// What a plugin gave.
enum Given {
    Token(Token),
    Certificate { certificate: String, key: String },
}

/// Takes token file and plugin out of the user's settings, so that kube reads neither, and reads them. A certificate of a
/// plugin is put into the settings. `None` if there is no such token.
///
/// # Errors
/// The file or the plugin gives none.
pub(super) async fn take_bearer(user: &mut AuthInfo) -> Result<Option<Bearer>, ConnectError> {
    if let Some(provider) = user.auth_provider.as_ref()
        && provider.config.contains_key("cmd-path")
    {
        return Err(ConnectError(
            "the kubeconfig's auth-provider runs a program, as kubectl does no more since 1.26: replace it by exec"
                .to_owned(),
        ));
    }
    // The order is kube's and kubectl's.
    let has_basic = user.username.is_some() && user.password.is_some();
    if user.auth_provider.is_some() || has_basic || user.token.is_some() {
        (user.token_file, user.exec) = (None, None);
        return Ok(None);
    }
    let plugin = user.exec.take();
    let (source, token) = if let Some(path) = user.token_file.take().map(PathBuf::from) {
        let reading = path.clone();
        let token = aside(move || of_file(&reading)).await?;
        (Source::File(path), token)
    } else if let Some(plugin) = plugin {
        match run(&plugin).await? {
            Given::Token(token) => (Source::Plugin(Box::new(plugin)), token),
            Given::Certificate { certificate, key } => {
                (user.client_certificate, user.client_key) = (None, None);
                user.client_certificate_data = Some(encoded(&certificate));
                user.client_key_data = Some(encoded(&key).into());
                return Ok(None);
            }
        }
    } else {
        return Ok(None);
    };
    let (sent, bearer) = watch::channel(token.header);
    // A plugin whose token does not expire runs again only with the clients (spec A-22).
    if matches!(source, Source::File(_)) || token.expires.is_some() {
        tokio::spawn(keep_fresh(source, token.expires, sent));
    }
    Ok(Some(bearer))
}

/// As [`file::aside`].
pub(super) async fn aside<T: Send + 'static>(
    reading: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    let read = file::aside(reading).await;
    read.unwrap_or_else(|why| {
        Err(ConnectError(format!(
            "the credentials cannot be read: {why}"
        )))
    })
}

fn encoded(pem: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(pem)
}

/// Replaces the token before it expires, until nobody uses it. One that cannot be had leaves the earlier one in use.
async fn keep_fresh(
    source: Source,
    mut expires: Option<Timestamp>,
    sent: watch::Sender<HeaderValue>,
) {
    let mut failed = false;
    loop {
        tokio::select! {
            biased;
            () = sent.closed() => return,
            () = sleep(LOOK_EVERY) => {}
        }
        if expires.is_some_and(|expires| Timestamp::now() + BEFORE_EXPIRY < expires) {
            continue;
        }
        match read_again(&source).await {
            Ok(token) => {
                (failed, expires) = (false, token.expires);
                sent.send_replace(token.header);
            }
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "no new token for the API server: the earlier one stays in use");
            }
            Err(error) => tracing::debug!(%error, "no new token for the API server"),
        }
    }
}

async fn read_again(source: &Source) -> Result<Token, ConnectError> {
    match source.clone() {
        Source::File(path) => {
            let reading = path.clone();
            let read = file::patiently(&path, move || of_file(&reading)).await;
            read.unwrap_or_else(|| Err(ConnectError("the driver ends".to_owned())))
        }
        Source::Plugin(plugin) => match run(&plugin).await? {
            Given::Token(token) => Ok(token),
            Given::Certificate { .. } => Err(ConnectError(
                "the credential plugin gives a certificate now, and gave a token before".to_owned(),
            )),
        },
    }
}

fn of_file(path: &std::path::Path) -> Result<Token, ConnectError> {
    let text = file::read_text(path).map_err(|why| {
        let path = path.display();
        ConnectError(format!("the token file {path} cannot be read: {why}"))
    })?;
    let unusable = || {
        let path = path.display();
        ConnectError(format!(
            "the token file {path} has no token: write one to it"
        ))
    };
    let header = header(&text).ok_or_else(unusable)?;
    Ok(Token {
        header,
        expires: None,
    })
}

/// `None` if this is no token.
fn header(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    (!token.is_empty()).then_some(value)
}

/// The object by which plugins are asked and by which they answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    kind: Option<String>,
    api_version: Option<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    #[serde(skip_serializing)]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Spec {
    interactive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ExecAuthCluster>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs a plugin. What it prints is in no error, because it may be a token.
async fn run(plugin: &ExecConfig) -> Result<Given, ConnectError> {
    let name = plugin.command.as_deref().unwrap_or_default();
    let failed = |why: String| ConnectError(format!("the credential plugin {name} {why}"));
    let printed = match timeout(PLUGIN_TIMEOUT, output(plugin)).await {
        Ok(printed) => printed.map_err(failed)?,
        Err(_) => {
            let limit = PLUGIN_TIMEOUT.as_secs();
            return Err(failed(format!(
                "did not end within {limit} s: try it in a shell"
            )));
        }
    };
    // Some plugins print YAML, which kubectl reads too.
    let credential: ExecCredential = serde_saphyr::from_slice(&printed)
        .map_err(|_| failed("printed no ExecCredential".to_owned()))?;
    let status = credential.status;
    let status =
        status.ok_or_else(|| failed("printed an ExecCredential without status".to_owned()))?;
    if let (Some(certificate), Some(key)) = (status.client_certificate_data, status.client_key_data)
    {
        return Ok(Given::Certificate { certificate, key });
    }
    let token = status.token.as_deref().and_then(header);
    let expires = status.expiration_timestamp.map(|time| time.parse());
    Ok(Given::Token(Token {
        header: token.ok_or_else(|| failed("gave neither a token nor a certificate".to_owned()))?,
        expires: expires
            .transpose()
            .map_err(|_| failed("printed an expirationTimestamp that is no time".to_owned()))?,
    }))
}

/// What a plugin prints; or why there is nothing. It is killed if this is dropped.
async fn output(plugin: &ExecConfig) -> Result<Vec<u8>, String> {
    let mut command = command(plugin)?;
    // The program too may be on a mount that hangs.
    let child = file::aside(move || command.spawn()).await.flatten();
    let mut child = child.map_err(|error| format!("does not start: {error}"))?;
    let (printed, _) =
        tokio::try_join!(bounded(child.stdout.take()), bounded(child.stderr.take()))?;
    match child.wait().await {
        Ok(status) if status.success() => Ok(printed),
        Ok(status) => Err(format!("ended with {status}")),
        Err(error) => Err(format!("cannot be waited for: {error}")),
    }
}

fn command(plugin: &ExecConfig) -> Result<Command, String> {
    let program = plugin.command.as_deref().ok_or("has no command")?;
    let mut command = Command::new(program);
    command.args(plugin.args.iter().flatten());
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let interactive = plugin.interactive_mode != Some(ExecInteractiveMode::Never);
    let cluster = plugin
        .cluster
        .clone()
        .filter(|_| plugin.provide_cluster_info);
    let asked = ExecCredential {
        kind: Some("ExecCredential".to_owned()),
        api_version: plugin.api_version.clone(),
        spec: Some(Spec {
            interactive,
            cluster,
        }),
        status: None,
    };
    let asked = serde_json::to_string(&asked).map_err(|error| error.to_string())?;
    command.env("KUBERNETES_EXEC_INFO", asked);
    let (stdin, stderr) = match interactive {
        true => (Stdio::inherit(), Stdio::inherit()),
        false => (Stdio::null(), Stdio::piped()),
    };
    command.stdin(stdin).stderr(stderr).stdout(Stdio::piped());
    command.kill_on_drop(true);
    Ok(command)
}

/// All that a plugin writes there.
async fn bounded(from: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let read = from.take(PLUGIN_OUTPUT + 1).read_to_end(&mut bytes).await;
        read.map_err(|error| format!("cannot be heard: {error}"))?;
    }
    match bytes.len() as u64 > PLUGIN_OUTPUT {
        true => Err("wrote more than 1 MiB".to_owned()),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;
