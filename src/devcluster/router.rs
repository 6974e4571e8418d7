//! The API over HTTP: an axum router, which is also a tower service that a client in this process can call.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::auth::Credentials;
use super::call::Call;
use super::list::{self, List};
use super::logs::Log;
use super::object::Key;
use super::path::Target;
use super::resource::Resource;
use super::server::{Origin, Store};
use super::status::ApiError;
use super::store::State;
use super::watch::Watch;
use super::write::{Answer, Write};

/// A client is warned of so many fields that were dropped; one that has more has seen enough.
const MAX_WARNINGS: usize = 10;

/// How long a list waits for a version that is yet to come.
const WAIT_FOR_VERSION: Duration = Duration::from_secs(3);

/// What answers requests.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) store: Store,
    pub(super) credentials: Credentials,
    /// Where the node keeps what containers write, if it runs any.
    pub(super) logs: Option<Arc<Path>>,
}

/// The router.
pub(super) fn router(api: Api) -> Router {
    Router::new().fallback(handle).with_state(api)
}

async fn handle(Shared(api): Shared<Api>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let is_write = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let origin = is_write.then(|| origin(&parts));
    let mut reached_store = false;
    let answer = match api.credentials.check(&parts, &Target::of(parts.uri.path())) {
        Ok(()) => {
            api.answer(&parts, body, origin.as_ref(), &mut reached_store)
                .await
        }
        Err(error) => {
            drain(body).await;
            Err(error)
        }
    };
    let response = answer.unwrap_or_else(|error| status(&error));
    if let Some(origin) = origin
        && !reached_store
    {
        api.store.refused(origin, response.status().as_u16()).await;
    }
    response
}

/// Lets a refused client finish what it was saying, so that the connection can be used again.
async fn drain(body: Body) {
    // What is longer than this, or takes longer, costs the client its connection, as on real servers.
    let _ = timeout(
        Duration::from_secs(1),
        axum::body::to_bytes(body, 256 * 1024),
    )
    .await;
}

