//! The API over HTTP: an axum router, which is also a tower service that a client in this process can call.

use std::convert::Infallible;
use std::error::Error as _;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::auth::Credentials;
use super::decode;
use super::delete::DeleteOptions;
use super::list::{self, List};
use super::object::{Key, text};
use super::patch::{PATCH_TYPES, PatchKind};
use super::path::Target;
use super::query::Query;
use super::resource::Resource;
use super::server::{Origin, Store};
use super::status::ApiError;
use super::store::State;
use super::watch::Watch;
use super::write::{Answer, Part, Write, refuse_unknown};

/// The largest body taken, as on real servers.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// How long a list waits for a version that is yet to come.
const WAIT_FOR_VERSION: Duration = Duration::from_secs(3);

/// How long any request but a watch may take, where the client does not say less.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What answers requests.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) store: Store,
    pub(super) credentials: Credentials,
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

/// A request, read as far as its head goes.
struct Call<'a> {
    parts: &'a Parts,
    query: Query,
    body: Bytes,
    deadline: Instant,
}

async fn read(body: Body, deadline: Instant) -> Result<Bytes, ApiError> {
    match tokio::time::timeout_at(deadline, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let too_large = error
                .source()
                .is_some_and(|e| e.is::<http_body_util::LengthLimitError>());
            Err(if too_large {
                ApiError::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
            } else {
                ApiError::bad_request("the body broke off")
            })
        }
        Err(_) => Err(ApiError::deadline_passed()),
    }
}

impl Api {
    async fn answer(
        &self,
        parts: &Parts,
        body: Body,
        origin: Option<&Origin>,
        reached_store: &mut bool,
    ) -> Result<Response, ApiError> {
        let began = Instant::now();
        let query = Query::of(&parts.uri);
        let asked = query
            .as_ref()
            .ok()
            .and_then(|query| query.timeout().ok().flatten());
        let deadline = began + asked.map_or(REQUEST_TIMEOUT, |asked| asked.min(REQUEST_TIMEOUT));
        // Read even if it is not wanted: what is left of it would be taken for the next request.
        let body = read(body, deadline).await?;
        let query = query?;
        query.timeout()?;
        let call = Call {
            parts,
            query,
            body,
            deadline,
        };
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
        let answer = self
            .store
            .write_for(write, dry_run, Some(call.deadline), origin.cloned())
            .await?;
        Ok(match answer {
            Answer::Object(object, new) => {
                response(if new { 201 } else { 200 }, object.encoded().clone())
            }
            Answer::Status(code, status) => response(code, status.to_string()),
            Answer::Deleted {
                resource,
                version,
                objects,
            } => response(200, list::encode(resource, version, &objects, None, None)),
        })
    }
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

impl Call<'_> {
    /// Whether the client takes JSON, the only form served.
    fn accepts_json(&self) -> Result<(), ApiError> {
        let mut any = false;
        for header in self.parts.headers.get_all(ACCEPT) {
            for media in header.to_str().unwrap_or_default().split(',') {
                let kind = media.split(';').next().unwrap_or_default().trim();
                if matches!(kind, "application/json" | "application/*" | "*/*" | "") {
                    return Ok(());
                }
                any = true;
            }
        }
        if any {
            Err(ApiError::not_acceptable())
        } else {
            Ok(())
        }
    }

    fn content_type(&self) -> &str {
        let header = self
            .parts
            .headers
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        header.split(';').next().unwrap_or_default().trim()
    }

    /// A body of JSON under any name that covers it; what is YAML only is told apart when it is parsed.
    fn takes_json_body(&self) -> Result<(), ApiError> {
        match self.content_type() {
            "" | "application/json" | "application/yaml" => Ok(()),
            _ => Err(ApiError::unsupported_media_type(&[
                "application/json",
                "application/yaml",
            ])),
        }
    }

    fn is_known_subresource(&self, key: &Key, sub: Option<&str>) -> bool {
        key.resource == Resource::Pods && matches!(sub, Some("binding" | "eviction"))
    }

    /// The object in the body, as its type has it.
    fn object(&self, resource: Resource) -> Result<Value, ApiError> {
        let kind = resource.traits().kind;
        self.takes_json_body()?;
        let strict = self.query.strict("CreateOptions")?;
        let decoded = decode::object(resource, decode::parse(kind, &self.body)?)?;
        if strict {
            refuse_unknown(&decoded.unknown)?;
        }
        Ok(decoded.object)
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        if !self.body.is_empty() {
            self.takes_json_body()?;
            let value = decode::parse("DeleteOptions", &self.body)?;
            let mut options = DeleteOptions::from_value(&value)?;
            options.dry_run |= self.query.dry_run("DeleteOptions")?;
            return Ok(options);
        }
        let mut options = DeleteOptions {
            grace: self.query.number("gracePeriodSeconds")?,
            dry_run: self.query.dry_run("DeleteOptions")?,
            ..DeleteOptions::default()
        };
        match self.query.text("propagationPolicy") {
            "" => {}
            policy => options.set_propagation(policy)?,
        }
        if let Some(orphan) = self.query.flag("orphanDependents") {
            options.set_orphan(orphan)?;
        }
        Ok(options)
    }

