//! Injects the agent's program into executors' containers, so that their images need not contain it (spec O-65).

use std::time::Duration;

use serde_json::{Value, json};

use super::{merge, mounts, whole_seconds};

/// Where the image has the agent's program.
const IN_IMAGE: &str = "/usr/bin/boatswain-agent";

/// Where the volume with the agent's program is mounted.
const DIRECTORY: &str = "/opt/boatswain";

const VOLUME: &str = "boatswain-agent";

/// The program has 5 MB.
const VOLUME_SIZE: &str = "32Mi";

/// The agent's program, and how it gets into a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// The image that contains the program.
    pub image: String,
    pub by: InjectedBy,
    /// The shell command that the agent runs when the executor is decommissioned; `None`: it sends SIGTERM.
    pub decommission_command: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedBy {
    /// An init container copies the program to a volume in memory. A volume on the node's disk might be mounted
    /// without the right to execute files, and would keep the cluster autoscaler from draining the node.
    InitContainer,
    /// The image is mounted as a volume, which Kubernetes supports since version 1.35.
    ImageVolume,
}

/// The executor container has no command, and the image's own is unknown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoCommand;

/// Runs the executor's command as a child of the agent.
/// `grace`: that of the profile, where it has one; else the template's applies.
pub(super) fn inject(
    spec: &mut Value,
    injection: &Injection,
    grace: Option<Duration>,
) -> Result<(), NoCommand> {
    let (volume, program) = match injection.by {
        InjectedBy::InitContainer => {
            let volume =
                json!({"name": VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": VOLUME_SIZE}});
            (volume, format!("{DIRECTORY}/boatswain-agent"))
        }
        InjectedBy::ImageVolume => {
            let image = json!({"reference": injection.image, "pullPolicy": "IfNotPresent"});
            let volume = json!({"name": VOLUME, "image": image});
            (volume, format!("{DIRECTORY}{IN_IMAGE}"))
        }
    };
    let grace = (grace.map(whole_seconds)).or(spec["terminationGracePeriodSeconds"].as_u64());
    let container = merge::executor(spec);
    let command = (container["command"].as_array_mut()).filter(|command| !command.is_empty());
    let command = command.ok_or(NoCommand)?;
    let mut agent = vec![program];
    if let Some(line) = &injection.decommission_command {
        // Kubernetes would replace `$$` and the variables of the container, which are the shell's.
        agent.extend(["--decommission-command".to_owned(), line.replace('$', "$$")]);
        let grace = grace.map(|seconds| ["--termination-grace".to_owned(), format!("{seconds}s")]);
        agent.extend(grace.into_iter().flatten());
    }
    agent.push("--".to_owned());
    command.splice(0..0, agent.into_iter().map(Value::from));
    let mount = json!({"name": VOLUME, "mountPath": DIRECTORY, "readOnly": true});
    mounts::push(&mut container["volumeMounts"], mount);
    mounts::push(&mut spec["volumes"], volume);
    if injection.by == InjectedBy::InitContainer {
        // Before the others: they may use the program too.
        match &mut spec["initContainers"] {
            Value::Array(containers) => containers.insert(0, init_container(&injection.image)),
            absent => *absent = json!([init_container(&injection.image)]),
        }
    }
    Ok(())
}

fn init_container(image: &str) -> Value {
    json!({
        "name": VOLUME,
        "image": image,
        "command": [IN_IMAGE, "install", DIRECTORY],
        "volumeMounts": [{"name": VOLUME, "mountPath": DIRECTORY}],
        // Less than any executor requests, so that the pod needs no more for it.
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "100m", "memory": "64Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}
