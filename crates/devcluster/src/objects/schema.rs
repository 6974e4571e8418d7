//! How fields are merged and owned: the lists with keys, the sets, and the atomic maps and lists.
//!
//! The Rust types define which fields exist; this adds what they do not express. As in Kubernetes, a field that is not
//! listed here is merged field by field if it is an object, and atomic if it is a list.

/// How a value is merged and owned.
#[derive(Debug)]
pub enum Shape {
    /// An object is merged field by field; a list is atomic.
    Auto,
    /// An object with special rules for some of its fields.
    Struct(&'static [(&'static str, &'static Shape)]),
    /// An object with user-defined keys.
    Map,
    /// Replaced and owned as a whole.
    Atomic,
    /// A list of objects that are identified by some of their fields.
    Keyed(Keyed),
    /// A list of unique scalars.
    Set,
}

/// A list of objects that are identified by some of their fields.
#[derive(Debug)]
pub struct Keyed {
    /// The key fields with their defaults; empty if the list has one owner as a whole.
    pub keys: &'static [(&'static str, Option<&'static str>)],
    /// The merge key of strategic merge patch; empty if a patch replaces the list.
    pub merge_key: &'static str,
    pub item: &'static Shape,
}

impl Shape {
    /// How a field of this object is merged and owned.
    pub fn field(&self, name: &str) -> &'static Self {
        match self {
            Self::Struct(fields) => fields
                .iter()
                .find(|(field, _)| *field == name)
                .map_or(&Self::Auto, |(_, shape)| shape),
            _ => &Self::Auto,
        }
    }

    /// How an item of this list is merged and owned.
    pub fn item(&self) -> &'static Self {
        match self {
            Self::Keyed(keyed) => keyed.item,
            _ => &Self::Auto,
        }
    }

    /// The keys of the list, if its items have owners of their own.
    pub fn keyed(&self) -> Option<&Keyed> {
        match self {
            Self::Keyed(keyed) if !keyed.keys.is_empty() => Some(keyed),
            _ => None,
        }
    }
}

const fn by(
    keys: &'static [(&'static str, Option<&'static str>)],
    merge_key: &'static str,
    item: &'static Shape,
) -> Shape {
    Shape::Keyed(Keyed {
        keys,
        merge_key,
        item,
    })
}

static ATOMIC: Shape = Shape::Atomic;
static MAP: Shape = Shape::Map;
static SET: Shape = Shape::Set;

static BY_NAME: Shape = by(&[("name", None)], "name", &Shape::Auto);
static REFERENCES: Shape = by(&[("name", None)], "name", &Shape::Atomic);
static CONDITIONS: Shape = by(&[("type", None)], "type", &Shape::Auto);

static METADATA: Shape = Shape::Struct(&[
    ("labels", &MAP),
    ("annotations", &MAP),
    ("finalizers", &SET),
    ("ownerReferences", &OWNERS),
]);
static OWNERS: Shape = by(&[("uid", None)], "uid", &Shape::Atomic);

static RESOURCES: Shape =
    Shape::Struct(&[("limits", &MAP), ("requests", &MAP), ("claims", &CLAIMS)]);
static CLAIMS: Shape = by(&[("name", None)], "", &Shape::Auto);

static VARIABLE_SOURCE: Shape = Shape::Struct(&[
    ("configMapKeyRef", &ATOMIC),
    ("secretKeyRef", &ATOMIC),
    ("fieldRef", &ATOMIC),
    ("resourceFieldRef", &ATOMIC),
    ("fileKeyRef", &ATOMIC),
]);
static VARIABLE: Shape = Shape::Struct(&[("valueFrom", &VARIABLE_SOURCE)]);
static CONTAINER: Shape = Shape::Struct(&[
    ("env", &ENV),
    ("ports", &CONTAINER_PORTS),
    ("resources", &RESOURCES),
    ("volumeMounts", &MOUNTS),
    ("volumeDevices", &DEVICES),
]);
static ENV: Shape = by(&[("name", None)], "name", &VARIABLE);
static CONTAINER_PORTS: Shape = by(
    &[("containerPort", None), ("protocol", Some("TCP"))],
    "containerPort",
    &Shape::Auto,
);
static MOUNTS: Shape = by(&[("mountPath", None)], "mountPath", &Shape::Auto);
static DEVICES: Shape = by(&[("devicePath", None)], "devicePath", &Shape::Auto);
static CONTAINERS: Shape = by(&[("name", None)], "name", &CONTAINER);

static WITH_SECRET: Shape = Shape::Struct(&[("secretRef", &ATOMIC), ("options", &MAP)]);
static CSI: Shape = Shape::Struct(&[
    ("volumeAttributes", &MAP),
    ("nodePublishSecretRef", &ATOMIC),
]);
static EPHEMERAL: Shape = Shape::Struct(&[("volumeClaimTemplate", &CLAIM_TEMPLATE)]);
static CLAIM_TEMPLATE: Shape = Shape::Struct(&[("metadata", &METADATA), ("spec", &CLAIM_SPEC)]);
static VOLUME: Shape = Shape::Struct(&[
    ("csi", &CSI),
    ("ephemeral", &EPHEMERAL),
    ("cephfs", &WITH_SECRET),
    ("cinder", &WITH_SECRET),
    ("flexVolume", &WITH_SECRET),
    ("iscsi", &WITH_SECRET),
    ("rbd", &WITH_SECRET),
    ("scaleIO", &WITH_SECRET),
    ("storageos", &WITH_SECRET),
]);
static VOLUMES: Shape = by(&[("name", None)], "name", &VOLUME);

