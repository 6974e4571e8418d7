//! The ledger's entries by executor id, in a persistent map whose copies share their nodes (spec S-1, S-25).
//!
//! The map is a radix tree. Ids are dense, so their digits keep it balanced. While older snapshots exist, an update
//! copies a path of nodes, and each copied node increments the reference counts of all its children, each a cache miss
//! in a large fleet. So the nodes are small: an update copies eight entries and a few nodes above them. The wide leaves
//! of a general-purpose tree would make updates expensive.

use std::sync::Arc;

use super::executor::Entry;
use super::ids::ExecutorId;

/// Bits of an id per level.
const BITS: u32 = 3;
const WIDTH: usize = 1 << BITS;

/// All entries of a snapshot, ordered by id.
#[derive(Debug, Clone)]
pub struct Entries {
    root: Arc<Node>,
    /// The number of levels above the leaves.
    height: u32,
    len: usize,
}

#[derive(Debug, Clone)]
enum Node {
    Branch([Option<Arc<Node>>; WIDTH]),
    Leaf([Option<Arc<Entry>>; WIDTH]),
}

impl Node {
    /// An empty node that is this many levels above the leaves.
    fn empty(level: u32) -> Self {
        match level {
            0 => Node::Leaf(Default::default()),
            _ => Node::Branch(Default::default()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Node::Branch(children) => children.iter().all(Option::is_none),
            Node::Leaf(entries) => entries.iter().all(Option::is_none),
        }
    }

    fn insert(&mut self, level: u32, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let digit = digit(entry.id, level);
        match self {
            Node::Branch(children) => {
                let below = level.saturating_sub(1);
                let child = children[digit].get_or_insert_with(|| Arc::new(Node::empty(below)));
                Arc::make_mut(child).insert(below, entry)
            }
            Node::Leaf(entries) => entries[digit].replace(entry),
        }
    }

    /// Also removes nodes that become empty, except this one.
    fn remove(&mut self, level: u32, id: ExecutorId) -> Option<Arc<Entry>> {
        let digit = digit(id, level);
        match self {
            Node::Branch(children) => {
                let child = Arc::make_mut(children[digit].as_mut()?);
                let removed = child.remove(level.saturating_sub(1), id);
                if child.is_empty() {
                    children[digit] = None;
                }
                removed
            }
            Node::Leaf(entries) => entries[digit].take(),
        }
    }
}

/// The digit of an id that selects the child at this level.
fn digit(id: ExecutorId, level: u32) -> usize {
    let shifted = id.get().checked_shr(BITS * level).unwrap_or(0);
    (shifted % WIDTH as u64) as usize
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::empty(0)),
            height: 0,
            len: 0,
        }
    }
}

impl Entries {
    /// O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the tree is high enough for this id.
    fn reaches(&self, id: ExecutorId) -> bool {
        let beyond = BITS * (self.height + 1);
        id.get().checked_shr(beyond).unwrap_or(0) == 0
    }

    /// O(log of the highest id).
    pub fn get(&self, id: ExecutorId) -> Option<&Arc<Entry>> {
        if !self.reaches(id) {
            return None;
        }
        let (mut node, mut level) = (&*self.root, self.height);
        loop {
            match node {
                Node::Branch(children) => node = children[digit(id, level)].as_ref()?,
                Node::Leaf(entries) => return entries[digit(id, 0)].as_ref(),
            }
            level = level.saturating_sub(1);
        }
    }

    /// Inserts or replaces an entry and returns the previous one; O(log of the highest id).
    pub fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        while !self.reaches(entry.id) {
            let mut above: [Option<Arc<Node>>; WIDTH] = Default::default();
            if !self.root.is_empty() {
                above[0] = Some(Arc::clone(&self.root));
            }
            self.root = Arc::new(Node::Branch(above));
            self.height += 1;
        }
        let before = Arc::make_mut(&mut self.root).insert(self.height, entry);
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes an entry; O(log of the highest id).
    pub fn remove(&mut self, id: ExecutorId) -> Option<Arc<Entry>> {
        // An absent id must not copy a path, nor reach another entry's slot in a tree too low for it.
        self.get(id)?;
        let removed = Arc::make_mut(&mut self.root).remove(self.height, id);
        self.len -= usize::from(removed.is_some());
        self.lower();
        removed
    }

    /// Removes top levels that only low ids no longer need.
    fn lower(&mut self) {
        while let Node::Branch([first, rest @ ..]) = &*self.root
            && rest.iter().all(Option::is_none)
        {
            self.height -= 1;
            let below = Node::empty(self.height);
            self.root = first.clone().unwrap_or_else(|| Arc::new(below));
        }
    }

