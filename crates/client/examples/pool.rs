//! A small engine: it keeps eight executors, and prints who was lost and why. It ends with Ctrl-C.
//!
//! `cargo run -p boatswain-client --example pool -- TOKEN_FILE`, beside a driver with `api.listen = "127.0.0.1:7117"`.

use std::error::Error;

use boatswain_client::{Client, Token};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args()
        .nth(1)
        .ok_or("name the file with the API token")?;
    let driver = Client::new(
        "http://127.0.0.1:7117".parse()?,
        Token::File(file.into()),
        None,
    )?;
    let targets = driver.put_target("default", 8).await?;
    println!("wanted: {:?}", targets.targets);
    let mut events = driver.events(None).await?;
    loop {
        let Some(message) = events.next().await? else {
            println!("waiting for the driver");
            continue;
        };
        let event = message.event()?;
        if let ("ended", Some(executor), Some(reason)) =
            (&*event.event, event.executor, event.reason)
        {
            println!("executor {executor} was lost: {reason:?}");
        }
    }
}
