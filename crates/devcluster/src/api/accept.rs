//! Content negotiation: reads the `Accept` header and chooses the form of the response.

use http::HeaderMap;
use http::header::{ACCEPT, HeaderName};

use super::query::Query;
use super::status::ApiError;

/// What a table row carries of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// How much of the objects a response shows, and in which shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Whole,
    Partial,
    PartialList,
    /// Rows of a `Table`, as kubectl prints them.
    Table(Include),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub shape: Shape,
    /// The `apiVersion` of metadata and tables.
    pub version: &'static str,
    /// The `Content-Type`. YAML responses are written as JSON, which is valid YAML.
    pub media_type: &'static str,
}

impl Form {
    pub const JSON: Self = Self {
        shape: Shape::Whole,
        version: "meta.k8s.io/v1",
        media_type: JSON,
    };
}

pub const JSON: &str = "application/json";
/// A JSON Web Key Set (RFC 7517).
pub const JWK_SET: &str = "application/jwk-set+json";
const YAML: &str = "application/yaml";

/// One media range of the header.
#[derive(Debug, PartialEq)]
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next()?;
        let (kind, subtype) = match media.split_once('/') {
            Some(both) => both,
            None if media == "*" => ("*", "*"),
            None => return None,
        };
        let mut range = Self {
            kind: kind.trim(),
            subtype: subtype.trim(),
            quality: 1.0,
            parameters: Vec::new(),
        };
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                continue;
            };
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name == "q" {
                range.quality = value.parse().unwrap_or(1.0);
            } else {
                range.parameters.push((name, value));
            }
        }
        Some(range)
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        let found = self.parameters.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| *value)
    }

    fn covers(&self, media_type: &str) -> bool {
        let (kind, subtype) = media_type.split_once('/').unwrap_or_default();
        (self.kind == "*" && self.subtype == "*")
            || (self.kind == kind && (self.subtype == "*" || self.subtype == subtype))
    }

    /// The group, version and kind that the client wants the response converted to.
    fn target(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let part = |name| self.parameter(name);
        let any = ["as", "g", "v"].iter().any(|name| part(name).is_some());
        any.then(|| {
            (
                part("g").unwrap_or_default(),
                part("v").unwrap_or_default(),
                part("as").unwrap_or_default(),
            )
        })
    }

    fn streams(&self) -> Option<&'a str> {
        self.parameter("stream").filter(|s| !s.is_empty())
    }
}

/// The media ranges by preference. Among equals the client's order counts.
fn media_ranges(header: &str) -> Vec<MediaRange<'_>> {
    let mut media_ranges: Vec<_> = header.split(',').filter_map(MediaRange::parse).collect();
    let vagueness = |c: &MediaRange<'_>| u8::from(c.kind == "*") + u8::from(c.subtype == "*");
    media_ranges.sort_by(|a, b| {
        b.quality
            .total_cmp(&a.quality)
            .then(vagueness(a).cmp(&vagueness(b)))
    });
    media_ranges
}

/// The value of a header; empty if it is missing or no text.
pub fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|v| v.to_str().ok());
    value.unwrap_or_default()
}

/// The 406 error. Protobuf is not listed as supported to a client that already asked for it.
fn refused(header: &str, streams: bool) -> ApiError {
    let mut known = vec![JSON, YAML, "application/vnd.kubernetes.protobuf"];
    if header.contains("protobuf") {
        known.pop();
    }
    if streams {
        known.retain(|k| *k != YAML);
    }
    let suffix = if streams { ";stream=watch" } else { "" };
    let known: Vec<String> = known.iter().map(|k| format!("{k}{suffix}")).collect();
    ApiError::not_acceptable(format!(
        "only the following media types are accepted: {}",
        known.join(", ")
    ))
}

/// The media type for a document that is no object.
pub fn document(headers: &HeaderMap) -> Result<&'static str, ApiError> {
    let header = header(headers, ACCEPT);
    if header.is_empty() {
        return Ok(JSON);
    }
    for range in media_ranges(header) {
        for media_type in [JSON, YAML] {
            if range.covers(media_type) && range.target().is_none() {
                return Ok(media_type);
            }
        }
    }
    Err(refused(header, false))
}

/// Refuses a client that accepts neither this media type nor any: the routes that serve one form only compare as text,
/// so that `application/*` does not include it, and a quality of 0 does not exclude it.
pub fn only(headers: &HeaderMap, media_type: &str) -> Result<(), ApiError> {
    let header = header(headers, ACCEPT);
    let mut accepted = header
        .split(',')
        .map(|range| range.split(';').next().unwrap_or_default().trim());
    if header.is_empty() || accepted.any(|range| range == "*/*" || range == media_type) {
        return Ok(());
    }
    Err(ApiError::not_offered(media_type))
}

/// Whether the client names exactly this media type.
pub fn names(headers: &HeaderMap, media_type: &str) -> bool {
    media_ranges(header(headers, ACCEPT)).iter().any(|range| {
        media_type
            .split_once('/')
            .is_some_and(|(kind, subtype)| range.kind == kind && range.subtype == subtype)
    })
}

