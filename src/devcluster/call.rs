//! A request: what its path, query, headers and body ask for.

use std::error::Error as _;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::Value;
use tokio::time::Instant;

use super::decode;
use super::delete::DeleteOptions;
use super::new_events;
use super::object::{Key, text};
use super::patch::{PATCH_TYPES, PatchKind};
use super::protobuf::{self, Unread};
use super::query::Query;
use super::resource::Resource;
use super::status::ApiError;
use super::write::{Part, Write, refuse_unknown};

/// The largest body taken, as on real servers.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// How long any request but a watch may take, where the client does not say less.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A request that was read to its end.
#[derive(Debug)]
pub(super) struct Call<'a> {
    parts: &'a Parts,
    pub(super) query: Query,
    body: Bytes,
    /// The fields of the object in the body that were dropped, which the client is warned of.
    pub(super) unknown: Vec<String>,
    /// After this it may not be carried out any more.
    pub(super) deadline: Instant,
}

async fn read(body: Body, deadline: Instant) -> Result<Bytes, ApiError> {
    // One who announces too much is not waited for.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(ApiError::too_large(format!(
            "Request entity too large: limit is {MAX_BODY}"
        )));
    }
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

/// The binary form of typed clients.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn is_binary(parts: &Parts) -> bool {
    let header = parts.headers.get(CONTENT_TYPE);
    header.is_some_and(|v| v.as_bytes().starts_with(PROTOBUF.as_bytes()))
}

/// A body in binary form as JSON.
fn from_binary(body: &Bytes) -> Result<Bytes, ApiError> {
    if body.is_empty() {
        return Ok(body.clone());
    }
    match protobuf::object(body) {
        Ok(object) => Ok(object.to_string().into()),
        Err(Unread::Kind(kind)) => {
            tracing::debug!(target: "apiserver", kind, "taken as JSON or YAML only");
            let known = ["application/json", "application/yaml"];
            Err(ApiError::unsupported_media_type(&known))
        }
        Err(Unread::Broken) => Err(ApiError::bad_request(
            "the body is not what application/vnd.kubernetes.protobuf is",
        )),
    }
}

impl<'a> Call<'a> {
    /// Reads a request to its end, within the time that it gives itself.
    pub(super) async fn read(parts: &'a Parts, body: Body) -> Result<Self, ApiError> {
        let began = Instant::now();
        let query = Query::of(&parts.uri);
        let asked = query
            .as_ref()
            .ok()
            .and_then(|query| query.timeout().ok().flatten());
        let deadline = began + asked.map_or(REQUEST_TIMEOUT, |asked| asked.min(REQUEST_TIMEOUT));
        // Read even if it is not wanted: what is left of it would be taken for the next request.
        let mut body = read(body, deadline).await?;
        if is_binary(parts) {
            body = from_binary(&body)?;
        }
        if new_events::is_at(parts.uri.path())
            && let Ok(event) = serde_json::from_slice(&body)
        {
            body = new_events::to_stored(event).to_string().into();
        }
        let query = query?;
        query.timeout()?;
        Ok(Self {
            parts,
            query,
            body,
            unknown: Vec::new(),
            deadline,
        })
    }

    /// What the client says beside its question.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Where it asks.
    pub(super) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// What is asked in the body, where the answer is not kept.
    pub(super) fn question(&self, kind: &str) -> Result<Value, ApiError> {
        self.takes_json_body()?;
        let mut question = decode::parse(kind, &self.body)?;
        let given = text(&question, &["kind"]);
        if !question.is_object() || !(given.is_empty() || given == kind) {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind})"
            )));
        }
        question["kind"] = kind.into();
        Ok(question)
    }

    fn content_type(&self) -> &str {
        let header = self
            .parts
            .headers
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        match header.split(';').next().unwrap_or_default().trim() {
            // It has been read into JSON.
            PROTOBUF => "application/json",
            other => other,
        }
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

    /// Whether a pod has this subresource, though it cannot be read.
    pub(super) fn is_known_subresource(&self, key: &Key, sub: Option<&str>) -> bool {
        key.resource == Resource::Pods && matches!(sub, Some("binding" | "eviction"))
    }

    /// The object in the body, as its type has it.
    fn object(&mut self, resource: Resource) -> Result<Value, ApiError> {
        let kind = resource.traits().kind;
        self.takes_json_body()?;
        let strict = self.query.strict("CreateOptions")?;
        let decoded = decode::object(resource, decode::parse(kind, &self.body)?)?;
        if strict {
            refuse_unknown(&decoded.unknown).map_err(|error| {
                let version = resource.traits().api_version;
                let message = error.message;
                ApiError::bad_request(format!(
                    "{kind} in version \"{version}\" cannot be handled as a {kind}: {message}"
                ))
            })?;
        } else if self.query.text("fieldValidation") != "Ignore" {
            self.unknown = decoded.unknown;
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

    /// What a request to a collection, other than to read it, wants done, and whether it is but a dry run.
    pub(super) fn write_collection(
        &mut self,
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

    /// What a request to an object, other than to read it, wants done, and whether it is but a dry run.
    pub(super) fn write_object(
        &mut self,
        key: Key,
        sub: Option<&str>,
    ) -> Result<(Write, bool), ApiError> {
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
