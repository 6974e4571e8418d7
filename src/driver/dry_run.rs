//! What a first start asks for in its first round, as documents for `kubectl create -f`; no cluster is asked.

use std::collections::BTreeMap;

use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::Value;

use super::listener;
use super::owned_resources;
use super::profile_spec;
use super::provisioners;
use super::settings::{least, mark_gangs};
use super::succession::{holder, label_scheme, new_app_id};
use crate::actors::pod_allocator::ids::RESERVED_BLOCK;
use crate::actors::pod_allocator::slots::split_evenly;
use crate::actors::pod_groups::{self, Todo};
use crate::config::{Auth, ClusterMode, Config, Gang};
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::claims::{ClaimFor, claim_json};
use crate::kubernetes::pod_template::{Common, Template};
use crate::kubernetes::record::{Record, RecordPlace};
use crate::kubernetes::set_template::Sets;
use crate::model::claims::claim_name;
use crate::model::{AppId, ExecutorId, Incarnation, ProfileName};

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DryRunError(String);

/// Above the documents.
const HEAD: &str = "\
# What `boatswain run` asks for in the first round of a first start, for kubectl create -f.
# It differs in one thing: all of it is owned by the record, by a uid that the cluster gives to it. Here that is left out,
# for the cluster deletes what is owned by something that does not exist.
";

/// The application record, and the executors of the first round, as YAML.
///
/// # Errors
/// Where the API server would refuse the executors' pods, or the system gives no randomness.
pub fn dry_run(config: &Config) -> Result<String, DryRunError> {
    let random = || {
        let number = SysRng.try_next_u64();
        number.map_err(|error| DryRunError(format!("the system gives no randomness: {error}")))
    };
    let seed = config.driver.seed.map_or_else(random, Ok)?;
    let documents = documents(config, seed, random()?)?;
    let options = serde_saphyr::ser_options! { quote_all: true };
    let yaml = serde_saphyr::to_string_multiple_with_options(&documents, options)
        .map_err(|error| DryRunError(error.to_string()))?;
    Ok(format!("{HEAD}{yaml}"))
}

/// The pods that are made of templates, a comment for each, to be read by people (spec K-1).
///
/// # Errors
/// Where no pods can be made of a profile.
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
        let Some(body) = template.pod(name, ExecutorId::FIRST) else {
            continue;
        };
        let failed = |error: &dyn std::fmt::Display| DryRunError(error.to_string());
        let pod: Value = serde_json::from_slice(&body.json).map_err(|error| failed(&error))?;
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
    let Shaped {
        common,
        specs,
        template,
    } = shaped(config, app_id, prefix, namespace, record.incarnation)?;
    let mut documents = vec![record.to_config_map(&place, None)];
    let owned = owned_resources::all(config, &place, &common.app_id, content.as_ref());
    documents.extend(owned.into_iter().map(|owned_resource| owned_resource.json));
    if config.scheduling.gang == Gang::Volcano {
        documents.extend(pod_groups(&common, &least(&config.profiles)));
    }
    if let Some(kind) = provisioners::set_kind(config.allocation.strategy) {
        let sets = Sets::new(kind, common.clone(), &specs).map_err(|error| failed(&error))?;
        let wanted = config.profiles.iter().filter(|(_, p)| p.executors > 0);
        documents.extend(wanted.filter_map(|(profile, described)| {
            sets.set(profile, described.executors, &common.record_uid)
        }));
        return Ok(without_what_is_not_known(documents, config));
    }
    let mut next = Some(succession.first_id);
    for (profile, executors) in first_round(config) {
        for _ in 0..executors {
            let id: Option<ExecutorId> = next;
            next = id.and_then(ExecutorId::next);
            let Some((id, pod)) = id.and_then(|id| Some((id, template.pod(profile, id)?))) else {
                continue;
            };
            let name = pod.name;
            let pod: Value = serde_json::from_slice(&pod.json).map_err(|error| failed(&error))?;
            documents.push(pod);
            let claims = specs.get(profile).map(|spec| &spec.claims);
            for claim in claims.into_iter().flatten() {
                let template = &claim.template;
                let of = ClaimFor {
                    app_id: &common.app_id,
                    app_name: &common.app_name,
                    namespace: &common.namespace,
                    prefix: &common.prefix,
                    labels,
                    record: &common.record_uid,
                    id,
                    profile,
                    pod: (&name, None),
                };
                let name = claim_name(&common.prefix, id, &template.volume);
                documents.push(claim_json(&name, template, &of));
            }
        }
    }
    Ok(without_what_is_not_known(documents, config))
}

