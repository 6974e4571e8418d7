use std::sync::Arc;
use std::time::Duration;

use super::messages::Opened;
use super::registry::{Proof, Via};
use super::*;
use crate::actors::driver_backend::messages::GetStatus;
use crate::config::Config;
use crate::model::news::Outcome;
use crate::testing::{Backend, Scenario, backend, id, store};
use boatswain_agent::protocol::Register;

/// A driver's backend over a store with one running executor.
async fn world() -> Backend {
    tokio::time::pause();
    let mut scenario = Scenario::new(&[("default", 1)]);
    let profile = "default".into();
    scenario.requested(1, Outcome::Sent { profile });
    scenario.created(1);
    scenario.runs(1);
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(scenario.ledger, clock);
    let backend = backend(&store, clock, &[("default", 1)], Config::default());
    tokio::time::sleep(Duration::from_secs(2)).await;
    backend
}

// spec: B-1, B-14, B-20
#[actix::test]
async fn a_registration_is_in_the_status_and_the_sessions_when_it_is_answered() {
    let backend = world().await;
    let registry = &backend.registry;
    let proof = Arc::new(Proof::Executor(id(1)));
    let open = Open {
        proof: Arc::clone(&proof),
    };
    let Opened { connection, .. } = registry.send(open).await.unwrap();
    let register = Register {
        app: "app".to_owned(),
        executor: Some(1),
        pod_uid: "u1".to_owned(),
        slots: 2,
        ..Register::default()
    };
    let say = Say {
        proof,
        via: Via::Connection(connection),
        message: FromExecutor::Register(register),
    };
    let answer = registry.send(say).await.unwrap();
    assert!(
        matches!(answer[..], [ToExecutor::Registered(_)]),
        "{answer:?}"
    );
    let status = backend.backend.send(GetStatus).await.unwrap();
    assert_eq!(status.profiles["default"].registered, 1);
    assert!(status.ready);
    let shown = async || {
        let sessions = registry.send(GetSessions(None)).await.unwrap();
        sessions[&id(1)].state
    };
    assert_eq!(shown().await, "connected");
    registry.send(Lost(connection)).await.unwrap();
    assert_eq!(shown().await, "disabled");
}
