//! What the store is told and asked, and what it hands out.

use actix::Message;

use crate::model::Epoch;
use crate::model::news::{ListTicket, Listed, News};

/// News for the ledger.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Tell(pub News);

/// A list is about to be asked for.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "ListTicket")]
pub struct BeginList;

/// A list came in.
#[derive(Debug, Clone, Message)]
#[rtype(result = "ListVerdict")]
pub struct ListArrived(pub Listed);

/// What became of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListVerdict {
    /// The history now current: what is watched from this list belongs to it.
    pub epoch: Epoch,
    /// Whether it was taken in; where not, it was asked for in an older epoch, and another is needed.
    pub accepted: bool,
    /// Whether it was full (spec S-11).
    pub full: bool,
}
