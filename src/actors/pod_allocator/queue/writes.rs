//! Which Workloads are made, resized, given back or deleted (spec A-92).

use std::collections::BTreeSet;

use super::{Members, Queue, Usage, slots};
use crate::kubernetes::workloads::{Block, BlockState};
use crate::model::{ProfileName, Snapshot};

/// A write of a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Create {
        number: u32,
        profile: ProfileName,
        size: Size,
    },
    /// Only while it has no quota.
    Resize(Block, Size),
    /// So many of its pods need no quota any more.
    Reclaim(Block, u32),
    /// The application record owns it.
    Own(Block),
    Delete(Block),
}

/// How many executors, and how few of them may be admitted.
pub type Size = (u32, u32);

impl Queue {
    /// Decides the writes, and takes what they give back out of the blocks.
    pub(super) fn writes(&mut self, latest: &Snapshot, usage: &Usage) -> Vec<Write> {
        let (Some(blocks), Some(record)) = (&self.blocks, &latest.record) else {
            return Vec::new();
        };
        let numbers = blocks.iter().map(|block| block.number);
        let last = numbers.chain(usage.of.keys().copied()).max();
        let mut next = last.unwrap_or(0).saturating_add(1);
        let mut writes: Vec<Write> = (blocks.iter())
            .filter(|block| !block.deleting && block.owner.as_ref() != Some(record))
            .map(|block| Write::Own(block.clone()))
            .collect();
        let of_blocks = blocks.iter().map(|block| &block.profile);
        let profiles: BTreeSet<&ProfileName> = latest.targets.keys().chain(of_blocks).collect();
        let mut grown = Vec::new();
        for profile in profiles {
            let more = self.follow(profile, latest, usage, (next, &mut writes));
            next += u32::from(matches!(more, Some(Write::Create { .. })));
            grown.extend(more);
        }
        // What is given back may be what another block waits for.
        writes.extend(grown);
        for block in self.blocks.iter_mut().flatten() {
            for write in &writes {
                match write {
                    Write::Delete(gone) if gone.uid == block.uid => block.deleting = true,
                    Write::Reclaim(of, pods) if of.uid == block.uid => block.reclaimed = *pods,
                    _ => {}
                }
            }
        }
        writes
    }

    /// Lets a profile's blocks follow its target: adds what it gives back, and returns what it asks for in addition.
    fn follow(
        &self,
        profile: &ProfileName,
        latest: &Snapshot,
        usage: &Usage,
        (next, writes): (u32, &mut Vec<Write>),
    ) -> Option<Write> {
        let outside = usage.outside.get(profile).copied().unwrap_or(0);
        let wanted = latest.target(profile).saturating_sub(outside);
        let (current, have) = self.usable(profile, usage, writes);
        let known = self.profiles.get(profile)?;
        let mut blocks = current.iter().map(|(block, _)| *block);
        let queued = blocks.find(|block| block.active && block.state == BlockState::Queued);
        let others = have - queued.map_or(0, place);
        let size = |pods: u32| {
            let least = known.least.saturating_sub(others);
            (pods, least.clamp(1, pods))
        };
        if have > wanted {
            give_back(current, have - wanted, size, writes);
        }
        let missing = wanted.saturating_sub(have);
        match queued {
            _ if missing == 0 => None,
            Some(block) => {
                let size = size(block.count.saturating_add(missing));
                Some(Write::Resize(block.clone(), size))
            }
            None => Some(Write::Create {
                number: next,
                profile: profile.clone(),
                size: size(missing),
            }),
        }
    }

    /// The blocks of a profile that it goes on using, and how many executors all of its blocks stand for. Gives back
    /// the others.
    fn usable(
        &self,
        profile: &ProfileName,
        usage: &Usage,
        writes: &mut Vec<Write>,
    ) -> (Vec<(&Block, Members)>, u32) {
        let (mut usable, mut have) = (Vec::new(), 0_u32);
        let blocks = self.blocks.iter().flatten();
        for block in blocks.filter(|block| block.profile == *profile && !block.deleting) {
            let members = usage.of(block);
            if block.active && block.state == BlockState::Evicted {
                writes.extend(keep_only(block, members.all));
                continue;
            }
            if !self.is_current(block) {
                have = have.saturating_add(members.live);
                writes.extend(keep_only(block, members.all));
                continue;
            }
            // A deactivated block is wanted, but not run: none is made in its place.
            let has_quota = block.state != BlockState::Queued && block.reclaimed < block.count;
            if !block.active && members.all == 0 && has_quota {
                writes.push(Write::Reclaim(block.clone(), block.count));
            }
            have = have.saturating_add(place(block));
            usable.push((block, members));
        }
        (usable, have)
    }
}

/// How many of the wanted executors the block stands for.
fn place(block: &Block) -> u32 {
    match block.active {
        true => slots(block),
        false => block.count,
    }
}

/// Gives back what a block that is not used again has beyond these pods.
fn keep_only(block: &Block, pods: u32) -> Option<Write> {
    if pods == 0 {
        return Some(Write::Delete(block.clone()));
    }
    let has_quota = matches!(
        block.state,
        BlockState::Reserved(_) | BlockState::Admitted { .. }
    );
    (has_quota && slots(block) > pods)
        .then(|| Write::Reclaim(block.clone(), block.count.saturating_sub(pods)))
}

/// Gives back what no executor uses: first what has no quota yet, then whole blocks, then parts of them.
fn give_back(
    mut blocks: Vec<(&Block, Members)>,
    mut surplus: u32,
    size: impl Fn(u32) -> Size,
    writes: &mut Vec<Write>,
) {
    blocks.sort_by_key(|(block, members)| {
        (
            block.state != BlockState::Queued,
            members.all,
            u32::MAX - block.number,
        )
    });
    for (block, members) in blocks {
        let place = place(block);
        let spare = place.saturating_sub(members.all).min(surplus);
        if spare == 0 {
            continue;
        }
        let left = place - spare;
        if left == 0 {
            writes.push(Write::Delete(block.clone()));
        } else if !block.active || block.state == BlockState::Evicted {
            continue;
        } else if block.state == BlockState::Queued {
            writes.push(Write::Resize(block.clone(), size(left)));
        } else {
            writes.push(Write::Reclaim(block.clone(), block.count - left));
        }
        surplus -= spare;
    }
}
