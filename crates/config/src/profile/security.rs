//! The security context of executors, which defaults to the least privileges (spec K-6).

use crate::declare::section;
use crate::kinds::{Flag, Text, Whole};
use crate::reader::Section;

section! {
    /// `[profiles.NAME.security]`. `None`: the template's value, or else the default.
    pub struct Security {
        /// Whether images that run as root are refused.
        pub run_as_non_root: Option<bool> = explicit(Flag, true);
        /// Whether a process may gain more privileges than its parent.
        pub privilege_escalation: Option<bool> = explicit(Flag, false);
        /// Whether the container runs with the privileges of the node's root user.
        pub privileged: Option<bool> = explicit(Flag, false);
        /// Whether the container's root file system is read-only.
        pub read_only_root: Option<bool> = explicit(Flag, false);
        /// Whether all capabilities are dropped.
        pub drop_capabilities: Option<bool> = explicit(Flag, true);
        /// Whether the service account's token is mounted.
        pub service_account_token: Option<bool> = explicit(Flag, false);
        /// The seccomp profile: `RuntimeDefault`, `Unconfined`, or `Localhost/` and the name of a
        /// profile on the node.
        pub seccomp: Option<String> = explicit(SECCOMP, "RuntimeDefault".to_owned());
        /// `None`: the image's user.
        pub run_as_user: Option<u64> = option(Whole(0..=MOST_ID));
        /// `None`: the image's group.
        pub run_as_group: Option<u64> = option(Whole(0..=MOST_ID));
        /// The id of the group that owns the volumes.
        pub fs_group: Option<u64> = option(Whole(0..=MOST_ID));
        /// The capabilities that are added after dropping all.
        pub capabilities: Vec<String> = list(CAPABILITY);
    }
}

/// The highest id of a user or group that Kubernetes accepts.
const MOST_ID: u64 = (u32::MAX >> 1) as u64;

const CAPABILITY: Text = Text {
    rule: |name| {
        let plain = |b: u8| b.is_ascii_uppercase() || b == b'_';
        !name.is_empty() && name.bytes().all(plain)
    },
    allowed: "a capability without CAP_, such as \"NET_BIND_SERVICE\"",
};

const SECCOMP: Text = Text {
    rule: |profile| {
        let own = profile.strip_prefix("Localhost/");
        ["RuntimeDefault", "Unconfined"].contains(&profile)
            || own.is_some_and(|file| !file.is_empty() && !file.starts_with('/'))
    },
    allowed: "\"RuntimeDefault\", \"Unconfined\" or \"Localhost/FILE\"",
};

impl Security {
    pub(super) fn checked(s: &mut Section<'_>) -> Self {
        let security = Self::read(s);
        if security.run_as_non_root == Some(true) && security.run_as_user == Some(0) {
            let fix = "choose another user, or set run_as_non_root = false";
            s.refuse(
                "run_as_user",
                "found 0, which is root, but run_as_non_root is true",
                fix,
            );
        }
        let mighty = security.privileged == Some(true)
            || security.capabilities.iter().any(|name| name == "SYS_ADMIN");
        if mighty && security.privilege_escalation == Some(false) {
            let fix =
                "remove privileged or the capability SYS_ADMIN, or leave privilege_escalation out";
            let found = "found false, beside what Kubernetes allows with escalation only";
            s.refuse("privilege_escalation", found, fix);
        }
        security
    }
}
