//! Many ends at once in one line, for operators who do not read each executor's (spec O-40).

use std::collections::BTreeMap;

use crate::model::{Batch, LossClass};

/// Fewer ends in a batch have their own lines only.
const MANY: u32 = 20;

/// Logs how many executors ended in a batch that nobody had asked to end, and why, if they are many.
pub fn note(batch: &Batch) {
    let ends = (batch.ends()).map(|end| (end.reason.class, end.reason.failure));
    if let Some((ended, reasons)) = summary(ends) {
        tracing::warn!(ended, reasons, "many executors ended");
    }
}

/// The number of unplanned ends, and of each class, the most frequent first. The ends: class, and whether it is a failure.
fn summary(ends: impl Iterator<Item = (LossClass, bool)>) -> Option<(u32, String)> {
    let mut by_class: BTreeMap<LossClass, u32> = BTreeMap::new();
    for (class, failure) in ends {
        let was_there = class != LossClass::NotCreated;
        if was_there && (failure || class.is_disruption()) {
            *by_class.entry(class).or_default() += 1;
        }
    }
    let ended = by_class.values().sum();
    if ended < MANY {
        return None;
    }
    let mut classes: Vec<(LossClass, u32)> = by_class.into_iter().collect();
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let reasons: Vec<String> = (classes.iter())
        .map(|(class, count)| format!("{class} {count}"))
        .collect();
    Some((ended, reasons.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-40
    #[test]
    fn many_unplanned_ends_are_summed_up_by_their_reasons() {
        let ends = |count, class, failure| std::iter::repeat_n((class, failure), count);
        let storm = ends(2, LossClass::Evicted, false).chain(ends(198, LossClass::OomKilled, true));
        let said = "OomKilled 198, Evicted 2".to_owned();
        assert_eq!(summary(storm), Some((200, said)));
    }

    // spec: O-40
    #[test]
    fn few_ends_planned_ends_and_executors_that_never_were_are_not_summed_up() {
        let ends = |count, class, failure| std::iter::repeat_n((class, failure), count);
        let few = ends(19, LossClass::OomKilled, true);
        let planned =
            ends(500, LossClass::Killed, false).chain(ends(500, LossClass::Exited, false));
        let refused = ends(500, LossClass::NotCreated, false);
        assert_eq!(summary(few.chain(refused)), None);
        assert_eq!(summary(planned), None);
    }
}
