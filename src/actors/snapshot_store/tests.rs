//! Tests of whom the store delivers what, and when.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use actix::Addr;

use super::messages::Next;
use super::*;
use crate::model::Batch;
use crate::model::ledger::Inheritance;
use crate::model::news::{ListKind, Listed, Outcome};
use crate::testing::{Scenario, TIMING, id, store};

/// What the decider answers to each batch, and the batches that it got.
struct Decider {
    wake_after: Option<Duration>,
    clock: Clock,
    batches: Rc<RefCell<Vec<Batch>>>,
}

impl Actor for Decider {
    type Context = Context<Self>;
}

impl Handler<Round> for Decider {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Next {
        self.batches.borrow_mut().push(batch);
        let now = self.clock.now().tick;
        Next {
            wake: self.wake_after.map(|after| now + after),
        }
    }
}

fn subscribed(
    to: &Addr<SnapshotStore>,
    clock: Clock,
    wake_after: Option<Duration>,
) -> Rc<RefCell<Vec<Batch>>> {
    let batches = Rc::new(RefCell::new(Vec::new()));
    let decider = Decider {
        wake_after,
        clock,
        batches: Rc::clone(&batches),
    };
    to.do_send(Subscribe {
        subscriber: Subscriber::Lifecycle,
        timing: TIMING,
        recipient: decider.start().recipient(),
    });
    batches
}

async fn after(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

async fn list_nothing(store: &Addr<SnapshotStore>) {
    let ticket = store.send(BeginList).await.unwrap();
    let listed = Listed {
        ticket,
        version: 50.into(),
        kind: ListKind::PollNewest,
        items: Vec::new(),
    };
    store.send(ListArrived(listed)).await.unwrap();
}

// spec: A-2, O-31, S-20
#[actix::test]
async fn nothing_is_delivered_before_adoption_and_then_all_there_is_as_changed() {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let ledger = Scenario::before_adoption(&[("default", 2)], Inheritance::default()).ledger;
    let store = store(ledger, clock);
    let batches = subscribed(&store, clock, None);
    let profile = "default".into();
    let outcome = Outcome::Sent { profile };
    let sent = Tell(News::Requested { id: id(1), outcome });
    store.send(sent).await.unwrap();
    after(5_000).await;
    assert_eq!(batches.borrow().len(), 0);
    list_nothing(&store).await;
    after(5).await;
    let batches = batches.borrow();
    assert_eq!(batches.len(), 1);
    assert!(batches[0].latest().adopted);
    assert!(batches[0].changed_executors().contains(&id(1)));
}

// spec: S-21
#[actix::test]
async fn a_round_comes_when_the_subscriber_said_in_its_answer() {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let ledger = || Scenario::new(&[("default", 2)]).ledger;
    let (eager, usual) = (store(ledger(), clock), store(ledger(), clock));
    let waking = subscribed(&eager, clock, Some(Duration::from_millis(100)));
    let idle = subscribed(&usual, clock, None);
    after(2_050).await;
    assert_eq!(waking.borrow().len(), 21);
    assert_eq!(idle.borrow().len(), 3);
}
