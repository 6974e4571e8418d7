//! Shows the objects of a first start's first round as documents for `kubectl create -f`, without a
//! cluster.

use std::collections::BTreeMap;

use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::Value;

use super::listener;
use super::owned_resources;
use super::profile_spec;
use super::provisioners;
use super::settings::{self, least, mark_gangs};
use super::succession::{holder, label_scheme, new_app_id};
use crate::actors::pod_allocator::ids::RESERVED_BLOCK;
use crate::actors::pod_allocator::slots::split_evenly;
use crate::actors::record_keeper::profile_objects::{self, Place, Todo};
use crate::config::{self, Auth, ClusterMode, Config};
use crate::kubernetes::calls::ProfileObject;
use crate::kubernetes::claims::{ClaimFor, ClaimSpec, claim_json};
use crate::kubernetes::pod_template::{Common, Template, overridden, queued};
use crate::kubernetes::record::{Record, RecordPlace};
use crate::kubernetes::set_template::Sets;
use crate::kubernetes::workloads::{self, Queue};
use crate::kubernetes::{ProfileSpec, SetKind};
use crate::manifests;
use crate::model::claims::claim_name;
use crate::model::{AppId, ExecutorId, Incarnation, ProfileName};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DryRunError(String);

const HEAD: &str = "\
# What `boatswain run` asks for in the first round of a first start, for kubectl create -f.
# It differs in one thing: all of it is owned by the record, by a uid that the cluster gives to it. Here that is left out,
# for the cluster deletes what is owned by something that does not exist.
";

/// For configurations with a CA of the driver's own.
const CA: &str = "\
# The driver's CA is missing too: its Secret, and its certificate in the executors' ConfigMap. Only a start makes it.
";

/// For configurations with a queue.
const QUEUE: &str = "\
# The executors' pods are asked for once Kueue has admitted these Workloads, as far as it does.
";

/// The application record and the executors of the first round, as YAML.
///
/// # Errors
/// If the API server would refuse the executors' pods, or the system provides no randomness.
pub fn dry_run(config: &Config) -> Result<String, DryRunError> {
    let random = || {
        let number = SysRng.try_next_u64();
        number.map_err(|error| DryRunError(format!("the system gives no randomness: {error}")))
    };
    let documents = documents(config, random()?, random()?)?;
    let yaml = manifests::yaml(&documents).map_err(DryRunError)?;
    let ca = if config.tls.generate { CA } else { "" };
    let queue = settings::queue(&config.scheduling).map_or("", |_| QUEUE);
    Ok(format!("{HEAD}{ca}{queue}{yaml}"))
}

/// The pods that are made from pod templates, each as a YAML comment (spec K-1).
///
/// # Errors
/// If a profile allows no pods.
pub fn shapes(config: &Config) -> Result<String, DryRunError> {
    let prefix = config.pod_name_prefix();
    let random = config.app.id.clone();
    let app_id = random.unwrap_or_else(|| new_app_id(&prefix, 0));
    let template = template(config, app_id, prefix, "default".to_owned(), Incarnation(1))?;
    let mut shown = String::new();
    for (name, profile) in &config.profiles {
        let Some(file) = &profile.template else {
            continue;
        };
        let path = file.path.display();
        shown.push_str(&format!("\n# Of {path} and profile {name} this becomes:\n"));
        if let Some(container) = &file.container {
            let said = format!(
                "# The executor's container is {container}; in the pod it is called executor.\n"
            );
            shown.push_str(&said);
        }
        for note in &file.notes {
            shown.push_str(&format!("# Note: {note}.\n"));
        }
        for why in overridden(&profile_spec::spec(profile.clone())) {
            shown.push_str(&format!("# Warning: {why}.\n"));
        }
        let Some(body) = template.pod(name, ExecutorId::FIRST) else {
            continue;
        };
        let failed = |error: &dyn std::fmt::Display| DryRunError(error.to_string());
        let mut pod: Value = serde_json::from_slice(&body.json).map_err(|error| failed(&error))?;
        config::hide(&mut pod);
        let yaml = serde_saphyr::to_string(&pod).map_err(|error| failed(&error))?;
        for line in yaml.lines() {
            shown.push_str(&format!("#   {line}\n"));
        }
    }
    Ok(shown)
}

