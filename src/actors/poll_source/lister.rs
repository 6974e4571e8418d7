//! Makes one complete list: gets a ticket from the store, collects the pages, and gives the list to
//! the store, which accepts or rejects it (spec P-1, S-11 to S-13).

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use thiserror::Error;

use crate::actors::snapshot_store::messages::{BeginList, ListArrived};
use crate::kubernetes::{Calls, Failure, FailureKind, ListQuery, NotStreamed};
use crate::model::ResourceVersion;
use crate::model::ledger::ListVerdict;
use crate::model::news::{ListKind, Listed};
use crate::model::pod::Sighting;
use crate::planted::{self, Planted};

/// How often a list is begun again after its page token has expired. A token is valid for minutes
/// and a page takes less than a second, so a list that outlives its token this often would not
/// complete by further attempts either.
const MAX_BEGINNINGS: u32 = 4;

#[derive(Debug, Clone)]
pub struct Lister {
    pub calls: Calls,
    /// Gives a ticket with what the store knew before the list.
    pub begin: Recipient<BeginList>,
    /// Takes the list.
    pub arrived: Recipient<ListArrived>,
    /// The most pods in a page.
    pub page_size: u32,
    /// Whether streamed lists are tried first.
    pub streams: bool,
}

/// A list that was given to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenIn {
    /// The list's resource version.
    pub version: ResourceVersion,
    /// The number of pods in it.
    pub pods: usize,
    /// Whether the store accepted it.
    pub verdict: ListVerdict,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListError {
    /// A page could not be fetched.
    #[error(transparent)]
    Page(#[from] Failure),
    #[error("the list was not complete within {} s", .0.as_secs())]
    TooLong(Duration),
    /// The store has stopped, because the driver is ending.
    #[error("the snapshot store is gone")]
    StoreGone,
}

/// Why there is no streamed list.
enum StreamError {
    NotStreamed(NotStreamed),
    StoreGone,
}

impl ListError {
    /// The Retry-After of the server's answer.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ListError::Page(failure) => failure.retry_after,
            ListError::TooLong(_) | ListError::StoreGone => None,
        }
    }

    pub fn text(&self) -> Arc<str> {
        Arc::from(self.to_string())
    }
}

impl Lister {
    /// Makes one list in pages and gives it to the store.
    ///
    /// A list whose page token has expired is begun again. If the server has not reached the
    /// version that a cached list requires, the newest list is made (spec S-13). In both cases the
    /// store gives a new ticket, because it may have learnt more meanwhile.
    ///
    /// # Errors
    ///
    /// The list is not complete within `deadline`, or a page cannot be fetched.
    pub async fn list(&self, kind: ListKind, deadline: Duration) -> Result<TakenIn, ListError> {
        match tokio::time::timeout(deadline, self.list_at_leisure(kind)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ListError::TooLong(deadline)),
        }
    }

    /// Makes one quorum list from which the watch continues, and gives it to the store. The list is
    /// streamed where the server supports that, and paginated otherwise (spec W-4). Also returns
    /// why it was not streamed, if streaming was tried.
    ///
    /// # Errors
    ///
    /// Like [`Lister::list`].
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
                // If nothing has been seen yet, a cached list could be of any age.
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
                    if failure.kind == FailureKind::TooLargeVersion
                        && kind == ListKind::PollCached =>
                {
                    wanted = ListKind::PollNewest;
                }
                Err(failure)
                    if failure.kind == FailureKind::Expired && beginnings < MAX_BEGINNINGS => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Collects all pages of a list. The version of the first page is that of the list.
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
        (query.continue_token, query.limit) = (first.continue_token, first.limit);
        while query.continue_token.is_some() && !planted::is(Planted::PagesDropped) {
            let page = self.calls.list_pods(&query).await?;
            items.extend(page.items);
            (query.continue_token, query.limit) = (page.continue_token, page.limit);
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
