//! Lists that are read to their end, page by page.

use http::Method;
use serde_json::value::RawValue;

use super::Calls;
use super::pods::expect_kind;
use super::transport::{self, Call, LIST_LIMIT, Query, garbage};
use crate::refusal::Failure;
use crate::wire::ListWire;

/// Objects in a page.
const PAGE: &str = "500";

impl Calls {
    /// Lists the objects that the selector matches, in their most recent state. `read` decodes one; without a result it is
    /// left out.
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
        let mut found = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut query = Query::default()
                .with("labelSelector", selector)
                .with("limit", PAGE);
            if let Some(token) = &token {
                query = query.with("continue", token);
            }
            let call = Call {
                method: Method::GET,
                path: path.to_owned(),
                query,
                body: None,
                limit: LIST_LIMIT,
            };
            let place = call.place();
            let body = self.answer(&self.clients().reads, call).await;
            let body = body.map_err(|rejection| rejection.failure)?;
            let text = transport::text(&body);
            let page = read_page(&text, kind, &read).map_err(|why| garbage(&place, &why))?;
            found.extend(page.items);
            token = page.next;
            if token.as_deref().is_none_or(str::is_empty) {
                return Ok(found);
            }
        }
    }
}

struct Page<T> {
    items: Vec<T>,
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
    let next = list.metadata.and_then(|meta| meta.continue_token);
    Ok(Page {
        items: items.into_iter().flatten().collect(),
        next: next.map(|token| token.0.into_owned()),
    })
}