/// The PodGroups that Volcano reads.
fn pod_groups<'a>(
    common: &'a Common,
    least: &'a BTreeMap<ProfileName, u32>,
) -> impl Iterator<Item = Value> + 'a {
    let gangs = least.iter().filter(|(_, least)| **least > 0);
    gangs.filter_map(|(profile, least)| {
        match pod_groups::todo(&common.prefix, profile, *least, &common.record_uid, None) {
            Todo::Create(mut group) => {
                group["metadata"]["namespace"] = common.namespace.as_str().into();
                Some(group)
            }
            Todo::Nothing | Todo::Patch(_) => None,
        }
    })
}

/// Leaves out who owns what is made, which has no uid yet; and which namespace is the context's, kubectl knows as well.
fn without_what_is_not_known(mut documents: Vec<Value>, config: &Config) -> Vec<Value> {
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

/// How pods are made, as far as that can be known without a cluster.
struct Shaped {
    common: Common,
    specs: BTreeMap<ProfileName, ProfileSpec>,
    template: Template,
}

/// How pods are made of this configuration.
pub(super) fn template(
    config: &Config,
    app_id: AppId,
    prefix: String,
    namespace: String,
    incarnation: Incarnation,
) -> Result<Template, DryRunError> {
    let shaped = shaped(config, app_id, prefix, namespace, incarnation)?;
    Ok(shaped.template)
}

fn shaped(
    config: &Config,
    app_id: AppId,
    prefix: String,
    namespace: String,
    incarnation: Incarnation,
) -> Result<Shaped, DryRunError> {
    let failed = |error: &dyn std::fmt::Display| DryRunError(error.to_string());
    let content = owned_resources::content(config).map_err(|error| failed(&error))?;
    // A key for derived tokens is made or read by a start, so what is sealed with it is not shown.
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
        config_map: (content.is_some()).then(|| config.config_map.mount_path.clone()),
        avoid: Default::default(),
    };
    let mut specs = profile_spec::specs(config.profiles.clone());
    mark_gangs(&config.scheduling, &least(&config.profiles), &mut specs);
    let template = Template::new(&common, &specs).map_err(|error| failed(&error))?;
    Ok(Shaped {
        common,
        specs,
        template,
    })
}

/// How many of each profile: all that are wanted, as far as one round may ask (spec A-3, A-4).
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
mod tests {
    use super::*;
    use crate::testing::config;

    fn shown(text: &str) -> (String, Vec<Value>) {
        let yaml = dry_run(&config(text)).unwrap();
        let documents = serde_saphyr::from_multiple(&yaml).unwrap();
        (yaml, documents)
    }

    const TWO: &str = r#"
        driver.seed = 7
        app = { id = "etl-1", name = "etl" }
        cluster.namespace = "jobs"
        [profiles.default]
        image = "engine:1"
        command = ["/bin/sh", "-c"]
        args = ['''
trap 'exit 0' TERM
while true; do sleep 1 & wait $!; done
''']
        cpu = "500m"
        memory = "512Mi"
        env = { A = "on", B = "1e3", C = "0o17", D = "~", E = "1:30", F = "y", G = "", H = " x: #\t\u0007" }
        [profiles.large]
        image = "engine:1"
        executors = 1
        tolerations = [{ key = "dedicated", value = "batch", effect = "NoSchedule" }]
    "#;

    /// What one profile's executors mount, and how they find the driver.
    const MOUNTED: &str = r#"
        [[profiles.large.claims]]
        name = "data"
        mount_path = "/data"
        size = "10Gi"
        [backend]
        listen = "0.0.0.0:7078"
        service_selector = { app = "driver" }
    "#;

    fn mounted() -> String {
        let properties = "name = \"etl\", properties = { mode = \"batch\" }";
        format!("{TWO}{MOUNTED}").replace("name = \"etl\"", properties)
    }

