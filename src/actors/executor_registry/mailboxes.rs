//! The queues of outgoing messages, one per connection.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::messages::{Opened, Outgoing};
use super::registry::ConnectionId;

/// The most messages that wait for a connection. Executors that read none are disconnected.
const MAILBOX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    by_connection: BTreeMap<ConnectionId, mpsc::Sender<Outgoing>>,
    /// The number of the newest connection.
    last: u64,
}

impl Mailboxes {
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

    pub(super) fn close(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }

    /// Queues a message. Closes the connection if its mailbox is full.
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

    pub(super) fn len(&self) -> usize {
        self.by_connection.len()
    }

    /// The number of messages in the fullest mailbox.
    pub(super) fn unsent(&self) -> usize {
        let waiting = |mailbox: &mpsc::Sender<Outgoing>| MAILBOX - mailbox.capacity();
        self.by_connection.values().map(waiting).max().unwrap_or(0)
    }
}
