//! Lists: of now or of an earlier version, whole or page by page.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::object::Object;
use super::query::Query;
use super::resource::Resource;
use super::selector::Selector;
use super::status::{ApiError, Cause};
use super::store::{Forgotten, State, range};

/// What a list is asked for.
#[derive(Debug)]
pub struct List {
    resource: Resource,
    namespace: Option<String>,
    selector: Selector,
    limit: usize,
    from: From,
}

/// The version that a list is of.
#[derive(Debug, PartialEq)]
enum From {
    /// The newest, or the newest that is at least this.
    Now { at_least: u64 },
    /// Exactly this one.
    Exactly(u64),
    /// The rest of a list that was begun at a version, or at the newest one where that is gone.
    Rest {
        version: Option<u64>,
        namespace: String,
        name: String,
    },
}

fn refused(cause: Cause) -> ApiError {
    ApiError::invalid("ListOptions", "meta.k8s.io", "", vec![cause])
}

impl List {
    /// Reads the query of a list.
    pub fn parse(
        resource: Resource,
        namespace: Option<&str>,
        query: &Query,
    ) -> Result<Self, ApiError> {
        let selector = query.selector(resource)?;
        let (version, matching) = (
            query.text("resourceVersion"),
            query.text("resourceVersionMatch"),
        );
        let token = query.text("continue");
        let limit = query.number("limit")?.unwrap_or(0).max(0);
        if query.flag("sendInitialEvents").is_some() {
            return Err(refused(Cause::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            )));
        }
        if !matching.is_empty() {
            check_match(matching, version, token)?;
        }
        let mut list = Self {
            resource,
            namespace: namespace.map(str::to_owned),
            selector,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            from: From::Now { at_least: 0 },
        };
        if !token.is_empty() {
            if !matches!(version, "" | "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(ApiError::bad_request(why));
            }
            list.from = decode_token(token).ok_or_else(|| {
                ApiError::bad_request("continue key is not valid: the token cannot be read")
            })?;
            return Ok(list);
        }
        if version.is_empty() {
            return Ok(list);
        }
        let version: u64 = version.parse().map_err(|_| {
            let parsing = Value::from(version);
            ApiError::bad_request(format!(
                "resourceVersion: Invalid value: {parsing}: strconv.ParseUint: parsing {parsing}: invalid syntax"
            ))
        })?;
        // A page of a cached list would need a cache of pages: version 0 ignores the limit.
        if version == 0 {
            list.limit = 0;
        }
        let exact = matching == "Exact" || (matching.is_empty() && list.limit > 0);
        list.from = if exact && version > 0 {
            From::Exactly(version)
        } else {
            From::Now { at_least: version }
        };
        Ok(list)
    }

    /// The version that must have been reached before the list can be answered.
    pub fn needs(&self) -> u64 {
        match &self.from {
            From::Now { at_least } => *at_least,
            From::Exactly(version) => *version,
            From::Rest { version, .. } => version.unwrap_or(0),
        }
    }

    /// The answer, encoded.
    pub fn answer(&self, state: &State) -> Result<Bytes, ApiError> {
        let (version, after) = match &self.from {
            From::Now { .. } => (state.resource_version(), None),
            From::Exactly(version) => (*version, None),
            From::Rest {
                version,
                namespace,
                name,
            } => (
                version.unwrap_or(state.resource_version()),
                Some((namespace.as_str(), name.as_str())),
            ),
        };
        let objects = state
            .objects_at(version)
            .map_err(|Forgotten| self.expired())?;
        let mut all = range(&objects, self.resource, self.namespace.as_deref(), after);
        let limit = if self.limit == 0 {
            usize::MAX
        } else {
            self.limit
        };
        let mut page = Vec::new();
        while page.len() < limit
            && let Some(object) = all.next()
        {
            if self.selector.matches(object) {
                page.push(object.clone());
            }
        }
        let remaining = if page.len() < limit { 0 } else { all.count() };
        let token = (remaining > 0).then(|| page.last()).flatten().map(|last| {
            let key = last.key();
            encode_token(Some(version), &key.namespace, &key.name)
        });
        let counted = (remaining > 0 && self.selector.is_empty()).then_some(remaining);
        Ok(encode(
            self.resource,
            version,
            &page,
            token.as_deref(),
            counted,
        ))
    }

    /// The version of the list is forgotten; a list that was begun may go on at the newest.
    fn expired(&self) -> ApiError {
        let From::Rest {
            namespace, name, ..
        } = &self.from
        else {
            return ApiError::expired("The resourceVersion for the provided list is too old.");
        };
        let mut error = ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
             that were created, modified, or deleted between the time the first chunk was returned and now may show \
             up in the list.",
        );
        error.continue_token = Some(encode_token(None, namespace, name));
        error
    }
}

