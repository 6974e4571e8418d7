//! SnapshotStore: the ledger, and the batches it hands to its subscribers.

pub mod delivery;
pub mod ledger;
pub mod messages;
pub mod table;

#[cfg(test)]
mod tests;