fn origin(parts: &Parts) -> Origin {
    let path = parts.uri.path_and_query().map_or("", |p| p.as_str());
    let agent = parts
        .headers
        .get(USER_AGENT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    Origin {
        verb: parts.method.to_string(),
        path: path.to_owned(),
        user_agent: agent.to_owned(),
    }
}

fn response(code: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn plain(code: u16, text: &'static str) -> Response {
    let mut response = response(code, text);
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn status(error: &ApiError) -> Response {
    let mut response = response(error.code, error.to_value().to_string());
    if let Some(seconds) = error.retry_after() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

impl Api {
    async fn answer(
        &self,
        parts: &Parts,
        body: Body,
        origin: Option<&Origin>,
        reached_store: &mut bool,
    ) -> Result<Response, ApiError> {
        let mut call = Call::read(parts, body).await?;
        let target = Target::of(parts.uri.path());
        match target {
            Target::Nothing => Ok(plain(404, "404 page not found\n")),
            Target::UnknownResource => Err(ApiError::unknown_resource()),
            Target::Malformed => Err(ApiError::bad_request("the path cannot be read")),
            Target::Health | Target::Version if parts.method != Method::GET => {
                Err(ApiError::method_not_allowed())
            }
            Target::Health => Ok(plain(200, "ok")),
            Target::Version => Ok(response(200, version().to_string())),
            Target::OldWatch { .. } if parts.method != Method::GET => {
                Err(ApiError::method_not_allowed())
            }
            Target::OldWatch {
                resource,
                namespace,
                name,
            } => {
                self.watch(&call, resource, namespace.as_deref(), name.as_deref())
                    .await
            }
            Target::Collection {
                resource,
                namespace,
            } if parts.method == Method::GET => {
                if call.query.flag("watch") == Some(true) {
                    self.watch(&call, resource, namespace.as_deref(), None)
                        .await
                } else {
                    self.list(&call, resource, namespace.as_deref()).await
                }
            }
            Target::Object { key, sub } if parts.method == Method::GET => {
                self.get(&call, &key, sub.as_deref()).await
            }
            Target::Collection {
                resource,
                namespace,
            } => {
                let write = call.write_collection(resource, namespace)?;
                self.write(&call, write, origin, reached_store).await
            }
            Target::Object { key, sub } => {
                let write = call.write_object(key, sub.as_deref())?;
                self.write(&call, write, origin, reached_store).await
            }
        }
    }

    /// The state once it has reached a version, or the error after a while.
    async fn state_at_least(&self, version: u64) -> Result<State, ApiError> {
        let mut published = self.store.published();
        let reached = timeout(
            WAIT_FOR_VERSION,
            published.wait_for(|p| p.state.resource_version() >= version),
        )
        .await;
        match reached {
            Ok(Ok(now)) => return Ok(now.state.clone()),
            Ok(Err(_)) => return Err(ApiError::stopping()),
            Err(_) => {}
        }
        let current = self.store.state().resource_version();
        Err(ApiError::version_too_large(version, current))
    }

    async fn list(
        &self,
        call: &Call<'_>,
        resource: Resource,
        namespace: Option<&str>,
    ) -> Result<Response, ApiError> {
        call.accepts_json()?;
        let list = List::parse(resource, namespace, &call.query)?;
        let state = self.state_at_least(list.needs()).await?;
        Ok(response(200, list.answer(&state)?))
    }

    async fn get(
        &self,
        call: &Call<'_>,
        key: &Key,
        sub: Option<&str>,
    ) -> Result<Response, ApiError> {
        if sub == Some("log") && key.resource == Resource::Pods {
            return self.log(call, key).await;
        }
        call.accepts_json()?;
        if !matches!(sub, None | Some("status"))
            || (sub.is_some() && !key.resource.traits().has_status)
        {
            return Err(match call.is_known_subresource(key, sub) {
                true => ApiError::method_not_allowed(),
                false => ApiError::unknown_resource(),
            });
        }
        let version = call.query.text("resourceVersion");
        let needed = match version {
            "" => 0,
            version => version.parse().map_err(|_| {
                ApiError::bad_request(format!(
                    "resourceVersion: Invalid value: {}",
                    Value::from(version)
                ))
            })?,
        };
        let object = self.state_at_least(needed).await?.existing(key)?;
        Ok(response(200, object.encoded().clone()))
    }

    async fn log(&self, call: &Call<'_>, key: &Key) -> Result<Response, ApiError> {
        let pod = self.store.state().existing(key)?;
        let log = Log::parse(
            &pod,
            &call.query,
            self.logs.as_deref(),
            self.store.published(),
        )?;
        let mut response = plain(200, "");
        *response.body_mut() = Body::from_stream(log.open().await?);
        Ok(response)
    }

    async fn watch(
        &self,
        call: &Call<'_>,
        resource: Resource,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Response, ApiError> {
        call.accepts_json()?;
        let mut watch = Watch::parse(resource, namespace, &call.query)?;
        if let Some(name) = name {
            watch = watch.named(name);
        }
        self.state_at_least(watch.needs()).await?;
        let watcher = watch.start(self.store.published());
        let lines = stream::unfold(watcher, |mut watcher| async move {
            let lines = watcher.next().await?;
            Some((Ok::<Bytes, Infallible>(lines), watcher))
        });
        Ok(response(200, Body::from_stream(lines)))
    }

    async fn write(
        &self,
        call: &Call<'_>,
        (write, dry_run): (Write, bool),
        origin: Option<&Origin>,
        reached_store: &mut bool,
    ) -> Result<Response, ApiError> {
        call.accepts_json()?;
        *reached_store = true;
        let (answer, warnings) = self
            .store
            .write_for(
                write,
                dry_run,
                Some(call.deadline),
                Some(call.caller.clone()),
                origin.cloned(),
            )
            .await?;
        let mut response = match answer {
            Answer::Object(object, new) => {
                response(if new { 201 } else { 200 }, object.encoded().clone())
            }
            Answer::Status(code, status) => response(code, status.to_string()),
            Answer::Deleted {
                resource,
                version,
                objects,
            } => response(200, list::encode(resource, version, &objects, None, None)),
        };
        for warning in call.warnings.iter().chain(&warnings).take(MAX_WARNINGS) {
            if let Ok(warning) = HeaderValue::try_from(warning_header(warning)) {
                response.headers_mut().append(WARNING, warning);
            }
        }
        Ok(response)
    }
}

/// A warning as a header has it, without what no header may have.
fn warning_header(warning: &str) -> String {
    let mut header = String::from("299 - \"");
    for c in warning.chars().filter(|c| (' '..='~').contains(c)) {
        if matches!(c, '"' | '\\') {
            header.push('\\');
        }
        header.push(c);
    }
    header.push('"');
    header
}

fn version() -> Value {
    serde_json::json!({
        "major": "1",
        "minor": "35",
        "gitVersion": concat!("v1.35.0+boatswain-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}
