//! Converts a profile of the configuration to fields of the Kubernetes API: pure functions (spec
//! K-5, K-6).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::{self, EnvValue, KeyOf, Medium, Profile, Security, Volume, VolumeSource};
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::claims::ClaimSpec;
use crate::kubernetes::labels::DELETION_COST;
use crate::kubernetes::pod_template::NO_IMAGE;
use crate::model::ProfileName;
use crate::model::claims::{ClaimOwner, ClaimShape, ClaimTemplate, DataSource};
use crate::model::quantity::cpu_text;

pub(super) fn specs(
    profiles: BTreeMap<ProfileName, Profile>,
) -> BTreeMap<ProfileName, ProfileSpec> {
    let specs = profiles
        .into_iter()
        .map(|(name, profile)| (name, spec(profile)));
    specs.collect()
}

pub(super) fn spec(profile: Profile) -> ProfileSpec {
    let template = profile.template.as_ref();
    let said = (profile.annotations.iter()).map(|(key, value)| match template {
        Some(template) => template.annotation(key, value),
        None => (key.clone(), value.clone()),
    });
    let mut annotations: BTreeMap<String, String> = said.collect();
    if let Some(cost) = profile.deletion_cost {
        annotations.insert(DELETION_COST.to_owned(), cost.to_string());
    }
    let tops_up = profile.memory_overhead_factor > 0 || profile.memory_overhead_min.is_some();
    let memory = profile.memory.as_ref().filter(|_| tops_up);
    let growth = profile.growth();
    ProfileSpec {
        labels: profile.labels.clone(),
        annotations,
        pod: pod(&profile),
        container: container(&profile),
        spread: profile.topology_spread.iter().map(spread).collect(),
        memory_bytes: memory.map(config::Quantity::bytes),
        claims: profile.claims.iter().map(claim).collect(),
        termination_grace: Some(profile.termination_grace),
        base: (profile.template)
            .and_then(|template| template.pod)
            .unwrap_or_default(),
        gang: None,
        growth,
    }
}

/// Fields of an object, without those that have no value.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), value.into());
        }
    }

    /// Omits an empty array or object.
    fn set_some(&mut self, field: &str, value: Value) {
        let empty = match &value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        self.set(field, (!empty).then_some(value));
    }

    fn value(self) -> Value {
        Value::Object(self.0)
    }
}

fn pod(profile: &Profile) -> Map<String, Value> {
    let named = |names: &[String]| names.iter().map(|name| json!({"name": name})).collect();
    let mut pod = Fields::default();
    pod.set_some("imagePullSecrets", named(&profile.pull_secrets));
    pod.set_some("volumes", profile.volumes.iter().map(volume).collect());
    pod.set_some("nodeSelector", json!(profile.node_selector));
    pod.set_some(
        "tolerations",
        profile.tolerations.iter().map(toleration).collect(),
    );
    pod.set("affinity", profile.affinity.clone());
    pod.set("priorityClassName", profile.priority_class.clone());
    pod.set("runtimeClassName", profile.runtime_class.clone());
    pod.set("schedulerName", profile.scheduler_name.clone());
    pod.set_some("schedulingGates", named(&profile.scheduling_gates));
    pod.set("serviceAccountName", profile.service_account.clone());
    pod.set(
        "automountServiceAccountToken",
        profile.security.service_account_token,
    );
    pod.set_some("securityContext", security_of_pod(&profile.security));
    pod.0
}

fn container(profile: &Profile) -> Map<String, Value> {
    let mut container = Fields::default();
    let template = profile.template.as_ref();
    let of_template = template.and_then(|template| template.executor()?.get("image"));
    let none = of_template.is_none().then(|| NO_IMAGE.to_owned());
    container.set("image", profile.image.clone().or(none));
    container.set(
        "imagePullPolicy",
        profile.pull_policy.map(|policy| policy.as_str()),
    );
    container.set_some("command", json!(profile.command));
    container.set_some("args", json!(profile.args));
    container.set_some("env", profile.env.iter().map(variable).collect());
    container.set_some("resources", resources(profile));
    container.set_some("volumeMounts", profile.volumes.iter().map(mount).collect());
    container.set_some("securityContext", security_of_container(&profile.security));
    let pre_stop = (!profile.pre_stop.is_empty())
        .then(|| json!({"preStop": {"exec": {"command": profile.pre_stop}}}));
    container.set("lifecycle", pre_stop);
    container.0
}

fn resources(profile: &Profile) -> Value {
    let (mut requests, mut limits) = (Fields::default(), Fields::default());
    let cores = |cpu: &Option<config::Quantity>| cpu.as_ref().map(|cpu| cpu_text(cpu.millis()));
    let bytes = |amount: &Option<config::Quantity>| {
        amount.as_ref().map(|amount| amount.bytes().to_string())
    };
    requests.set("cpu", cores(&profile.cpu));
    limits.set("cpu", cores(&profile.cpu_limit));
    requests.set(
        "memory",
        profile.memory_request().map(|bytes| bytes.to_string()),
    );
    limits.set("memory", bytes(&profile.memory_limit));
    requests.set("ephemeral-storage", bytes(&profile.ephemeral_storage));
    limits.set("ephemeral-storage", bytes(&profile.ephemeral_storage_limit));
    // Kubernetes requires equal requests and limits for extended resources.
    for (name, amount) in &profile.resources {
        requests.set(name, Some(amount.to_string()));
        limits.set(name, Some(amount.to_string()));
    }
    let mut resources = Fields::default();
    resources.set_some("requests", requests.value());
    resources.set_some("limits", limits.value());
    resources.value()
}

