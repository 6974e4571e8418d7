//! `boatswain events`: prints the stream of events, and reconnects when the connection breaks.

use boatswain_client::{Client, ClientError};
use serde_json::Value;

use super::tables;
use crate::cli::{complain, plain_json, print};
use crate::exit::Exit;

/// Prints events until interrupted. If the driver disappears, waits for it to return.
pub async fn follow(
    client: &Client,
    after: Option<&str>,
    as_json: bool,
) -> Result<Exit, ClientError> {
    // The first connection must succeed, so that a wrong address is reported at once.
    let mut events = client.events(after).await?;
    loop {
        let Some(message) = events.next().await? else {
            complain("the stream has ended; waiting for the driver");
            continue;
        };
        let shown = match serde_json::from_str::<Value>(&message.data) {
            Ok(event) if !as_json => tables::event(&event),
            _ => plain_json(&message.data),
        };
        if let Err(exit) = print(shown) {
            return Ok(exit);
        }
    }
}
