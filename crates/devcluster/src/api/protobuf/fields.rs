//! The protobuf fields of the kinds that kubectl writes in that encoding.

use FieldType::{Base64, Flag, IntOrString, ListOf, MapOf, Message, Number, Quantity, Text};

#[derive(Clone, Copy)]
pub(super) enum FieldType {
    Text,
    /// Bytes, which JSON represents as base64.
    Base64,
    Number,
    Flag,
    Message(&'static [Field]),
    /// A map from strings to this type.
    MapOf(&'static FieldType),
    /// A quantity: a message with one string.
    Quantity,
    /// A number, or a string such as a percentage.
    IntOrString,
    /// A repeated field of this type.
    ListOf(&'static FieldType),
}

/// The number, name and type of a field.
pub(super) type Field = (u64, &'static str, FieldType);

const STRINGS: FieldType = ListOf(&Text);

const META: FieldType = Message(&[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (11, "labels", MapOf(&Text)),
    (12, "annotations", MapOf(&Text)),
    (14, "finalizers", STRINGS),
]);

const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Number),
    (
        2,
        "preconditions",
        Message(&[(1, "uid", Text), (2, "resourceVersion", Text)]),
    ),
    (3, "orphanDependents", Flag),
    (4, "propagationPolicy", Text),
    (5, "dryRun", STRINGS),
];

const OF_RESOURCE: FieldType = Message(&[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
]);

const OF_PATH: FieldType = Message(&[(1, "path", Text), (2, "verb", Text)]);

const RULES: FieldType = ListOf(&Message(&[
    (1, "verbs", STRINGS),
    (2, "apiGroups", STRINGS),
    (3, "resources", STRINGS),
    (4, "resourceNames", STRINGS),
    (5, "nonResourceURLs", STRINGS),
]));

const BINDING: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "subjects",
        ListOf(&Message(&[
            (1, "kind", Text),
            (2, "apiGroup", Text),
            (3, "name", Text),
            (4, "namespace", Text),
        ])),
    ),
    (
        3,
        "roleRef",
        Message(&[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)]),
    ),
];

const ACCESS: FieldType = Message(&[
    (1, "resourceAttributes", OF_RESOURCE),
    (2, "nonResourceAttributes", OF_PATH),
]);

const TOKEN_REQUEST: &[Field] = &[
    (1, "metadata", META),
    (
        2,
        "spec",
        Message(&[
            (1, "audiences", STRINGS),
            (
                3,
                "boundObjectRef",
                Message(&[
                    (1, "kind", Text),
                    (2, "apiVersion", Text),
                    (3, "name", Text),
                    (4, "uid", Text),
                ]),
            ),
            (4, "expirationSeconds", Number),
        ]),
    ),
];

const SELECTOR: FieldType = Message(&[
    (1, "matchLabels", MapOf(&Text)),
    (
        2,
        "matchExpressions",
        ListOf(&Message(&[
            (1, "key", Text),
            (2, "operator", Text),
            (3, "values", STRINGS),
        ])),
    ),
]);

/// What `kubectl create job` sets of a pod.
const POD_SPEC: FieldType = Message(&[
    (
        2,
        "containers",
        ListOf(&Message(&[
            (1, "name", Text),
            (2, "image", Text),
            (3, "command", STRINGS),
            (4, "args", STRINGS),
        ])),
    ),
    (3, "restartPolicy", Text),
]);

const JOB_SPEC: FieldType = Message(&[
    (1, "parallelism", Number),
    (2, "completions", Number),
    (3, "activeDeadlineSeconds", Number),
    (4, "selector", SELECTOR),
    (5, "manualSelector", Flag),
    (
        6,
        "template",
        Message(&[(1, "metadata", META), (2, "spec", POD_SPEC)]),
    ),
    (7, "backoffLimit", Number),
    (8, "ttlSecondsAfterFinished", Number),
    (9, "completionMode", Text),
    (10, "suspend", Flag),
]);

/// The kinds of which only some fields are known. Objects with others are accepted as JSON or YAML only.
pub(super) const PARTIAL: [&str; 1] = ["Job"];

/// The fields of a kind; `None` if its objects are accepted as JSON or YAML only.
pub(super) fn fields(kind: &str) -> Option<&'static [Field]> {
    Some(match kind {
        "DeleteOptions" => DELETE_OPTIONS,
        "Namespace" | "ServiceAccount" | "SelfSubjectReview" => &[(1, "metadata", META)],
        "ConfigMap" => &[
            (1, "metadata", META),
            (2, "data", MapOf(&Text)),
            (3, "binaryData", MapOf(&Base64)),
            (4, "immutable", Flag),
        ],
        "Secret" => &[
            (1, "metadata", META),
            (2, "data", MapOf(&Base64)),
            (3, "type", Text),
            (4, "stringData", MapOf(&Text)),
            (5, "immutable", Flag),
        ],
        "ResourceQuota" => &[
            (1, "metadata", META),
            (
                2,
                "spec",
                Message(&[(1, "hard", MapOf(&Quantity)), (2, "scopes", STRINGS)]),
            ),
        ],
        "Job" => &[(1, "metadata", META), (2, "spec", JOB_SPEC)],
        "PodDisruptionBudget" => &[
            (1, "metadata", META),
            (
                2,
                "spec",
                Message(&[
                    (1, "minAvailable", IntOrString),
                    (2, "selector", SELECTOR),
                    (3, "maxUnavailable", IntOrString),
                    (4, "unhealthyPodEvictionPolicy", Text),
                ]),
            ),
        ],
        "Role" | "ClusterRole" => &[(1, "metadata", META), (2, "rules", RULES)],
        "RoleBinding" | "ClusterRoleBinding" => BINDING,
        "Eviction" => &[
            (1, "metadata", META),
            (2, "deleteOptions", Message(DELETE_OPTIONS)),
        ],
        "SelfSubjectAccessReview" => &[(1, "metadata", META), (2, "spec", ACCESS)],
        "SelfSubjectRulesReview" => &[
            (1, "metadata", META),
            (2, "spec", Message(&[(1, "namespace", Text)])),
        ],
        "SubjectAccessReview" | "LocalSubjectAccessReview" => &[
            (1, "metadata", META),
            (
                2,
                "spec",
                Message(&[
                    (1, "resourceAttributes", OF_RESOURCE),
                    (2, "nonResourceAttributes", OF_PATH),
                    (3, "user", Text),
                    (4, "groups", STRINGS),
                    (6, "uid", Text),
                ]),
            ),
        ],
        "TokenReview" => &[
            (1, "metadata", META),
            (
                2,
                "spec",
                Message(&[(1, "token", Text), (2, "audiences", STRINGS)]),
            ),
        ],
        "TokenRequest" => TOKEN_REQUEST,
        _ => return None,
    })
}
