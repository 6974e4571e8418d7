//! What a first start asks for in its first round, as documents for `kubectl create -f`; no cluster is asked.

use std::collections::BTreeMap;

use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::Value;

use super::door;
use super::shape::specs;
use super::succession::{holder, label_scheme, new_app_id};
use crate::config::{Auth, ClusterMode, Config};
use crate::kubernetes::pod_template::{Common, Template};
use crate::kubernetes::record::{Record, RecordPlace};
use crate::model::{AppId, ExecutorId, Incarnation, ProfileName};
use crate::pod_allocator::ids::RESERVED_BLOCK;
use crate::pod_allocator::slots::split_evenly;

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DryRunError(String);

/// Above the documents.
const HEAD: &str = "\
# What `boatswain run` asks for in the first round of a first start, for kubectl create -f.
# It differs in one thing: each executor is owned by the record, by a uid that the cluster gives to it. Here that is left
# out, for the cluster deletes what is owned by something that does not exist.
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
    let place = RecordPlace {
        namespace: namespace.clone(),
        prefix: prefix.clone(),
        app_name: config.app.name.clone(),
        labels,
        owner: None,
    };
    let template = template(config, app_id, prefix, namespace, record.incarnation)?;
    let mut documents = vec![record.to_config_map(&place, None)];
    let mut next = Some(succession.first_id);
    for (profile, executors) in first_round(config) {
        for _ in 0..executors {
            let id: Option<ExecutorId> = next;
            next = id.and_then(ExecutorId::next);
            let Some(pod) = id.and_then(|id| template.pod(profile, id)) else {
                continue;
            };
            let mut pod: Value =
                serde_json::from_slice(&pod.json).map_err(|error| failed(&error))?;
            if let Some(metadata) = pod["metadata"].as_object_mut() {
                metadata.remove("ownerReferences");
            }
            documents.push(pod);
        }
    }
    // Which namespace is the context's, kubectl knows as well.
    if known.is_none() && config.cluster.mode == ClusterMode::Kubernetes {
        for document in &mut documents {
            if let Some(metadata) = document["metadata"].as_object_mut() {
                metadata.remove("namespace");
            }
        }
    }
    Ok(documents)
}

/// How pods are made, as far as that can be known without a cluster.
pub(super) fn template(
    config: &Config,
    app_id: AppId,
    prefix: String,
    namespace: String,
    incarnation: Incarnation,
) -> Result<Template, DryRunError> {
    // A key for derived tokens is made or read by a start, so what is sealed with it is not shown.
    let listen = config.backend.sessions.listen;
    let by_pods = config.backend.sessions.auth(config.cluster.mode) == Auth::Kubernetes;
    let token = (listen.is_some() && by_pods).then(|| door::projected(&app_id));
    let common = Common {
        app_id,
        app_name: config.app.name.clone(),
        namespace,
        prefix,
        labels: label_scheme(config),
        incarnation,
        record_uid: "".into(),
        driver_url: listen.map(|address| door::url(config, address)),
        token,
        agent: None,
        avoid: Default::default(),
    };
    Template::new(&common, &specs(config.profiles.clone()))
        .map_err(|error| DryRunError(error.to_string()))
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

    fn config(text: &str) -> Config {
        Config::from_toml(text, "a.toml", [], &[]).unwrap()
    }

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

    #[tokio::test]
    async fn what_a_dry_run_shows_is_accepted_strictly() {
        use crate::devcluster;
        use tower::ServiceExt;
        let cluster = devcluster::start(devcluster::Options::default());
        let (_, shown) = shown(&TWO.replace("\"jobs\"", "\"default\""));
        for document in shown {
            let resource = match document["kind"].as_str() {
                Some("Pod") => "pods",
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