    fn write_collection(
        &self,
        resource: Resource,
        namespace: Option<String>,
    ) -> Result<(Write, bool), ApiError> {
        let placed = namespace.is_some() == resource.traits().namespaced;
        match self.parts.method {
            Method::POST if placed => {
                let object = self.object(resource)?;
                let namespace = namespace.unwrap_or_default();
                same_namespace(&object, &namespace)?;
                Ok((
                    Write::Create {
                        resource,
                        namespace,
                        object,
                    },
                    self.query.dry_run("CreateOptions")?,
                ))
            }
            Method::DELETE if placed && resource.traits().namespaced => {
                let options = self.delete_options()?;
                let selector = self.query.selector(resource)?;
                let dry_run = options.dry_run;
                Ok((
                    Write::DeleteCollection {
                        resource,
                        namespace,
                        selector,
                        options,
                    },
                    dry_run,
                ))
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn write_object(&self, key: Key, sub: Option<&str>) -> Result<(Write, bool), ApiError> {
        let part = match sub {
            None => Part::Main,
            Some("status") if key.resource.traits().has_status => Part::Status,
            sub if self.is_known_subresource(&key, sub) => return self.write_pod(key, sub),
            Some(_) => return Err(ApiError::unknown_resource()),
        };
        match self.parts.method {
            Method::PUT => {
                let object = self.object(key.resource)?;
                same_namespace(&object, &key.namespace)?;
                same_name(&object, &key.name)?;
                let dry_run = self.query.dry_run("UpdateOptions")?;
                Ok((Write::Update { key, part, object }, dry_run))
            }
            Method::PATCH => {
                let kind = PatchKind::of_content_type(self.content_type())
                    .ok_or_else(|| ApiError::unsupported_media_type(&PATCH_TYPES))?;
                let patch = serde_json::from_slice(&self.body)
                    .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
                let strict = self.query.strict("PatchOptions")?;
                let dry_run = self.query.dry_run("PatchOptions")?;
                Ok((
                    Write::Patch {
                        key,
                        part,
                        kind,
                        patch,
                        strict,
                    },
                    dry_run,
                ))
            }
            Method::DELETE if part == Part::Main => {
                let options = self.delete_options()?;
                let dry_run = options.dry_run;
                Ok((Write::Delete { key, options }, dry_run))
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// What can be posted to a pod.
    fn write_pod(&self, key: Key, sub: Option<&str>) -> Result<(Write, bool), ApiError> {
        if self.parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        self.takes_json_body()?;
        let dry_run = self.query.dry_run("CreateOptions")?;
        let kind = if sub == Some("eviction") {
            "Eviction"
        } else {
            "Binding"
        };
        let body = decode::parse(kind, &self.body)?;
        if !matches!(text(&body, &["kind"]), k if k.is_empty() || k == kind) || !body.is_object() {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind})"
            )));
        }
        same_namespace(&body, &key.namespace)?;
        if kind == "Binding" {
            return Ok((Write::Bind { key, binding: body }, dry_run));
        }
        same_name(&body, &key.name)?;
        let options = match body.get("deleteOptions") {
            None | Some(Value::Null) => DeleteOptions::default(),
            Some(options) => DeleteOptions::from_value(options)?,
        };
        Ok((
            Write::Evict {
                key,
                options: options.clone(),
            },
            dry_run || options.dry_run,
        ))
    }
}

fn same_namespace(object: &Value, namespace: &str) -> Result<(), ApiError> {
    let given = text(object, &["metadata", "namespace"]);
    if given.is_empty() || given == namespace {
        return Ok(());
    }
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    Err(ApiError::bad_request(why))
}

fn same_name(object: &Value, name: &str) -> Result<(), ApiError> {
    let given = text(object, &["metadata", "name"]);
    if given.is_empty() {
        return Err(ApiError::bad_request("name must be provided"));
    }
    if given == name {
        return Ok(());
    }
    let why =
        format!("the name of the object ({given}) does not match the name on the URL ({name})");
    Err(ApiError::bad_request(why))
}
