//! Answers list requests: of the newest or an earlier resource version, in one piece or in pages.

use bytes::Bytes;
use serde_json::Value;

use super::query::Query;
use super::status::{ApiError, Causes};
use super::token::Position;
use super::view::{Listing, View};
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;
use crate::storage::store::{Compacted, State, range};

#[derive(Debug)]
pub struct List {
    resource: Resource,
    namespace: Option<String>,
    selector: Selector,
    /// The most objects of a page.
    limit: usize,
    from: From,
}

/// The resource version that a list reads.
#[derive(Debug, PartialEq)]
enum From {
    /// The newest one; wait until it is at least this.
    Now {
        at_least: u64,
    },
    Exactly(u64),
    /// The next page of a list, at the version at which the list began, or at the newest if that one has expired.
    Rest(Position),
}

impl List {
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
        let limit = query.number("limit")?.filter(|limit| *limit > 0);
        refusals(query).check("ListOptions", "meta.k8s.io", "")?;
        let mut list = Self {
            resource,
            namespace: namespace.map(str::to_owned),
            selector,
            limit: limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            from: From::Now { at_least: 0 },
        };
        if !token.is_empty() {
            if !matches!(version, "" | "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(ApiError::bad_request(why));
            }
            list.from = From::Rest(Position::decode(token, namespace)?);
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
        // Version 0 ignores the limit, as on real servers: their cache does not serve pages.
        if version == 0 {
            list.limit = usize::MAX;
        }
        let exact = matching == "Exact" || (matching.is_empty() && limit.is_some());
        list.from = if exact && version > 0 {
            From::Exactly(version)
        } else {
            From::Now { at_least: version }
        };
        Ok(list)
    }

    /// The version that the state must have reached before the list can be answered.
    pub fn needs(&self) -> u64 {
        match &self.from {
            From::Now { at_least } => *at_least,
            From::Exactly(version) => *version,
            // A version in the future cannot come from a token of this server.
            From::Rest(position) => position.version.unwrap_or(0),
        }
    }

    pub fn answer(&self, state: &State, view: &View) -> Result<Bytes, ApiError> {
        let (version, after) = match &self.from {
            From::Now { .. } => (state.resource_version(), None),
            From::Exactly(version) => (*version, None),
            From::Rest(position) => (
                position.version.unwrap_or(state.resource_version()),
                Some((position.namespace.as_str(), position.name.as_str())),
            ),
        };
        let objects = state
            .objects_at(version)
            .map_err(|Compacted| self.expired())?;
        let mut all = range(&objects, self.resource, self.namespace.as_deref(), after);
        let mut page = Vec::new();
        while page.len() < self.limit
            && let Some(object) = all.next()
        {
            if self.selector.matches(object) {
                page.push(object.clone());
            }
        }
        let remaining = if page.len() < self.limit {
            0
        } else {
            all.count()
        };
        let token = (remaining > 0).then(|| page.last()).flatten().map(|last| {
            let position = Position {
                version: Some(version),
                namespace: last.key().namespace.to_string(),
                name: last.key().name.to_string(),
            };
            position.encode(self.namespace.as_deref())
        });
        Ok(view.list(&Listing {
            resource: self.resource,
            version,
            objects: &page,
            token,
            remaining: (remaining > 0 && self.selector.is_empty()).then_some(remaining),
        }))
    }

    /// The error for an expired resource version. It carries a token that continues a paged list at the newest version.
    fn expired(&self) -> ApiError {
        let From::Rest(position) = &self.from else {
            return ApiError::expired("The resourceVersion for the provided list is too old.");
        };
        let mut error = ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
             that were created, modified, or deleted between the time the first chunk was returned and now may show \
             up in the list.",
        );
        let position = Position {
            version: None,
            ..position.clone()
        };
        error.continue_token = Some(position.encode(self.namespace.as_deref()));
        error
    }
}

/// What is invalid about the resource version parameters.
fn refusals(query: &Query) -> Causes {
    let (version, matching) = (
        query.text("resourceVersion"),
        query.text("resourceVersionMatch"),
    );
    let field = "resourceVersionMatch";
    let mut causes = Causes::default();
    if !matching.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.forbidden(field, why);
        }
        if !query.text("continue").is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            causes.forbidden(field, why);
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let known = ["Exact", "NotOlderThan", ""];
            causes.not_supported(field, matching, &known);
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.forbidden(field, why);
        }
    }
    if query.flag("sendInitialEvents").is_some() {
        let why = "sendInitialEvents is forbidden for list";
        causes.forbidden("sendInitialEvents", why);
    }
    causes
}