fn documents(config: &Config, seed: u64, start: u64) -> Result<Vec<Value>, DryRunError> {
    let prefix = config.pod_name_prefix();
    let labels = label_scheme(config);
    let app_id: AppId = (config.app.id.clone()).unwrap_or_else(|| new_app_id(&prefix, seed));
    let failed = |error: &dyn std::fmt::Display| DryRunError(error.to_string());
    let succession =
        Record::succeed(None, &app_id, RESERVED_BLOCK).map_err(|error| failed(&error))?;
    let record = Record {
        holder: Some(holder(start)),
        origin: Some(holder(start)),
        ..succession.record
    };
    let known = config.cluster.namespace.as_deref();
    let namespace = known.unwrap_or("default").to_owned();
    let content = owned_resources::content(config).map_err(|error| failed(&error))?;
    let place = RecordPlace {
        namespace: namespace.clone(),
        prefix: prefix.clone(),
        app_name: config.app.name.clone(),
        labels,
        owner: None,
    };
    let templates = pod_templates(config, app_id, prefix, namespace, record.incarnation)?;
    let common = &templates.common;
    let mut documents = vec![record.to_config_map(&place, None)];
    let owned = owned_resources::all(config, &place, &common.app_id, content.as_ref());
    documents.extend(owned.into_iter().map(|owned_resource| owned_resource.json));
    if let Some(groups) = settings::pod_groups(&config.scheduling) {
        let least = least(&config.profiles);
        let groups = ProfileObject::PodGroup(groups);
        documents.extend(profile_objects(groups, common, least));
    }
    let least = (config.profiles.iter())
        .filter_map(|(name, profile)| {
            let least = profile.min_available?.min(profile.executors);
            Some((name.clone(), least))
        })
        .collect();
    let budgets = profile_objects(ProfileObject::DisruptionBudget, common, least);
    documents.extend(budgets);
    let queue = settings::queue(&config.scheduling);
    documents.extend(match provisioners::set_kind(config.allocation.strategy) {
        Some(kind) => sets(config, &templates, kind)?,
        None => match queue {
            Some(queue) => workloads(config, &templates, &queue),
            None => pods(config, &templates, succession.first_id)?,
        },
    });
    Ok(without_unknown_fields(documents, config))
}

/// The sets of profiles with executors (spec A-80).
fn sets(
    config: &Config,
    templates: &PodTemplates,
    kind: SetKind,
) -> Result<Vec<Value>, DryRunError> {
    let common = &templates.common;
    let sets = Sets::new(kind, common.clone(), &templates.specs)
        .map_err(|error| DryRunError(error.to_string()))?;
    let with_executors = config.profiles.iter().filter(|(_, p)| p.executors > 0);
    let sets = with_executors
        .filter_map(|(name, profile)| sets.set(name, profile.executors, &common.record_uid));
    Ok(sets.collect())
}

/// The Workloads of profiles with executors (spec A-90).
fn workloads(config: &Config, templates: &PodTemplates, queue: &Queue) -> Vec<Value> {
    let common = &templates.common;
    let place = workloads::Place {
        prefix: &common.prefix,
        app_id: &common.app_id,
        labels: common.labels,
        record: &common.record_uid,
    };
    let with_executors = config.profiles.iter().filter(|(_, p)| p.executors > 0);
    let workload = |(number, (name, profile)): (u32, (&ProfileName, &config::Profile))| {
        let pods = queued(templates.specs.get(name)?, common.injection.as_ref());
        let size = (profile.executors, profile.min_executors);
        let mut json = workloads::workload(queue, place, (number, name), &pods, size);
        json["metadata"]["namespace"] = common.namespace.as_str().into();
        Some(json)
    };
    (1..).zip(with_executors).filter_map(workload).collect()
}

fn pods(
    config: &Config,
    templates: &PodTemplates,
    first_id: ExecutorId,
) -> Result<Vec<Value>, DryRunError> {
    let mut documents = Vec::new();
    let profiles = first_round(config)
        .into_iter()
        .flat_map(|(profile, executors)| (0..executors).map(move |_| profile));
    let ids = std::iter::successors(Some(first_id), |id| id.next());
    for (profile, id) in profiles.zip(ids) {
        let Some(pod) = templates.template.pod(profile, id) else {
            continue;
        };
        let json = serde_json::from_slice(&pod.json);
        documents.push(json.map_err(|error| DryRunError(error.to_string()))?);
        documents.extend(claims(templates, profile, id, &pod.name));
    }
    Ok(documents)
}

