//! The kinds of objects that this server stores, and their properties.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::mistyped::Mistyped;

/// A stored kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// `v1/namespaces`
    Namespaces,
    /// `v1/pods`
    Pods,
    /// `v1/configmaps`
    ConfigMaps,
    /// `v1/services`
    Services,
    /// `v1/persistentvolumeclaims`
    PersistentVolumeClaims,
    /// `coordination.k8s.io/v1/leases`
    Leases,
    /// `v1/secrets`
    Secrets,
    /// `v1/events`
    Events,
    /// `v1/nodes`
    Nodes,
    /// `v1/resourcequotas`
    ResourceQuotas,
    /// `v1/serviceaccounts`
    ServiceAccounts,
    /// `rbac.authorization.k8s.io/v1/roles`
    Roles,
    /// `rbac.authorization.k8s.io/v1/rolebindings`
    RoleBindings,
    /// `rbac.authorization.k8s.io/v1/clusterroles`
    ClusterRoles,
    /// `rbac.authorization.k8s.io/v1/clusterrolebindings`
    ClusterRoleBindings,
    /// `apps/v1/deployments`
    Deployments,
    /// `apps/v1/replicasets`
    ReplicaSets,
    /// `apps/v1/statefulsets`
    StatefulSets,
}

/// The properties of a kind.
#[derive(Debug)]
pub struct Traits {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// `apiVersion` of an object.
    pub api_version: &'static str,
    /// `kind` of an object.
    pub kind: &'static str,
    /// The plural name, as in paths.
    pub plural: &'static str,
    /// Short names, as `po` for pods.
    pub short_names: &'static [&'static str],
    /// The categories, as `all`.
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// Whether `/status` is a subresource, so that other writes do not change the status.
    pub has_status: bool,
    /// Whether a DELETE returns the object rather than a `Status`.
    pub returns_deleted: bool,
    /// Whether a PUT creates an object that does not exist.
    pub creates_on_update: bool,
}

const fn core(kind: &'static str, plural: &'static str) -> Traits {
    Traits {
        group: "",
        version: "v1",
        api_version: "v1",
        kind,
        plural,
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        returns_deleted: false,
        creates_on_update: false,
    }
}

/// The properties of an RBAC kind.
const fn rbac(kind: &'static str, plural: &'static str, namespaced: bool) -> Traits {
    Traits {
        group: "rbac.authorization.k8s.io",
        api_version: "rbac.authorization.k8s.io/v1",
        namespaced,
        creates_on_update: true,
        ..core(kind, plural)
    }
}

/// The properties of a workload kind.
const fn apps(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
) -> Traits {
    Traits {
        group: "apps",
        api_version: "apps/v1",
        short_names,
        categories: &["all"],
        has_status: true,
        ..core(kind, plural)
    }
}

static NAMESPACES: Traits = Traits {
    short_names: &["ns"],
    namespaced: false,
    has_status: true,
    returns_deleted: true,
    ..core("Namespace", "namespaces")
};
static PODS: Traits = Traits {
    short_names: &["po"],
    categories: &["all"],
    has_status: true,
    returns_deleted: true,
    ..core("Pod", "pods")
};
static CONFIG_MAPS: Traits = Traits {
    short_names: &["cm"],
    ..core("ConfigMap", "configmaps")
};
static SERVICES: Traits = Traits {
    short_names: &["svc"],
    categories: &["all"],
    has_status: true,
    returns_deleted: true,
    creates_on_update: true,
    ..core("Service", "services")
};
static CLAIMS: Traits = Traits {
    short_names: &["pvc"],
    has_status: true,
    returns_deleted: true,
    ..core("PersistentVolumeClaim", "persistentvolumeclaims")
};
static LEASES: Traits = Traits {
    group: "coordination.k8s.io",
    api_version: "coordination.k8s.io/v1",
    creates_on_update: true,
    ..core("Lease", "leases")
};
static SECRETS: Traits = core("Secret", "secrets");
static EVENTS: Traits = Traits {
    short_names: &["ev"],
    creates_on_update: true,
    ..core("Event", "events")
};
static NODES: Traits = Traits {
    short_names: &["no"],
    namespaced: false,
    has_status: true,
    ..core("Node", "nodes")
};
static QUOTAS: Traits = Traits {
    short_names: &["quota"],
    has_status: true,
    returns_deleted: true,
    ..core("ResourceQuota", "resourcequotas")
};
static SERVICE_ACCOUNTS: Traits = Traits {
    short_names: &["sa"],
    returns_deleted: true,
    ..core("ServiceAccount", "serviceaccounts")
};
static ROLES: Traits = rbac("Role", "roles", true);
static ROLE_BINDINGS: Traits = rbac("RoleBinding", "rolebindings", true);
static CLUSTER_ROLES: Traits = rbac("ClusterRole", "clusterroles", false);
static CLUSTER_ROLE_BINDINGS: Traits = rbac("ClusterRoleBinding", "clusterrolebindings", false);
static DEPLOYMENTS: Traits = apps("Deployment", "deployments", &["deploy"]);
static REPLICA_SETS: Traits = apps("ReplicaSet", "replicasets", &["rs"]);
static STATEFUL_SETS: Traits = apps("StatefulSet", "statefulsets", &["sts"]);

