//! SparkApplications: what the Spark operator for Kubernetes makes of their fields. Most fields stand
//! for a key of Spark's; what the operator does to pods itself is in `pods`.

mod pods;
mod submission;

use serde_json::{Map, Value as Json};

use super::source::{Source, scalar};

pub use submission::Arguments;
pub(super) use submission::arguments;

const KIND: &str = "a SparkApplication";
const SCHEDULED: &str = "ScheduledSparkApplication";

/// What a field stands for.
#[derive(Debug, Clone, Copy)]
enum Means {
    /// The value of this key.
    Key(&'static str),
    /// Keys that begin so, one for each entry of the map.
    Keys(&'static str),
    /// Names of objects, as a list in this key.
    Names(&'static str),
    /// Fields of its own.
    Within(&'static [(&'static str, Means)]),
    /// Something that has no key of Spark's.
    OfPods(pods::Part),
    /// Nothing, for this reason.
    Unused(&'static str),
    /// Something that has no key here, for this reason.
    Refused(&'static str),
}

use Means::{Key, Keys, Names, OfPods, Refused, Unused, Within};

const PROGRAM: &str = "it is about the program, which Spark starts as before";
const OPERATOR: &str = "it is about the operator, which boatswain does not need";
const DRIVER_POD: &str = "the driver's own pod is described where boatswain is deployed";
const TEMPLATE: &str = "a pod template can have it: profiles.default.template";
const IN_A_MAP: &str = "its settings are in that ConfigMap; convert them too";

#[rustfmt::skip]
const SPEC: &[(&str, Means)] = &[
    ("image", Key("spark.kubernetes.container.image")),
    ("imagePullPolicy", Key("spark.kubernetes.container.image.pullPolicy")),
    ("imagePullSecrets", Names("spark.kubernetes.container.image.pullSecrets")),
    ("sparkConf", Keys("")),
    ("hadoopConf", Keys("spark.hadoop.")),
    ("nodeSelector", Keys("spark.kubernetes.node.selector.")),
    ("memoryOverheadFactor", Key("spark.kubernetes.memoryOverheadFactor")),
    ("dynamicAllocation", Within(DYNAMIC)),
    ("executor", Within(EXECUTOR)),
    // Read with the mounts of the executor.
    ("volumes", OfPods(pods::Part::Volumes)),
    ("driver", Unused(DRIVER_POD)),
    ("sparkConfigMap", Refused(IN_A_MAP)),
    ("hadoopConfigMap", Refused("give the engine its files with volumes of a profile")),
    ("batchScheduler", Refused("scheduling.gang, scheduling.queue and profiles.default.scheduler_name say who schedules executors")),
    ("batchSchedulerOptions", Refused("scheduling.queue_name and profiles.default.priority_class say it here")),
    ("timeToLiveSeconds", Unused("nothing of an application is left after its end; app.ttl limits how long a driver may be away")),
    ("restartPolicy", Unused("the Deployment or Job that boatswain is in starts it again")),
    ("failureRetries", Unused("the Deployment or Job that boatswain is in starts it again")),
    ("retryInterval", Unused("the Deployment or Job that boatswain is in starts it again")),
    ("type", Unused(PROGRAM)), ("mode", Unused(PROGRAM)), ("sparkVersion", Unused(PROGRAM)),
    ("pythonVersion", Unused(PROGRAM)), ("mainClass", Unused(PROGRAM)), ("mainApplicationFile", Unused(PROGRAM)),
    ("arguments", Unused(PROGRAM)), ("deps", Unused(PROGRAM)), ("proxyUser", Unused(PROGRAM)),
    ("monitoring", Unused("boatswain's own metrics are at metrics.listen; Spark's are its own affair")),
    ("sparkUIOptions", Unused(OPERATOR)), ("driverIngressOptions", Unused(OPERATOR)),
    ("suspend", Unused(OPERATOR)),
];

#[rustfmt::skip]
const DYNAMIC: &[(&str, Means)] = &[
    ("enabled", Key("spark.dynamicAllocation.enabled")),
    ("initialExecutors", Key("spark.dynamicAllocation.initialExecutors")),
    ("minExecutors", Key("spark.dynamicAllocation.minExecutors")),
    ("maxExecutors", Key("spark.dynamicAllocation.maxExecutors")),
    ("shuffleTrackingEnabled", Key("spark.dynamicAllocation.shuffleTracking.enabled")),
    ("shuffleTrackingTimeout", Key("spark.dynamicAllocation.shuffleTracking.timeout")),
];

#[rustfmt::skip]
const EXECUTOR: &[(&str, Means)] = &[
    ("instances", Key("spark.executor.instances")),
    ("cores", Key("spark.executor.cores")),
    ("coreRequest", Key("spark.kubernetes.executor.request.cores")),
    ("coreLimit", Key("spark.kubernetes.executor.limit.cores")),
    ("memory", Key("spark.executor.memory")),
    ("memoryOverhead", Key("spark.executor.memoryOverhead")),
    ("image", Key("spark.kubernetes.executor.container.image")),
    ("javaOptions", Key("spark.executor.extraJavaOptions")),
    ("serviceAccount", Key("spark.kubernetes.authenticate.executor.serviceAccountName")),
    ("schedulerName", Key("spark.kubernetes.executor.scheduler.name")),
    ("terminationGracePeriodSeconds", Key("spark.kubernetes.executor.terminationGracePeriodSeconds")),
    ("deleteOnTermination", Key("spark.kubernetes.executor.deleteOnTermination")),
    ("labels", Keys("spark.kubernetes.executor.label.")),
    ("annotations", Keys("spark.kubernetes.executor.annotation.")),
    ("nodeSelector", Keys("spark.kubernetes.executor.node.selector.")),
    ("envVars", Keys("spark.executorEnv.")),
    ("env", OfPods(pods::Part::Env)),
    ("envSecretKeyRefs", OfPods(pods::Part::SecretKeys)),
    ("secrets", OfPods(pods::Part::Secrets)),
    ("configMaps", OfPods(pods::Part::ConfigMaps)),
    ("volumeMounts", OfPods(pods::Part::Mounts)),
    ("gpu", OfPods(pods::Part::Gpu)),
    ("tolerations", OfPods(pods::Part::Tolerations)),
    ("affinity", OfPods(pods::Part::Affinity)),
    ("priorityClassName", OfPods(pods::Part::PriorityClass)),
    ("lifecycle", OfPods(pods::Part::PreStop)),
    ("memoryLimit", Refused("Spark's limit is its request; profiles.default.memory_limit says another")),
    ("securityContext", Refused("profiles.default.security has keys for it, and a pod template can have it")),
    ("podSecurityContext", Refused("profiles.default.security has keys for it, and a pod template can have it")),
    ("template", Refused("write it to a file of its own and name that: profiles.default.template")),
    ("envFrom", Refused(TEMPLATE)), ("sidecars", Refused(TEMPLATE)), ("initContainers", Refused(TEMPLATE)),
    ("hostNetwork", Refused(TEMPLATE)), ("dnsConfig", Refused(TEMPLATE)), ("hostAliases", Refused(TEMPLATE)),
    ("ports", Refused(TEMPLATE)), ("shareProcessNamespace", Refused(TEMPLATE)),
];

/// Whether it is an application, and one that is started at times.
fn of_kind(document: &Json) -> Option<bool> {
    match document.get("kind").and_then(Json::as_str) {
        Some("SparkApplication") => Some(false),
        Some(SCHEDULED) => Some(true),
        _ => None,
    }
}

/// The first application of the documents, and whether it is started at times.
fn first(documents: &[Json]) -> Option<(&Json, bool)> {
    documents
        .iter()
        .find_map(|document| Some((document, of_kind(document)?)))
}

/// Reads the first application of the documents; the rest is named.
pub(super) fn read(documents: Vec<Json>) -> Source {
    let mut source = Source::of(KIND);
    let mut read = false;
    for document in documents.iter().filter(|document| !document.is_null()) {
        let kind = document
            .get("kind")
            .and_then(Json::as_str)
            .unwrap_or("no kind");
        let name = document
            .pointer("/metadata/name")
            .and_then(scalar)
            .unwrap_or_default();
        match (of_kind(document), read) {
            (Some(scheduled), false) => {
                application(document, scheduled, &mut source);
                read = true;
            }
            (Some(_), true) => source.refuse(
                &format!("{kind} {name}"),
                "only the first of the file is converted; give each a file of its own",
            ),
            (None, _) => source.leave(&format!("{kind} {name}"), "it is no SparkApplication"),
        }
    }
    source
}

fn application(document: &Json, scheduled: bool, source: &mut Source) {
    for (field, key) in [
        ("name", "spark.app.name"),
        ("namespace", "spark.kubernetes.namespace"),
    ] {
        if let Some(value) = document
            .pointer(&format!("/metadata/{field}"))
            .and_then(scalar)
        {
            source.set(key, value);
        }
    }
    for map in ["labels", "annotations"] {
        if document.pointer(&format!("/metadata/{map}")).is_some() {
            source.leave(
                &format!("metadata.{map}"),
                "they are the SparkApplication's own",
            );
        }
    }
    let Some(spec) = document.get("spec").and_then(Json::as_object) else {
        return;
    };
    let Some(template) = spec.get("template").filter(|_| scheduled) else {
        return fields("spec", spec, SPEC, spec, source);
    };
    for field in spec.keys().filter(|field| *field != "template") {
        source.leave(
            &format!("spec.{field}"),
            "a CronJob can start boatswain at such times",
        );
    }
    if let Some(spec) = template.as_object() {
        fields("spec.template", spec, SPEC, spec, source);
    }
}

/// Reads the fields at this path by the table. `spec` is the application's.
fn fields(
    path: &str,
    given: &Map<String, Json>,
    table: &[(&str, Means)],
    spec: &Map<String, Json>,
    source: &mut Source,
) {
    for (field, _) in given
        .iter()
        .filter(|(field, _)| !table.iter().any(|(known, _)| known == field))
    {
        source.refuse(&format!("{path}.{field}"), "this field is not known here");
    }
    let known = table
        .iter()
        .filter_map(|(field, means)| Some((field, means, given.get(*field)?)));
    // What is said in fields wins over sparkConf.
    let conf_first = |(field, ..): &(&&str, &Means, &Json)| **field != "sparkConf";
    let mut known: Vec<_> = known.filter(|(.., value)| !value.is_null()).collect();
    known.sort_by_key(conf_first);
    for (field, means, value) in known {
        let path = format!("{path}.{field}");
        match *means {
            Key(key) => match scalar(value) {
                Some(text) => source.set(key, text),
                None => source.refuse(&path, "its value is no text, number or flag"),
            },
            Keys(prefix) => keys(&path, prefix, value, source),
            Names(key) => {
                let names = value.as_array().into_iter().flatten();
                let names = names.filter_map(|item| scalar(item.get("name").unwrap_or(item)));
                source.set(key, names.collect::<Vec<_>>().join(","));
            }
            Within(table) => match value.as_object() {
                Some(inner) => fields(&path, inner, table, spec, source),
                None => source.refuse(&path, "it has no fields"),
            },
            OfPods(part) => part.read(&path, value, spec, source),
            Unused(why) => source.leave(&path, why),
            Refused(why) => source.refuse(&path, why),
        }
    }
}

fn keys(path: &str, prefix: &str, value: &Json, source: &mut Source) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match scalar(value) {
            Some(value) => source.set(format!("{prefix}{key}"), value),
            None => source.refuse(
                &format!("{path}.{key}"),
                "its value is no text, number or flag",
            ),
        }
    }
}
