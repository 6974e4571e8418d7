//! Encodes stored objects, lists and watch events in the form that a client asked for.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::accept::Form;
use crate::api::table;
use crate::objects::object::{Object, text};
use crate::objects::resource::Resource;
use crate::storage::server::Clock;
use crate::storage::store::{EventKind, watch_line};

/// The form of a response. It has the clock, because tables show ages.
#[derive(Clone, Copy, Debug)]
pub struct View {
    form: Form,
    clock: Clock,
}

#[derive(Debug)]
pub struct Listing<'a> {
    pub resource: Resource,
    /// The resource version of the list.
    pub version: u64,
    pub objects: &'a [Arc<Object>],
    /// The continue token, if there is a next page.
    pub token: Option<String>,
    /// The number of objects on further pages.
    pub remaining: Option<usize>,
}

impl Listing<'_> {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if let Some(token) = &self.token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
}

impl View {
    pub fn new(form: Form, clock: Clock) -> Self {
        Self { form, clock }
    }

    /// Whether objects are sent as they are stored.
    pub fn is_whole(&self) -> bool {
        self.form == Form::Json
    }

    pub fn object(&self, object: &Object) -> Bytes {
        match self.form {
            Form::Json => object.encoded().clone(),
            Form::Table { whole } => {
                let metadata = json!({"resourceVersion": object.resource_version().to_string()});
                let resource = object.key().resource;
                let row = self.row(resource, object.value(), whole);
                table(resource, metadata, vec![row], true)
                    .to_string()
                    .into()
            }
        }
    }

    pub fn list(&self, listing: &Listing<'_>) -> Bytes {
        match self.form {
            Form::Json => encode(listing),
            Form::Table { whole } => {
                let resource = listing.resource;
                let row = |o: &Arc<Object>| self.row(resource, o.value(), whole);
                let rows = listing.objects.iter().map(row).collect();
                table(resource, listing.metadata(), rows, true)
                    .to_string()
                    .into()
            }
        }
    }

    /// Encodes a watch event. Only the first table of a watch has column definitions.
    pub fn event(&self, kind: EventKind, object: &Object, first: bool) -> Bytes {
        match self.form {
            Form::Json => watch_line(kind, object),
            Form::Table { .. } => {
                self.line(kind.as_str(), object.key().resource, object.value(), first)
            }
        }
    }

    /// Encodes a bookmark, whose object has nothing but metadata.
    pub fn bookmark(&self, resource: Resource, metadata: Value, first: bool) -> Bytes {
        let traits = resource.traits();
        let object =
            json!({"kind": traits.kind, "apiVersion": traits.api_version, "metadata": metadata});
        self.line("BOOKMARK", resource, &object, first)
    }

    fn line(&self, kind: &str, resource: Resource, object: &Value, first: bool) -> Bytes {
        let shown = match self.form {
            Form::Json => object.clone(),
            Form::Table { whole } => {
                let version = text(object, &["metadata", "resourceVersion"]);
                let metadata = json!({"resourceVersion": version});
                let row = self.row(resource, object, whole);
                table(resource, metadata, vec![row], first)
            }
        };
        format!("{}\n", json!({"type": kind, "object": shown})).into()
    }

    fn row(&self, resource: Resource, object: &Value, whole: bool) -> Value {
        let shown = match whole {
            true => object.clone(),
            false => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": META,
                "metadata": object.get("metadata"),
            }),
        };
        json!({"cells": table::cells(resource, object, self.clock.now()), "object": shown})
    }
}

const META: &str = "meta.k8s.io/v1";

fn table(resource: Resource, metadata: Value, rows: Vec<Value>, headers: bool) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": META,
        "metadata": metadata,
        "columnDefinitions": headers.then(|| table::columns(resource)),
        "rows": rows,
    })
}

/// Encodes a list from its objects' stored encodings.
fn encode(listing: &Listing<'_>) -> Bytes {
    let traits = listing.resource.traits();
    let size: usize = listing.objects.iter().map(|o| o.encoded().len() + 1).sum();
    let mut out = BytesMut::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
        traits.kind,
        traits.api_version,
        listing.metadata()
    );
    out.put_slice(head.as_bytes());
    for (i, object) in listing.objects.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        object.append_item(&mut out);
    }
    out.put_slice(b"]}\n");
    out.freeze()
}
