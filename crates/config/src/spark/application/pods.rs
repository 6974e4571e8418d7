//! What the Spark operator does to the pods of executors itself: Spark has no keys for it, but
//! profiles have.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::super::gathered::Gathered;
use super::super::source::{Source, scalar};
use super::TEMPLATE;
use crate::notes::join;

/// A field of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Env,
    SecretKeys,
    Secrets,
    ConfigMaps,
    Volumes,
    /// Where the executor has its volumes.
    Mounts,
    Gpu,
    Tolerations,
    Affinity,
    PriorityClass,
    PreStop,
}

impl Part {
    /// Reads the part; what has no key is refused, item by item.
    pub fn read(self, path: &str, value: &Json, spec: &Map<String, Json>, source: &mut Source) {
        let items = || value.as_array().into_iter().flatten().enumerate();
        let mut add = |key: &str, made: Option<Value>, path: String| match made {
            Some(made) => source
                .made
                .push(Gathered::of_profile(key, made, vec![path])),
            None => source.refuse(&path, TEMPLATE),
        };
        let listed = |item: Option<Value>| item.map(|item| Value::from(vec![item]));
        match self {
            Self::Gpu => add("resources", gpu(value), path.to_owned()),
            Self::Affinity => add("affinity", toml_of(value), path.to_owned()),
            Self::PriorityClass => add("priority_class", text(value), path.to_owned()),
            Self::PreStop => add("pre_stop", pre_stop(value), path.to_owned()),
            Self::ConfigMaps => items().for_each(|(n, item)| {
                add("volumes", listed(config_map(item)), format!("{path}[{n}]"));
            }),
            Self::Tolerations => items().for_each(|(n, item)| {
                add(
                    "tolerations",
                    listed(toleration(item)),
                    format!("{path}[{n}]"),
                );
            }),
            Self::Mounts => items().for_each(|(n, mount)| {
                let (key, made) = match claim(mount, spec) {
                    Some(claim) => ("claims", Some(claim)),
                    None => ("volumes", volume(mount, spec)),
                };
                add(key, listed(made), format!("{path}[{n}]"));
            }),
            Self::Volumes => unused(path, value, spec, source),
            Self::SecretKeys => secret_keys(path, value, source),
            Self::Env | Self::Secrets => {
                let read = if self == Self::Env { variable } else { secret };
                for (n, item) in items() {
                    if read(item, source).is_none() {
                        source.refuse(&format!("{path}[{n}]"), TEMPLATE);
                    }
                }
            }
        }
    }
}

/// Names the volumes that become none of executors.
fn unused(path: &str, value: &Json, spec: &Map<String, Json>, source: &mut Source) {
    let mounts = spec
        .get("executor")
        .and_then(|executor| executor.get("volumeMounts")?.as_array());
    let mount_of = |name: &str| {
        let mut mounts = mounts.into_iter().flatten();
        mounts.find(|mount| field(mount, "name") == Some(name))
    };
    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
        let name = field(item, "name").unwrap_or_default();
        let path = format!("{path}[{n}] {name}");
        match mount_of(name) {
            None => source.leave(&path, "executors do not mount it"),
            Some(mount) if claim(mount, spec).or_else(|| volume(mount, spec)).is_none() => {
                source.refuse(&path, TEMPLATE);
            }
            Some(_) => {}
        }
    }
}

fn field<'a>(object: &'a Json, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

fn text(value: &Json) -> Option<Value> {
    Some(scalar(value)?.into())
}

fn toml_of(value: &Json) -> Option<Value> {
    let mut value = value.clone();
    crate::template::without_nulls(&mut value);
    Value::try_from(value).ok()
}

fn variable(item: &Json, source: &mut Source) -> Option<()> {
    let name = field(item, "name")?;
    let Some(from) = item.get("valueFrom") else {
        let value = item.get("value").map_or(Some(String::new()), scalar)?;
        source.set(format!("spark.executorEnv.{name}"), value);
        return Some(());
    };
    let refers = |of: &str, kind: &str, field_of: &str| -> Option<Table> {
        let of = from.get(of)?;
        let mut value = Table::new();
        value.insert(kind.to_owned(), field(of, field_of)?.into());
        if let Some(key) = field(of, "key") {
            value.insert("key".to_owned(), key.into());
        }
        if of.get("optional").and_then(Json::as_bool) == Some(true) {
            value.insert("optional".to_owned(), true.into());
        }
        Some(value)
    };
    let value = refers("secretKeyRef", "secret", "name")
        .or_else(|| refers("configMapKeyRef", "config_map", "name"))
        .or_else(|| refers("fieldRef", "field", "fieldPath"))
        .or_else(|| refers("resourceFieldRef", "resource", "resource"))?;
    let key = join("env", name);
    source.made.push(Gathered::of_profile(
        &key,
        value,
        vec![format!("spec.executor.env {name}")],
    ));
    Some(())
}

