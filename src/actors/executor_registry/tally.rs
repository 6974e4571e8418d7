//! Counts of the messages of sessions (spec O-41).

use std::collections::BTreeMap;

use boatswain_agent::protocol::{FromExecutor, ToExecutor};

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) heard: BTreeMap<&'static str, u64>,
    /// By the driver's own codes, of which there are few.
    pub(super) refused: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn say(&mut self, message: &FromExecutor, answers: &[ToExecutor]) {
        *self.heard.entry(message.kind()).or_default() += 1;
        for code in answers.iter().filter_map(ToExecutor::refusal) {
            self.refuse(code);
        }
    }

    pub(super) fn refuse(&mut self, code: &str) {
        match self.refused.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                self.refused.insert(code.to_owned(), 1);
            }
        }
    }
}
