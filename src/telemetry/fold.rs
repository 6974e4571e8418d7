//! Folds repeats: the same line again within a while is counted instead of written (spec O-40).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For how long a line that was written keeps its repeats back.
const WINDOW: Duration = Duration::from_secs(10);

/// Lines remembered at most: far more than differ within [`WINDOW`] in anything but a storm, and
/// in a storm what finds no room is written rather than kept back.
const MOST: usize = 128;

/// The lines of the last while.
#[derive(Debug, Default)]
pub(super) struct Folds {
    /// By what the line says, its time aside.
    recent: BTreeMap<String, Recent>,
}

#[derive(Debug)]
struct Recent {
    written: Instant,
    kept_back: u64,
}

impl Folds {
    /// Whether to write this line.
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

    /// The lines whose while is over and that were kept back since, with how often. To be called
    /// before [`Folds::admit`].
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
