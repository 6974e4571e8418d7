//! Lists that are read to their end, page by page.

use bytes::Bytes;
use http::Method;
use serde_json::value::RawValue;

use super::Calls;
use super::pods::expect_kind;
use super::transport::{self, Call, LIST_LIMIT, Query, garbage};
use crate::refusal::Failure;
use crate::wire::ListWire;
use boatswain_model::ResourceVersion;

/// Objects in a page.
const PAGE: u32 = 500;

impl Calls {
    /// Lists the objects that the selector matches, in their most recent state. `read` decodes one; without a result it
    /// is left out.
    ///
    /// # Errors
    /// If a page cannot be read or has another kind, or if `read` fails.
    pub(super) async fn list_all<T>(
        &self,
        path: &str,
        kind: &str,
        selector: &str,
        read: impl Fn(&str) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, Failure> {
        let listed = self.list_all_at(path, kind, selector, read).await;
        listed.map(|(_, found)| found)
    }

    /// The same, with the list's version.
    pub(super) async fn list_all_at<T>(
        &self,
        path: &str,
        kind: &str,
        selector: &str,
        read: impl Fn(&str) -> Result<Option<T>, String>,
    ) -> Result<(ResourceVersion, Vec<T>), Failure> {
        let (mut found, mut version) = (Vec::new(), None);
        let mut token: Option<String> = None;
        let mut size = Some(PAGE);
        loop {
            let further = |query: Query, _| match &token {
                Some(token) => query.with("continue", token),
                None => query,
            };
            let (place, body) = self.page(path, selector, &mut size, further).await?;
            let text = transport::text(&body);
            let page = read_page(&text, kind, &read).map_err(|why| garbage(&place, &why))?;
            found.extend(page.items);
            let version = version.get_or_insert(page.version);
            token = page.next;
            if token.as_deref().is_none_or(str::is_empty) {
                return Ok((version.clone(), found));
            }
        }
    }

    /// Reads a page of up to this many objects. While its answer is too long, half as many are asked for, down to one,
    /// and `size` becomes that (spec P-5). `further` adds to the query; it is told whether that has happened. Also
    /// returns what was asked.
    pub(super) async fn page(
        &self,
        path: &str,
        selector: &str,
        size: &mut Option<u32>,
        further: impl Fn(Query, bool) -> Query,
    ) -> Result<(String, Bytes), Failure> {
        let wanted = *size;
        loop {
            let mut query = Query::default().with("labelSelector", selector);
            if let Some(size) = size {
                query = query.with("limit", &size.to_string());
            }
            let call = Call {
                method: Method::GET,
                path: path.to_owned(),
                query: further(query, *size != wanted),
                body: None,
                limit: LIST_LIMIT,
            };
            let place = call.place();
            match self.answer(&self.clients().reads, call).await {
                Ok(body) => return Ok((place, body)),
                Err(rejection) if rejection.is_too_long && *size != Some(1) => {
                    if *size == wanted {
                        tracing::warn!(
                            error = &*rejection.failure.message,
                            "a page of a list is too long: fewer objects are asked for at a time"
                        );
                    }
                    *size = Some((size.unwrap_or(PAGE) / 2).max(1));
                }
                Err(rejection) => return Err(rejection.failure),
            }
        }
    }
}

struct Page<T> {
    items: Vec<T>,
    version: ResourceVersion,
    /// The token of the next page.
    next: Option<String>,
}

fn read_page<T>(
    text: &str,
    kind: &str,
    read: impl Fn(&str) -> Result<Option<T>, String>,
) -> Result<Page<T>, String> {
    let list: ListWire<'_, &RawValue> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    expect_kind(list.kind.as_ref(), kind)?;
    let items = list.items.unwrap_or_default();
    let items = items
        .iter()
        .map(|item| read(item.get()))
        .collect::<Result<Vec<_>, _>>()?;
    let (version, next) = (list.metadata)
        .map(|meta| (meta.resource_version, meta.continue_token))
        .unzip();
    let version = version
        .flatten()
        .and_then(|version| ResourceVersion::parse(&version.0));
    let next = next.flatten();
    Ok(Page {
        version: version.unwrap_or(ResourceVersion::ZERO),
        items: items.into_iter().flatten().collect(),
        next: next.map(|token| token.0.into_owned()),
    })
}
