//! Lists of live executors as texts, which all share who ask for the same at about the same time (spec O-133). Pure.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::messages::ListExecutors;
use super::views::{ExecutorList, Selection};
use crate::model::Tick;

/// For how long a text is given to those who ask for the same: the ages in it are whole seconds.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// The most texts that are kept.
const KEPT: usize = 4;

/// The most bytes of them together: a quarter of the room for all answers, so that those who read at once find room.
const MOST: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Lists {
    /// The longest first.
    waiting: VecDeque<ListExecutors>,
    /// The oldest first.
    kept: VecDeque<Kept>,
    /// Whether sessions are being read. They are for one text at a time, because each reading copies all of them.
    is_reading: bool,
}

struct Kept {
    selection: Selection,
    /// The number of the snapshot that it was made from.
    snapshot: Option<u64>,
    since: Tick,
    text: Bytes,
}

impl Lists {
    /// Answers with a text that was made for others, or has this one wait.
    pub fn ask(&mut self, asked: ListExecutors, snapshot: Option<u64>, now: Tick) {
        self.forget(snapshot, now);
        let same = |kept: &&Kept| kept.selection == asked.selection;
        match self.kept.iter().find(same).map(|kept| kept.text.clone()) {
            // Whoever asked may have gone meanwhile.
            Some(text) => drop(asked.answer.send(Some(text))),
            None => self.waiting.push_back(asked),
        }
    }

    /// Whether sessions have to be read now: somebody waits, and that is not under way.
    pub fn begins(&mut self) -> bool {
        (self.waiting).retain(|asked| !asked.answer.is_closed());
        let begins = !self.is_reading && !self.waiting.is_empty();
        self.is_reading |= begins;
        begins
    }

    /// Sessions were read: makes the list for which somebody has waited longest, and answers all who ask for the same.
    pub fn render(
        &mut self,
        list: impl FnOnce(&Selection) -> ExecutorList,
        snapshot: Option<u64>,
        now: Tick,
    ) {
        self.is_reading = false;
        self.forget(snapshot, now);
        let Some(first) = self.waiting.pop_front() else {
            return;
        };
        let ListExecutors {
            selection,
            room,
            answer,
        } = first;
        // Serialising texts and numbers cannot fail.
        let text = room(serde_json::to_vec(&list(&selection)).unwrap_or_default());
        let waiting = std::mem::take(&mut self.waiting);
        let (same, others): (VecDeque<_>, VecDeque<_>) =
            (waiting.into_iter()).partition(|asked| asked.selection == selection);
        self.waiting = others;
        let answers = same.into_iter().map(|asked| asked.answer);
        for answer in std::iter::once(answer).chain(answers) {
            drop(answer.send(text.clone()));
        }
        if let Some(text) = text.filter(|text| text.len() <= MOST) {
            let bytes =
                |kept: &VecDeque<Kept>| kept.iter().map(|kept| kept.text.len()).sum::<usize>();
            while self.kept.len() >= KEPT || bytes(&self.kept) + text.len() > MOST {
                self.kept.pop_front();
            }
            self.kept.push_back(Kept {
                selection,
                snapshot,
                since: now,
                text,
            });
        }
    }

    /// Forgets the texts that are too old, or that another snapshot has replaced.
    pub fn forget(&mut self, snapshot: Option<u64>, now: Tick) {
        (self.kept).retain(|kept| kept.snapshot == snapshot && now.since(kept.since) < FRESH);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::after_start(Duration::from_millis(millis))
    }

    /// Asks for the executors of a profile.
    fn ask(lists: &mut Lists, profile: &str, snapshot: u64, now: Tick) -> Receiver<Option<Bytes>> {
        let (answer, answered) = oneshot::channel();
        let asked = ListExecutors {
            selection: Selection {
                profile: Some(profile.to_owned()),
                ..Selection::default()
            },
            room: Box::new(|text| Some(text.into())),
            answer,
        };
        lists.ask(asked, Some(snapshot), now);
        answered
    }

    fn render(lists: &mut Lists, snapshot: u64, now: Tick) {
        lists.render(|_| ExecutorList::default(), Some(snapshot), now);
    }

    /// Where the text is that was answered; `None` if there is no answer yet.
    fn place(mut answered: Receiver<Option<Bytes>>) -> Option<*const u8> {
        let text = answered.try_recv().ok()?;
        Some(text.expect("there is room").as_ptr())
    }

    // spec: O-133
    #[test]
    fn all_who_ask_for_the_same_at_one_snapshot_within_a_second_share_one_text() {
        let mut lists = Lists::default();
        let readers: Vec<_> = (0..300).map(|_| ask(&mut lists, "a", 7, at(0))).collect();
        let other = ask(&mut lists, "b", 7, at(0));
        assert!(lists.begins());
        assert!(!lists.begins(), "sessions are read for one text at a time");
        render(&mut lists, 7, at(0));
        let places: Vec<_> = readers.into_iter().map(place).collect();
        assert!(places[0].is_some() && places.iter().all(|place| *place == places[0]));
        assert!(lists.begins(), "the other list is made next");
        render(&mut lists, 7, at(10));
        assert!(!lists.begins(), "nobody waits");
        let other = place(other);
        assert!(other.is_some() && other != places[0]);

        assert_eq!(place(ask(&mut lists, "a", 7, at(999))), places[0]);
        assert_eq!(place(ask(&mut lists, "b", 7, at(999))), other);
        assert_eq!(place(ask(&mut lists, "b", 7, at(1_010))), None, "too old");
        assert_eq!(place(ask(&mut lists, "a", 7, at(1_010))), None, "too old");
    }

    // spec: O-133
    #[test]
    fn a_change_of_an_executor_is_seen_at_once() {
        let mut lists = Lists::default();
        let first = ask(&mut lists, "a", 7, at(0));
        assert!(lists.begins());
        render(&mut lists, 7, at(0));
        assert!(place(first).is_some());
        assert_eq!(place(ask(&mut lists, "a", 8, at(1))), None);
        assert!(lists.kept.is_empty(), "nobody is given the former one");
    }

    // spec: O-133
    #[test]
    fn few_texts_are_kept_and_none_is_made_for_those_who_have_gone() {
        let mut lists = Lists::default();
        drop(ask(&mut lists, "a", 7, at(0)));
        assert!(!lists.begins());
        for profile in 0..20 {
            let asked = ask(&mut lists, &profile.to_string(), 7, at(0));
            assert!(lists.begins());
            render(&mut lists, 7, at(0));
            assert!(place(asked).is_some());
        }
        assert_eq!(lists.kept.len(), KEPT);
        assert!(place(ask(&mut lists, "19", 7, at(0))).is_some(), "the last");
        lists.forget(Some(7), at(1_000));
        assert!(lists.kept.is_empty());
    }

    // spec: O-133
    #[test]
    fn a_long_text_is_shared_by_those_who_wait_and_not_kept() {
        let mut lists = Lists::default();
        let (answer, mut answered) = oneshot::channel();
        let asked = ListExecutors {
            selection: Selection::default(),
            room: Box::new(|_| Some(vec![b'a'; MOST + 1].into())),
            answer,
        };
        lists.ask(asked, Some(7), at(0));
        render(&mut lists, 7, at(0));
        assert_eq!(answered.try_recv().unwrap().unwrap().len(), MOST + 1);
        assert!(lists.kept.is_empty());
    }
}
