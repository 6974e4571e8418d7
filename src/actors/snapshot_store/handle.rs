//! A subscriber's side of its subscription.

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, WrapFuture};

use crate::model::news::News;

use super::SnapshotStore;
use super::messages::{AskRound, Subscriber, Tell};

/// A subscriber's way to the store.
#[derive(Clone)]
pub struct StoreHandle {
    store: Addr<SnapshotStore>,
    subscriber: Subscriber,
}

impl StoreHandle {
    pub fn new(store: Addr<SnapshotStore>, subscriber: Subscriber) -> Self {
        Self { store, subscriber }
    }

    pub fn tell(&self, news: News) {
        self.store.do_send(Tell(news));
    }

    /// Requests a round now: the subscriber's own state has changed (spec S-24).
    pub fn ask(&self) {
        self.ask_for(self.subscriber);
    }

    /// Requests a round of another subscriber now.
    pub fn ask_for(&self, other: Subscriber) {
        self.store.do_send(AskRound(other));
    }
}

/// An actor that decides on batches. What it learns otherwise changes its state, and a round follows that decides on it.
pub trait Subscribes: Actor<Context = Context<Self>> {
    fn store(&self) -> &StoreHandle;

    /// Makes a call beside all else; a round follows its answer.
    fn call<T: 'static>(
        &self,
        ctx: &mut Context<Self>,
        call: impl Future<Output = T> + 'static,
        answered: impl FnOnce(&mut Self, T) + 'static,
    ) {
        ctx.spawn(call.into_actor(self).map(|answer, this, _| {
            answered(this, answer);
            this.store().ask();
        }));
    }
}
