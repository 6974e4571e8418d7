//! Captures log lines in tests.

use std::io;
use std::sync::{LazyLock, mpsc};

use tracing::Level;

use super::LogFormat;
use super::format::{Lines, SpanFields};

/// A writer that sends every line over a channel.
struct Sent(mpsc::Sender<Vec<u8>>);

impl io::Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !bytes.is_empty() {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A second dispatcher that lives as long as the tests. While `tracing` knows only one, a log line
/// that another thread reaches first is off for every thread.
static SECOND: LazyLock<tracing::Dispatch> = LazyLock::new(|| {
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG);
    tracing::Dispatch::new(subscriber.with_writer(io::sink).finish())
});

/// What is logged while `f` runs.
pub(crate) fn logged(format: LogFormat, f: impl FnOnce()) -> String {
    LazyLock::force(&SECOND);
    let (sender, receiver) = mpsc::channel();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_writer(move || Sent(sender.clone()))
        .with_ansi(false)
        .fmt_fields(SpanFields)
        .event_format(Lines::new(format, false))
        .finish();
    tracing::subscriber::with_default(subscriber, f);
    let lines: Vec<Vec<u8>> = receiver.try_iter().collect();
    String::from_utf8(lines.concat()).unwrap()
}
