//! Parses a request's path, query, headers and body into the write it asks for.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::accept::{JSON, header};
use super::body;
use super::decode;
use super::path::Target;
use super::protobuf::{self, DecodeError};
use super::query::Query;
use super::status::{ApiError, Causes};
use crate::changes::delete::DeleteOptions;
use crate::changes::patch::{PATCH_TYPES, PatchKind};
use crate::changes::scale::ScaleWrite;
use crate::changes::update::check_place;
use crate::changes::write::{Caller, Part, Write};
use crate::changes::write_options::{Validation, Verb, WriteOptions};
use crate::objects::object::{Key, text};
use crate::objects::resource::Resource;

/// The largest request body, in bytes; the limit of real servers.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// The most bytes of a body that are read. A longer one costs the client its connection.
const MAX_READ: usize = 4 * MAX_BODY;

/// The time limit of every request but a watch, unless the client sets a shorter one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A request whose body has been read.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    parts: &'a Parts,
    pub(crate) query: Query,
    body: Bytes,
    /// The warnings to return to the client.
    pub(crate) warnings: Vec<String>,
    /// The client that writes, if the request is a write.
    pub(crate) caller: Caller,
    /// The request must not be carried out after this.
    pub(crate) deadline: Instant,
}

async fn read(body: Body, deadline: Instant) -> Result<Bytes, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut read = BytesMut::new();
    let mut bytes = 0;
    // The rest of too large a body is read as well: the client is to hear why, and not to see its connection break.
    while bytes <= MAX_READ
        && let Some(chunk) = timeout_at(deadline, chunks.next())
            .await
            .map_err(|_| ApiError::deadline_passed())?
    {
        let chunk = chunk.map_err(|_| ApiError::bad_request("the body broke off"))?;
        bytes += chunk.len();
        if bytes <= MAX_BODY {
            read.extend_from_slice(&chunk);
        }
    }
    match bytes <= MAX_BODY {
        true => Ok(read.freeze()),
        false => Err(ApiError::too_large(format!(
            "Request entity too large: limit is {MAX_BODY}"
        ))),
    }
}

/// The media type of Kubernetes' protobuf encoding, which typed clients use.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn is_binary(parts: &Parts) -> bool {
    let header = parts.headers.get(CONTENT_TYPE);
    header.is_some_and(|v| v.as_bytes().starts_with(PROTOBUF.as_bytes()))
}

/// Converts a protobuf body to JSON.
fn from_binary(body: &Bytes) -> Result<Bytes, ApiError> {
    if body.is_empty() {
        return Ok(body.clone());
    }
    match protobuf::object(body) {
        Ok(object) => Ok(object.to_string().into()),
        Err(DecodeError::Kind(kind)) => {
            tracing::debug!(target: "apiserver", kind, "this kind is accepted as JSON only");
            Err(ApiError::unsupported_media_type(&[JSON]))
        }
        Err(DecodeError::Malformed) => Err(ApiError::bad_request(
            "the body is not what application/vnd.kubernetes.protobuf is",
        )),
    }
}

