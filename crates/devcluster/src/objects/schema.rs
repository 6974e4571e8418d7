//! How a strategic merge patch merges the lists of each kind: by which field of their items.

/// An object, or the items of a list.
#[derive(Debug)]
pub struct Shape {
    /// The field that identifies the items of a list: empty for a list of scalars, `None` if a patch replaces the list.
    pub merge_key: Option<&'static str>,
    fields: &'static [(&'static str, &'static Shape)],
}

impl Shape {
    /// The shape of a field of this object or these items. One that is not listed is merged field by field if it is an
    /// object, and replaced if it is a list.
    pub fn field(&self, name: &str) -> &'static Self {
        let found = self.fields.iter().find(|(field, _)| *field == name);
        found.map_or(&PLAIN, |(_, shape)| shape)
    }
}

const fn object(fields: &'static [(&'static str, &'static Shape)]) -> Shape {
    Shape {
        merge_key: None,
        fields,
    }
}

const fn list(merge_key: &'static str, fields: &'static [(&'static str, &'static Shape)]) -> Shape {
    Shape {
        merge_key: Some(merge_key),
        fields,
    }
}

static PLAIN: Shape = object(&[]);
static SCALARS: Shape = list("", &[]);
static BY_NAME: Shape = list("name", &[]);
static BY_TYPE: Shape = list("type", &[]);
static BY_IP: Shape = list("ip", &[]);

static METADATA: Shape = object(&[
    ("finalizers", &SCALARS),
    ("ownerReferences", &list("uid", &[])),
]);

static CONTAINERS: Shape = list(
    "name",
    &[
        ("env", &BY_NAME),
        ("ports", &list("containerPort", &[])),
        ("volumeMounts", &list("mountPath", &[])),
        ("volumeDevices", &list("devicePath", &[])),
    ],
);
static TEMPLATE: Shape = object(&[("metadata", &METADATA), ("spec", &POD_SPEC)]);
static CLAIM_TEMPLATE: Shape =
    object(&[("volumeClaimTemplate", &object(&[("metadata", &METADATA)]))]);
static POD_SPEC: Shape = object(&[
    ("containers", &CONTAINERS),
    ("ephemeralContainers", &CONTAINERS),
    ("hostAliases", &BY_IP),
    ("imagePullSecrets", &BY_NAME),
    ("initContainers", &CONTAINERS),
    ("resourceClaims", &BY_NAME),
    ("schedulingGates", &BY_NAME),
    ("topologySpreadConstraints", &list("topologyKey", &[])),
    ("volumes", &list("name", &[("ephemeral", &CLAIM_TEMPLATE)])),
]);
static POD_STATUS: Shape = object(&[
    ("conditions", &BY_TYPE),
    ("hostIPs", &BY_IP),
    ("podIPs", &BY_IP),
    ("resourceClaimStatuses", &BY_NAME),
]);
static POD: Shape = object(&[
    ("metadata", &METADATA),
    ("spec", &POD_SPEC),
    ("status", &POD_STATUS),
]);

static WITH_CONDITIONS: Shape = object(&[("conditions", &BY_TYPE)]);
static WORKLOAD: Shape = object(&[
    ("metadata", &METADATA),
    ("spec", &object(&[("template", &TEMPLATE)])),
    ("status", &WITH_CONDITIONS),
]);
static SERVICE: Shape = object(&[
    ("metadata", &METADATA),
    ("spec", &object(&[("ports", &list("port", &[]))])),
    ("status", &WITH_CONDITIONS),
]);
static NODE: Shape = object(&[
    ("metadata", &METADATA),
    ("spec", &object(&[("podCIDRs", &SCALARS)])),
    (
        "status",
        &object(&[("addresses", &BY_TYPE), ("conditions", &BY_TYPE)]),
    ),
]);
static SERVICE_ACCOUNT: Shape = object(&[("metadata", &METADATA), ("secrets", &BY_NAME)]);
static OTHER: Shape = object(&[("metadata", &METADATA), ("status", &WITH_CONDITIONS)]);

/// How objects of a kind are merged.
pub fn of(kind: &str) -> &'static Shape {
    match kind {
        "Pod" => &POD,
        "Deployment" | "ReplicaSet" | "StatefulSet" => &WORKLOAD,
        "Service" => &SERVICE,
        "Node" => &NODE,
        "ServiceAccount" => &SERVICE_ACCOUNT,
        _ => &OTHER,
    }
}