    // spec: K-8, K-9, K-10
    #[test]
    fn a_dry_run_shows_what_executors_mount_and_how_they_find_the_driver() {
        let (_, shown) = shown(&mounted());
        let named: Vec<String> = (shown.iter())
            .map(|d| format!("{} {}", d["kind"], d["metadata"]["name"]).replace('"', ""))
            .collect();
        assert_eq!(
            named,
            [
                "ConfigMap etl-app",
                "ConfigMap etl-executor",
                "Service etl-driver",
                "Pod etl-exec-1",
                "Pod etl-exec-2",
                "Pod etl-exec-3",
                "PersistentVolumeClaim etl-exec-3-data",
            ]
        );
        let of = |n: usize, path: &str| shown[n].pointer(path).cloned().unwrap_or_default();
        assert!(
            shown
                .iter()
                .all(|d| d["metadata"].get("ownerReferences").is_none())
        );
        assert_eq!(of(6, "/spec/resources/requests/storage"), "10737418240");
        let env = of(3, "/spec/containers/0/env");
        let url = (env.as_array().into_iter().flatten())
            .find(|variable| variable["name"] == "BOATSWAIN_DRIVER_URL");
        assert_eq!(url.unwrap()["value"], "http://etl-driver.jobs.svc:7078");
    }

    // spec: O-4
    #[test]
    fn a_dry_run_shows_the_record_and_each_executor_as_they_would_be() {
        let (yaml, mut shown) = shown(TWO);
        let expected = documents(&config(TWO), 7, 1).unwrap();
        // Each start is another.
        for key in ["holder", "origin"] {
            shown[0]["data"][key] = "0000000000000001".into();
        }
        assert_eq!(shown, expected, "what is read back is what was meant");
        let names: Vec<&str> = shown
            .iter()
            .filter_map(|d| d["metadata"]["name"].as_str())
            .collect();
        assert_eq!(names, ["etl-app", "etl-exec-1", "etl-exec-2", "etl-exec-3"]);
        assert_eq!(
            shown[3]["metadata"]["labels"]["boatswain.dev/profile"],
            "large"
        );
        assert_eq!(shown[1]["metadata"]["namespace"], "jobs");
        // kubectl reads YAML 1.1, in which `on` and `y` are flags and 1:30 is 90.
        for text in ["on", "1e3", "0o17", "~", "1:30", "y", ""] {
            assert!(
                yaml.contains(&format!("value: '{text}'")),
                "{text} in\n{yaml}"
            );
        }
    }

    // spec: A-80
    #[test]
    fn a_dry_run_shows_the_set_where_sets_make_the_pods() {
        let text = TWO.replace(
            "[profiles.default]",
            "[allocation]\nstrategy = \"statefulset\"\n[profiles.default]",
        );
        let (_, shown) = shown(&text);
        let kinds: Vec<&str> = shown.iter().filter_map(|d| d["kind"].as_str()).collect();
        assert_eq!(kinds, ["ConfigMap", "StatefulSet", "StatefulSet"]);
        assert_eq!(shown[1]["metadata"]["name"], "etl-default");
        assert_eq!(shown[1]["spec"]["replicas"], 2);
        assert_eq!(shown[1]["metadata"].get("ownerReferences"), None);
    }

    // spec: O-4
    #[test]
    fn a_dry_run_asks_for_no_more_than_one_round_does_shared_evenly() {
        let most = format!("allocation.batch_size = 2\n{TWO}");
        let (_, shown) = shown(&most);
        let profiles: Vec<&str> = shown[1..]
            .iter()
            .filter_map(|d| d["metadata"]["labels"]["boatswain.dev/profile"].as_str())
            .collect();
        assert_eq!(profiles, ["default", "large"]);
    }

    #[test]
    fn a_namespace_that_is_not_set_is_kubectl_s_to_choose() {
        let (_, shown) = shown("[profiles.default]\nimage = \"engine:1\"");
        assert_eq!(shown.len(), 3);
        assert!(
            shown
                .iter()
                .all(|d| d["metadata"].get("namespace").is_none())
        );
    }

    // spec: O-4
    #[tokio::test]
    async fn what_a_dry_run_shows_is_accepted_strictly() {
        use devcluster;
        use tower::ServiceExt;
        let cluster = devcluster::start(devcluster::Options::default());
        let (_, shown) = shown(&mounted().replace("\"jobs\"", "\"default\""));
        for document in shown {
            let resource = match document["kind"].as_str() {
                Some("Pod") => "pods",
                Some("PersistentVolumeClaim") => "persistentvolumeclaims",
                Some("Service") => "services",
                _ => "configmaps",
            };
            let request = http::Request::post(format!(
                "/api/v1/namespaces/default/{resource}?fieldValidation=Strict"
            ))
            .header("content-type", "application/json")
            .body(axum::body::Body::from(document.to_string()))
            .unwrap();
            let answer = cluster.router().oneshot(request).await.unwrap();
            let status = answer.status();
            let body = axum::body::to_bytes(answer.into_body(), 1 << 20)
                .await
                .unwrap();
            assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
        }
        cluster.shutdown().await;
    }
}
