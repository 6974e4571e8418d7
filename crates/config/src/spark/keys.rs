//! The table of Spark's keys and the boatswain keys that they become.

/// How a value is converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Unchanged, as a text.
    Text,
    Flag,
    /// A whole number.
    Count,
    /// A duration, in milliseconds if it has no unit.
    Millis,
    /// A duration, in seconds if it has no unit.
    Seconds,
    /// A number, possibly with a fraction or negative.
    Number,
    /// A fraction from 0 to 1, which becomes a percentage.
    Share,
    /// Texts separated by commas.
    List,
    /// `NAME:KEY` of a Secret.
    SecretKey,
    /// Whether finished pods are deleted.
    Deleted,
    /// A file, which Spark may also name as a URL.
    File,
    /// A summand of the executor's memory.
    Memory,
    /// One of several keys that become one key, or a key that becomes several.
    Gathered,
}

/// What a Spark key becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// This boatswain key. If two keys become the same one, the one further down wins.
    To(&'static str, Form),
    /// Nothing, for this reason.
    Unused(&'static str),
}

use Form::{
    Count, Deleted, File, Flag, Gathered, List, Memory, Millis, Number, Seconds, SecretKey, Share,
    Text,
};
use Use::{To, Unused};

const SUBMISSION: &str = "boatswain is started, not submitted";
const DRIVER_POD: &str = "the driver's own pod is described where boatswain is deployed";
const IDENTITY: &str = "the kubeconfig or the service account says who boatswain is";
const CLUSTER: &str = "cluster.kubeconfig and cluster.context say which cluster";
const ENGINE: &str = "the engine's executor reads it itself";
const HADOOP: &str = "give the engine its files with volumes of a profile";
const DECOMMISSION_LABEL: &str = "the label is boatswain.dev/decommissioning=true";
const RESIZING: &str = "boatswain does not resize what exists";
const STEPS: &str = "a pod template describes what profiles have no key for";
const STORAGE: &str = "shuffle and blocks are the engine's own affair";

/// All known keys. A key that ends in a dot stands for all keys with this prefix; the rest of such
/// a key replaces `*`. The longest match counts.
#[rustfmt::skip]
pub(super) const KEYS: &[(&str, Use)] = &[
    ("spark.app.id", To("app.id", Text)),
    ("spark.app.name", To("app.name", Text)),
    ("spark.kubernetes.namespace", To("cluster.namespace", Text)),
    ("spark.kubernetes.context", To("cluster.context", Text)),
    ("spark.kubernetes.driver.requestTimeout", To("cluster.request_timeout", Millis)),
    ("spark.kubernetes.driver.connectionTimeout", Unused("a connection has to be open within 10 s")),
    ("spark.kubernetes.driver.pod.name", Unused("it names the pod of Spark's driver; boatswain's own is driver.pod_name")),
    ("spark.kubernetes.executor.podNamePrefix", To("executors.pod_name_prefix", Text)),
    // Profiles (spec K-5).
    ("spark.executor.instances", To("profiles.default.executors", Gathered)),
    ("spark.kubernetes.container.image", To("profiles.default.image", Text)),
    ("spark.kubernetes.executor.container.image", To("profiles.default.image", Text)),
    ("spark.executor.cores", To("profiles.default.cpu", Text)),
    ("spark.kubernetes.executor.request.cores", To("profiles.default.cpu", Text)),
    ("spark.kubernetes.executor.limit.cores", To("profiles.default.cpu_limit", Text)),
    ("spark.executor.memory", To("profiles.default.memory", Memory)),
    ("spark.yarn.executor.memoryOverhead", To("profiles.default.memory", Memory)),
    ("spark.executor.memoryOverhead", To("profiles.default.memory", Memory)),
    ("spark.executor.memoryOverheadFactor", To("profiles.default.memory", Memory)),
    ("spark.executor.minMemoryOverhead", To("profiles.default.memory", Memory)),
    ("spark.kubernetes.memoryOverheadFactor", To("profiles.default.memory", Memory)),
    ("spark.memory.offHeap.enabled", To("profiles.default.memory", Memory)),
    ("spark.memory.offHeap.size", To("profiles.default.memory", Memory)),
    ("spark.executor.pyspark.memory", To("profiles.default.memory", Memory)),
    ("spark.executorEnv.", To("profiles.default.env.*", Text)),
    ("spark.kubernetes.node.selector.", To("profiles.default.node_selector.*", Text)),
    ("spark.kubernetes.executor.node.selector.", To("profiles.default.node_selector.*", Text)),
    ("spark.kubernetes.executor.terminationGracePeriodSeconds", To("profiles.default.termination_grace", Seconds)),
    ("spark.kubernetes.executor.podTemplateFile", To("profiles.default.template", File)),
    ("spark.kubernetes.executor.podTemplateContainerName", To("profiles.default.template_container", Text)),
    ("spark.kubernetes.container.image.pullPolicy", To("profiles.default.pull_policy", Text)),
    ("spark.kubernetes.container.image.pullSecrets", To("profiles.default.pull_secrets", List)),
    ("spark.kubernetes.executor.label.", To("profiles.default.labels.*", Text)),
    ("spark.kubernetes.executor.annotation.", To("profiles.default.annotations.*", Text)),
    ("spark.kubernetes.executor.volumes.", To("profiles.default.volumes", Gathered)),
    ("spark.kubernetes.executor.secrets.", To("profiles.default.volumes", Gathered)),
    ("spark.kubernetes.driver.ownPersistentVolumeClaim", To("profiles.default.claims", Gathered)),
    ("spark.kubernetes.legacy.useReadWriteOnceAccessMode", To("profiles.default.claims", Gathered)),
    ("spark.kubernetes.executor.secretKeyRef.", To("profiles.default.env.*", SecretKey)),
    ("spark.kubernetes.scheduler.name", To("profiles.default.scheduler_name", Text)),
    ("spark.kubernetes.executor.scheduler.name", To("profiles.default.scheduler_name", Text)),
    ("spark.kubernetes.authenticate.executor.serviceAccountName", To("profiles.default.service_account", Text)),
    ("spark.kubernetes.executor.podDeletionCost", To("profiles.default.deletion_cost", Number)),
    ("spark.kubernetes.securityContext.allowPrivilegeEscalation", To("profiles.default.security.privilege_escalation", Flag)),
    ("spark.kubernetes.executor.securityContext.allowPrivilegeEscalation", To("profiles.default.security.privilege_escalation", Flag)),
    ("spark.kubernetes.local.dirs.tmpfs",
        Unused("describe a volume with medium = \"Memory\" where the program has its temporary files")),
    ("spark.executor.resource.", To("profiles.default.resources", Gathered)),
    ("spark.kubernetes.executor.disableConfigMap",
        Unused("there is one only where there is anything to be in it; config_map.enabled switches it off")),
    // Observation and allocation.
    ("spark.kubernetes.executor.enableApiWatcher", To("watch.enabled", Flag)),
    ("spark.kubernetes.executor.enableApiPolling", To("poll.enabled", Flag)),
    ("spark.kubernetes.executor.apiPollingInterval", To("poll.interval", Millis)),
    ("spark.kubernetes.executor.enablePollingWithResourceVersion", Unused("a poll may be answered from the API server's cache, if that is not older than what was seen")),
    ("spark.kubernetes.allocation.batch.delay", To("allocation.interval", Millis)),
    ("spark.kubernetes.allocation.batch.size", To("allocation.batch_size", Count)),
    ("spark.kubernetes.allocation.executor.timeout", To("allocation.creation_timeout", Millis)),
    ("spark.kubernetes.allocation.maxPendingPods", To("allocation.max_pending", Count)),
    ("spark.kubernetes.allocation.maxPendingPodsPerRp", To("profiles.default.max_pending", Count)),
    ("spark.kubernetes.allocation.maximum", To("app.max_executors", Count)),
    ("spark.kubernetes.allocation.pods.allocator", To("allocation.strategy", Text)),
    ("spark.kubernetes.executor.eventProcessingInterval", To("lifecycle.interval", Millis)),
    ("spark.kubernetes.executor.deleteOnTermination", To("lifecycle.keep", Deleted)),
    ("spark.kubernetes.executor.checkAllContainers", To("lifecycle.check_all_containers", Flag)),
    // Application, sessions, claims, autoscaling.
    ("spark.scheduler.minRegisteredResourcesRatio", To("app.min_registered_ratio", Share)),
    ("spark.scheduler.maxRegisteredResourcesWaitingTime", To("app.max_wait", Millis)),
    ("spark.yarn.max.executor.failures", To("failures.max", Count)),
    ("spark.executor.maxNumFailures", To("failures.max", Count)),
    ("spark.yarn.executor.failuresValidityInterval", To("failures.window", Millis)),
    ("spark.executor.failuresValidityInterval", To("failures.window", Millis)),
    ("spark.excludeOnFailure.", Unused("failures.node_max_failures has boatswain avoid nodes, by other figures")),
    ("spark.driver.port", Unused("executors speak boatswain's own protocol, at backend.listen")),
    ("spark.driver.bindAddress", Unused("executors speak boatswain's own protocol, at backend.listen")),
    ("spark.executor.heartbeatInterval", To("backend.heartbeat_interval", Millis)),
    ("spark.network.timeout", To("backend.heartbeat_timeout", Seconds)),
    ("spark.executor.decommission.forceKillTimeout", To("backend.decommission_timeout", Seconds)),
    ("spark.kubernetes.executor.decommissionLabel", Unused(DECOMMISSION_LABEL)),
    ("spark.kubernetes.executor.decommissionLabelValue", Unused(DECOMMISSION_LABEL)),
    ("spark.kubernetes.dynamicAllocation.deleteGracePeriod", To("backend.kill_grace", Millis)),
    ("spark.kubernetes.driver.reusePersistentVolumeClaim", To("claims.reuse", Flag)),
    ("spark.kubernetes.driver.waitToReusePersistentVolumeClaim", To("claims.wait", Flag)),
    ("spark.dynamicAllocation.enabled", To("autoscaling.enabled", Gathered)),
    ("spark.dynamicAllocation.minExecutors", To("profiles.default.min_executors", Gathered)),
    ("spark.dynamicAllocation.maxExecutors", To("profiles.default.max_executors", Gathered)),
    ("spark.dynamicAllocation.executorAllocationRatio", To("autoscaling.ratio", Number)),
    ("spark.dynamicAllocation.schedulerBacklogTimeout", To("autoscaling.backlog_timeout", Seconds)),
    ("spark.dynamicAllocation.sustainedSchedulerBacklogTimeout", To("autoscaling.sustained_timeout", Seconds)),
    ("spark.dynamicAllocation.executorIdleTimeout", To("autoscaling.idle_timeout", Gathered)),
    ("spark.dynamicAllocation.initialExecutors", To("profiles.default.executors", Gathered)),
    ("spark.dynamicAllocation.", Unused(STORAGE)),
    ("spark.kubernetes.executor.rollInterval", To("roll.interval", Seconds)),
    ("spark.kubernetes.executor.rollPolicy", To("roll.policy", Gathered)),
    // Keys without a counterpart.
    ("spark.kubernetes.executor.lostCheck.maxAttempts", Unused("the pod's last state says why an executor ended")),
    ("spark.kubernetes.pyspark.pythonVersion", Unused("the image has the Python that it has")),
    ("spark.kubernetes.executor.missingPodDetectDelta",
        Unused("a pod that a list lacks is looked up by name instead")),
    ("spark.kubernetes.allocation.driver.readinessTimeout", Unused("executors are asked for at once")),
    ("spark.kubernetes.allocation.recoveryMode.enabled", Unused("boatswain distributes no tasks")),
    ("spark.kubernetes.configMap.maxSize", Unused("boatswain's ConfigMap may have 1 MiB")),
    ("spark.kubernetes.decommission.script", Unused("profiles.default.pre_stop runs before an executor gets SIGTERM")),
    ("spark.decommission.enabled", Unused("executors can be decommissioned without it")),
    ("spark.kubernetes.executor.deletedExecutorsCacheTimeout", Unused("no executor's end is forgotten")),
    ("spark.kubernetes.executor.minTasksPerExecutorBeforeRolling", To("roll.min_tasks", Count)),
    ("spark.kubernetes.executor.useDriverPodIP", Unused("backend.url says where executors reach the driver")),
    ("spark.kubernetes.executorSnapshotsSubscribersShutdownGracePeriod", Unused("shutdown.grace limits the end as a whole")),
    ("spark.kubernetes.executor.pod.featureSteps", Unused(STEPS)),
    ("spark.kubernetes.executor.pod.excludedFeatureSteps", Unused(STEPS)),
    ("spark.kubernetes.executor.resizeInterval", Unused(RESIZING)),
    ("spark.kubernetes.executor.resizeThreshold", Unused(RESIZING)),
    ("spark.kubernetes.executor.resizeFactor", Unused(RESIZING)),
    ("spark.kubernetes.executor.resizeMaxMemory", Unused(RESIZING)),
    ("spark.kubernetes.executor.pvc.", Unused(RESIZING)),
    ("spark.kubernetes.executor.hadoopConfigMapName", Unused(HADOOP)),
    ("spark.kubernetes.hadoop.", Unused(HADOOP)),
    ("spark.kubernetes.kerberos.", Unused(HADOOP)),
    ("spark.kubernetes.scheduler.volcano.", Unused("scheduling.gang = \"volcano\" creates the PodGroup")),
    ("spark.kubernetes.jars.avoidDownloadSchemes", Unused(SUBMISSION)),
    ("spark.kubernetes.resource.type", Unused(SUBMISSION)),
    ("spark.kubernetes.submitInDriver", Unused(SUBMISSION)),
    ("spark.kubernetes.trust.certificates", Unused(CLUSTER)),
    ("spark.kubernetes.driver.master", Unused(CLUSTER)),
    ("spark.kubernetes.driverEnv.", Unused(DRIVER_POD)),
    ("spark.kubernetes.submission.", Unused(SUBMISSION)),
    ("spark.kubernetes.report.interval", Unused(SUBMISSION)),
    ("spark.kubernetes.file.upload.path", Unused(SUBMISSION)),
    ("spark.kubernetes.appKillPodDeletionGracePeriod", Unused(SUBMISSION)),
    ("spark.kubernetes.authenticate.", Unused(IDENTITY)),
    ("spark.kubernetes.driver.", Unused(DRIVER_POD)),
    ("spark.driver.", Unused(DRIVER_POD)),
    ("spark.submit.", Unused(SUBMISSION)),
    ("spark.master", Unused(CLUSTER)),
    ("spark.shuffle.", Unused(STORAGE)),
    ("spark.storage.", Unused(STORAGE)),
    ("spark.executor.", Unused(ENGINE)),
    ("spark.executor.extraJavaOptions", Unused("give it to your program in profiles.default.args or env")),
];

/// Looks a key up: its index in the table, what it becomes, and the rest after the known prefix.
/// `None`: the key is unknown.
pub(super) fn use_of(key: &str) -> Option<(usize, Use, &str)> {
    let fits = |(at, (known, becomes)): (usize, &(&str, Use))| {
        let rest = key.strip_prefix(known)?;
        let whole = rest.is_empty() != known.ends_with('.');
        whole.then_some((at, *becomes, rest, known.len()))
    };
    let fitting = KEYS.iter().enumerate().filter_map(fits);
    let (at, becomes, rest, _) = fitting.max_by_key(|(.., length)| *length)?;
    Some((at, becomes, rest))
}
