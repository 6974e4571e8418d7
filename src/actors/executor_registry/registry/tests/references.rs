//! Tests of properties that refer to an executor's own values (spec B-68).

use super::*;
use crate::model::Pod;

fn referring() -> World {
    let properties = [
        ("id", "$(EXECUTOR_ID)"),
        ("node", "$(NODE_NAME):7337"),
        ("host", "$(HOST_IP)"),
        ("pod", "$(POD_IP)"),
        ("plain", "batch"),
    ];
    let own = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
    let mut config = config();
    config.app.properties = properties.map(own).into();
    World::new(config, 1)
}

// spec: B-68
#[test]
fn each_reference_becomes_the_executors_own_value() {
    let mut world = referring();
    world.scenario.observe(Pod {
        node: Some("node-a".into()),
        ip: Some([10, 0, 3, 17].into()),
        host_ip: Some([192, 168, 0, 4].into()),
        ..world.scenario.pod(1)
    });
    let answer = world.registers(1);
    let [ToExecutor::Registered(registered)] = &answer[..] else {
        panic!("{answer:?}");
    };
    let wanted = [
        ("host", "192.168.0.4"),
        ("id", "1"),
        ("node", "node-a:7337"),
        ("plain", "batch"),
        ("pod", "10.0.3.17"),
    ];
    let properties = registered.properties.iter();
    let found: Vec<_> = properties.map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(found, wanted);
}

// spec: B-68
#[test]
fn an_executor_whose_pod_was_not_seen_on_a_node_yet_registers_again() {
    let mut world = referring();
    let pod = world.scenario.pod(1);
    world.scenario.observe(Pod { node: None, ..pod });
    let answer = world.registers(1);
    assert!(
        matches!(answer[..], [ToExecutor::Later { in_ms: 1_000 }]),
        "{answer:?}"
    );
    assert!(world.registry.account(id(1)).is_none());
}
