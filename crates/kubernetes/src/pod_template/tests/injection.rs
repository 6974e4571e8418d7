//! Pods into which the agent is injected.

use super::*;

fn injecting(by: InjectedBy) -> Common {
    let image = "registry.example/boatswain:1".to_owned();
    Common {
        injection: Some(Injection {
            image,
            by,
            decommission_command: None,
        }),
        ..common()
    }
}

// spec: O-65
#[test]
fn an_injected_agent_runs_the_executors_command_as_its_child() {
    let spec = || ProfileSpec {
        base: json!({"spec": {"initContainers": [{"name": "fetch"}]}}),
        ..profile()
    };
    let by_init = pod(7, &injecting(InjectedBy::InitContainer), spec());
    let container = &by_init["spec"]["containers"][0];
    assert_eq!(
        container["command"],
        json!(["/opt/boatswain/boatswain-agent", "--", "sleep"])
    );
    assert_eq!(container["args"], json!(["60"]));
    let mount = json!({"name": "boatswain-agent", "mountPath": "/opt/boatswain", "readOnly": true});
    assert_eq!(container["volumeMounts"], json!([mount]));
    let first = &by_init["spec"]["initContainers"][0];
    assert_eq!(
        first["command"],
        json!(["/usr/bin/boatswain-agent", "install", "/opt/boatswain"])
    );
    assert_eq!(by_init["spec"]["initContainers"][1]["name"], "fetch");
    assert_eq!(
        by_init["spec"]["volumes"][0]["emptyDir"]["medium"],
        "Memory"
    );

    let by_image = pod(7, &injecting(InjectedBy::ImageVolume), spec());
    assert_eq!(
        by_image["spec"]["containers"][0]["command"][0],
        "/opt/boatswain/usr/bin/boatswain-agent"
    );
    assert_eq!(
        by_image["spec"]["volumes"][0]["image"]["reference"],
        "registry.example/boatswain:1"
    );
    assert_eq!(
        by_image["spec"]["initContainers"],
        json!([by_init["spec"]["initContainers"][1]])
    );
}

// spec: O-65
#[test]
fn an_injected_agent_hands_the_decommission_command_to_the_shell_as_it_is_written() {
    let mut common = injecting(InjectedBy::InitContainer);
    if let Some(injection) = &mut common.injection {
        injection.decommission_command = Some("kill -USR1 $(pidof worker) # $$".to_owned());
    }
    let pod = pod(7, &common, profile());
    let expected = [
        "/opt/boatswain/boatswain-agent",
        "--decommission-command",
        "kill -USR1 $$(pidof worker) # $$$$",
        "--",
        "sleep",
    ];
    assert_eq!(pod["spec"]["containers"][0]["command"], json!(expected));
}

// spec: O-65
#[test]
fn a_profile_without_a_command_cannot_be_run_by_an_injected_agent() {
    let mut spec = profile();
    spec.container.remove("command");
    let refused = template(&injecting(InjectedBy::InitContainer), spec).unwrap_err();
    let profile = "default".into();
    assert_eq!(refused, TemplateError::Command { profile });
}
