//! The API's router: dispatches each HTTP request. It is a tower service, which a client in this process can call
//! directly.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT, WARNING};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use super::accept;
use super::call::Call;
use super::discovery;
use super::openapi;
use super::path::{Document, Target};
use super::query::Query;
use super::status::ApiError;
use super::view::Listing;
use crate::access::account;
use crate::access::attributes::Attributes;
use crate::access::auth::{self, Credentials};
use crate::access::review::Reviewer;
use crate::access::rights::{Rights, User};
use crate::access::signing;
use crate::changes::write::{Answer, Write};
use crate::objects::object::Key;
use crate::objects::resource::Resource;
use crate::storage::server::{Origin, Store};

/// The Kubernetes version of this API.
pub(crate) const VERSION: &str = concat!("v1.36.0+devcluster-", env!("CARGO_PKG_VERSION"));

/// The most warnings about dropped fields in one response.
const MAX_WARNINGS: usize = 10;

/// The state behind the request handlers.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) store: Store,
    pub(crate) credentials: Credentials,
    pub(crate) rights: Rights,
    /// The folder of container logs, if the node runs containers.
    pub(crate) logs: Option<Arc<Path>>,
}

pub(crate) fn router(api: Api) -> Router {
    Router::new().fallback(handle).with_state(api)
}

