//! Checks that pods can be built from every profile (spec K-1 to K-5).

use std::collections::BTreeMap;

use crate::names::is_own_label;
use crate::notes::{Notes, join};
use crate::{ClusterMode, Config, EmbeddedNode, Inject};

pub(super) fn check(config: &Config, notes: &mut Notes) {
    programs(config, notes);
    injection(config, notes);
    own_names(config, notes);
}

/// The agent can be injected only where executors have containers, a driver to talk to, and a known command (spec
/// O-65).
fn injection(config: &Config, notes: &mut Notes) {
    if config.agent.inject == Inject::None {
        if config.agent.decommission_command.is_some() {
            notes.contradict(
                &["agent.decommission_command", "agent.inject"],
                "found, and no agent is injected",
                "set agent.inject, or begin the profile's command with the agent and --decommission-command",
            );
        }
        return;
    }
    let inject = config.agent.inject.as_str();
    if config.agent.image.is_none() {
        notes.contradict(
            &["agent.image", "agent.inject"],
            format!("missing, and agent.inject is \"{inject}\""),
            "name an image that contains /usr/bin/boatswain-agent, such as boatswain's own",
        );
    }
    if config.backend.sessions.listen.is_none() {
        notes.contradict(
            &["agent.inject", "backend.listen"],
            format!("found \"{inject}\", and backend.listen is not set, so no agent can reach the driver"),
            "set backend.listen, or remove it",
        );
    }
    let processes = config.embedded.node == EmbeddedNode::Process;
    if config.cluster.mode == ClusterMode::Embedded && processes {
        notes.contradict(
            &["agent.inject", "cluster.mode", "embedded.node"],
            format!(
                "found \"{inject}\", and executors are processes of this machine, without an image"
            ),
            "remove it, and begin the command with the program that BOATSWAIN_AGENT names",
        );
    }
    for (name, profile) in &config.profiles {
        let of = |key: &str| format!("profiles.{name}.{key}");
        let template = profile.template.as_ref();
        let command = !profile.command.is_empty()
            || template.is_some_and(|template| template.may_have("command"));
        if profile.executors > 0
            && !command
            && notes.are_sound(&["executors", "template", "command"].map(of))
        {
            notes.refuse(
                &of("command"),
                format!("missing, and agent.inject is \"{inject}\": the agent runs the command, and the image's own is unknown"),
                "name the program that the image's entrypoint begins",
            );
        }
    }
}

fn programs(config: &Config, notes: &mut Notes) {
    for (name, profile) in &config.profiles {
        // A profile without executors may stay empty, so that an application that does not use
        // `default` need not describe it.
        if profile.executors == 0 {
            continue;
        }
        let of = |key: &str| format!("profiles.{name}.{key}");
        let keys = ["executors", "template", "image", "command", "args"].map(of);
        if !notes.are_sound(&keys) || !notes.are_sound(&["cluster.mode", "embedded.node"]) {
            continue;
        }
        let has = |field: &str| {
            let template = profile.template.as_ref();
            template.is_some_and(|template| template.may_have(field))
        };
        let image = profile.image.is_some() || has("image");
        let program = !profile.command.is_empty() || !profile.args.is_empty();
        let program = program || has("command") || has("args");
        let (key, found, what) = match (config.cluster.mode, config.embedded.node) {
            (ClusterMode::Kubernetes, _) if !image => (
                "image",
                "missing, and a Kubernetes cluster needs one",
                "an image",
            ),
            (ClusterMode::Embedded, EmbeddedNode::Process) if !program => (
                "command",
                "missing, and there is no image with a command of its own",
                "a program",
            ),
            _ => continue,
        };
        let fix = format!("name {what}, or set {} = 0", of("executors"));
        notes.refuse(&of(key), found, fix);
    }
}

type Names = BTreeMap<String, String>;

/// Users may not set the labels and annotations by which boatswain recognises its executors (spec
/// K-2).
fn own_names(config: &Config, notes: &mut Notes) {
    let scheme = config.executors.labels;
    for (name, profile) in &config.profiles {
        let own_label = |key: &&str| is_own_label(key, scheme);
        let own_annotation = |key: &&str| key.starts_with("boatswain.dev/");
        let mut refuse = |path: &str, labels: &Names, annotations: &Names, fix: &str| {
            for key in labels.keys().map(String::as_str).filter(own_label) {
                let path = join(&format!("{path}.labels"), key);
                notes.refuse(&path, "that label is boatswain's own", "choose another key");
            }
            for key in annotations
                .keys()
                .map(String::as_str)
                .filter(own_annotation)
            {
                let path = join(&format!("{path}.annotations"), key);
                notes.refuse(&path, "that annotation is boatswain's own", fix);
            }
        };
        let path = format!("profiles.{name}");
        let fix = "give it another key; how dear an executor is, deletion_cost says";
        refuse(&path, &profile.labels, &profile.annotations, fix);
        for (at, claim) in profile.claims.iter().enumerate() {
            let path = format!("{path}.claims[{at}]");
            refuse(
                &path,
                &claim.labels,
                &claim.annotations,
                "choose another key",
            );
        }
        let Some(template) = &profile.template else {
            continue;
        };
        let keys = |map| template.keys_of(map).into_iter().map(move |key| (map, key));
        let labels = keys("labels").filter(|(_, key)| own_label(key));
        let annotations = keys("annotations")
            .filter(|(_, key)| own_annotation(key) && *key != "boatswain.dev/deletion-cost");
        for (map, key) in labels.chain(annotations) {
            let file = template.path.display();
            let place = join(&format!("metadata.{map}"), key);
            let found = format!("{file}: {place}: only boatswain may set this");
            notes.refuse(&format!("profiles.{name}.template"), found, "remove it");
        }
    }
}
