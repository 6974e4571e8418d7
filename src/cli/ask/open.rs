//! Opens the driver's page in the user's browser (spec O-105).

use std::process::{Command, Stdio};

use http::Uri;

use crate::cli::{fail, say};
use crate::exit::Exit;

/// What opens an address with the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// The address is printed too, because the browser may be on another machine. It contains no token: addresses end up in
/// histories and logs.
pub(super) fn page(server: &Uri) -> Exit {
    let address = format!("{}/", server.to_string().trim_end_matches('/'));
    let exit = say(&address);
    // Not waited for: it may be the browser itself.
    let opened = Command::new(OPENER)
        .arg(&address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        Ok(_) => exit,
        Err(error) => fail(
            Exit::Refused,
            format_args!("{OPENER} cannot be started: {error}\nopen the address in a browser"),
        ),
    }
}
