//! The protobuf fields of the kinds that documented commands of kubectl write in that encoding: `create namespace`,
//! `create token`, `create clusterrolebinding`, `auth`, and `drain`.

use FieldType::{ListOf, Message, Number, Text};

#[derive(Clone, Copy)]
pub(super) enum FieldType {
    Text,
    Number,
    Message(&'static [Field]),
    /// A repeated field of this type.
    ListOf(&'static FieldType),
}

/// The number, name and type of a field.
pub(super) type Field = (u64, &'static str, FieldType);

const STRINGS: FieldType = ListOf(&Text);

const META: FieldType = Message(&[(1, "name", Text), (3, "namespace", Text)]);

const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Number),
    (
        2,
        "preconditions",
        Message(&[(1, "uid", Text), (2, "resourceVersion", Text)]),
    ),
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

/// The fields of a kind that those commands set; `None` if its objects are accepted as JSON only.
pub(super) fn fields(kind: &str) -> Option<&'static [Field]> {
    Some(match kind {
        "DeleteOptions" => DELETE_OPTIONS,
        "Namespace" | "ServiceAccount" | "SelfSubjectReview" => &[(1, "metadata", META)],
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
        "TokenRequest" => TOKEN_REQUEST,
        _ => return None,
    })
}
