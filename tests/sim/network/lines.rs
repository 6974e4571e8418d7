//! Fault injection for the lines of a watch: drops, delays, repeats, reorders or corrupts them.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use rand::RngExt;
use tokio::time::sleep;
use tower::BoxError;

use super::{Network, answers, falsify};
use crate::network_conditions::LineFault;
use crate::trace::trace_line;

/// The longest delay of a line.
pub const LONGEST_LINE_DELAY: Duration = Duration::from_secs(60);

/// Interval, in lines, at which one kept line is repeated.
const REPEAT_INTERVAL: u64 = 5;

/// Most lines kept for repetition.
const MAX_REPEATS: usize = 3;

/// The state of one watch on its way through the network.
struct WatchStream {
    body: BodyDataStream,
    network: Network,
    watch: u64,
    /// The number of the watch's request.
    number: u64,
    /// Whether the watch begins with a list, which must not be falsified.
    lists: bool,
    received: u64,
    /// Lines received and not yet passed on.
    ready: VecDeque<Bytes>,
    /// A line that the next one overtakes.
    reordered: Option<Bytes>,
    repeats: VecDeque<Bytes>,
    ended: bool,
}

/// The lines of a watch with faults injected.
pub fn lines(
    body: BodyDataStream,
    network: Network,
    watch: u64,
    number: u64,
    lists: bool,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    let watch_stream = WatchStream {
        body,
        network,
        watch,
        number,
        lists,
        received: 0,
        ready: VecDeque::new(),
        reordered: None,
        repeats: VecDeque::new(),
        ended: false,
    };
    stream::unfold(watch_stream, |mut watch_stream| async move {
        let chunk = watch_stream.next().await?;
        Some((chunk, watch_stream))
    })
}

impl WatchStream {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if self.ended {
                return None;
            }
            let Some(line) = self.ready.pop_front() else {
                match self.body.next().await {
                    Some(Ok(chunk)) => self.ready.extend(split(&chunk)),
                    Some(Err(error)) => {
                        self.ended = true;
                        return Some(Err(error.into()));
                    }
                    None => {
                        self.wait_if_silenced().await;
                        return None;
                    }
                }
                continue;
            };
            self.wait_if_silenced().await;
            if let Some(bytes) = self.inject(line).await {
                return Some(Ok(bytes));
            }
        }
    }

    /// A silenced watch yields nothing more, not even its end.
    async fn wait_if_silenced(&mut self) {
        if self.watch <= self.network.shared().silenced_up_to {
            std::future::pending::<()>().await;
        }
    }

    /// Injects a fault into one line; `None` if nothing is passed on.
    async fn inject(&mut self, line: Bytes) -> Option<Bytes> {
        let (truncated, fault, share) = {
            let mut shared = self.network.shared();
            let shared = &mut *shared;
            let fault = shared.conditions.line_fault(&mut shared.rng, self.lists);
            let share: f64 = shared.rng.random();
            let bookmarks = shared.bookmarks || self.lists;
            if !bookmarks && line.starts_with(b"{\"type\":\"BOOKMARK\"") {
                return None;
            }
            (self.watch <= shared.broken_up_to, fault, share)
        };
        let fault = if truncated {
            Some(LineFault::Truncated)
        } else {
            fault
        };
        if let Some(fault) = fault {
            trace_line!("d{} #{} watch: {fault:?}", self.network.driver, self.number);
        }
        self.received += 1;
        let line = match fault {
            None => line,
            Some(LineFault::Truncated) => {
                self.ended = true;
                return Some(line.slice(..line.len() / 2));
            }
            Some(LineFault::Garbage) => join([&b"{\"type\": garbage}\n"[..], &line]),
            Some(LineFault::UnknownType) => {
                let unknown = &b"{\"type\":\"SURPRISE\",\"object\":{\"kind\":\"Box\"}}\n"[..];
                join([unknown, &line])
            }
            Some(LineFault::Late) => {
                sleep(LONGEST_LINE_DELAY.mul_f64(share * share)).await;
                line
            }
            Some(LineFault::Lost) => return None,
            Some(LineFault::Duplicated) => join([&line[..], &line]),
            Some(LineFault::Reordered) => match self.reordered.replace(line) {
                Some(before) => before,
                None => return None,
            },
            Some(LineFault::Repeated) => {
                if self.repeats.len() < MAX_REPEATS {
                    self.repeats.push_back(line.clone());
                }
                line
            }
            Some(LineFault::Expired) => {
                self.ended = true;
                return Some(answers::expired_line());
            }
            Some(LineFault::ObjectUndecodable) => {
                falsify::undecodable_line(&line, (share * 1e6) as u32)
            }
        };
        let repeat =
            (self.received.is_multiple_of(REPEAT_INTERVAL)).then(|| self.repeats.pop_front());
        let before = match fault {
            Some(LineFault::Reordered) => None,
            _ => self.reordered.take(),
        };
        Some(join([
            &line[..],
            &before.unwrap_or_default(),
            &repeat.flatten().unwrap_or_default(),
        ]))
    }
}

fn split(chunk: &Bytes) -> Vec<Bytes> {
    let mut lines = Vec::new();
    let mut rest = chunk.clone();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        lines.push(rest.split_to(end + 1));
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn join<const N: usize>(parts: [&[u8]; N]) -> Bytes {
    let mut all = BytesMut::new();
    for part in parts {
        all.extend_from_slice(part);
    }
    all.freeze()
}
