//! Reads pod templates: YAML files with a Kubernetes pod that executors are built from (spec K-1,
//! K-2).

mod references;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value as Json};

use super::names::EXECUTOR_CONTAINER;
use super::profile::OWN_VOLUMES;
use super::typed::{self, Misfit};

/// A larger file cannot be a template: it exceeds the size of a Kubernetes object.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTemplate {
    /// The path as the user gave it.
    pub path: PathBuf,
    /// The template's `metadata` and `spec`, checked against the Kubernetes schema, with the
    /// executor's container renamed to `executor`. `None`: the file was not read.
    pub pod: Option<Json>,
    /// The executor's container's name in the file, if it was renamed.
    pub container: Option<String>,
    /// What of the file is not used, and why.
    pub notes: Vec<String>,
}

impl PodTemplate {
    /// The executor's container.
    pub fn executor(&self) -> Option<&Json> {
        let containers = self.pod.as_ref()?.pointer("/spec/containers")?.as_array()?;
        let is_executor = |container: &&Json| name_of(container) == EXECUTOR_CONTAINER;
        containers.iter().find(is_executor)
    }

    /// An annotation of the profile, with the executor's container called `executor`.
    pub fn annotation(&self, key: &str, value: &str) -> (String, String) {
        match &self.container {
            Some(was) => references::annotation(key, value, was),
            None => (key.to_owned(), value.to_owned()),
        }
    }

    /// The termination grace period; at least a second, as in the configuration.
    pub(super) fn termination_grace(&self) -> Option<Duration> {
        let spec = self.pod.as_ref()?.get("spec")?;
        let seconds = spec.get("terminationGracePeriodSeconds")?.as_u64()?;
        Some(Duration::from_secs(seconds.max(1)))
    }

    /// Whether the executor's container may have this field: it does, or the file was not read.
    pub(super) fn may_have(&self, field: &str) -> bool {
        self.pod.is_none()
            || self
                .executor()
                .is_some_and(|executor| executor.get(field).is_some())
    }

    /// The keys of a map in the metadata: `labels` or `annotations`.
    pub(super) fn keys_of(&self, map: &str) -> Vec<&str> {
        let metadata = self.pod.as_ref().and_then(|pod| pod.pointer("/metadata"));
        let map = metadata.and_then(|metadata| metadata.get(map)?.as_object());
        map.into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
            .collect()
    }
}

