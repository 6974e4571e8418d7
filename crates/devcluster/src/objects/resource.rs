//! The kinds of objects that this server stores, and their properties.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, LimitRange, Namespace, Node, PersistentVolumeClaim, Pod, ResourceQuota,
    Secret, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A stored kind. `TRAITS` has the properties in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Namespaces,
    Pods,
    ConfigMaps,
    Services,
    PersistentVolumeClaims,
    Leases,
    Secrets,
    Events,
    Nodes,
    ResourceQuotas,
    LimitRanges,
    ServiceAccounts,
    Roles,
    RoleBindings,
    ClusterRoles,
    ClusterRoleBindings,
    Deployments,
    ReplicaSets,
    StatefulSets,
    PodDisruptionBudgets,
    Workloads,
    ResourceFlavors,
    PodGroups,
}

/// The properties of a kind.
#[derive(Debug)]
pub struct Traits {
    /// The API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Short names, as `po` for pods.
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// Whether `/status` is a subresource, so that other writes do not change the status.
    pub has_status: bool,
    /// Whether a DELETE returns the object rather than a `Status`.
    pub returns_deleted: bool,
    /// Whether a PUT creates an object that does not exist.
    pub creates_on_update: bool,
    typed: fn(&Value) -> Result<Value, String>,
}

const fn of<T: k8s_openapi::Resource + DeserializeOwned + Serialize>() -> Traits {
    Traits {
        group: T::GROUP,
        version: T::VERSION,
        api_version: T::API_VERSION,
        kind: T::KIND,
        plural: T::URL_PATH_SEGMENT,
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        returns_deleted: false,
        creates_on_update: false,
        typed: round_trip::<T>,
    }
}

const fn rbac<T>(namespaced: bool) -> Traits
where
    T: k8s_openapi::Resource + DeserializeOwned + Serialize,
{
    Traits {
        namespaced,
        creates_on_update: true,
        ..of::<T>()
    }
}

const fn workload<T>(short_names: &'static [&'static str]) -> Traits
where
    T: k8s_openapi::Resource + DeserializeOwned + Serialize,
{
    Traits {
        short_names,
        categories: &["all"],
        has_status: true,
        ..of::<T>()
    }
}

/// The API group of Kueue, whose objects are stored as they are: nothing here admits a Workload.
pub const KUEUE: &str = "kueue.x-k8s.io";

/// The version of that group.
pub const KUEUE_VERSION: &str = "v1beta2";

/// The API group of Kubernetes' gangs, whose objects are stored as they are: pods are bound one by one here.
pub const SCHEDULING: &str = "scheduling.k8s.io";

/// The version of that group; all others but Kueue's have v1.
pub const SCHEDULING_VERSION: &str = "v1alpha2";

