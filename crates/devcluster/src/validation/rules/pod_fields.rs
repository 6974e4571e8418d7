//! The rules for single fields of a pod's spec, as a table of paths and what is checked there.

use super::Check::{
    self, Absolute, Address, AtMost, Between, Down, Form, Handler, Named, One, OneOf, Port,
    Qualified, Relative, Required,
};
use crate::validation::names;

const INT: i64 = i32::MAX as i64;
const PULL: Check = OneOf(&["Always", "IfNotPresent", "Never"]);
const PROFILE: Check = OneOf(&["Localhost", "RuntimeDefault", "Unconfined"]);
const NODE_POLICY: Check = OneOf(&["Honor", "Ignore"]);

/// A path below each container.
macro_rules! container {
    ($path:literal) => {
        concat!("spec.containers|initContainers[*].", $path)
    };
}

/// A path below each probe.
macro_rules! probe {
    ($path:literal) => {
        concat!(
            "spec.containers|initContainers[*].livenessProbe|readinessProbe|startupProbe.",
            $path
        )
    };
}

/// A path below each hook of a container's life.
macro_rules! hook {
    ($path:literal) => {
        concat!(
            "spec.containers|initContainers[*].lifecycle.postStart|preStop.",
            $path
        )
    };
}

pub(super) static RULES: &[(&str, Check)] = &[
    (
        "spec.restartPolicy",
        OneOf(&["Always", "OnFailure", "Never"]),
    ),
    (
        "spec.dnsPolicy",
        OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ),
    (
        "spec.preemptionPolicy",
        OneOf(&["PreemptLowerPriority", "Never"]),
    ),
    (
        "spec.serviceAccountName|nodeName|priorityClassName",
        Form(names::subdomain),
    ),
    ("spec.activeDeadlineSeconds", Between(1, INT)),
    ("spec.hostname|subdomain", Form(names::label)),
    ("spec.readinessGates[*].conditionType", Qualified),
    ("spec.schedulingGates[*].!name", Qualified),
    ("spec.os.!name", OneOf(&["linux", "windows"])),
    ("spec.hostAliases[*].ip", Address),
    ("spec.hostAliases[*].hostnames[*]", Form(names::subdomain)),
    ("spec.dnsConfig.nameservers[*]", Address),
    ("spec.dnsConfig.searches[*]", Form(names::subdomain)),
    ("spec.dnsConfig.options[*].!name", Required),
    (container!("imagePullPolicy"), PULL),
    (
        container!("terminationMessagePolicy"),
        OneOf(&["FallbackToLogsOnError", "File"]),
    ),
    (
        container!("resizePolicy[].!resourceName"),
        OneOf(&["cpu", "memory"]),
    ),
    (
        container!("resizePolicy[].!restartPolicy"),
        OneOf(&["NotRequired", "RestartContainer"]),
    ),
    (
        container!("restartPolicy"),
        OneOf(&["Always", "OnFailure", "Never"]),
    ),
    (container!("restartPolicyRules"), AtMost(20)),
    (
        container!("restartPolicyRules[*].action"),
        Named(&["Restart", "RestartAllContainers"]),
    ),
    (container!("restartPolicyRules[*].exitCodes"), Required),
    (
        container!("restartPolicyRules[*].exitCodes.operator"),
        OneOf(&["In", "NotIn"]),
    ),
    (
        container!("restartPolicyRules[*].exitCodes.values"),
        AtMost(255),
    ),
    // Probes and hooks.
    (
        probe!(""),
        Handler(&["exec", "httpGet", "tcpSocket", "grpc"]),
    ),
    (probe!("exec.command"), Required),
    (probe!("httpGet|tcpSocket.port"), Port),
    (probe!("httpGet.scheme"), OneOf(&["HTTP", "HTTPS"])),
    (probe!("httpGet.httpHeaders[].!name"), Form(names::header)),
    (probe!("grpc.port"), Between(1, 65_535)),
    (
        probe!(
            "initialDelaySeconds|timeoutSeconds|periodSeconds|failureThreshold|successThreshold"
        ),
        Between(0, INT),
    ),
    (
        container!("livenessProbe|startupProbe.successThreshold"),
        Between(1, 1),
    ),
    (
        container!("livenessProbe|startupProbe.terminationGracePeriodSeconds"),
        Between(1, INT),
    ),
    (
        container!("readinessProbe.terminationGracePeriodSeconds"),
        OneOf(&[]),
    ),
    (
        hook!(""),
        Handler(&["exec", "httpGet", "tcpSocket", "sleep"]),
    ),
    (hook!("exec.command"), Required),
    (hook!("httpGet|tcpSocket.port"), Port),
    (hook!("httpGet.scheme"), OneOf(&["HTTP", "HTTPS"])),
    // Environment.
    (
        container!("envFrom[].!"),
        One(&["configMapRef", "secretRef"]),
    ),
    (container!("envFrom[*].prefix"), Form(names::variable)),
    (
        container!("envFrom[*].configMapRef|secretRef.name"),
        Required,
    ),
    (
        container!("envFrom[*].configMapRef|secretRef.name"),
        Form(names::subdomain),
    ),
    (container!("env[*].name"), Required),
    (container!("env[*].name"), Form(names::variable)),
    (
        container!("env[*].valueFrom.configMapKeyRef|secretKeyRef.key"),
        Required,
    ),
    (
        container!("env[*].valueFrom.configMapKeyRef|secretKeyRef.key"),
        Form(names::data_key),
    ),
    (
        container!("env[*].valueFrom.configMapKeyRef|secretKeyRef.name"),
        Form(names::subdomain),
    ),
    // Volumes.
    ("spec.volumes[*].hostPath.path", Required),
    ("spec.volumes[*].hostPath.path", Down),
    (
        "spec.volumes[*].hostPath.type",
        OneOf(&[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ]),
    ),
    ("spec.volumes[*].configMap.name", Required),
    ("spec.volumes[*].secret.secretName", Required),
    ("spec.volumes[*].persistentVolumeClaim.claimName", Required),
    ("spec.volumes[*].csi.driver", Required),
    ("spec.volumes[*].image.reference", Required),
    ("spec.volumes[*].image.pullPolicy", PULL),
    ("spec.volumes[*].nfs.server|path", Required),
    ("spec.volumes[*].nfs.path", Absolute),
    ("spec.volumes[*].ephemeral.volumeClaimTemplate", Required),
    (
        "spec.volumes[*].configMap|secret|downwardAPI|projected.defaultMode",
        Between(0, 0o777),
    ),
    (
        "spec.volumes[*].configMap|secret.items[*].key|path",
        Required,
    ),
    ("spec.volumes[*].configMap|secret.items[*].path", Relative),
    (
        "spec.volumes[*].configMap|secret.items[*].mode",
        Between(0, 0o777),
    ),
    (
        "spec.volumes[*].projected.sources[*].configMap|secret.name",
        Required,
    ),
    (
        "spec.volumes[*].projected.sources[*].configMap|secret.items[*].key|path",
        Required,
    ),
    (
        "spec.volumes[*].projected.sources[*].configMap|secret.items[*].path",
        Relative,
    ),
    (
        "spec.volumes[*].projected.sources[*].serviceAccountToken.expirationSeconds",
        Between(600, 1 << 32),
    ),
    (
        "spec.volumes[*].projected.!sources[].!serviceAccountToken.path",
        Required,
    ),
    (
        "spec.volumes[*].projected.!sources[].!serviceAccountToken.path",
        Relative,
    ),
    ("spec.volumes[*].downwardAPI.!items[].path", Required),
    ("spec.volumes[*].downwardAPI.!items[].path", Relative),
    (container!("volumeMounts[*].name|mountPath"), Required),
    (container!("volumeMounts[].subPath|subPathExpr"), Relative),
    (
        container!("volumeMounts[].mountPropagation"),
        OneOf(&["Bidirectional", "HostToContainer", "None"]),
    ),
    (
        container!("volumeMounts[].recursiveReadOnly"),
        OneOf(&["Disabled", "Enabled", "IfPossible"]),
    ),
    (container!("volumeDevices[*].name|devicePath"), Required),
    // Scheduling.
    (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        Required,
    ),
    (
        "spec.affinity.nodeAffinity|podAffinity|podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].weight",
        Between(1, 100),
    ),
    (
        "spec.topologySpreadConstraints[*].maxSkew|minDomains",
        Between(1, INT),
    ),
    ("spec.topologySpreadConstraints[*].topologyKey", Required),
    (
        "spec.topologySpreadConstraints[*].whenUnsatisfiable",
        Named(&["DoNotSchedule", "ScheduleAnyway"]),
    ),
    (
        "spec.topologySpreadConstraints[*].nodeAffinityPolicy|nodeTaintsPolicy",
        NODE_POLICY,
    ),
    // Security.
    (
        "spec.securityContext.runAsUser|runAsGroup|fsGroup",
        Between(0, INT),
    ),
    (
        "spec.securityContext.supplementalGroups[*]",
        Between(0, INT),
    ),
    (
        "spec.securityContext.seccompProfile|appArmorProfile.type",
        PROFILE,
    ),
    (
        "spec.securityContext.fsGroupChangePolicy",
        OneOf(&["Always", "OnRootMismatch"]),
    ),
    (
        "spec.securityContext.supplementalGroupsPolicy",
        OneOf(&["Merge", "Strict"]),
    ),
    (
        "spec.securityContext.seLinuxChangePolicy",
        OneOf(&["MountOption", "Recursive"]),
    ),
    ("spec.securityContext.sysctls[*].name", Required),
    ("spec.securityContext.sysctls[*].name", Form(names::sysctl)),
    (
        container!("securityContext.runAsUser|runAsGroup"),
        Between(0, INT),
    ),
    (
        container!("securityContext.seccompProfile|appArmorProfile.type"),
        PROFILE,
    ),
    (
        container!("securityContext.procMount"),
        OneOf(&["Default", "Unmasked"]),
    ),
];