fn variable((name, value): (&String, &EnvValue)) -> Value {
    let from = |kind: &str, source: Value| json!({"name": name, "valueFrom": {kind: source}});
    let key_of = |key: &KeyOf| {
        let mut fields = Fields::default();
        fields.set("name", Some(key.name.clone()));
        fields.set("key", Some(key.key.clone()));
        fields.set("optional", key.optional.then_some(true));
        fields.value()
    };
    match value {
        EnvValue::Text(text) => json!({"name": name, "value": text}),
        EnvValue::Secret(key) => from("secretKeyRef", key_of(key)),
        EnvValue::ConfigMap(key) => from("configMapKeyRef", key_of(key)),
        EnvValue::Field(path) => from("fieldRef", json!({"apiVersion": "v1", "fieldPath": path})),
        EnvValue::Resource(path) => from("resourceFieldRef", json!({"resource": path})),
    }
}

fn volume(volume: &Volume) -> Value {
    let mut source = Fields::default();
    let kind = match &volume.source {
        VolumeSource::EmptyDir { size_limit, medium } => {
            source.set(
                "sizeLimit",
                size_limit.as_ref().map(|size| size.to_string()),
            );
            source.set("medium", (*medium == Medium::Memory).then_some("Memory"));
            "emptyDir"
        }
        VolumeSource::HostPath { path, kind } => {
            source.set("path", Some(path.clone()));
            source.set("type", kind.clone());
            "hostPath"
        }
        VolumeSource::Claim(name) => {
            source.set("claimName", Some(name.clone()));
            source.set("readOnly", volume.read_only.then_some(true));
            "persistentVolumeClaim"
        }
        VolumeSource::ConfigMap { name, optional } => {
            source.set("name", Some(name.clone()));
            source.set("optional", optional.then_some(true));
            "configMap"
        }
        VolumeSource::Secret { name, optional } => {
            source.set("secretName", Some(name.clone()));
            source.set("optional", optional.then_some(true));
            "secret"
        }
    };
    json!({"name": volume.name, kind: source.value()})
}

fn mount(volume: &Volume) -> Value {
    let mut mount = Fields::default();
    mount.set("name", Some(volume.name.clone()));
    mount.set("mountPath", Some(volume.mount_path.clone()));
    mount.set("subPath", volume.sub_path.clone());
    mount.set("readOnly", volume.read_only.then_some(true));
    mount.value()
}

fn toleration(toleration: &config::Toleration) -> Value {
    let mut fields = Fields::default();
    fields.set("key", toleration.key.clone());
    fields.set("operator", Some(toleration.operator.as_str()));
    fields.set("value", toleration.value.clone());
    fields.set("effect", toleration.effect.map(|effect| effect.as_str()));
    fields.set(
        "tolerationSeconds",
        toleration.tolerate_for.map(|time| time.as_secs()),
    );
    fields.value()
}

fn spread(spread: &config::Spread) -> Value {
    json!({
        "topologyKey": spread.key,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": spread.uneven.as_str(),
    })
}

fn security_of_pod(security: &Security) -> Value {
    let mut fields = Fields::default();
    fields.set("runAsNonRoot", security.run_as_non_root);
    fields.set("runAsUser", security.run_as_user);
    fields.set("runAsGroup", security.run_as_group);
    fields.set("fsGroup", security.fs_group);
    let profile = |name: &String| match name.strip_prefix("Localhost/") {
        Some(file) => json!({"type": "Localhost", "localhostProfile": file}),
        None => json!({"type": name}),
    };
    fields.set("seccompProfile", security.seccomp.as_ref().map(profile));
    fields.value()
}

fn security_of_container(security: &Security) -> Value {
    let mut fields = Fields::default();
    fields.set("allowPrivilegeEscalation", security.privilege_escalation);
    fields.set("privileged", security.privileged);
    fields.set("readOnlyRootFilesystem", security.read_only_root);
    let mut capabilities = Fields::default();
    let dropped = security
        .drop_capabilities
        .map(|all| if all { json!(["ALL"]) } else { json!([]) });
    capabilities.set("drop", dropped);
    capabilities.set_some("add", json!(security.capabilities));
    fields.set_some("capabilities", capabilities.value());
    fields.value()
}

/// The claim template of each executor of the profile (spec K-10).
fn claim(claim: &config::Claim) -> ClaimSpec {
    let config::Claim {
        name,
        mount_path,
        size,
        storage_class,
        volume_attributes_class,
        data_source,
        access_modes,
        owner,
        labels,
        annotations,
    } = claim;
    let data_source = data_source.as_ref().map(|source| DataSource {
        group: Arc::from(source.kind.group()),
        kind: Arc::from(source.kind.as_str()),
        name: Arc::from(source.name.as_str()),
    });
    ClaimSpec {
        template: ClaimTemplate {
            volume: Arc::from(name.as_str()),
            shape: ClaimShape {
                storage_class: storage_class.as_deref().map(Arc::from),
                attributes_class: volume_attributes_class.as_deref().map(Arc::from),
                data_source,
                access_modes: (access_modes.iter())
                    .map(|mode| Arc::from(mode.as_str()))
                    .collect(),
                bytes: size.bytes(),
            },
            owner: match owner {
                config::ClaimOwner::Application => ClaimOwner::Application,
                config::ClaimOwner::Executor => ClaimOwner::Executor,
            },
            labels: labels.clone(),
            annotations: annotations.clone(),
        },
        mount_path: mount_path.clone(),
    }
}

#[cfg(test)]
mod tests;
