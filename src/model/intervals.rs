//! A set of executor ids as intervals: its size follows the gaps, not the history (spec E-9).

use imbl::OrdMap;

use super::ids::ExecutorId;

/// Ids as disjoint, non-adjacent intervals; a copy shares its structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdSet {
    /// First id of an interval → its last one.
    intervals: OrdMap<u64, u64>,
}

impl IdSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the id is in the set; O(log intervals).
    pub fn contains(&self, id: ExecutorId) -> bool {
        let id = id.get();
        self.intervals
            .get_prev(&id)
            .is_some_and(|(_, last)| id <= *last)
    }

    /// Adds one id.
    pub fn insert(&mut self, id: ExecutorId) {
        self.insert_interval(id, id);
    }

    /// Adds all ids from `first` to `last`, both included; nothing where `last` is the lower one.
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

    /// Takes one id out.
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

    /// All ids, one by one, in order.
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

    /// How many intervals there are.
    pub fn interval_count(&self) -> usize {
        self.intervals.len()
    }

    /// How many ids are in the set.
    pub fn len(&self) -> u64 {
        self.intervals
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }

    /// Whether no id is in the set.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The highest id in the set below this number; O(log intervals).
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
