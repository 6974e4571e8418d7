//! `boatswain events`: prints the stream of events, and reconnects when the connection breaks.

use boatswain_client::{Client, ClientError};
use serde_json::Value;

use super::{Output, plain_yaml, tables};
use crate::cli::{complain, fail, plain_json, print};
use crate::exit::Exit;

/// Prints events until interrupted. If the driver disappears, waits for it to return.
pub async fn follow(
    client: &Client,
    after: Option<&str>,
    output: Output,
) -> Result<Exit, ClientError> {
    // The first connection must succeed, so that a wrong address is reported at once.
    let mut events = client.events(after).await?;
    loop {
        let Some(message) = events.next().await? else {
            complain("the stream has ended; waiting for the driver");
            continue;
        };
        let event = serde_json::from_str::<Value>(&message.data);
        let shown = match (output, event) {
            (Output::Table, Ok(event)) => tables::event(&event),
            (Output::Yaml, Ok(event)) => match plain_yaml(&event) {
                Ok(text) => format!("---\n{text}"),
                Err(why) => return Ok(fail(Exit::Bug, why)),
            },
            (Output::Json, _) | (_, Err(_)) => plain_json(&message.data),
        };
        if let Err(exit) = print(shown) {
            return Ok(exit);
        }
    }
}
