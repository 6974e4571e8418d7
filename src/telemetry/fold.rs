//! Deduplicates log lines: repeats of a line within a time window are counted instead of written (spec O-40).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long repeats of a written line are suppressed.
const WINDOW: Duration = Duration::from_secs(10);

/// The most lines that are remembered. Lines that do not fit, in a burst, are written rather than suppressed.
const MOST: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Folds {
    /// Keyed by the line without its time.
    recent: BTreeMap<String, Recent>,
}

#[derive(Debug)]
struct Recent {
    written: Instant,
    kept_back: u64,
}

impl Folds {
    /// Whether this line must be written.
    pub fn admit(&mut self, line: &str, now: Instant) -> bool {
        if let Some(recent) = self.recent.get_mut(line) {
            recent.kept_back += 1;
            return false;
        }
        if self.recent.len() < MOST {
            let recent = Recent {
                written: now,
                kept_back: 0,
            };
            self.recent.insert(line.to_owned(), recent);
        }
        true
    }

    /// Removes the lines whose window has passed, and returns those with suppressed repeats and their number. Must be
    /// called before [`Folds::admit`].
    pub fn over(&mut self, now: Instant) -> Vec<(String, u64)> {
        let mut over = Vec::new();
        self.recent.retain(|line, recent| {
            let stays = now.saturating_duration_since(recent.written) < WINDOW;
            if !stays && recent.kept_back > 0 {
                over.push((line.clone(), recent.kept_back));
            }
            stays
        });
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-40
    #[test]
    fn repeats_are_folded_and_counted() {
        let mut folds = Folds::default();
        let start = Instant::now();
        assert!(folds.admit("refused", start));
        assert!(!folds.admit("refused", start));
        assert!(folds.admit("something else", start));
        assert!(!folds.admit("refused", start + WINDOW / 2));
        assert_eq!(folds.over(start + WINDOW / 2), []);

        assert_eq!(folds.over(start + WINDOW), [("refused".to_owned(), 2)]);
        assert!(
            folds.admit("refused", start + WINDOW),
            "it is told anew after a while"
        );
        assert_eq!(
            folds.over(start + 3 * WINDOW),
            [],
            "and nothing is told twice"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut folds = Folds::default();
        let now = Instant::now();
        for n in 0..10 * MOST {
            assert!(folds.admit(&n.to_string(), now));
        }
        assert_eq!(folds.recent.len(), MOST);
    }
}