/// The version of `apidiscovery.k8s.io` whose document the client prefers to the plain one, if any.
pub fn discovery(headers: &HeaderMap, kind: &str) -> Option<&'static str> {
    for range in media_ranges(header(headers, ACCEPT)) {
        if !range.covers(JSON) {
            continue;
        }
        match range.target() {
            Some(("apidiscovery.k8s.io", "v2", wanted)) if wanted == kind => return Some("v2"),
            Some(("apidiscovery.k8s.io", "v2beta1", wanted)) if wanted == kind => {
                return Some("v2beta1");
            }
            Some(_) => {}
            None => return None,
        }
    }
    None
}

/// The form for objects and lists.
pub fn objects(headers: &HeaderMap, query: &Query, streams: bool) -> Result<Form, ApiError> {
    let header = header(headers, ACCEPT);
    if header.is_empty() {
        return Ok(Form::JSON);
    }
    for range in media_ranges(header) {
        for media_type in [JSON, YAML] {
            // A watch sends one JSON document per line, which YAML cannot do.
            let can_stream = media_type == JSON;
            if !range.covers(media_type)
                || (streams && !can_stream)
                || range.streams().is_some_and(|s| s != "watch" || !can_stream)
            {
                continue;
            }
            let Some((group, version, kind)) = range.target() else {
                return Ok(Form {
                    media_type,
                    ..Form::JSON
                });
            };
            let version = match (group, version) {
                ("meta.k8s.io", "v1") => "meta.k8s.io/v1",
                ("meta.k8s.io", "v1beta1") => "meta.k8s.io/v1beta1",
                _ => continue,
            };
            let shape = match kind {
                "Table" => Shape::Table(include(query)?),
                "PartialObjectMetadata" => Shape::Partial,
                "PartialObjectMetadataList" => Shape::PartialList,
                _ => continue,
            };
            return Ok(Form {
                shape,
                version,
                media_type,
            });
        }
    }
    Err(refused(header, streams))
}

fn include(query: &Query) -> Result<Include, ApiError> {
    match query.text("includeObject") {
        "" | "Metadata" => Ok(Include::Metadata),
        "Object" => Ok(Include::Object),
        "None" => Ok(Include::None),
        other => Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
             'None', or empty",
            serde_json::Value::from(other)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(accept: &str, query: &str, streams: bool) -> Result<Form, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header"));
        let uri = format!("/?{query}").parse().expect("a path");
        objects(&headers, &Query::of(&uri).expect("a query"), streams)
    }

    fn shape(accept: &str) -> Shape {
        form(accept, "", false).expect("a form").shape
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn the_first_supported_media_range_wins() {
        let kubectl =
            format!("{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        assert_eq!(shape(&kubectl), Shape::Table(Include::Metadata));
        assert_eq!(
            shape("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
            Shape::Whole
        );
        assert_eq!(
            shape("application/vnd.kubernetes.protobuf,application/json"),
            Shape::Whole
        );
        assert_eq!(shape("*/*"), Shape::Whole);
        assert_eq!(
            shape(
                "application/json;q=0.5,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            ),
            Shape::Partial
        );
        let yaml = form("application/yaml", "", false).expect("a form");
        assert_eq!(yaml.media_type, "application/yaml");
    }

    #[test]
    fn unsupported_media_types_are_406() {
        for (accept, streams) in [
            ("text/plain", false),
            ("application/vnd.kubernetes.protobuf", false),
            ("application/json;as=Nonsense;v=v1;g=meta.k8s.io", false),
            ("application/yaml", true),
            ("application/json;stream=other", false),
        ] {
            let error = form(accept, "", streams).expect_err(accept);
            assert_eq!((error.code, error.reason), (406, "NotAcceptable"));
        }
    }

    #[test]
    fn a_document_of_one_form_is_refused_to_who_does_not_accept_it() {
        let offered = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header"));
            only(&headers, JWK_SET).is_ok()
        };
        for accept in [
            "",
            JWK_SET,
            "*/*",
            "application/json, */*",
            "application/json,application/jwk-set+json;q=0.5",
        ] {
            assert!(offered(accept), "{accept}");
        }
        for accept in [JSON, "application/*", "*", "text/plain, application/json"] {
            assert!(!offered(accept), "{accept}");
        }
        assert!(only(&HeaderMap::new(), JWK_SET).is_ok());
    }

    #[test]
    fn a_table_includes_the_requested_part_of_each_object() {
        for (query, include) in [
            ("includeObject=None", Include::None),
            ("includeObject=Object", Include::Object),
            ("includeObject=Metadata", Include::Metadata),
        ] {
            let form = form(TABLE, query, false).expect("a form");
            assert_eq!(form.shape, Shape::Table(include));
        }
        let error = form(TABLE, "includeObject=All", false).expect_err("no such choice");
        assert_eq!((error.code, error.reason), (400, "BadRequest"));
    }

    proptest! {
        #[test]
        fn any_accept_header_is_handled(header in "[ -~]*") {
            let _ = form(&header, "", false);
        }
    }
}