async fn handle(Shared(api): Shared<Api>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let origin = is_write(&parts).then(|| origin(&parts));
    let mut reached_store = false;
    let answer = match api.admit(&parts) {
        Ok(user) => {
            api.answer(&parts, &user, body, origin.as_ref(), &mut reached_store)
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

/// Whether a request asks for a write. Reviews are created, but not stored.
fn is_write(parts: &Parts) -> bool {
    let reviews = [
        "/apis/authorization.k8s.io/",
        "/apis/authentication.k8s.io/",
    ];
    let is_review = reviews
        .iter()
        .any(|group| parts.uri.path().starts_with(group));
    !is_review && !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Reads the rest of a refused request, so that the client can use the connection again.
async fn drain(body: Body) {
    // A body that is longer or takes longer costs the client its connection, as on real servers.
    let _ = timeout(
        Duration::from_secs(1),
        axum::body::to_bytes(body, 256 * 1024),
    )
    .await;
}

fn origin(parts: &Parts) -> Origin {
    let path = parts.uri.path_and_query().map_or("", |p| p.as_str());
    Origin {
        verb: parts.method.to_string(),
        path: path.to_owned(),
        user_agent: accept::header(&parts.headers, USER_AGENT).to_owned(),
    }
}

pub(crate) fn response(code: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn typed(code: u16, media_type: &str, body: impl Into<Body>) -> Response {
    let mut response = response(code, body);
    if let Ok(value) = HeaderValue::try_from(media_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

pub(crate) fn plain(code: u16, text: impl Into<Body>) -> Response {
    typed(code, "text/plain; charset=utf-8", text)
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
    fn admit(&self, parts: &Parts) -> Result<User, ApiError> {
        let state = self.store.state();
        let now = self.store.clock().now();
        let user = self.credentials.user(parts, &state, now)?;
        let user = auth::impersonated(parts, &state, self.rights, user)?;
        let query = Query::of(&parts.uri).unwrap_or_default();
        let wanted = Attributes::of(&parts.method, parts.uri.path(), &query);
        self.rights.check(&state, &user, &wanted)?;
        Ok(user)
    }

    async fn answer(
        &self,
        parts: &Parts,
        user: &User,
        body: Body,
        origin: Option<&Origin>,
        reached_store: &mut bool,
    ) -> Result<Response, ApiError> {
        let target = Target::of(parts.uri.path());
        let mut call = Call::read(parts, body, &target).await?;
        let reads = parts.method == Method::GET;
        match target {
            Target::Nothing => Ok(plain(404, "404 page not found\n")),
            Target::UnknownResource => Err(ApiError::unknown_resource()),
            Target::Malformed => Err(ApiError::bad_request("the path cannot be read")),
            Target::Health | Target::Version | Target::Document(_) if !reads => {
                Err(ApiError::method_not_allowed())
            }
            Target::Health => Ok(plain(200, "ok")),
            Target::Version => {
                accept::only(&parts.headers, accept::JSON)?;
                Ok(response(200, version().to_string()))
            }
            Target::Document(document) => self.document(parts, &call.query, &document),
            Target::Collection {
                resource,
                namespace,
            } if reads => {
                if call.query.flag("watch") == Some(true) {
                    self.watch(&call, resource, namespace.as_deref()).await
                } else {
                    self.list(&call, resource, namespace.as_deref()).await
                }
            }
            Target::Object { key, sub } if is_stream(&key, sub.as_deref()) => {
                let sub = sub.unwrap_or_default();
                Err(ApiError::not_implemented(format!(
                    "the embedded cluster does not serve pods/{sub}: its containers are processes on this machine, \
                     or nothing at all"
                )))
            }
            Target::Object { key, sub } if reads => self.get(&call, &key, sub.as_deref()).await,
            Target::Collection {
                resource,
                namespace,
            } => {
                let write = call.write_collection(resource, namespace)?;
                self.write(&call, write, origin, reached_store).await
            }
            Target::Review(_) if parts.method != Method::POST => {
                Err(ApiError::method_not_allowed())
            }
            Target::Review(kind) => self.review(&call, user, kind),
            Target::Object { key, sub }
                if key.resource == Resource::ServiceAccounts && sub.as_deref() == Some("token") =>
            {
                self.token(parts, &mut call, &key)
            }
            Target::Object { key, sub } => {
                let write = call.write_object(key, sub.as_deref())?;
                self.write(&call, write, origin, reached_store).await
            }
        }
    }

    fn review(&self, call: &Call<'_>, user: &User, kind: &str) -> Result<Response, ApiError> {
        let reviewer = Reviewer {
            state: &self.store.state(),
            rights: self.rights,
            credentials: &self.credentials,
            user,
            now: self.store.clock().now(),
        };
        let answer = reviewer.answer(kind, call.object_of_kind(kind)?)?;
        Ok(response(201, answer.to_string()))
    }

    fn token(
        &self,
        parts: &Parts,
        call: &mut Call<'_>,
        account: &Key,
    ) -> Result<Response, ApiError> {
        if parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let request = call.object_of_kind("TokenRequest")?;
        let (keys, state) = (self.credentials.keys(), self.store.state());
        let now = self.store.clock().now();
        let answer = account::request(keys, &state, account, &request, now)?;
        Ok(response(201, answer.to_string()))
    }

    fn document(
        &self,
        parts: &Parts,
        query: &Query,
        document: &Document,
    ) -> Result<Response, ApiError> {
        let headers = &parts.headers;
        let host = match accept::header(headers, HOST) {
            "" => "localhost",
            host => host,
        };
        let missing = || plain(404, "404 page not found\n");
        let value = match document {
            Document::Keys => {
                accept::only(headers, accept::JWK_SET)?;
                let keys = self.credentials.keys().published().to_string();
                return Ok(typed(200, accept::JWK_SET, keys));
            }
            Document::KeysConfiguration => {
                accept::only(headers, accept::JSON)?;
                return Ok(response(200, signing::configuration(host).to_string()));
            }
            Document::CoreVersions => discovery::core_versions(host),
            Document::Groups => discovery::groups(),
            Document::Resources(group) => discovery::resources(group),
            Document::OpenApiPaths => openapi::paths(),
            Document::OpenApi(group) => match openapi::document(group) {
                Some(document) => document,
                None => return Ok(missing()),
            },
        };
        accept::form(headers, query)?;
        Ok(response(200, value.to_string()))
    }

    async fn write(
        &self,
        call: &Call<'_>,
        (write, dry_run): (Write, bool),
        origin: Option<&Origin>,
        reached_store: &mut bool,
    ) -> Result<Response, ApiError> {
        let view = self.view(call)?;
        *reached_store = true;
        let mut caller = call.caller.clone();
        if let Write::Delete { key, .. } = &write {
            caller.deletes = self.store.state().get(key).cloned();
        }
        let (answer, warnings) = self
            .store
            .write_for(
                write,
                dry_run,
                Some(call.deadline),
                Some(caller),
                origin.cloned(),
            )
            .await?;
        let (code, body) = match answer {
            Answer::Object(object, new) => (if new { 201 } else { 200 }, view.object(&object)),
            Answer::Status(code, status) => (code, status.to_string().into()),
            Answer::Deleted {
                resource,
                version,
                objects,
            } => {
                let listing = Listing {
                    resource,
                    version,
                    objects: &objects,
                    token: None,
                    remaining: None,
                };
                (200, view.list(&listing))
            }
        };
        let mut response = response(code, body);
        for warning in call.warnings.iter().chain(&warnings).take(MAX_WARNINGS) {
            if let Ok(warning) = HeaderValue::try_from(warning_header(warning)) {
                response.headers_mut().append(WARNING, warning);
            }
        }
        Ok(response)
    }
}

/// A `Warning` header; characters that headers must not contain are dropped.
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

/// Whether this subresource is a stream into a running container.
fn is_stream(key: &Key, sub: Option<&str>) -> bool {
    key.resource == Resource::Pods
        && matches!(sub, Some("attach" | "exec" | "portforward" | "proxy"))
}

fn version() -> Value {
    serde_json::json!({
        "major": "1",
        "minor": "36",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
    })
}
