//! Drift: a poll shows a change that the watch should have shown and did not (spec P-4).
//!
//! A list is often ahead of the watch, so a difference is only a suspicion at first. The watch
//! delivers changes in order: once it has passed the version of the change, it can no longer
//! deliver it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{PodUid, ResourceVersion};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    pub name: Arc<str>,
    pub uid: PodUid,
    /// The latest version that the watch has shown; `None`: it never showed the pod.
    pub watched: Option<ResourceVersion>,
    /// The version in the poll; `None`: the poll lacks the pod.
    pub polled: Option<ResourceVersion>,
    /// The watch must pass this version to prove the drift.
    pub at: ResourceVersion,
}

/// The position of the watch, and the differences that are neither proven nor cleared.
#[derive(Debug, Default)]
pub(super) struct Drift {
    /// The version up to which the watch has delivered everything; `None` without a watch.
    position: Option<ResourceVersion>,
    /// At most one per pod.
    suspects: BTreeMap<PodUid, Contradiction>,
    /// Pods that the watch has shown to be deleted or to leave the selector: polls lack them too.
    left: BTreeMap<PodUid, Arc<str>>,
}

impl Drift {
    pub(super) fn len(&self) -> usize {
        self.suspects.len() + self.left.len()
    }

    /// The watch restarts from a list of this version and will not show earlier changes, nor the end of a pod that the list
    /// lacks though it had existed by then.
    pub(super) fn watch_begins(
        &mut self,
        from: &ResourceVersion,
        has: impl Fn(&PodUid) -> bool,
        lacked: Vec<Contradiction>,
    ) {
        self.position = Some(from.clone());
        let had_ended = |suspect: &Contradiction| {
            let existed = suspect
                .watched
                .as_ref()
                .is_some_and(|watched| watched <= from);
            suspect.polled.is_none() && existed && !has(&suspect.uid)
        };
        self.suspects
            .retain(|_, suspect| suspect.at > *from && !had_ended(suspect));
        let left = lacked.into_iter().map(|lacked| (lacked.uid, lacked.name));
        self.left.extend(left);
    }

    /// The watch has passed this version. Returns the drift that this proves.
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

    /// The watch has shown a pod at this version. An unreadable uid or version matches any.
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

    /// The watch has shown that a pod was deleted or left the selector.
    pub(super) fn removed(&mut self, uid: Option<&PodUid>, name: Option<&Arc<str>>) {
        self.left.extend(uid.cloned().zip(name.cloned()));
        self.shown(uid, name, None);
    }

    /// Records a difference. Returns it if the watch has already passed its version.
    pub(super) fn suspect(&mut self, suspect: Contradiction) -> Option<Contradiction> {
        let position = self.position.as_ref()?;
        if suspect.polled.is_none() && self.left.contains_key(&suspect.uid) {
            return None;
        }
        if suspect.at <= *position {
            if suspect.polled.is_none() {
                // Reported once: later polls lack the pod too.
                self.left
                    .insert(suspect.uid.clone(), Arc::clone(&suspect.name));
            }
            return Some(suspect);
        }
        // The earliest difference is proven first.
        self.suspects.entry(suspect.uid.clone()).or_insert(suspect);
        None
    }

    /// A poll of this version has these pods. One that an earlier poll lacked was not gone: that list was wrong.
    pub(super) fn polled(&mut self, version: &ResourceVersion, has: impl Fn(&PodUid) -> bool) {
        self.suspects
            .retain(|uid, suspect| suspect.polled.is_some() || suspect.at > *version || !has(uid));
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the pods that are not known, by name and uid: their ids would pile up.
    pub(super) fn prune(&mut self, known: impl Fn(&str, &PodUid) -> bool) {
        self.suspects
            .retain(|uid, suspect| known(&suspect.name, uid));
        self.left.retain(|uid, name| known(name, uid));
    }
}
