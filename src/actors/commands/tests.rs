use super::messages::{GetHeld, Hold, Resume, SetTargets};
use super::*;
use crate::actors::snapshot_store::messages::LookNow;
use crate::model::snapshot::plain_targets;
use crate::testing::{Backend, Scenario, backend, store};

/// A driver's backend over an empty store with a target of 3.
fn world() -> (Addr<SnapshotStore>, Backend) {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 3)]).ledger, clock);
    let backend = backend(&store, clock, &[("default", 3)], None);
    (store, backend)
}

fn of(target: u32) -> BTreeMap<ProfileName, u32> {
    BTreeMap::from([("default".into(), target)])
}

async fn in_the_ledger(store: &Addr<SnapshotStore>) -> BTreeMap<ProfileName, u32> {
    plain_targets(&store.send(LookNow).await.unwrap().0.targets)
}

// spec: B-31
#[actix::test]
async fn a_hold_sets_the_targets_to_zero_and_a_resume_restores_them_with_later_changes() {
    let (store, Backend { commands, .. }) = world();
    let held = commands.send(Hold { by: None }).await.unwrap().unwrap();
    assert_eq!(held.targets, of(3));
    commands.send(SetTargets(of(5))).await.unwrap().unwrap();
    assert_eq!(in_the_ledger(&store).await, of(0));
    let held = commands.send(GetHeld).await.unwrap();
    assert_eq!(held.unwrap().targets, of(5));
    assert_eq!(commands.send(Resume).await.unwrap(), of(5));
    assert_eq!(in_the_ledger(&store).await, of(5));
    assert_eq!(commands.send(GetHeld).await.unwrap(), None);
}
