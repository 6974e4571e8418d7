//! Fault injection for the lines of a watch: drops, delays, repeats, reorders or corrupts them.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use rand::RngExt;
use tokio::time::sleep;
use tower::BoxError;

use super::{Network, answers, lies};
use crate::network_conditions::LineIll;
use crate::trace::say;

/// The longest delay of a line.
pub const LATEST: Duration = Duration::from_secs(60);

/// Interval, in lines, at which one kept line is repeated.
const AGAIN_AFTER: u64 = 5;

/// Most lines kept for repetition.
const KEPT: usize = 3;

/// The state of one watch on its way through the network.
struct Passage {
    body: BodyDataStream,
    network: Network,
    watch: u64,
    /// The number of the watch's request.
    number: u64,
    /// Whether the watch begins with a list, which must not be falsified.
    lists: bool,
    came: u64,
    /// Lines received and not yet passed on.
    ready: VecDeque<Bytes>,
    /// A line that the next one overtakes.
    overtaken: Option<Bytes>,
    again: VecDeque<Bytes>,
    over: bool,
}

/// The lines of a watch with faults injected.
pub fn lines(
    body: BodyDataStream,
    network: Network,
    watch: u64,
    number: u64,
    lists: bool,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    let passage = Passage {
        body,
        network,
        watch,
        number,
        lists,
        came: 0,
        ready: VecDeque::new(),
        overtaken: None,
        again: VecDeque::new(),
        over: false,
    };
    stream::unfold(passage, |mut passage| async move {
        let chunk = passage.next().await?;
        Some((chunk, passage))
    })
}

impl Passage {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if self.over {
                return None;
            }
            let Some(line) = self.ready.pop_front() else {
                match self.body.next().await {
                    Some(Ok(chunk)) => self.ready.extend(split(&chunk)),
                    Some(Err(error)) => {
                        self.over = true;
                        return Some(Err(error.into()));
                    }
                    None => {
                        self.hold_back().await;
                        return None;
                    }
                }
                continue;
            };
            self.hold_back().await;
            if let Some(bytes) = self.pass(line).await {
                return Some(Ok(bytes));
            }
        }
    }

    /// A silenced watch yields nothing more, not even its end.
    async fn hold_back(&mut self) {
        if self.watch <= self.network.net().silent_to {
            std::future::pending::<()>().await;
        }
    }

    /// Injects a fault into one line; `None` if nothing is passed on.
    async fn pass(&mut self, line: Bytes) -> Option<Bytes> {
        let (torn, ill, share) = {
            let mut net = self.network.net();
            let net = &mut *net;
            let ill = net.weather.line(&mut net.rng, self.lists);
            let share: f64 = net.rng.random();
            let bookmarks = net.bookmarks || self.lists;
            if !bookmarks && line.starts_with(b"{\"type\":\"BOOKMARK\"") {
                return None;
            }
            (self.watch <= net.torn_to, ill, share)
        };
        let ill = if torn { Some(LineIll::Torn) } else { ill };
        if let Some(ill) = ill {
            say!("d{} #{} watch: {ill:?}", self.network.driver, self.number);
        }
        self.came += 1;
        let line = match ill {
            None => line,
            Some(LineIll::Torn) => {
                self.over = true;
                return Some(line.slice(..line.len() / 2));
            }
            Some(LineIll::Garbage) => join([&b"{\"type\": garbage}\n"[..], &line]),
            Some(LineIll::UnknownType) => {
                let unknown = &b"{\"type\":\"SURPRISE\",\"object\":{\"kind\":\"Box\"}}\n"[..];
                join([unknown, &line])
            }
            Some(LineIll::Late) => {
                sleep(LATEST.mul_f64(share * share)).await;
                line
            }
            Some(LineIll::Lost) => return None,
            Some(LineIll::Twice) => join([&line[..], &line]),
            Some(LineIll::Overtaken) => match self.overtaken.replace(line) {
                Some(before) => before,
                None => return None,
            },
            Some(LineIll::Again) => {
                if self.again.len() < KEPT {
                    self.again.push_back(line.clone());
                }
                line
            }
            Some(LineIll::Expired) => {
                self.over = true;
                return Some(answers::expired_line());
            }
            Some(LineIll::Unreadable) => lies::unreadable(&line, (share * 1e6) as u32),
        };
        let again = (self.came.is_multiple_of(AGAIN_AFTER)).then(|| self.again.pop_front());
        let before = match ill {
            Some(LineIll::Overtaken) => None,
            _ => self.overtaken.take(),
        };
        Some(join([
            &line[..],
            &before.unwrap_or_default(),
            &again.flatten().unwrap_or_default(),
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
