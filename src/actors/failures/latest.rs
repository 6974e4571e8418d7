//! What the latest ends of a profile's executors have in common (spec A-31, L-30).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::model::{LossClass, LossReason};

/// How many ends are remembered: enough to say what is usual.
const SAMPLE: usize = 63;

/// The latest ends, newest first.
#[derive(Debug, Default)]
pub struct LatestEnds(VecDeque<Ended>);

#[derive(Debug)]
struct Ended {
    who: String,
    /// `None`: it never ran, or that is not known.
    ran: Option<Duration>,
    class: LossClass,
    exit_code: Option<i32>,
    message: Arc<str>,
}

impl LatestEnds {
    /// `who` ended so after this time, such as `executor 7`.
    pub fn push(&mut self, who: String, ran: Option<Duration>, reason: &LossReason) {
        self.0.truncate(SAMPLE - 1);
        self.0.push_front(Ended {
            who,
            ran,
            class: reason.class,
            exit_code: reason.exit_code,
            message: Arc::from(reason.message.as_str()),
        });
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How long each had run; one that never ran had run for an instant.
    pub fn runs(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().map(|end| end.ran.unwrap_or_default())
    }

    /// How many of them ended alike, how soon, why, and which was the last of those; `None` if there are none.
    pub fn in_common(&self) -> Option<String> {
        let mut alike: BTreeMap<_, Vec<&Ended>> = BTreeMap::new();
        for end in &self.0 {
            let key = (end.class, end.exit_code);
            alike.entry(key).or_default().push(end);
        }
        let ends = alike.into_values().max_by_key(Vec::len)?;
        let last = ends.first()?;
        let longest = ends.iter().filter_map(|end| end.ran).max();
        let ran = longest.map_or_else(String::new, |longest| {
            let whole = Duration::from_secs(longest.as_secs() + 1);
            format!(" ran less than {}", humantime::format_duration(whole))
        });
        let why = format!("{ran}: {}: {}", last.class, last.message);
        Some(match self.0.len() {
            1 => format!("{}{why}", last.who),
            all => format!(
                "{} of the last {all}{why}; the last: {}",
                ends.len(),
                last.who
            ),
        })
    }
}