fn check_match(matching: &str, version: &str, token: &str) -> Result<(), ApiError> {
    let field = "resourceVersionMatch";
    if version.is_empty() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        return Err(refused(Cause::forbidden(field, why)));
    }
    if !token.is_empty() {
        return Err(refused(Cause::forbidden(
            field,
            "resourceVersionMatch is forbidden when continue is provided",
        )));
    }
    if !matches!(matching, "Exact" | "NotOlderThan") {
        return Err(refused(Cause::not_supported(
            field,
            &matching.into(),
            &["Exact", "NotOlderThan", ""],
        )));
    }
    if matching == "Exact" && version == "0" {
        let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        return Err(refused(Cause::forbidden(field, why)));
    }
    Ok(())
}

/// Objects as a list of their kind.
pub fn encode(
    resource: Resource,
    version: u64,
    objects: &[Arc<Object>],
    token: Option<&str>,
    remaining: Option<usize>,
) -> Bytes {
    let traits = resource.traits();
    let size: usize = objects.iter().map(|o| o.encoded().len() + 1).sum();
    let mut out = BytesMut::with_capacity(size + 256);
    let mut metadata = format!("{{\"resourceVersion\":\"{version}\"");
    if let Some(token) = token {
        metadata.push_str(&format!(",\"continue\":\"{token}\""));
    }
    if let Some(remaining) = remaining {
        metadata.push_str(&format!(",\"remainingItemCount\":{remaining}"));
    }
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata}}},\"items\":[",
        traits.kind, traits.api_version
    );
    out.put_slice(head.as_bytes());
    for (i, object) in objects.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        object.append_item(&mut out);
    }
    out.put_slice(b"]}\n");
    out.freeze()
}

/// Where a list goes on, as hexadecimal digits of `version/namespace/name`.
fn encode_token(version: Option<u64>, namespace: &str, name: &str) -> String {
    let version = version.map_or_else(|| "-".to_owned(), |v| v.to_string());
    let plain = format!("{version}/{namespace}/{name}");
    plain.bytes().map(|b| format!("{b:02x}")).collect()
}

fn decode_token(token: &str) -> Option<From> {
    let digits = token.as_bytes().chunks_exact(2);
    if !digits.remainder().is_empty() {
        return None;
    }
    let bytes: Option<Vec<u8>> = digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let plain = String::from_utf8(bytes?).ok()?;
    let (version, rest) = plain.split_once('/')?;
    let (namespace, name) = rest.split_once('/')?;
    let version = if version == "-" {
        None
    } else {
        Some(version.parse().ok()?)
    };
    Some(From::Rest {
        version,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_continue_token_leads_back_to_where_it_was_made(version: Option<u64>, ns in "[a-z-]*", name in "[a-z.-]*") {
            let token = encode_token(version, &ns, &name);
            prop_assert_eq!(decode_token(&token), Some(From::Rest { version, namespace: ns, name }));
        }

        #[test]
        fn any_text_is_a_token_or_none(text in ".*", hex in "[0-9a-f]*") {
            decode_token(&text);
            decode_token(&hex);
        }
    }
}
