//! Checks that pods can be built from every profile (spec K-1 to K-5).

use crate::config::names::is_own_label;
use crate::config::notes::{Notes, join};
use crate::config::{ClusterMode, Config, EmbeddedNode, PodTemplate};
use crate::model::ProfileName;

pub(super) fn check(config: &Config, notes: &mut Notes) {
    programs(config, notes);
    own_names(config, notes);
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
        let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys.extend(["cluster.mode", "embedded.node"]);
        if !notes.are_sound(&keys) {
            continue;
        }
        let has = |field: &str| {
            let template = profile.template.as_ref();
            template.is_some_and(|template| template.may_have(field))
        };
        match (config.cluster.mode, config.embedded.node) {
            (ClusterMode::Kubernetes, _) if profile.image.is_none() && !has("image") => notes
                .refuse(
                    &of("image"),
                    "missing, and a Kubernetes cluster needs one",
                    format!("name an image, or set profiles.{name}.executors = 0"),
                ),
            (ClusterMode::Embedded, EmbeddedNode::Process)
                if profile.command.is_empty()
                    && profile.args.is_empty()
                    && !has("command")
                    && !has("args") =>
            {
                notes.refuse(
                    &of("command"),
                    "missing, and there is no image with a command of its own",
                    format!("name a program, or set profiles.{name}.executors = 0"),
                );
            }
            _ => {}
        }
    }
}

/// Users may not set the labels and annotations by which boatswain recognises its executors (spec
/// K-2).
fn own_names(config: &Config, notes: &mut Notes) {
    let scheme = config.executors.labels;
    for (name, profile) in &config.profiles {
        let path = |map: &str| format!("profiles.{name}.{map}");
        for key in profile
            .labels
            .keys()
            .filter(|key| is_own_label(key, scheme))
        {
            let found = "that label is boatswain's own";
            notes.refuse(&join(&path("labels"), key), found, "choose another key");
        }
        for key in profile
            .annotations
            .keys()
            .filter(|key| is_own_annotation(key))
        {
            let found = "that annotation is boatswain's own";
            let fix = "give it another key; how dear an executor is, deletion_cost says";
            notes.refuse(&join(&path("annotations"), key), found, fix);
        }
        if let Some(template) = &profile.template {
            let own = |key: &&str| is_own_label(key, scheme);
            refuse(
                notes,
                name,
                template,
                "labels",
                template.keys_of("labels").into_iter().filter(own),
            );
            let own = |key: &&str| is_own_annotation(key) && *key != DELETION_COST;
            refuse(
                notes,
                name,
                template,
                "annotations",
                template.keys_of("annotations").into_iter().filter(own),
            );
        }
    }
}

const DELETION_COST: &str = "boatswain.dev/deletion-cost";

fn is_own_annotation(key: &str) -> bool {
    key.starts_with("boatswain.dev/")
}

fn refuse<'t>(
    notes: &mut Notes,
    profile: &ProfileName,
    template: &PodTemplate,
    map: &str,
    own: impl Iterator<Item = &'t str>,
) {
    for key in own {
        let path = join(&format!("metadata.{map}"), key);
        let found = format!(
            "{}: {path}: only boatswain may set this",
            template.path.display()
        );
        notes.refuse(&format!("profiles.{profile}.template"), found, "remove it");
    }
}