impl Resource {
    pub const ALL: [Self; 18] = [
        Self::Namespaces,
        Self::Pods,
        Self::ConfigMaps,
        Self::Services,
        Self::PersistentVolumeClaims,
        Self::Leases,
        Self::Secrets,
        Self::Events,
        Self::Nodes,
        Self::ResourceQuotas,
        Self::ServiceAccounts,
        Self::Roles,
        Self::RoleBindings,
        Self::ClusterRoles,
        Self::ClusterRoleBindings,
        Self::Deployments,
        Self::ReplicaSets,
        Self::StatefulSets,
    ];

    /// Whether this is a workload kind: a set of pods from one template, with the subresource `/scale`.
    pub fn is_workload(self) -> bool {
        matches!(
            self,
            Self::Deployments | Self::ReplicaSets | Self::StatefulSets
        )
    }

    /// The properties of this kind.
    pub fn traits(self) -> &'static Traits {
        match self {
            Self::Namespaces => &NAMESPACES,
            Self::Pods => &PODS,
            Self::ConfigMaps => &CONFIG_MAPS,
            Self::Services => &SERVICES,
            Self::PersistentVolumeClaims => &CLAIMS,
            Self::Leases => &LEASES,
            Self::Secrets => &SECRETS,
            Self::Events => &EVENTS,
            Self::Nodes => &NODES,
            Self::ResourceQuotas => &QUOTAS,
            Self::ServiceAccounts => &SERVICE_ACCOUNTS,
            Self::Roles => &ROLES,
            Self::RoleBindings => &ROLE_BINDINGS,
            Self::ClusterRoles => &CLUSTER_ROLES,
            Self::ClusterRoleBindings => &CLUSTER_ROLE_BINDINGS,
            Self::Deployments => &DEPLOYMENTS,
            Self::ReplicaSets => &REPLICA_SETS,
            Self::StatefulSets => &STATEFUL_SETS,
        }
    }

    /// The kind that a path names.
    pub fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        // Events are served in two groups, with the same objects.
        let group = match (group, plural) {
            ("events.k8s.io", "events") => "",
            (group, _) => group,
        };
        Self::ALL.into_iter().find(|r| {
            let t = r.traits();
            t.group == group && t.version == version && t.plural == plural
        })
    }

    /// The kind of an object's `apiVersion` and `kind`.
    pub fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| {
            let t = r.traits();
            t.api_version == api_version && t.kind == kind
        })
    }

    /// Decodes an object as its type: drops unknown fields, refuses wrong types.
    pub fn typed(self, object: &Value) -> Result<Value, Mistyped> {
        match self {
            Self::Namespaces => round_trip::<Namespace>(object),
            Self::Pods => round_trip::<Pod>(object),
            Self::ConfigMaps => round_trip::<ConfigMap>(object),
            Self::Services => round_trip::<Service>(object),
            Self::PersistentVolumeClaims => round_trip::<PersistentVolumeClaim>(object),
            Self::Leases => round_trip::<Lease>(object),
            Self::Secrets => round_trip::<Secret>(object),
            Self::Events => round_trip::<Event>(object),
            Self::Nodes => round_trip::<Node>(object),
            Self::ResourceQuotas => round_trip::<ResourceQuota>(object),
            Self::ServiceAccounts => round_trip::<ServiceAccount>(object),
            Self::Roles => round_trip::<Role>(object),
            Self::RoleBindings => round_trip::<RoleBinding>(object),
            Self::ClusterRoles => round_trip::<ClusterRole>(object),
            Self::ClusterRoleBindings => round_trip::<ClusterRoleBinding>(object),
            Self::Deployments => round_trip::<Deployment>(object),
            Self::ReplicaSets => round_trip::<ReplicaSet>(object),
            Self::StatefulSets => round_trip::<StatefulSet>(object),
        }
    }
}

fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, Mistyped> {
    match T::deserialize(object).and_then(serde_json::to_value) {
        Ok(typed) => Ok(typed),
        // The path of the error is only determined now, because few objects are mistyped.
        Err(error) => Err(Mistyped::of::<T>(object, error)),
    }
}
