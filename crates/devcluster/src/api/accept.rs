//! Content negotiation: reads the `Accept` header and chooses the form of the response.

use http::HeaderMap;
use http::header::{ACCEPT, HeaderName};

use super::query::Query;
use super::status::ApiError;

/// The form in which a response shows objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    /// Rows of a `Table`, as kubectl prints them.
    Table {
        /// Whether a row carries its whole object, or its metadata only.
        whole: bool,
    },
}

pub const JSON: &str = "application/json";
/// A JSON Web Key Set (RFC 7517).
pub const JWK_SET: &str = "application/jwk-set+json";

/// The value of a header; empty if it is missing or no text.
pub fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|v| v.to_str().ok());
    value.unwrap_or_default()
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

/// The form for objects, lists and documents: the first in the header that is served.
pub fn form(headers: &HeaderMap, query: &Query) -> Result<Form, ApiError> {
    let header = header(headers, ACCEPT);
    if header.is_empty() {
        return Ok(Form::Json);
    }
    for range in header.split(',') {
        let (media_type, parameters) = range.split_once(';').unwrap_or((range, ""));
        if !["*", "*/*", "application/*", JSON].contains(&media_type.trim()) {
            continue;
        }
        let parameter = |name: &str| {
            let mut all = parameters.split(';').filter_map(|p| p.split_once('='));
            let found = all.find(|(n, _)| n.trim() == name);
            found.map_or("", |(_, value)| value.trim().trim_matches('"'))
        };
        match [parameter("as"), parameter("g"), parameter("v")] {
            ["", "", ""] if matches!(parameter("stream"), "" | "watch") => return Ok(Form::Json),
            ["Table", "meta.k8s.io", "v1"] => {
                let whole = query.text("includeObject") == "Object";
                return Ok(Form::Table { whole });
            }
            _ => {}
        }
    }
    Err(ApiError::not_acceptable(format!(
        "only the following media types are accepted: {JSON}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(accept: &str, query: &str) -> Result<Form, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header"));
        let uri = format!("/?{query}").parse().expect("a path");
        form(&headers, &Query::of(&uri).expect("a query"))
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn the_first_supported_media_range_wins() {
        let kubectl =
            format!("{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        assert_eq!(of(&kubectl, ""), Ok(Form::Table { whole: false }));
        let whole = of(TABLE, "includeObject=Object");
        assert_eq!(whole, Ok(Form::Table { whole: true }));
        for json in [
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/json;q=0.5",
            "*/*",
        ] {
            assert_eq!(of(json, ""), Ok(Form::Json), "{json}");
        }
    }

    #[test]
    fn unsupported_media_types_are_406() {
        for accept in [
            "text/plain",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "application/json;stream=other",
        ] {
            let error = of(accept, "").expect_err(accept);
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

    proptest! {
        #[test]
        fn any_accept_header_is_handled(header in "[ -~]*") {
            let _ = of(&header, "");
        }
    }
}