fn claims(
    templates: &PodTemplates,
    profile: &ProfileName,
    id: ExecutorId,
    pod: &str,
) -> Vec<Value> {
    let common = &templates.common;
    let claim_for = ClaimFor {
        app_id: &common.app_id,
        app_name: &common.app_name,
        namespace: &common.namespace,
        prefix: &common.prefix,
        labels: common.labels,
        record: &common.record_uid,
        id,
        profile,
        pod: (pod, None),
    };
    let claims = templates.specs.get(profile).map(|spec| &spec.claims);
    let json = |claim: &ClaimSpec| {
        let name = claim_name(&common.prefix, id, &claim.template.volume);
        claim_json(&name, &claim.template, &claim_for)
    };
    claims.into_iter().flatten().map(json).collect()
}

/// One object per profile with a number.
fn profile_objects(
    object: ProfileObject,
    common: &Common,
    numbers: BTreeMap<ProfileName, u32>,
) -> impl Iterator<Item = Value> {
    let place = Place {
        prefix: common.prefix.clone(),
        app_id: common.app_id.clone(),
        labels: common.labels,
    };
    let numbers = numbers.into_iter().filter(|(_, number)| *number > 0);
    numbers.filter_map(move |(profile, number)| {
        let record = &common.record_uid;
        match profile_objects::todo(object, &place, &profile, number, record, None) {
            Todo::Create(mut json) => {
                json["metadata"]["namespace"] = common.namespace.as_str().into();
                Some(json)
            }
            Todo::Nothing | Todo::Patch(_) | Todo::Replace | Todo::Await => None,
        }
    })
}

/// Removes the owner, which has no uid yet, and a namespace that comes from the context, which
/// kubectl uses too.
fn without_unknown_fields(mut documents: Vec<Value>, config: &Config) -> Vec<Value> {
    let known = config.cluster.namespace.is_some() || config.cluster.mode == ClusterMode::Embedded;
    for document in &mut documents {
        if let Some(metadata) = document["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
            if !known {
                metadata.remove("namespace");
            }
        }
    }
    documents
}

struct PodTemplates {
    common: Common,
    specs: BTreeMap<ProfileName, ProfileSpec>,
    template: Template,
}

pub(super) fn template(
    config: &Config,
    app_id: AppId,
    prefix: String,
    namespace: String,
    incarnation: Incarnation,
) -> Result<Template, DryRunError> {
    let templates = pod_templates(config, app_id, prefix, namespace, incarnation)?;
    Ok(templates.template)
}

fn pod_templates(
    config: &Config,
    app_id: AppId,
    prefix: String,
    namespace: String,
    incarnation: Incarnation,
) -> Result<PodTemplates, DryRunError> {
    let failed = |error: &dyn std::fmt::Display| DryRunError(error.to_string());
    let content = owned_resources::content(config).map_err(|error| failed(&error))?;
    // Derived tokens are omitted: a start reads or creates their key.
    let listen = config.backend.sessions.listen;
    let by_pods = config.backend.sessions.auth(config.cluster.mode) == Auth::Kubernetes;
    let token = (listen.is_some() && by_pods).then(|| listener::projected(&app_id));
    let driver_url = listen.map(|address| listener::url(config, address, &prefix, &namespace));
    let common = Common {
        app_id,
        app_name: config.app.name.clone(),
        namespace,
        prefix,
        labels: label_scheme(config),
        incarnation,
        record_uid: "".into(),
        driver_url,
        token,
        agent: None,
        injection: listener::injection(config),
        protects: config.nodes.protect_busy,
        ca_file: listener::ca_path(config),
        config_map: (content.is_some()).then(|| config.config_map.mount_path.clone()),
        avoid: Default::default(),
        preferred: Default::default(),
    };
    let mut specs = profile_spec::specs(config.profiles.clone());
    mark_gangs(&config.scheduling, &least(&config.profiles), &mut specs);
    let template = Template::new(&common, &specs).map_err(|error| failed(&error))?;
    Ok(PodTemplates {
        common,
        specs,
        template,
    })
}

/// The number of executors of each profile that the first round requests, limited by the batch size
/// (spec ).
fn first_round(config: &Config) -> BTreeMap<&ProfileName, u32> {
    let wants: Vec<u32> = config
        .profiles
        .values()
        .map(|profile| profile.executors)
        .collect();
    let given = split_evenly(config.allocation.batch_size, &wants);
    config.profiles.keys().zip(given).collect()
}

#[cfg(test)]
mod tests;