impl<'a> Call<'a> {
    /// Reads a request's body, within the request's timeout.
    pub(crate) async fn read(
        parts: &'a Parts,
        body: Body,
        target: &Target,
    ) -> Result<Self, ApiError> {
        let began = Instant::now();
        let query = Query::of(&parts.uri);
        let asked = query
            .as_ref()
            .ok()
            .and_then(|query| query.timeout().ok().flatten());
        let deadline = began + asked.map_or(REQUEST_TIMEOUT, |asked| asked.min(REQUEST_TIMEOUT));
        // The body is read even if it is not used: the rest of it would be taken for the next request on the
        // connection.
        let mut body = read(body, deadline).await?;
        // A request to a path that is not served gets 404, whatever its media type.
        let served = !matches!(target, Target::Nothing | Target::UnknownResource);
        if served && is_binary(parts) {
            body = from_binary(&body)?;
        }
        let query = query?;
        query.timeout()?;
        Ok(Self {
            parts,
            query,
            body,
            warnings: Vec::new(),
            caller: Caller::default(),
            deadline,
        })
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.parts
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The object of this kind in the body, unchecked apart from its kind.
    pub(crate) fn object_of_kind(&self, kind: &str) -> Result<Value, ApiError> {
        let mut object = self.read_body(kind)?;
        let given = text(&object, &["kind"]);
        if !object.is_object() || !(given.is_empty() || given == kind) {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind})"
            )));
        }
        object["kind"] = kind.into();
        Ok(object)
    }

    fn content_type(&self) -> &str {
        match header(&self.parts.headers, CONTENT_TYPE)
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
        {
            // `from_binary` has converted the body.
            PROTOBUF => JSON,
            other => other,
        }
    }

    fn read_body(&self, kind: &str) -> Result<Value, ApiError> {
        match self.content_type() {
            "" | JSON => decode::parse(kind, &self.body),
            _ => Err(ApiError::unsupported_media_type(&[JSON])),
        }
    }

    fn options(&self, verb: Verb) -> Result<WriteOptions, ApiError> {
        WriteOptions::read(&self.query, verb)
    }

    /// Whether objects of this kind have this write-only subresource.
    pub(crate) fn is_known_subresource(&self, key: &Key, sub: Option<&str>) -> bool {
        key.resource == Resource::Pods && matches!(sub, Some("binding" | "eviction"))
    }

    /// The object in the body, decoded as its type.
    fn object(&mut self, resource: Resource, validation: Validation) -> Result<Value, ApiError> {
        let traits = resource.traits();
        let body = self.read_body(traits.kind)?;
        let decoded = decode::object(resource, body)
            .map_err(|error| error.refused(traits.kind, &self.body))?;
        let odd = decoded.unknown;
        match validation {
            Validation::Strict if !odd.is_empty() => {
                return Err(ApiError::bad_request(format!(
                    "{0} in version \"{1}\" cannot be handled as a {0}: strict decoding error: {2}",
                    traits.kind,
                    traits.version,
                    odd.join(", ")
                )));
            }
            Validation::Warn => self.warnings = odd,
            Validation::Strict | Validation::Ignore => {}
        }
        Ok(decoded.object)
    }

    fn patch(&self) -> Result<Value, ApiError> {
        body::json(&self.body)
            .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let mut options = DeleteOptions::default();
        if !self.body.is_empty() {
            options = DeleteOptions::from_value(&self.read_body("DeleteOptions")?)?;
        } else {
            options.grace = self.query.number("gracePeriodSeconds")?;
            match self.query.text("propagationPolicy") {
                "" => {}
                policy => options.set_propagation(policy)?,
            }
        }
        let mut causes = Causes::default();
        options.dry_run |= self.query.dry_run(&mut causes);
        causes.check("DeleteOptions", "meta.k8s.io", "")?;
        Ok(options)
    }

    /// The write that a request to a collection asks for, and whether it is a dry run.
    pub(crate) fn write_collection(
        &mut self,
        resource: Resource,
        namespace: Option<String>,
    ) -> Result<(Write, bool), ApiError> {
        let placed = namespace.is_some() == resource.traits().namespaced;
        match self.parts.method {
            Method::POST if placed => {
                let options = self.options(Verb::Create)?;
                let object = self.object(resource, options.validation)?;
                let namespace = namespace.unwrap_or_default();
                same_namespace(&object, &namespace)?;
                let write = Write::create(resource, &namespace, object);
                Ok((write, options.dry_run))
            }
            Method::DELETE if placed && resource.traits().namespaced => {
                let options = self.delete_options()?;
                let selector = self.query.selector(resource)?;
                let limit = self.query.number("limit")?;
                let limit = limit
                    .filter(|n| *n > 0)
                    .and_then(|n| usize::try_from(n).ok());
                let dry_run = options.dry_run;
                Ok((
                    Write::DeleteCollection {
                        resource,
                        namespace,
                        selector,
                        limit,
                        options,
                    },
                    dry_run,
                ))
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// The write that a request to an object asks for, and whether it is a dry run.
    pub(crate) fn write_object(
        &mut self,
        key: Key,
        sub: Option<&str>,
    ) -> Result<(Write, bool), ApiError> {
        let part = match sub {
            None => Part::Main,
            Some("status") if key.resource.traits().has_status => Part::Status,
            Some("resize") if key.resource == Resource::Pods => Part::Resize,
            Some("scale") if key.resource.is_workload() => return self.write_scale(key),
            sub if self.is_known_subresource(&key, sub) => return self.write_pod(key, sub),
            Some(_) => return Err(ApiError::unknown_resource()),
        };
        match self.parts.method {
            Method::PUT => {
                let options = self.options(Verb::Update)?;
                let mut object = self.object(key.resource, options.validation)?;
                check_place(&key, &mut object)?;
                Ok((Write::Update { key, part, object }, options.dry_run))
            }
            Method::PATCH => self.write_patch(key, part),
            Method::DELETE if part == Part::Main => {
                let options = self.delete_options()?;
                let dry_run = options.dry_run;
                Ok((Write::Delete { key, options }, dry_run))
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn patch_kind(&self) -> Result<PatchKind, ApiError> {
        PatchKind::of_content_type(self.content_type())
            .ok_or_else(|| ApiError::unsupported_media_type(&PATCH_TYPES))
    }

    fn write_patch(&mut self, key: Key, part: Part) -> Result<(Write, bool), ApiError> {
        let kind = self.patch_kind()?;
        let options = self.options(Verb::Patch)?;
        let patch = self.patch()?;
        self.caller.is_warned = options.validation == Validation::Warn;
        let write = Write::Patch {
            key,
            part,
            kind,
            patch,
            strict: options.validation == Validation::Strict,
        };
        Ok((write, options.dry_run))
    }

    fn write_scale(&mut self, key: Key) -> Result<(Write, bool), ApiError> {
        let (options, scale) = match self.parts.method {
            Method::PUT => (
                self.options(Verb::Update)?,
                ScaleWrite::Put(self.object_of_kind("Scale")?),
            ),
            Method::PATCH => {
                let kind = self.patch_kind()?;
                let options = self.options(Verb::Patch)?;
                let patch = self.patch()?;
                (options, ScaleWrite::Patch(kind, patch))
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        Ok((Write::Scale { key, scale }, options.dry_run))
    }

    /// The write that a POST to a pod's subresource asks for, and whether it is a dry run.
    fn write_pod(&self, key: Key, sub: Option<&str>) -> Result<(Write, bool), ApiError> {
        if self.parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let dry_run = self.options(Verb::Create)?.dry_run;
        let kind = match sub {
            Some("eviction") => "Eviction",
            _ => "Binding",
        };
        let body = self.object_of_kind(kind)?;
        same_namespace(&body, &key.namespace)?;
        if kind == "Binding" {
            return Ok((Write::Bind { key, binding: body }, dry_run));
        }
        if text(&body, &["metadata", "name"]) != &*key.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let options = match body.get("deleteOptions") {
            None | Some(Value::Null) => DeleteOptions::default(),
            Some(options) => DeleteOptions::from_value(options)?,
        };
        let dry_run = dry_run || options.dry_run;
        Ok((Write::Evict { key, options }, dry_run))
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
