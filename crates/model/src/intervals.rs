//! A set of executor ids as intervals. Its size depends on the number of gaps, not of ids (spec E-9).

use imbl::OrdMap;

use super::ids::ExecutorId;

/// Disjoint, non-adjacent intervals. A copy shares their data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdSet {
    /// First id of an interval → its last one.
    intervals: OrdMap<u64, u64>,
}

impl IdSet {
    pub fn new() -> Self {
        Self::default()
    }

    /// O(log intervals).
    pub fn contains(&self, id: ExecutorId) -> bool {
        let id = id.get();
        self.intervals
            .get_prev(&id)
            .is_some_and(|(_, last)| id <= *last)
    }

    pub fn insert(&mut self, id: ExecutorId) {
        self.insert_interval(id, id);
    }

    /// Adds all ids from `first` to `last` inclusive; nothing if `last` is lower.
    pub fn insert_interval(&mut self, first: ExecutorId, last: ExecutorId) {
        let (mut first, mut last) = (first.get(), last.get());
        if last < first {
            return;
        }
        if let Some((&start, &end)) = self.intervals.get_prev(&first)
            && end + 1 >= first
        {
            first = start;
            last = last.max(end);
        }
        while let Some((&start, &end)) = self.intervals.get_prev(&(last + 1)) {
            if start < first {
                break;
            }
            self.intervals.remove(&start);
            last = last.max(end);
        }
        self.intervals.insert(first, last);
    }

    pub fn remove(&mut self, id: ExecutorId) {
        let id = id.get();
        let Some((first, last)) = (self.intervals.get_prev(&id))
            .map(|(first, last)| (*first, *last))
            .filter(|(_, last)| id <= *last)
        else {
            return;
        };
        self.intervals.remove(&first);
        if first < id {
            self.intervals.insert(first, id - 1);
        }
        if id < last {
            self.intervals.insert(id + 1, last);
        }
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = ExecutorId> + '_ {
        self.intervals()
            .flat_map(|(first, last)| first.get()..=last.get())
            .filter_map(ExecutorId::new)
    }

    /// The intervals in order, as (first, last).
    pub fn intervals(&self) -> impl Iterator<Item = (ExecutorId, ExecutorId)> + '_ {
        self.intervals
            .iter()
            .filter_map(|(&first, &last)| Some((ExecutorId::new(first)?, ExecutorId::new(last)?)))
    }

    pub fn interval_count(&self) -> usize {
        self.intervals.len()
    }

    /// The number of ids.
    pub fn len(&self) -> u64 {
        self.intervals
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The highest id below `limit`; O(log intervals).
    pub fn last_below(&self, limit: u64) -> Option<ExecutorId> {
        let highest = limit.checked_sub(1)?;
        let (_, last) = self.intervals.get_prev(&highest)?;
        ExecutorId::new((*last).min(highest))
    }
}

impl FromIterator<ExecutorId> for IdSet {
    fn from_iter<T: IntoIterator<Item = ExecutorId>>(ids: T) -> Self {
        let mut set = Self::new();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn id(number: u64) -> ExecutorId {
        ExecutorId::new(number).unwrap()
    }

    // spec: E-9
    #[test]
    fn a_thousand_ended_executors_in_a_row_are_one_interval() {
        let set: IdSet = (1..=1_000).rev().map(id).collect();
        assert_eq!(set.interval_count(), 1);
        assert_eq!(set.len(), 1_000);
        assert!(set.contains(id(500)) && !set.contains(id(1_001)));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_set_holds(intervals in prop::collection::vec((1u64..200, 0u64..20), 0..40)) {
            let mut set = IdSet::new();
            let mut plain = BTreeSet::new();
            for (first, length) in intervals {
                set.insert_interval(id(first), id(first + length));
                plain.extend(first..=first + length);
            }
            for number in 1..=230 {
                prop_assert_eq!(set.contains(id(number)), plain.contains(&number));
            }
            prop_assert_eq!(set.len(), plain.len() as u64);
            let bounds: Vec<_> = set.intervals().collect();
            for pair in bounds.windows(2) {
                prop_assert!(pair[0].1.get() + 1 < pair[1].0.get(), "adjacent intervals are merged");
            }
        }
    }
}
