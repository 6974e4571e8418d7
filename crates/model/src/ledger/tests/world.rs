//! A model of a cluster, and of every way in which news of it may arrive.

use super::*;

/// The cluster's state, and the news and requests in flight.
pub(super) struct World {
    pub(super) store: Store,
    pods: BTreeMap<u64, Pod>,
    version: u64,
    /// By version.
    history: BTreeMap<u64, BTreeMap<u64, Pod>>,
    uids: u64,
    next_id: u64,
    /// Every event so far, and whether it is a DELETED event.
    events: Vec<(bool, Pod)>,
    delivered: usize,
    /// Requests that may still commit.
    requests: Vec<u64>,
    /// Answers that may still arrive, even twice.
    answers: Vec<(u64, Pod)>,
    lists: Vec<ListTicket>,
    look_ups: Vec<(u64, Tick, Epoch)>,
    reported: BTreeSet<(ExecutorId, Option<PodUid>)>,
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self {
            store: Store::new(),
            pods: BTreeMap::new(),
            version: 10,
            history: BTreeMap::new(),
            uids: 0,
            next_id: 1,
            events: Vec::new(),
            delivered: 0,
            requests: Vec::new(),
            answers: Vec::new(),
            lists: Vec::new(),
            look_ups: Vec::new(),
            reported: BTreeSet::new(),
        };
        world.history.insert(10, BTreeMap::new());
        world
    }

    /// Performs one step; `a` and `b` choose its object and its kind.
    pub(super) fn step(&mut self, what: u8, a: usize, b: usize) {
        match what % 20 {
            0 => {
                self.store.request(self.next_id);
                self.requests.push(self.next_id);
                self.next_id += 1;
            }
            1 | 2 => self.commit(a),
            3 => {
                if let Some((id, pod)) = pick(&self.answers, a).cloned() {
                    self.store.created(id, pod);
                }
            }
            4 => self.break_or_refuse(a, b),
            5 => self.repeat(a, b),
            6 | 7 => {
                let phase = [Phase::Running, Phase::Failed, Phase::parse("odd")];
                let phase = phase[b % 3].clone();
                self.change(a, |pod| !pod.state().is_finished(), |pod| pod.phase = phase);
            }
            8 => self.change(a, |_| true, |pod| *pod = terminating(pod.clone())),
            9 => self.remove(a),
            10 => self.relabel(a),
            11 => self.copy(a),
            12 => self.event(self.delivered, b),
            13 => self.event(a, b),
            14 => {
                let ticket = self.store.begin_list();
                self.lists.push(ticket);
            }
            15 => self.list(a, b),
            16 => self.look_up(a, b),
            17 if b.is_multiple_of(3) => _ = self.store.retire(1 + a as u64 % self.next_id),
            17 => self.delete(a),
            18 => self.report_and_release(),
            _ if b.is_multiple_of(8) => self.restore(a),
            _ => self.event(self.delivered, b),
        }
    }

    fn record(&mut self, event: Option<(bool, Pod)>) {
        self.history.insert(self.version, self.pods.clone());
        self.events.extend(event);
    }

    fn place(&mut self, id: u64, mut pod: Pod) -> Pod {
        self.version += 1;
        self.uids += 1;
        pod.uid = format!("u{}", self.uids).into();
        pod.version = self.version.into();
        self.pods.insert(id, pod.clone());
        self.record(Some((false, pod.clone())));
        pod
    }

    fn commit(&mut self, a: usize) {
        if self.requests.is_empty() {
            return;
        }
        let id = self.requests.swap_remove(a % self.requests.len());
        if !self.pods.contains_key(&id) {
            let pod = self.place(id, pod(id, "", 0));
            self.answers.push((id, pod));
        }
    }

    fn break_or_refuse(&mut self, a: usize, b: usize) {
        let id = 1 + a as u64 % self.next_id;
        let entry = self.store.snapshot().entry(super::id(id)).cloned();
        let sent = entry.is_some_and(|entry| matches!(entry.state, State::Sent(_)));
        let committed = !self.requests.contains(&id);
        if sent && !committed && b.is_multiple_of(2) {
            self.requests.retain(|other| *other != id);
            self.store.outcome(id, Outcome::Refused("no".into()));
        } else {
            // The server abandons an unanswered request at its timeout.
            self.requests.retain(|other| *other != id);
            self.store.broke(id);
        }
    }

    fn repeat(&mut self, a: usize, b: usize) {
        let id = 1 + a as u64 % self.next_id;
        let entry = self.store.snapshot().entry(super::id(id)).cloned();
        let idle = |entry: Arc<Entry>| matches!(&entry.state, State::Unknown(unanswered) if !unanswered.in_flight);
        if !entry.is_some_and(idle) {
            return;
        }
        self.store.outcome(id, Outcome::SentAgain);
        let outcome = if self.pods.contains_key(&id) {
            Outcome::NameTaken
        } else {
            let pod = self.place(id, pod(id, "", 0));
            self.answers.push((id, pod.clone()));
            Outcome::Created(read(pod))
        };
        if b.is_multiple_of(2) {
            self.store.outcome(id, outcome);
        } else {
            self.store.broke(id);
        }
    }

    fn change(&mut self, a: usize, which: impl Fn(&Pod) -> bool, how: impl FnOnce(&mut Pod)) {
        let Some(id) = pick_key(&self.pods, a) else {
            return;
        };
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| which(pod)) else {
            return;
        };
        self.version += 1;
        how(pod);
        pod.version = self.version.into();
        let pod = pod.clone();
        let seen = is_ours(&pod).then_some((false, pod));
        self.record(seen);
    }

    fn remove(&mut self, a: usize) {
        let Some(pod) = pick_key(&self.pods, a).and_then(|id| self.pods.remove(&id)) else {
            return;
        };
        self.version += 1;
        let last = terminating(Pod {
            version: self.version.into(),
            ..pod
        });
        let seen = is_ours(&last).then_some((true, last));
        self.record(seen);
    }

    /// A pod leaves the selector, or returns to it.
    fn relabel(&mut self, a: usize) {
        let Some(id) = pick_key(&self.pods, a) else {
            return;
        };
        let Some(before) = self.pods.get(&id).cloned() else {
            return;
        };
        if before.deletion.is_some() || before.state().is_finished() {
            return;
        }
        // The news of a pod that was believed gone may count as late until the second list (spec
        // S-14).
        let snapshot = self.store.snapshot();
        let entry = snapshot.entry(super::id(id));
        let taken_for_gone = entry.is_none_or(|entry| entry.is_gone() || entry.is_reported());
        if taken_for_gone && !is_ours(&before) {
            return;
        }
        self.version += 1;
        let version = self.version.into();
        let (deleted, shown, after) = if is_ours(&before) {
            let after = Pod {
                version,
                ..before.clone()
            };
            (true, after.clone(), relabelled(after))
        } else {
            let identity = super::pod(id, "", 0).identity;
            let after = Pod {
                version,
                identity,
                ..before
            };
            (false, after.clone(), after)
        };
        self.pods.insert(id, after);
        self.record(Some((deleted, shown)));
    }

    /// Someone copies a pod that no longer exists.
    fn copy(&mut self, a: usize) {
        let id = 1 + a as u64 % self.next_id;
        if !self.pods.contains_key(&id) {
            let copy = of_predecessor(running(id, "", 0));
            self.place(id, copy);
        }
    }

    fn event(&mut self, index: usize, b: usize) {
        let Some((deleted, pod)) = pick(&self.events, index).cloned() else {
            return;
        };
        self.delivered += 1;
        let epoch = self.store.epoch();
        let pod = if b.is_multiple_of(16) {
            Sighting::Unreadable(unreadable(&pod))
        } else {
            read(pod)
        };
        self.store.tell(if deleted {
            News::Deleted { pod, epoch }
        } else {
            News::Seen { pod, epoch }
        });
    }

    fn list(&mut self, a: usize, b: usize) {
        if self.lists.is_empty() {
            return;
        }
        let ticket = self.lists.swap_remove(a % self.lists.len());
        let Some(version) = pick_key(
            &self.history,
            self.history.len() - 1 - b % self.history.len(),
        ) else {
            return;
        };
        let items = self.listed(version, b);
        self.store
            .list_arrives(ticket, version, ListKind::PollCached, items);
    }

    fn listed(&self, version: u64, b: usize) -> Vec<Sighting> {
        let ours = self.history[&version].values().filter(|pod| is_ours(pod));
        ours.enumerate()
            .map(|(n, pod)| match b % 8 {
                0 if n == b % 3 => Sighting::Unreadable(unreadable(pod)),
                _ => read(pod.clone()),
            })
            .collect()
    }

    fn look_up(&mut self, a: usize, b: usize) {
        if b.is_multiple_of(2) || self.look_ups.is_empty() {
            let id = 1 + a as u64 % self.next_id;
            self.store.second += 1;
            self.look_ups
                .push((id, self.store.tick(), self.store.epoch()));
            return;
        }
        let (id, sent, epoch) = self.look_ups.swap_remove(a % self.look_ups.len());
        let found = match self.pods.get(&id) {
            _ if b % 5 == 1 => Found::NoAnswer,
            Some(pod) => found(pod.clone()),
            None => Found::Nothing,
        };
        let id = super::id(id);
        self.store.tell(News::LookedUp {
            id,
            sent,
            epoch,
            found,
        });
    }

    /// Deletes leaving executors and orphan pods, by uid.
    fn delete(&mut self, a: usize) {
        let snapshot = self.store.snapshot();
        let leaving = snapshot
            .entries
            .values()
            .filter(|e| e.leaving.is_some() && !e.is_gone());
        let leaving = leaving.filter_map(|entry| entry.uid().cloned());
        let doomed: Vec<PodUid> = leaving.chain(snapshot.orphans.keys().cloned()).collect();
        let Some(uid) = pick(&doomed, a).cloned() else {
            return;
        };
        let there = self.pods.iter().find(|(_, pod)| pod.uid == uid);
        match there.map(|(id, _)| *id) {
            Some(id) => {
                let index = self.pods.range(..id).count();
                self.remove(index);
            }
            None => {
                let names = snapshot.entries.values().filter_map(|entry| entry.pod());
                let name = names
                    .filter(|pod| pod.uid == uid)
                    .map(|pod| Arc::clone(&pod.name))
                    .next();
                let name = name.unwrap_or_else(|| "a-exec-1".into());
                self.store.tell(News::DeleteFoundNothing { uid, name });
            }
        }
    }

    // spec: L-1
    fn report_and_release(&mut self) {
        let owed: Vec<_> = self.store.snapshot().entries.values().cloned().collect();
        for entry in owed.iter().filter(|entry| entry.has_unreported_end()) {
            let key = (entry.id, entry.uid().cloned());
            assert!(self.reported.insert(key), "{} is reported once", entry.id);
            self.store.reported(entry.id.get());
        }
        self.store.deliver();
    }

    /// Restores the server from a backup, which a quorum list reveals.
    fn restore(&mut self, a: usize) {
        self.report_and_release();
        let ticket = self.store.begin_list();
        let Some(version) = pick_key(&self.history, a % self.history.len()) else {
            return;
        };
        if crate::ResourceVersion::from(version) >= ticket.highest {
            return;
        }
        self.version = version;
        self.pods = self.history[&version].clone();
        self.history.retain(|known, _| *known <= version);
        self.events.clear();
        let items = self.listed(version, 1);
        let (outcome, _) = self
            .store
            .list_arrives(ticket, version, ListKind::PollNewest, items);
        assert!(outcome.begins_epoch());
    }

    /// Ends the faults: requests are answered, a full list arrives, open questions are looked up.
    pub(super) fn settle(&mut self) {
        let entries: Vec<_> = self.store.snapshot().entries.values().cloned().collect();
        for entry in entries {
            match &entry.state {
                State::Sent(_) => _ = self.store.broke(entry.id.get()),
                State::Unknown(unanswered) if unanswered.in_flight => {
                    _ = self.store.broke(entry.id.get())
                }
                _ => {}
            }
        }
        self.store.second += 1_000;
        let ticket = self.store.begin_list();
        self.version += 1;
        self.record(None);
        let items = self.listed(self.version, 1);
        self.store
            .list_arrives(ticket, self.version, ListKind::PollNewest, items);
        let snapshot = self.store.snapshot();
        for (id, entry) in snapshot.entries.iter() {
            if matches!(entry.state, State::Unknown(_)) || is_missed(entry) {
                let answer = match self.pods.get(&id.get()) {
                    Some(pod) => found(pod.clone()),
                    None => Found::Nothing,
                };
                self.store.look_up(id.get(), answer);
            }
        }
        self.report_and_release();
    }

    // spec: I-6
    pub(super) fn assert_that_the_ledger_equals_the_truth(&self) {
        let snapshot = self.store.snapshot();
        for (id, pod) in self.pods.iter().filter(|(_, pod)| is_ours(pod)) {
            let entry = snapshot.entry(super::id(*id));
            match entry
                .and_then(|entry| entry.bound())
                .filter(|bound| bound.pod.uid == pod.uid)
            {
                Some(bound) => {
                    assert_eq!(
                        (&*bound.pod, &bound.absent),
                        (pod, &None),
                        "{id} is as it is"
                    );
                    assert!(
                        entry.is_some_and(|entry| !entry.is_gone()),
                        "{id} is not gone"
                    );
                }
                None => assert!(
                    snapshot.orphans.contains_key(&pod.uid),
                    "{pod:?} is known: {entry:?}"
                ),
            }
        }
        for entry in snapshot.entries.values() {
            let pod = self.pods.get(&entry.id.get());
            let there = pod.filter(|pod| entry.uid() == Some(&pod.uid));
            assert!(there.is_some(), "{} has a pod: {entry:?}", entry.id);
            assert!(
                there.is_some_and(is_ours) || !entry.class().is_live(),
                "{} counts",
                entry.id
            );
        }
        for uid in snapshot.orphans.keys() {
            let there = self
                .pods
                .values()
                .any(|pod| pod.uid == *uid && is_ours(pod));
            assert!(there, "the orphan {uid} is there");
        }
    }
}

fn is_missed(entry: &Entry) -> bool {
    !entry.is_gone() && entry.bound().is_some_and(|bound| bound.absent.is_some())
}

fn is_ours(pod: &Pod) -> bool {
    pod.identity.executor().is_some()
}

fn pick<T>(from: &[T], index: usize) -> Option<&T> {
    from.get(index % from.len().max(1))
}

fn pick_key<T>(from: &BTreeMap<u64, T>, index: usize) -> Option<u64> {
    from.keys().nth(index % from.len().max(1)).copied()
}