/// How the pod templates that a configuration names are handled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Templates {
    /// They are read. Relative paths are relative to this directory.
    Beside(PathBuf),
    /// They are not read.
    #[default]
    Unread,
    /// Only these can be named, as they were read with the configuration.
    Known(Arc<[PodTemplate]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadTemplate {
    /// What is wrong, and where in the file.
    pub found: String,
    /// How to fix it.
    pub fix: String,
}

impl BadTemplate {
    fn new(found: impl Into<String>, fix: impl Into<String>) -> Self {
        let (found, fix) = (found.into(), fix.into());
        Self { found, fix }
    }

    fn at(self, place: impl std::fmt::Display) -> Self {
        Self::new(format!("{place}{}", self.found), self.fix)
    }
}

/// The known template with this path.
fn named(
    known: &[PodTemplate],
    path: &Path,
    container: Option<&str>,
) -> Result<PodTemplate, BadTemplate> {
    let Some(template) = known.iter().find(|template| template.path == path) else {
        let paths = known
            .iter()
            .map(|template| template.path.display().to_string());
        let paths: Vec<String> = paths.collect();
        let fix = match paths.is_empty() {
            true => {
                "the configuration names none: describe the profile by its other keys".to_owned()
            }
            false => format!("the configuration names {}", paths.join(", ")),
        };
        return Err(BadTemplate::new(
            "a file that no profile of the configuration has as its template",
            fix,
        ));
    };
    let has = template.container.as_deref().unwrap_or(EXECUTOR_CONTAINER);
    if container.is_some_and(|container| container != has) {
        return Err(BadTemplate::new(
            format!("a template whose executor is container {has} in the configuration"),
            "leave template_container out",
        ));
    }
    Ok(template.clone())
}

impl Templates {
    /// Reads the template in this file. `container` is the name of the executor's container, if the
    /// configuration gives it.
    pub(super) fn read(
        &self,
        path: PathBuf,
        container: Option<&str>,
    ) -> Result<PodTemplate, Vec<BadTemplate>> {
        let file = match self {
            Self::Unread => {
                return Ok(PodTemplate {
                    path,
                    pod: None,
                    container: None,
                    notes: Vec::new(),
                });
            }
            Self::Known(known) => return named(known, &path, container).map_err(|bad| vec![bad]),
            Self::Beside(directory) => directory.join(&path),
        };
        let place = format!("{}: ", file.display());
        let text = text_of(&file).map_err(|why| {
            let fix = "name a readable file; a relative path begins where this file is";
            vec![BadTemplate::new(
                format!("{place}cannot be read: {why}"),
                fix,
            )]
        })?;
        let template = understood(path, &text, container);
        template.map_err(|wrong| wrong.into_iter().map(|bad| bad.at(&place)).collect())
    }
}

fn text_of(file: &Path) -> io::Result<String> {
    // Before it is opened, which would wait for whoever writes to a pipe.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    fs::File::open(file)?
        .take(LARGEST + 1)
        .read_to_string(&mut text)?;
    match text.len() as u64 > LARGEST {
        true => Err(io::Error::other("it is larger than 1 MiB")),
        false => Ok(text),
    }
}

/// Parses a template.
pub(super) fn understood(
    path: PathBuf,
    text: &str,
    container: Option<&str>,
) -> Result<PodTemplate, Vec<BadTemplate>> {
    let mut notes = Vec::new();
    let document = document(text, &mut notes).map_err(|bad| vec![bad])?;
    let (within, mut pod) = parsed(document)?;
    let placed = |bad: BadTemplate| bad.at(within);
    let chosen = choose(&mut pod, container).map_err(|bad| vec![placed(bad)])?;
    if let Some(was) = &chosen {
        references::rename(&mut pod, was);
    }
    notes.extend(named_by_others(&mut pod, within));
    let owned: Vec<BadTemplate> = owned(&pod).into_iter().map(placed).collect();
    match owned.is_empty() {
        true => Ok(PodTemplate {
            path,
            pod: Some(pod),
            container: chosen,
            notes,
        }),
        false => Err(owned),
    }
}

fn as_yaml(found: &str) -> BadTemplate {
    let fix = "write one pod template as YAML: metadata and spec, as in `kubectl explain podtemplate.template`";
    BadTemplate::new(found, fix)
}

/// The document that is the template. Others beside it, as in a file for `kubectl apply`, are noted.
fn document(text: &str, notes: &mut Vec<String>) -> Result<Map<String, Json>, BadTemplate> {
    let documents: Vec<Json> = serde_saphyr::from_multiple(text)
        .map_err(|error| as_yaml(&error.to_string().replace('\n', " ")))?;
    let mut documents: Vec<Json> = documents.into_iter().filter(|one| !one.is_null()).collect();
    let said = |document: &Json| {
        let kind = document
            .get("kind")
            .and_then(Json::as_str)
            .unwrap_or("without a kind");
        let name = document.pointer("/metadata/name").and_then(Json::as_str);
        format!("{kind} {}", name.unwrap_or_default())
            .trim_end()
            .to_owned()
    };
    let is_template = |document: &Json| {
        let kind = document.get("kind").and_then(Json::as_str);
        matches!(kind, Some("Pod" | "PodTemplate"))
    };
    let mut templates = (documents.iter().enumerate()).filter(|(_, one)| is_template(one));
    let at = match (documents.len(), templates.next(), templates.next()) {
        (0 | 1, ..) => 0,
        (_, Some((at, _)), None) => at,
        _ => {
            let all: Vec<String> = documents.iter().map(said).collect();
            let found = format!("it has {} documents: {}", all.len(), all.join(", "));
            let fix = "keep the one that is the pod template; a line --- begins another document";
            return Err(BadTemplate::new(found, fix));
        }
    };
    let chosen = (at < documents.len()).then(|| documents.remove(at));
    let why = "is not used: it is no pod template";
    notes.extend(
        documents
            .iter()
            .map(|other| format!("{} {why}", said(other))),
    );
    match chosen {
        Some(Json::Object(document)) => Ok(document),
        _ => Err(as_yaml("it is no mapping")),
    }
}

/// A pod with the schema of Kubernetes, and its path in the document.
fn parsed(mut document: Map<String, Json>) -> Result<(&'static str, Json), Vec<BadTemplate>> {
    let kind = document.remove("kind");
    let version = document.remove("apiVersion");
    if version.is_some_and(|version| version != "v1") {
        return Err(vec![as_yaml("apiVersion is not v1")]);
    }
    let (within, mut pod) = match kind.as_ref().map(Json::as_str) {
        None | Some(Some("Pod")) => ("", Json::Object(document)),
        Some(Some("PodTemplate")) => {
            let template = document.remove("template");
            ("template.", template.unwrap_or_else(|| Map::new().into()))
        }
        Some(_) => {
            let found = "kind: it is neither a Pod nor a PodTemplate";
            let fix = "write kind: Pod, kind: PodTemplate, or none";
            return Err(vec![BadTemplate::new(found, fix)]);
        }
    };
    without_nulls(&mut pod);
    quantities_as_text(&mut pod);
    let misfits = typed::misfits::<PodTemplateSpec>(&pod);
    if misfits.is_empty() {
        return Ok((within, pod));
    }
    let wrong = misfits.into_iter().map(|Misfit { path, why }| {
        let fix = match places_for(&pod, &path) {
            places if places.is_empty() => {
                "see `kubectl explain pod`, or the reference of the Kubernetes API".to_owned()
            }
            places => format!("it belongs to {}", places.join(" or ")),
        };
        BadTemplate::new(format!("{within}{path}: {why}"), fix)
    });
    Err(wrong.collect())
}

/// Where fields of pods are that are written elsewhere by mistake.
const PLACES: [&str; 6] = [
    "metadata",
    "spec",
    "spec.securityContext",
    "spec.containers[].securityContext",
    "spec.containers[].resources",
    "spec.containers[]",
];

/// The places at which Kubernetes has this field with such a value.
fn places_for(pod: &Json, path: &str) -> Vec<&'static str> {
    let pointer = format!(
        "/{}",
        path.replace('[', "/").replace(']', "").replace('.', "/")
    );
    let (Some(value), Some(field)) = (pod.pointer(&pointer), path.rsplit('.').next()) else {
        return Vec::new();
    };
    let fits = |place: &&str| {
        let mut inner = Json::from(Map::from_iter([(field.to_owned(), value.clone())]));
        for part in place.rsplit('.') {
            inner = match part.strip_suffix("[]") {
                Some(list) => {
                    inner["name"] = "any".into();
                    serde_json::json!({ list: [inner] })
                }
                None => serde_json::json!({ part: inner }),
            };
        }
        if inner["spec"].is_object() && inner["spec"]["containers"].is_null() {
            inner["spec"]["containers"] = serde_json::json!([]);
        }
        typed::misfits::<PodTemplateSpec>(&inner).is_empty()
    };
    PLACES.into_iter().filter(fits).collect()
}