    /// All entries, ordered by id.
    pub fn values(&self) -> Values<'_> {
        Values {
            left: self.len,
            front: vec![(&self.root, 0)],
            back: vec![(&self.root, WIDTH)],
        }
    }

    /// All ids, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = ExecutorId> {
        self.values().map(|entry| entry.id)
    }

    /// All ids with their entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ExecutorId, &Arc<Entry>)> {
        self.values().map(|entry| (entry.id, entry))
    }
}

/// An iterator over the entries in order of id, from both ends.
#[derive(Debug)]
pub struct Values<'a> {
    /// The number of entries not yet returned; it stops both ends where they meet.
    left: usize,
    /// The path to the next entry: each node with the index of its next child.
    front: Vec<(&'a Node, usize)>,
    /// The same from the back: the index after the next child.
    back: Vec<(&'a Node, usize)>,
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let (node, next) = self.front.last_mut()?;
            let (node, at) = (*node, *next);
            *next += 1;
            match node {
                Node::Leaf(entries) => match entries.get(at) {
                    Some(Some(entry)) => return Some(entry),
                    Some(None) => {}
                    None => drop(self.front.pop()),
                },
                Node::Branch(children) => match children.get(at) {
                    Some(Some(child)) => self.front.push((child, 0)),
                    Some(None) => {}
                    None => drop(self.front.pop()),
                },
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Values<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let (node, after) = self.back.last_mut()?;
            let Some(at) = after.checked_sub(1) else {
                self.back.pop();
                continue;
            };
            *after = at;
            match node {
                Node::Leaf(entries) => {
                    if let Some(entry) = &entries[at] {
                        return Some(entry);
                    }
                }
                Node::Branch(children) => {
                    if let Some(child) = &children[at] {
                        self.back.push((child, WIDTH));
                    }
                }
            }
        }
    }
}

impl ExactSizeIterator for Values<'_> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{Epoch, Incarnation, ProfileName, Tick};

    fn entry(id: u64, profile: u8) -> Arc<Entry> {
        Arc::new(Entry::requested(
            ExecutorId::new(id).unwrap(),
            ProfileName::from(format!("p{profile}").as_str()),
            Incarnation::default(),
            Tick::default(),
            Epoch::default(),
        ))
    }

    /// Adjacent ids, ids on both sides of a node's edge, distant ids, and the highest possible id.
    fn ids() -> impl Strategy<Value = u64> {
        prop_oneof![8 => 1..40_u64, 1 => 1_000..1_010_u64, 1 => Just(ExecutorId::MAX.get())]
    }

    proptest! {
        // spec: S-1
        #[test]
        fn entries_are_a_map_in_order_of_ids_and_older_copies_stay_as_they_were(
            steps in prop::collection::vec((ids(), prop::option::of(0..3_u8)), 0..200),
        ) {
            let (mut entries, mut expected) = (Entries::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (id, change) in steps {
                let before = match change {
                    Some(profile) => {
                        let entry = entry(id, profile);
                        (entries.insert(Arc::clone(&entry)), expected.insert(entry.id, entry))
                    }
                    None => {
                        let id = ExecutorId::new(id).unwrap();
                        (entries.remove(id), expected.remove(&id))
                    }
                };
                prop_assert_eq!(before.0, before.1);
                kept.push((entries.clone(), expected.clone()));
            }
            for (entries, expected) in kept {
                prop_assert_eq!(entries.len(), expected.len());
                prop_assert_eq!(entries.is_empty(), expected.is_empty());
                prop_assert!(entries.iter().eq(expected.iter().map(|(id, entry)| (*id, entry))));
                prop_assert!(entries.keys().rev().eq(expected.keys().rev().copied()));
                for id in 1..45 {
                    let id = ExecutorId::new(id).unwrap();
                    prop_assert_eq!(entries.get(id), expected.get(&id));
                }
                let mut ends = entries.values();
                let (first, last) = (ends.next(), ends.next_back());
                prop_assert_eq!(first, expected.values().next());
                prop_assert_eq!(last, expected.values().skip(1).next_back());
                prop_assert!(ends.eq(expected.values().skip(1).rev().skip(1).rev()));
            }
        }
    }

    // spec: S-14
    #[test]
    fn removed_entries_leave_no_nodes_behind() {
        let mut entries = Entries::default();
        entries.insert(entry(3, 0));
        for id in [9, 700, ExecutorId::MAX.get()] {
            let id = ExecutorId::new(id).unwrap();
            entries.insert(entry(id.get(), 0));
            assert!(entries.height > 0);
            entries.remove(id);
            assert_eq!(entries.height, 0, "{id} is forgotten");
        }
        assert_eq!(entries.len(), 1);
    }
}
