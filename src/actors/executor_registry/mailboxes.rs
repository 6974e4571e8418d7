//! What is to go out over each connection.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::messages::{Opened, Outgoing};
use super::registry::ConnectionId;

/// At most this many messages wait to be sent over a connection. An executor is rarely sent more than one; the connection
/// of an executor that reads none of them is cut.
const MAILBOX: usize = 16;

/// The connections that are open.
#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    by_connection: BTreeMap<ConnectionId, mpsc::Sender<Outgoing>>,
    /// The number of the last connection.
    last: u64,
}

impl Mailboxes {
    /// A new connection.
    pub(super) fn open(&mut self) -> Opened {
        self.last += 1;
        let connection = ConnectionId(self.last);
        let (mailbox, outgoing) = mpsc::channel(MAILBOX);
        self.by_connection.insert(connection, mailbox);
        Opened {
            connection,
            outgoing,
        }
    }

    /// The end of a connection.
    pub(super) fn close(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }

    /// Sends over a connection. One whose mailbox is full ends.
    pub(super) fn post(&mut self, connection: ConnectionId, outgoing: Outgoing) {
        let Some(mailbox) = self.by_connection.get(&connection) else {
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = mailbox.try_send(outgoing) {
            let connection_id = connection.0;
            tracing::warn!(
                connection = connection_id,
                "a connection is cut: its executor reads nothing"
            );
            self.by_connection.remove(&connection);
        }
    }

    /// How many connections are open.
    pub(super) fn len(&self) -> usize {
        self.by_connection.len()
    }

    /// How many messages wait in the fullest mailbox.
    pub(super) fn unsent(&self) -> usize {
        let waiting = |mailbox: &mpsc::Sender<Outgoing>| MAILBOX - mailbox.capacity();
        self.by_connection.values().map(waiting).max().unwrap_or(0)
    }
}
