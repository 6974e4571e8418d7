//! The security context of executors, which defaults to the least privileges (spec K-6).

use crate::config::kinds::{Flag, Text, Whole};
use crate::config::reader::Section;

/// `[profiles.NAME.security]`. `None`: the template's value, or else the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    /// Whether images that run as root are refused. Default: true.
    pub run_as_non_root: Option<bool>,
    /// `None`: the image's user.
    pub run_as_user: Option<u64>,
    /// `None`: the image's group.
    pub run_as_group: Option<u64>,
    /// The id of the group that owns the volumes.
    pub fs_group: Option<u64>,
    /// Whether a process may gain more privileges than its parent. Default: false.
    pub privilege_escalation: Option<bool>,
    /// Whether the container runs with the privileges of the node's root user. Default: false.
    pub privileged: Option<bool>,
    /// Whether the container's root file system is read-only. Default: false.
    pub read_only_root: Option<bool>,
    /// Whether all capabilities are dropped. Default: true.
    pub drop_capabilities: Option<bool>,
    /// The capabilities that are added after dropping all.
    pub capabilities: Vec<String>,
    /// The seccomp profile: `RuntimeDefault` (the default), `Unconfined`, or `Localhost/` and the
    /// name of a profile on the node.
    pub seccomp: Option<String>,
    /// Whether the service account's token is mounted. Default: false.
    pub service_account_token: Option<bool>,
}

impl Security {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let number = || Whole(0..=u64::from(u32::MAX >> 1));
        let capability = Text {
            rule: |name| {
                let plain = |b: u8| b.is_ascii_uppercase() || b == b'_';
                !name.is_empty() && name.bytes().all(plain)
            },
            allowed: "a capability without CAP_, such as \"NET_BIND_SERVICE\"",
        };
        let seccomp = Text {
            rule: |profile| {
                let own = profile.strip_prefix("Localhost/");
                ["RuntimeDefault", "Unconfined"].contains(&profile)
                    || own.is_some_and(|file| !file.is_empty() && !file.starts_with('/'))
            },
            allowed: "\"RuntimeDefault\", \"Unconfined\" or \"Localhost/FILE\"",
        };
        let mut flag = |key, default| {
            let value = s.value(key, Flag, default);
            s.is_set(key).then_some(value)
        };
        let run_as_non_root = flag("run_as_non_root", true);
        let privilege_escalation = flag("privilege_escalation", false);
        let privileged = flag("privileged", false);
        let read_only_root = flag("read_only_root", false);
        let drop_capabilities = flag("drop_capabilities", true);
        let service_account_token = flag("service_account_token", false);
        let by_default = s.value("seccomp", seccomp, "RuntimeDefault".to_owned());
        let security = Self {
            run_as_non_root,
            run_as_user: s.option("run_as_user", number()),
            run_as_group: s.option("run_as_group", number()),
            fs_group: s.option("fs_group", number()),
            privilege_escalation,
            privileged,
            read_only_root,
            drop_capabilities,
            capabilities: s.list("capabilities", capability),
            seccomp: s.is_set("seccomp").then_some(by_default),
            service_account_token,
        };
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