/// A kind whose objects are stored as they are. The names have to fit each other.
const fn untyped(
    group: &'static str,
    version: &'static str,
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Traits {
    Traits {
        group,
        version,
        api_version,
        kind,
        plural,
        typed: |object| Ok(object.clone()),
        ..of::<Role>()
    }
}

const fn of_kueue(kind: &'static str, plural: &'static str) -> Traits {
    untyped(KUEUE, KUEUE_VERSION, "kueue.x-k8s.io/v1beta2", kind, plural)
}

static TRAITS: [Traits; 23] = [
    Traits {
        short_names: &["ns"],
        namespaced: false,
        has_status: true,
        returns_deleted: true,
        ..of::<Namespace>()
    },
    Traits {
        returns_deleted: true,
        ..workload::<Pod>(&["po"])
    },
    Traits {
        short_names: &["cm"],
        ..of::<ConfigMap>()
    },
    Traits {
        returns_deleted: true,
        creates_on_update: true,
        ..workload::<Service>(&["svc"])
    },
    Traits {
        short_names: &["pvc"],
        has_status: true,
        returns_deleted: true,
        ..of::<PersistentVolumeClaim>()
    },
    Traits {
        creates_on_update: true,
        ..of::<Lease>()
    },
    of::<Secret>(),
    Traits {
        short_names: &["ev"],
        creates_on_update: true,
        ..of::<Event>()
    },
    Traits {
        short_names: &["no"],
        namespaced: false,
        has_status: true,
        ..of::<Node>()
    },
    Traits {
        short_names: &["quota"],
        has_status: true,
        returns_deleted: true,
        ..of::<ResourceQuota>()
    },
    Traits {
        short_names: &["limits"],
        ..of::<LimitRange>()
    },
    Traits {
        short_names: &["sa"],
        returns_deleted: true,
        ..of::<ServiceAccount>()
    },
    rbac::<Role>(true),
    rbac::<RoleBinding>(true),
    rbac::<ClusterRole>(false),
    rbac::<ClusterRoleBinding>(false),
    workload::<Deployment>(&["deploy"]),
    workload::<ReplicaSet>(&["rs"]),
    workload::<StatefulSet>(&["sts"]),
    Traits {
        short_names: &["pdb"],
        has_status: true,
        ..of::<PodDisruptionBudget>()
    },
    Traits {
        short_names: &["wl"],
        has_status: true,
        ..of_kueue("Workload", "workloads")
    },
    Traits {
        short_names: &["flavor", "rf"],
        namespaced: false,
        ..of_kueue("ResourceFlavor", "resourceflavors")
    },
    Traits {
        has_status: true,
        ..untyped(
            SCHEDULING,
            SCHEDULING_VERSION,
            "scheduling.k8s.io/v1alpha2",
            "PodGroup",
            "podgroups",
        )
    },
];

impl Resource {
    pub const ALL: [Self; 23] = [
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
        Self::LimitRanges,
        Self::ServiceAccounts,
        Self::Roles,
        Self::RoleBindings,
        Self::ClusterRoles,
        Self::ClusterRoleBindings,
        Self::Deployments,
        Self::ReplicaSets,
        Self::StatefulSets,
        Self::PodDisruptionBudgets,
        Self::Workloads,
        Self::ResourceFlavors,
        Self::PodGroups,
    ];

    /// Whether objects of this kind count the changes of their spec in `metadata.generation`.
    pub fn has_generation(self) -> bool {
        self.is_workload()
            || self.traits().group == KUEUE
            || matches!(self, Self::Pods | Self::PodDisruptionBudgets)
    }

    /// Whether this is a workload kind: a set of pods from one template, with the subresource `/scale`.
    pub fn is_workload(self) -> bool {
        matches!(
            self,
            Self::Deployments | Self::ReplicaSets | Self::StatefulSets
        )
    }

    pub fn traits(self) -> &'static Traits {
        &TRAITS[self as usize]
    }

    /// The namespace of this kind's objects: `namespace`, or none if the kind is cluster-scoped.
    pub fn namespace(self, namespace: &str) -> &str {
        if self.traits().namespaced {
            namespace
        } else {
            ""
        }
    }

    pub fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| {
            let t = r.traits();
            t.group == group && t.version == version && t.plural == plural
        })
    }

    pub fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| {
            let t = r.traits();
            t.api_version == api_version && t.kind == kind
        })
    }

    /// Decodes an object as its type: drops unknown fields, refuses wrong types.
    pub fn typed(self, object: &Value) -> Result<Value, String> {
        (self.traits().typed)(object)
    }
}

fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    T::deserialize(object)
        .and_then(serde_json::to_value)
        // The path of the error is only determined now, because few objects are mistyped.
        .map_err(
            |error| match serde_path_to_error::deserialize::<_, T>(object) {
                Err(found) => format!("json: cannot unmarshal field {found}"),
                Ok(_) => error.to_string(),
            },
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_are_in_the_order_of_the_kinds() {
        for resource in Resource::ALL {
            let name = format!("{resource:?}").to_lowercase();
            assert_eq!(resource.traits().plural, name);
        }
        assert!(Resource::ALL.is_sorted());
    }
}
