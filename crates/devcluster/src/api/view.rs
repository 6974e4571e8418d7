//! Encodes stored objects, lists and watch events in the form that a client asked for.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};

use super::accept::{Form, Include, Shape};
use super::status::ApiError;
use crate::api::table;
use crate::objects::new_events;
use crate::objects::object::{Object, text};
use crate::objects::resource::Resource;
use crate::storage::server::Clock;
use crate::storage::store::{EventKind, watch_line};

/// The form of a response. It has the clock, because tables show ages.
#[derive(Clone, Copy, Debug)]
pub struct View {
    form: Form,
    clock: Clock,
    /// Whether events are shown in the `events.k8s.io` schema.
    new_events: bool,
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
        Self {
            form,
            clock,
            new_events: false,
        }
    }

    /// The same form, with events in the `events.k8s.io` schema.
    pub fn of_new_events(self) -> Self {
        Self {
            new_events: true,
            ..self
        }
    }

    pub fn media_type(&self) -> &'static str {
        self.form.media_type
    }

    /// Whether objects are sent as they are stored.
    pub fn is_whole(&self) -> bool {
        self.form.shape == Shape::Whole && !self.new_events
    }

    pub fn object(&self, object: &Object) -> Result<Bytes, ApiError> {
        let resource = object.key().resource;
        match self.form.shape {
            Shape::Whole if self.new_events => Ok(self.whole(object.value()).to_string().into()),
            Shape::Whole => Ok(object.encoded().clone()),
            Shape::Partial => Ok(self.partial(object.value()).to_string().into()),
            Shape::PartialList => Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.{})",
                resource.traits().kind
            ))),
            Shape::Table(include) => {
                let metadata = json!({"resourceVersion": object.resource_version().to_string()});
                let row = self.row(resource, object.value(), include);
                Ok(self
                    .table(resource, metadata, vec![row], true)
                    .to_string()
                    .into())
            }
        }
    }

    pub fn list(&self, listing: &Listing<'_>) -> Result<Bytes, ApiError> {
        let Listing {
            resource, objects, ..
        } = listing;
        match self.form.shape {
            Shape::Whole if self.new_events => {
                let items: Vec<Value> = objects.iter().map(|o| self.whole(o.value())).collect();
                let list = json!({
                    "kind": "EventList",
                    "apiVersion": "events.k8s.io/v1",
                    "metadata": listing.metadata(),
                    "items": items,
                });
                Ok(list.to_string().into())
            }
            Shape::Whole => Ok(encode(listing)),
            Shape::Partial => Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*core.{}List)",
                resource.traits().kind
            ))),
            Shape::PartialList => {
                let items: Vec<Value> = objects.iter().map(|o| self.partial(o.value())).collect();
                let list = json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": self.form.version,
                    "metadata": listing.metadata(),
                    "items": items,
                });
                Ok(list.to_string().into())
            }
            Shape::Table(include) => {
                let rows = objects
                    .iter()
                    .map(|o| self.row(*resource, o.value(), include))
                    .collect();
                let table = self.table(*resource, listing.metadata(), rows, true);
                Ok(table.to_string().into())
            }
        }
    }

    /// Encodes a watch event. Only the first table of a watch has column definitions.
    pub fn event(&self, kind: EventKind, object: &Object, first: bool) -> Bytes {
        match self.form.shape {
            Shape::Whole | Shape::PartialList if !self.new_events => watch_line(kind, object),
            _ => {
                let resource = object.key().resource;
                self.line(kind.as_str(), resource, object.value(), first)
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
        let shown = match self.form.shape {
            Shape::Whole | Shape::PartialList => self.whole(object),
            Shape::Partial => self.partial(object),
            Shape::Table(include) => {
                let version = text(object, &["metadata", "resourceVersion"]);
                let metadata = json!({"resourceVersion": version});
                let row = self.row(resource, object, include);
                self.table(resource, metadata, vec![row], first)
            }
        };
        format!("{}\n", json!({"type": kind, "object": shown})).into()
    }

    fn whole(&self, object: &Value) -> Value {
        if self.new_events {
            new_events::to_shown(object.clone())
        } else {
            object.clone()
        }
    }

    fn partial(&self, object: &Value) -> Value {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": self.form.version,
            "metadata": object.get("metadata"),
        })
    }

    fn row(&self, resource: Resource, object: &Value, include: Include) -> Value {
        let shown = match include {
            Include::None => Value::Null,
            Include::Metadata => self.partial(object),
            Include::Object => self.whole(object),
        };
        let cells = table::cells(resource, object, self.clock.now());
        let mut row = json!({"cells": cells, "object": shown});
        if let Some(conditions) = table::conditions(resource, object) {
            row["conditions"] = conditions;
        }
        row
    }

    fn table(&self, resource: Resource, metadata: Value, rows: Vec<Value>, headers: bool) -> Value {
        let columns = headers.then(|| table::columns(resource));
        json!({
            "kind": "Table",
            "apiVersion": self.form.version,
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }
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
