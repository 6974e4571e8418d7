//! One whole list: the store is told before, pages are gathered, the store judges it (spec P-1, S-11 to S-13).

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use thiserror::Error;

use crate::actors::snapshot_store::ledger::ListVerdict;
use crate::actors::snapshot_store::messages::{BeginList, ListArrived};
use crate::kubernetes::{Calls, Failure, Kind, ListQuery, NotStreamed};
use crate::model::ResourceVersion;
use crate::model::news::{ListKind, Listed};
use crate::model::pod::Sighting;
use crate::planted::{self, Planted};

/// A page token lives for minutes and a page takes less than a second: a list that outlives its token so often in a
/// row will not come to its end by trying on.
const MAX_BEGINNINGS: u32 = 4;

/// Makes lists and hands them to the store.
#[derive(Debug, Clone)]
pub struct Lister {
    /// How the cluster is reached.
    pub calls: Calls,
    /// The store, which says what it knows before a list is asked for.
    pub begin: Recipient<BeginList>,
    /// The store, which judges the list.
    pub arrived: Recipient<ListArrived>,
    /// How many pods a page has at most.
    pub page_size: u32,
    /// Whether the server is asked for streamed lists first (spec W-4).
    pub streams: bool,
}

/// A list that the store has judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenIn {
    /// The list's version.
    pub version: ResourceVersion,
    /// How many pods were in it.
    pub pods: usize,
    /// What became of it.
    pub verdict: ListVerdict,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    /// A page could not be had.
    #[error(transparent)]
    Page(#[from] Failure),
    /// It took too long.
    #[error("the list was not complete within {} s", .0.as_secs())]
    TooLong(Duration),
    /// The driver ends.
    #[error("the snapshot store is gone")]
    StoreGone,
}

/// Why there is no streamed list.
enum StreamError {
    NotStreamed(NotStreamed),
    StoreGone,
}

impl ListError {
    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ListError::Page(failure) => failure.retry_after,
            ListError::TooLong(_) | ListError::StoreGone => None,
        }
    }

    /// The error in words.
    pub fn text(&self) -> Arc<str> {
        Arc::from(self.to_string())
    }
}

impl Lister {
    /// Makes one list in pages and has the store judge it.
    ///
    /// A list whose page token has expired is begun again; where the server has not reached the version that a cached
    /// list asks for, the newest list is made (spec S-13). Either way the store is asked anew: it may have learnt more
    /// meanwhile.
    ///
    /// # Errors
    /// Where it is not complete within `deadline`, or a page cannot be had.
    pub async fn list(&self, kind: ListKind, deadline: Duration) -> Result<TakenIn, ListError> {
        match tokio::time::timeout(deadline, self.list_at_leisure(kind)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ListError::TooLong(deadline)),
        }
    }

    /// Makes one quorum list for the watch to go on from, as a stream where the server offers that, in pages otherwise (spec W-4), and has the store
    /// judge it. Beside it: why it was no stream, where one was asked for.
    ///
    /// # Errors
    /// As [`Lister::list`].
    pub async fn list_streamed(
        &self,
        deadline: Duration,
    ) -> (Result<TakenIn, ListError>, Option<NotStreamed>) {
        if !self.streams {
            return (self.list(ListKind::ForWatch, deadline).await, None);
        }
        let streamed = tokio::time::timeout(deadline, self.stream_at_leisure());
        match streamed.await {
            Ok(Ok(taken_in)) => (Ok(taken_in), None),
            Ok(Err(StreamError::StoreGone)) => (Err(ListError::StoreGone), None),
            Ok(Err(StreamError::NotStreamed(NotStreamed::Failed(failure)))) => {
                (Err(failure.into()), None)
            }
            Ok(Err(StreamError::NotStreamed(why))) => {
                (self.list(ListKind::ForWatch, deadline).await, Some(why))
            }
            Err(_) => (Err(ListError::TooLong(deadline)), None),
        }
    }

    async fn stream_at_leisure(&self) -> Result<TakenIn, StreamError> {
        let gone = |_: ListError| StreamError::StoreGone;
        let ticket = self.ask(&self.begin, BeginList).await.map_err(gone)?;
        let (version, items) = self
            .calls
            .stream_pods()
            .await
            .map_err(StreamError::NotStreamed)?;
        let pods = items.len();
        let list = Listed {
            ticket,
            version: version.clone(),
            kind: ListKind::ForWatch,
            items,
        };
        let verdict = self
            .ask(&self.arrived, ListArrived(list))
            .await
            .map_err(gone)?;
        Ok(TakenIn {
            version,
            pods,
            verdict,
        })
    }

    async fn list_at_leisure(&self, mut wanted: ListKind) -> Result<TakenIn, ListError> {
        let mut beginnings = 0;
        loop {
            beginnings += 1;
            let ticket = self.ask(&self.begin, BeginList).await?;
            let kind = match wanted {
                // Where nothing was seen yet, a cached list could be of any age.
                ListKind::PollCached if ticket.highest == ResourceVersion::ZERO => {
                    ListKind::PollNewest
                }
                kind => kind,
            };
            let at_least = (kind == ListKind::PollCached).then(|| ticket.highest.clone());
            match self.gather(at_least).await {
                Ok((version, items)) => {
                    let pods = items.len();
                    let list = Listed {
                        ticket,
                        version: version.clone(),
                        kind,
                        items,
                    };
                    let verdict = self.ask(&self.arrived, ListArrived(list)).await?;
                    return Ok(TakenIn {
                        version,
                        pods,
                        verdict,
                    });
                }
                Err(failure)
                    if failure.kind == Kind::TooLargeVersion && kind == ListKind::PollCached =>
                {
                    wanted = ListKind::PollNewest;
                }
                Err(failure) if failure.kind == Kind::Expired && beginnings < MAX_BEGINNINGS => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// All pages of a list; the version of the first one holds for all.
    async fn gather(
        &self,
        at_least: Option<ResourceVersion>,
    ) -> Result<(ResourceVersion, Vec<Sighting>), Failure> {
        let mut query = ListQuery {
            limit: Some(self.page_size),
            continue_token: None,
            at_least,
        };
        let first = self.calls.list_pods(&query).await?;
        let mut items = first.items;
        query.continue_token = first.continue_token;
        while query.continue_token.is_some() && !planted::is(Planted::PagesDropped) {
            let page = self.calls.list_pods(&query).await?;
            items.extend(page.items);
            query.continue_token = page.continue_token;
        }
        Ok((first.version, items))
    }

    async fn ask<M>(&self, store: &Recipient<M>, message: M) -> Result<M::Result, ListError>
    where
        M: actix::Message + Send,
        M::Result: Send,
    {
        store.send(message).await.map_err(|_| ListError::StoreGone)
    }
}