/// Removes the name and the namespace, which pods have of boatswain; says what was there.
fn named_by_others(pod: &mut Json, within: &str) -> Vec<String> {
    let Some(Json::Object(metadata)) = pod.get_mut("metadata") else {
        return Vec::new();
    };
    let made = "names are made of executors.pod_name_prefix";
    let fields = [
        ("name", made),
        ("generateName", made),
        (
            "namespace",
            "executors are in the namespace of cluster.namespace",
        ),
    ];
    let noted = fields.into_iter().filter_map(|(field, why)| {
        let said = metadata.remove(field)?;
        let said = said.as_str().unwrap_or_default();
        Some(format!(
            "{within}metadata.{field} {said:?} is not used: {why}"
        ))
    });
    noted.collect()
}

fn name_of(named: &Json) -> &str {
    named.get("name").and_then(Json::as_str).unwrap_or_default()
}

fn list<'a>(pod: &'a Json, path: &str) -> &'a [Json] {
    pod.pointer(path)
        .and_then(Json::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Renames the executor's container to `executor`: the one named in the configuration, or else the
/// one already called so, or else the first.
fn choose(pod: &mut Json, named: Option<&str>) -> Result<Option<String>, BadTemplate> {
    let containers = list(pod, "/spec/containers");
    let place = |name: &str| {
        containers
            .iter()
            .position(|container| name_of(container) == name)
    };
    let at = match named {
        Some(name) => {
            let names: Vec<&str> = containers.iter().map(name_of).collect();
            let names = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            let fix = "name one of these as template_container, or leave it out";
            let found = format!("spec.containers: none is called {name:?}; there are: {names}");
            Some(place(name).ok_or_else(|| BadTemplate::new(found, fix))?)
        }
        None => place(EXECUTOR_CONTAINER).or((!containers.is_empty()).then_some(0)),
    };
    let others = (containers.iter().enumerate())
        .filter(|(n, _)| Some(*n) != at)
        .map(|(n, container)| (format!("spec.containers[{n}]"), container));
    let before = (list(pod, "/spec/initContainers").iter().enumerate())
        .map(|(n, container)| (format!("spec.initContainers[{n}]"), container));
    let taken = others
        .chain(before)
        .find(|(_, other)| name_of(other) == EXECUTOR_CONTAINER);
    if let Some((path, _)) = taken {
        let found =
            format!("{path}.name: it is called executor, as the executor's own container will be");
        return Err(BadTemplate::new(
            found,
            "give it another name, or leave template_container out",
        ));
    }
    let container = at.and_then(|at| pod.pointer_mut(&format!("/spec/containers/{at}")));
    let Some(container) = container else {
        return Ok(None);
    };
    let was = name_of(container).to_owned();
    container["name"] = EXECUTOR_CONTAINER.into();
    Ok((!was.is_empty() && was != EXECUTOR_CONTAINER).then_some(was))
}

/// Fields that only boatswain may set (spec K-2). Labels are checked elsewhere, where the label
/// scheme is known.
fn owned(pod: &Json) -> Vec<BadTemplate> {
    let mut wrong = Vec::new();
    let mut refuse = |path: String, fix: &str| {
        wrong.push(BadTemplate::new(
            format!("{path}: only boatswain may set this"),
            fix,
        ));
    };
    if pod.pointer("/metadata/ownerReferences").is_some() {
        let record = "remove them: the application's record owns every executor";
        refuse("metadata.ownerReferences".to_owned(), record);
    }
    let restart = pod.pointer("/spec/restartPolicy").and_then(Json::as_str);
    if restart.is_some_and(|policy| policy != "Never") {
        let fix =
            "remove it, or say Never: boatswain replaces executors, and knows why each one ended";
        refuse("spec.restartPolicy".to_owned(), fix);
    }
    for (n, volume) in list(pod, "/spec/volumes").iter().enumerate() {
        if name_of(volume).starts_with(OWN_VOLUMES) {
            let fix = "give it a name that does not begin with boatswain-";
            refuse(format!("spec.volumes[{n}].name"), fix);
        }
    }
    for (c, container) in list(pod, "/spec/containers").iter().enumerate() {
        for (n, variable) in list(container, "/env").iter().enumerate() {
            if name_of(container) == EXECUTOR_CONTAINER
                && name_of(variable).starts_with("BOATSWAIN_")
            {
                let fix = "give it a name that does not begin with BOATSWAIN_";
                refuse(format!("spec.containers[{c}].env[{n}].name"), fix);
            }
        }
    }
    wrong
}

/// Nulls count as absent, as in Kubernetes.
pub(super) fn without_nulls(value: &mut Json) {
    match value {
        Json::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Json::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Kubernetes accepts a number as a quantity; the Rust type has only texts.
fn quantities_as_text(value: &mut Json) {
    match value {
        Json::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("limits" | "requests", Json::Object(amounts)) => {
                        amounts.values_mut().for_each(as_text)
                    }
                    ("sizeLimit" | "divisor", amount) => as_text(amount),
                    (_, value) => quantities_as_text(value),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(quantities_as_text),
        _ => {}
    }
}

fn as_text(amount: &mut Json) {
    if let Json::Number(number) = amount {
        *amount = number.to_string().into();
    }
}