static NODE_AFFINITY: Shape =
    Shape::Struct(&[("requiredDuringSchedulingIgnoredDuringExecution", &ATOMIC)]);
static AFFINITY: Shape = Shape::Struct(&[("nodeAffinity", &NODE_AFFINITY)]);
static WITH_SELECTOR: Shape = Shape::Struct(&[("labelSelector", &ATOMIC)]);
static SPREAD: Shape = by(
    &[("topologyKey", None), ("whenUnsatisfiable", None)],
    "topologyKey",
    &WITH_SELECTOR,
);
static HOST_ALIASES: Shape = by(&[("ip", None)], "ip", &Shape::Auto);
static POD_SPEC: Shape = Shape::Struct(&[
    ("affinity", &AFFINITY),
    ("containers", &CONTAINERS),
    ("ephemeralContainers", &CONTAINERS),
    ("hostAliases", &HOST_ALIASES),
    ("imagePullSecrets", &REFERENCES),
    ("initContainers", &CONTAINERS),
    ("nodeSelector", &ATOMIC),
    ("overhead", &MAP),
    ("resourceClaims", &BY_NAME),
    ("resources", &RESOURCES),
    ("schedulingGates", &BY_NAME),
    ("topologySpreadConstraints", &SPREAD),
    ("volumes", &VOLUMES),
]);
static HOST_IPS: Shape = by(&[], "ip", &Shape::Auto);
static POD_STATUS: Shape = Shape::Struct(&[
    ("conditions", &CONDITIONS),
    ("hostIPs", &HOST_IPS),
    ("podIPs", &HOST_ALIASES),
    ("resourceClaimStatuses", &BY_NAME),
]);
static POD: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("spec", &POD_SPEC),
    ("status", &POD_STATUS),
]);

static DATA: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("data", &MAP),
    ("binaryData", &MAP),
    ("stringData", &MAP),
]);

static SERVICE_PORTS: Shape = by(
    &[("port", None), ("protocol", Some("TCP"))],
    "port",
    &Shape::Auto,
);
static SERVICE_SPEC: Shape = Shape::Struct(&[("ports", &SERVICE_PORTS), ("selector", &ATOMIC)]);
static WITH_CONDITIONS: Shape = Shape::Struct(&[("conditions", &CONDITIONS)]);
static SERVICE: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("spec", &SERVICE_SPEC),
    ("status", &WITH_CONDITIONS),
]);

static CLAIM_SPEC: Shape = Shape::Struct(&[
    ("resources", &RESOURCES),
    ("selector", &ATOMIC),
    ("dataSource", &ATOMIC),
]);
static CLAIM_STATUS: Shape = Shape::Struct(&[
    ("conditions", &CONDITIONS),
    ("capacity", &MAP),
    ("allocatedResources", &MAP),
    ("allocatedResourceStatuses", &MAP),
]);
static CLAIM: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("spec", &CLAIM_SPEC),
    ("status", &CLAIM_STATUS),
]);

static NODE_SPEC: Shape = Shape::Struct(&[("podCIDRs", &SET)]);
static NODE_STATUS: Shape = Shape::Struct(&[
    ("addresses", &CONDITIONS),
    ("allocatable", &MAP),
    ("capacity", &MAP),
    ("conditions", &CONDITIONS),
]);
static NODE: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("spec", &NODE_SPEC),
    ("status", &NODE_STATUS),
]);

static QUOTA_SPEC: Shape = Shape::Struct(&[("hard", &MAP), ("scopeSelector", &ATOMIC)]);
static QUOTA_STATUS: Shape = Shape::Struct(&[("hard", &MAP), ("used", &MAP)]);
static QUOTA: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("spec", &QUOTA_SPEC),
    ("status", &QUOTA_STATUS),
]);

static SERVICE_ACCOUNT: Shape = Shape::Struct(&[("metadata", &METADATA), ("secrets", &REFERENCES)]);
static EVENT: Shape = Shape::Struct(&[
    ("metadata", &METADATA),
    ("involvedObject", &ATOMIC),
    ("related", &ATOMIC),
]);
static ROLE_BINDING: Shape = Shape::Struct(&[("metadata", &METADATA), ("roleRef", &ATOMIC)]);
static OTHER: Shape = Shape::Struct(&[("metadata", &METADATA), ("status", &WITH_CONDITIONS)]);

/// How objects of a kind are merged and owned.
pub fn of(kind: &str) -> &'static Shape {
    match kind {
        "Pod" => &POD,
        "ConfigMap" | "Secret" => &DATA,
        "Service" => &SERVICE,
        "PersistentVolumeClaim" => &CLAIM,
        "Node" => &NODE,
        "ResourceQuota" => &QUOTA,
        "ServiceAccount" => &SERVICE_ACCOUNT,
        "Event" => &EVENT,
        "RoleBinding" | "ClusterRoleBinding" => &ROLE_BINDING,
        _ => &OTHER,
    }
}
