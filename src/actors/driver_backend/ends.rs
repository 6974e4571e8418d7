//! The executors that ended last, and the actors that are told of each end (spec L-1).

use std::collections::VecDeque;

use actix::{Handler, Recipient};

use super::DriverBackend;
use super::messages::HearOfEnds;
use super::views::{LOSSES, LossView};
use crate::actors::lifecycle_manager::messages::Ended;

/// The last losses, and the readers of ends.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The newest first.
    losses: VecDeque<LossView>,
    readers: Vec<Recipient<Ended>>,
}

impl Ends {
    /// The last losses, the newest first.
    pub(super) fn losses(&self) -> Vec<LossView> {
        self.losses.iter().cloned().collect()
    }
}

impl Handler<Ended> for DriverBackend {
    type Result = ();

    fn handle(&mut self, ended: Ended, _: &mut Self::Context) {
        let Ends { losses, readers } = &mut self.ends;
        losses.truncate(LOSSES - 1);
        losses.push_front(LossView {
            executor: ended.0.entry.id.get(),
            profile: ended.0.entry.profile.to_string(),
            time: self.clock.now().wall,
            reason: ended.0.reason.class.to_string(),
            why: ended.0.reason.message.clone(),
        });
        readers.retain(Recipient::connected);
        for reader in readers {
            reader.do_send(ended.clone());
        }
    }
}

impl Handler<HearOfEnds> for DriverBackend {
    type Result = ();

    fn handle(&mut self, HearOfEnds(reader): HearOfEnds, _: &mut Self::Context) {
        self.ends.readers.push(reader);
    }
}