fn secret_keys(path: &str, value: &Json, source: &mut Source) {
    for (variable, reference) in value.as_object().into_iter().flatten() {
        match (field(reference, "name"), field(reference, "key")) {
            (Some(name), Some(key)) => source.set(
                format!("spark.kubernetes.executor.secretKeyRef.{variable}"),
                format!("{name}:{key}"),
            ),
            _ => source.refuse(&format!("{path}.{variable}"), "it has no name, or no key"),
        }
    }
}

fn secret(item: &Json, source: &mut Source) -> Option<()> {
    let (name, path) = (field(item, "name")?, field(item, "path")?);
    source.set(format!("spark.kubernetes.executor.secrets.{name}"), path);
    if let Some(kind) = field(item, "secretType") {
        let what = format!("spec.executor.secrets {name}: secretType {kind}");
        source.refuse(
            &what,
            "the operator sets variables for some types; set them in profiles.default.env",
        );
    }
    Some(())
}

fn config_map(item: &Json) -> Option<Value> {
    let name = field(item, "name")?;
    let mut volume = Table::new();
    volume.insert("name".to_owned(), format!("{name}-volume").into());
    volume.insert("mount_path".to_owned(), field(item, "path")?.into());
    volume.insert("config_map".to_owned(), name.into());
    Some(volume.into())
}

fn gpu(value: &Json) -> Option<Value> {
    let mut resources = Table::new();
    let quantity = value.get("quantity")?.as_i64()?;
    resources.insert(field(value, "name")?.to_owned(), quantity.into());
    Some(resources.into())
}

fn toleration(item: &Json) -> Option<Value> {
    let mut toleration = Table::new();
    for (name, value) in item.as_object()? {
        let (name, value) = match &**name {
            "key" | "operator" | "value" | "effect" => (&**name, text(value)?),
            "tolerationSeconds" => ("tolerate_for", format!("{}s", value.as_u64()?).into()),
            _ => return None,
        };
        toleration.insert(name.to_owned(), value);
    }
    Some(toleration.into())
}

fn pre_stop(value: &Json) -> Option<Value> {
    let fields = value.as_object()?;
    let command = value.pointer("/preStop/exec/command")?;
    (fields.len() == 1).then(|| toml_of(command))?
}

/// The volume that this mount names.
fn mounted<'s>(mount: &Json, spec: &'s Map<String, Json>) -> Option<&'s Json> {
    let name = field(mount, "name")?;
    let volumes = spec.get("volumes")?.as_array()?;
    volumes
        .iter()
        .find(|volume| field(volume, "name") == Some(name))
}

/// The name and the mount path; `None` if the mount says what there is no key for.
fn begun(mount: &Json, fields: &[(&str, &str)]) -> Option<Table> {
    let mut made = Table::new();
    for (name, value) in mount.as_object()? {
        let (_, key) = fields.iter().find(|(field, _)| field == name)?;
        made.insert((*key).to_owned(), toml_of(value)?);
    }
    Some(made)
}

fn volume(mount: &Json, spec: &Map<String, Json>) -> Option<Value> {
    let mut made = begun(
        mount,
        &[
            ("name", "name"),
            ("mountPath", "mount_path"),
            ("subPath", "sub_path"),
            ("readOnly", "read_only"),
        ],
    )?;
    let volume = mounted(mount, spec)?.as_object()?;
    let (kind, of) = volume.iter().find(|(field, _)| *field != "name")?;
    let fields: &[(&str, &str)] = match &**kind {
        "emptyDir" => {
            made.insert("empty_dir".to_owned(), true.into());
            &[("medium", "medium"), ("sizeLimit", "size_limit")]
        }
        "hostPath" => &[("path", "host_path"), ("type", "host_path_type")],
        "persistentVolumeClaim" => &[("claimName", "claim"), ("readOnly", "read_only")],
        "configMap" => &[("name", "config_map"), ("optional", "optional")],
        "secret" => &[("secretName", "secret"), ("optional", "optional")],
        _ => return None,
    };
    for (name, value) in of.as_object()? {
        let (_, key) = fields.iter().find(|(field, _)| field == name)?;
        if value.as_str() != Some("") {
            made.insert((*key).to_owned(), toml_of(value)?);
        }
    }
    Some(made.into())
}

/// A claim for each executor, which its pod owns.
fn claim(mount: &Json, spec: &Map<String, Json>) -> Option<Value> {
    let mut made = begun(mount, &[("name", "name"), ("mountPath", "mount_path")])?;
    let of = mounted(mount, spec)?.pointer("/ephemeral/volumeClaimTemplate/spec")?;
    let size = text(of.pointer("/resources/requests/storage")?)?;
    made.insert("size".to_owned(), size);
    made.insert("owner".to_owned(), "executor".into());
    made.insert("access_modes".to_owned(), toml_of(of.get("accessModes")?)?);
    if let Some(class) = of.get("storageClassName") {
        made.insert("storage_class".to_owned(), text(class)?);
    }
    Some(made.into())
}
