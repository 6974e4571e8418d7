//! Checks that arbitrary bytes are safely read as a watch.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, stream};
use http_body::Frame;
use http_body_util::StreamBody;

use super::lines::LineReader;
use super::streamed::{Gathered, end_of_list};
use super::watch::{WatchLine, next_line};
use crate::decode::PodReader;
use crate::labels::LabelScheme;
use crate::refusal::Failure;
use boatswain_model::pod::Sighting;

const LONGEST_MESSAGE: usize = 4 * 1024;

/// The maximum size of a decoded pod, as debug output.
const LARGEST_POD: usize = 16 * 1024;

/// Reads the body of a watch to its end. The result must not depend on the chunks; what is kept of each line must be
/// small and fit for the log (spec W-5, S-15, E-14, I-11).
pub fn watch_lines(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    assert_eq!(read(data, data.len() % 61 + 1), whole, "the pieces matter");
    let mut gathered = Gathered::default();
    for line in whole {
        match line {
            Ok(WatchLine::Seen(pod)) => {
                is_small(&pod);
                gathered.seen(pod);
            }
            Ok(WatchLine::Deleted(pod)) => {
                is_small(&pod);
                gathered.deleted(&pod);
            }
            Ok(WatchLine::Error(failure)) | Err(failure) => is_fit_to_be_logged(&failure.message),
            Ok(WatchLine::UnknownType(kind)) => is_fit_to_be_logged(&kind),
            Ok(WatchLine::Bookmark(_) | WatchLine::Expired) => {}
        }
    }
    let items = gathered.into_items();
    let uids: Vec<_> = items.iter().filter_map(Sighting::uid).collect();
    assert_eq!(
        uids.iter().collect::<BTreeSet<_>>().len(),
        uids.len(),
        "a pod is there twice"
    );
    for line in data.split(|byte| *byte == b'\n') {
        end_of_list(line);
    }
}

fn read(data: &[u8], piece: usize) -> Vec<Result<WatchLine<Sighting>, Failure>> {
    let reader = PodReader {
        app_id: "etl-7f3a".into(),
        prefix: Arc::from("etl"),
        record: Arc::from("etl-app"),
        labels: LabelScheme::Boatswain,
        container: Arc::from("executor"),
        check_all_containers: true,
        of_sets: false,
    };
    let pieces: Vec<_> = data
        .chunks(piece)
        .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let mut lines = LineReader::new(StreamBody::new(stream::iter(pieces)));
    let mut read = Vec::new();
    let decode = |object: &str| Ok(reader.read(object));
    loop {
        // The whole body is available, so the reader must never wait.
        let next = next_line(&mut lines, "watch", &decode);
        match next.now_or_never() {
            Some(Some(line)) => read.push(line),
            Some(None) => return read,
            None => panic!("it waits for more than there is"),
        }
    }
}

fn is_small(pod: &Sighting) {
    let size = format!("{pod:?}").len();
    assert!(size <= LARGEST_POD, "{size} bytes: {pod:?}");
    if let Sighting::Unreadable(part) = pod {
        is_fit_to_be_logged(&part.error);
    }
}

fn is_fit_to_be_logged(text: &str) {
    assert!(text.len() <= LONGEST_MESSAGE, "{} bytes", text.len());
    assert!(!text.contains(char::is_control), "{text:?}");
}
