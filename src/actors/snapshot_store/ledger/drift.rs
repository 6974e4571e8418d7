//! Where a poll contradicts the watch about a pod, at a version that the watch should have shown (spec P-4).
//!
//! A list is often ahead of the watch, so what it shows first is only a suspicion. The watch shows everything in order:
//! once it has come as far as the version in question and has not shown it, it never will.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{PodUid, ResourceVersion};

/// What a poll said of a pod, and what the watch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The pod's name.
    pub name: Arc<str>,
    /// The pod.
    pub uid: PodUid,
    /// Its latest version as far as the watch has shown; `None`: it never showed the pod.
    pub watched: Option<ResourceVersion>,
    /// Its version in the poll; `None`: the poll lacks it.
    pub polled: Option<ResourceVersion>,
    /// The version at which this is so: the watch has come as far.
    pub at: ResourceVersion,
}

/// How far the watch has come, and what it has to show yet.
#[derive(Debug, Default)]
pub(super) struct Drift {
    /// Everything up to here was shown; `None` while nothing is watched.
    position: Option<ResourceVersion>,
    /// At most one for each executor.
    suspects: BTreeMap<PodUid, Contradiction>,
    /// Pods of executors that the watch has shown to leave; polls lack them rightly.
    left: BTreeMap<PodUid, Arc<str>>,
}

impl Drift {
    /// How many pods it remembers.
    pub(super) fn len(&self) -> usize {
        self.suspects.len() + self.left.len()
    }

    /// The watch goes on from a list of this version; what was due before will not be shown.
    pub(super) fn watch_begins(&mut self, from: &ResourceVersion) {
        self.position = Some(from.clone());
        self.suspects.retain(|_, suspect| suspect.at > *from);
    }

    /// The watch has come as far as this.
    pub(super) fn watch_came(&mut self, to: &ResourceVersion) -> Vec<Contradiction> {
        let Some(position) = &mut self.position else {
            return Vec::new();
        };
        if *to <= *position {
            return Vec::new();
        }
        *position = to.clone();
        let due = |suspect: &Contradiction| suspect.at <= *to;
        let proven = self.suspects.values().filter(|suspect| due(suspect));
        let proven: Vec<Contradiction> = proven.cloned().collect();
        self.suspects.retain(|_, suspect| !due(suspect));
        let lacked = proven.iter().filter(|suspect| suspect.polled.is_none());
        self.left
            .extend(lacked.map(|suspect| (suspect.uid.clone(), Arc::clone(&suspect.name))));
        proven
    }

    /// A pod was shown, at this version. Where either cannot be read, it may have been any that fits.
    pub(super) fn shown(
        &mut self,
        uid: Option<&PodUid>,
        name: Option<&Arc<str>>,
        version: Option<&ResourceVersion>,
    ) {
        if self.suspects.is_empty() {
            return;
        }
        self.suspects.retain(|suspected, suspect| {
            let another = uid.is_some_and(|uid| uid != suspected)
                || uid.is_none() && name.is_some_and(|name| *name != suspect.name);
            another || version.is_some_and(|version| *version < suspect.at)
        });
    }

    /// A pod was shown to be deleted, or to have left the selector.
    pub(super) fn left(&mut self, uid: Option<&PodUid>, name: Option<&Arc<str>>) {
        self.left.extend(uid.cloned().zip(name.cloned()));
        self.shown(uid, name, None);
    }

    /// A poll says something else than the watch; whether the watch should have shown that already.
    pub(super) fn suspect(&mut self, suspect: Contradiction) -> Option<Contradiction> {
        let position = self.position.as_ref()?;
        if suspect.polled.is_none() && self.left.contains_key(&suspect.uid) {
            return None;
        }
        if suspect.at <= *position {
            if suspect.polled.is_none() {
                // Told once; the next poll lacks it as well.
                self.left
                    .insert(suspect.uid.clone(), Arc::clone(&suspect.name));
            }
            return Some(suspect);
        }
        // The earliest is proven first.
        self.suspects.entry(suspect.uid.clone()).or_insert(suspect);
        None
    }

    /// A new history: nothing that was seen before counts.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Keeps only what is about pods that are known still.
    pub(super) fn prune(&mut self, known: impl Fn(&str, &PodUid) -> bool) {
        self.suspects
            .retain(|uid, suspect| known(&suspect.name, uid));
        self.left.retain(|uid, name| known(name, uid));
    }
}
