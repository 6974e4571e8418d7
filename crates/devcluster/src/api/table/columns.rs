//! The table columns of every kind but pods, as real servers define them.

use super::{AGE, CREATED_AT, Column, NAME};
use crate::objects::resource::Resource;

const NAMESPACES: [Column; 3] = [
    NAME,
    Column::text("Status", "The status of the namespace"),
    AGE,
];

const CUSTOM: [Column; 2] = [NAME, AGE];

const CONFIG_MAPS: [Column; 3] = [
    NAME,
    Column::text(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. \
         Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap \
         with the keys in the BinaryData field, this is enforced during validation process.",
    ),
    AGE,
];

const SECRETS: [Column; 4] = [
    NAME,
    Column::text(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: \
         https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    Column::text(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The \
         serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly \
         non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE,
];

const SERVICES: [Column; 7] = [
    NAME,
    Column::text(
        "Type",
        "How the service is reached: ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ),
    Column::text(
        "Cluster-IP",
        "The address of the service within the cluster.",
    ),
    Column::text(
        "External-IP",
        "The addresses of the service outside of the cluster.",
    ),
    Column::text(
        "Port(s)",
        "The list of ports that are exposed by this service.",
    ),
    AGE,
    Column::wide(
        "Selector",
        "The labels of the pods to which the service leads.",
    ),
];

const CLAIMS: [Column; 9] = [
    NAME,
    Column::text(
        "Status",
        "phase represents the current phase of PersistentVolumeClaim.",
    ),
    Column::text(
        "Volume",
        "volumeName is the binding reference to the PersistentVolume backing this claim.",
    ),
    Column::text(
        "Capacity",
        "capacity represents the actual resources of the underlying volume.",
    ),
    Column::text(
        "Access Modes",
        "accessModes contains the actual access modes the volume backing the PVC has.",
    ),
    Column::text("StorageClass", "StorageClass of the pvc"),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    Column::wide(
        "VolumeMode",
        "volumeMode defines what type of volume is required by the claim.",
    ),
];

const LEASES: [Column; 3] = [
    NAME,
    Column::text(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease.",
    ),
    AGE,
];

const EVENTS: [Column; 10] = [
    Column::text(
        "Last Seen",
        "The time at which the most recent occurrence of this event was recorded.",
    ),
    Column::text(
        "Type",
        "Type of this event (Normal, Warning), new types could be added in the future",
    ),
    Column::text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the \
         object's current status.",
    ),
    Column::text("Object", "The object that this event is about."),
    Column::wide(
        "Subobject",
        "The part of the object that this event is about.",
    ),
    Column::wide("Source", "The component reporting this event."),
    Column::text(
        "Message",
        "A human-readable description of the status of this operation.",
    ),
    Column::wide(
        "First Seen",
        "The time at which the event was first recorded.",
    ),
    Column::wide("Count", "The number of times this event has occurred."),
    Column {
        priority: 1,
        ..NAME
    },
];

const NODES: [Column; 10] = [
    NAME,
    Column::text("Status", "The status of the node"),
    Column::text("Roles", "The roles of the node"),
    AGE,
    Column::text("Version", "Kubelet Version reported by the node."),
    Column::wide("Internal-IP", "The node's address within the cluster."),
    Column::wide("External-IP", "The node's address outside of the cluster."),
    Column::wide(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    ),
    Column::wide(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    ),
    Column::wide(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    ),
];

const QUOTAS: [Column; 4] = [
    NAME,
    Column::text(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the \
         node.",
    ),
    AGE,
];

const SERVICE_ACCOUNTS: [Column; 3] = [
    NAME,
    Column::text(
        "Secrets",
        "Secrets is a list of the secrets in the same namespace that pods may use.",
    ),
    AGE,
];

const ROLES: [Column; 2] = [NAME, CREATED_AT];

const BINDINGS: [Column; 6] = [
    NAME,
    Column::text("Role", "The role that is given."),
    AGE,
    Column::wide("Users", "Users in the roleBinding"),
    Column::wide("Groups", "Groups in the roleBinding"),
    Column::wide("ServiceAccounts", "ServiceAccounts in the roleBinding"),
];

const READY: Column = Column::text("Ready", "Number of the pod with ready state");

pub(super) const CONTAINERS: Column =
    Column::wide("Containers", "Names of each container in the template.");

pub(super) const IMAGES: Column = Column::wide(
    "Images",
    "Images referenced by each container in the template.",
);

pub(super) const SELECTOR: Column =
    Column::wide("Selector", "The labels of the pods that it makes.");

const STATEFUL_SETS: [Column; 5] = [NAME, READY, AGE, CONTAINERS, IMAGES];

const DEPLOYMENTS: [Column; 8] = [
    NAME,
    READY,
    Column::text(
        "Up-to-date",
        "Total number of non-terminated pods targeted by this deployment that have the desired template spec.",
    ),
    Column::text(
        "Available",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SETS: [Column; 8] = [
    NAME,
    Column {
        kind: "integer",
        ..Column::text("Desired", "Replicas is the number of desired pods.")
    },
    Column {
        kind: "integer",
        ..Column::text(
            "Current",
            "Replicas is the most recently observed number of non-terminating pods.",
        )
    },
    Column {
        kind: "integer",
        ..Column::text(
            "Ready",
            "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
        )
    },
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const BUDGETS: [Column; 5] = [
    NAME,
    Column::text(
        "Min Available",
        "The number of pods that must be available.",
    ),
    Column::text(
        "Max Unavailable",
        "The number of pods that can be unavailable.",
    ),
    Column {
        kind: "integer",
        ..Column::text(
            "Allowed Disruptions",
            "Calculated number of pods that may be disrupted at this time.",
        )
    },
    AGE,
];

pub(super) fn of(resource: Resource) -> &'static [Column] {
    match resource {
        Resource::Namespaces => &NAMESPACES,
        Resource::ConfigMaps => &CONFIG_MAPS,
        Resource::Secrets => &SECRETS,
        Resource::Services => &SERVICES,
        Resource::PersistentVolumeClaims => &CLAIMS,
        Resource::Leases => &LEASES,
        Resource::Events => &EVENTS,
        Resource::Nodes => &NODES,
        Resource::ResourceQuotas => &QUOTAS,
        Resource::ServiceAccounts => &SERVICE_ACCOUNTS,
        Resource::RoleBindings | Resource::ClusterRoleBindings => &BINDINGS,
        Resource::Deployments => &DEPLOYMENTS,
        Resource::ReplicaSets => &REPLICA_SETS,
        Resource::StatefulSets => &STATEFUL_SETS,
        Resource::PodDisruptionBudgets => &BUDGETS,
        Resource::Workloads | Resource::ResourceFlavors | Resource::PodGroups => &CUSTOM,
        Resource::Pods | Resource::LimitRanges | Resource::Roles | Resource::ClusterRoles => &ROLES,
    }
}
