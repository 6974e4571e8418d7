//! Tests of the keys of pods: what is accepted and what is refused.

use super::*;

fn default_profile(text: &str) -> Result<Profile, ConfigError> {
    with_profile(text).map(|config| config.profiles["default"].clone())
}

/// What is refused: the text, the key of the profile that is named, and a part of the message.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "pull_policy = \"Sometimes\"",
        "pull_policy",
        "\"IfNotPresent\"",
    ),
    ("pull_secrets = [\"A\"]", "pull_secrets[0]", "lowercase"),
    (
        "labels = { \"boatswain.dev/x\" = \"1\" }",
        "labels.\"boatswain.dev/x\"",
        "boatswain's own",
    ),
    (
        "labels = { \"app.kubernetes.io/name\" = \"x\" }",
        "labels.\"app.kubernetes.io/name\"",
        "another key",
    ),
    (
        "claims = [{ name = \"d\", mount_path = \"/d\", size = \"1Gi\", labels = { \"boatswain.dev/x\" = \"1\" } }]",
        "claims[0].labels.\"boatswain.dev/x\"",
        "another key",
    ),
    (
        "claims = [{ name = \"d\", mount_path = \"/d\", size = \"1Gi\", annotations = { \"boatswain.dev/x\" = \"1\" } }]",
        "claims[0].annotations.\"boatswain.dev/x\"",
        "another key",
    ),
    ("labels = { a = \"b c\" }", "labels.a", "a label's value"),
    (
        "annotations = { \"boatswain.dev/deletion-cost\" = \"1\" }",
        "annotations.\"boatswain.dev/deletion-cost\"",
        "deletion_cost",
    ),
    (
        "env = { A = { secret = \"s\" } }",
        "env.A",
        "{ secret = \"NAME\", key = \"KEY\" }",
    ),
    (
        "env = { A = { secret = \"s\", kay = \"k\" } }",
        "env.A",
        "{ secret = \"NAME\", key = \"KEY\" }",
    ),
    (
        "env = { A = { secret = \"s\", key = \"k\", optional = 1 } }",
        "env.A",
        "optional = true",
    ),
    (
        "memory = \"1Gi\"\nmemory_limit = \"1Gi\"\nmemory_overhead_factor = 0.1",
        "memory",
        "with the overhead",
    ),
    (
        "memory_overhead_min = \"1Gi\"",
        "memory_overhead_min",
        "set memory",
    ),
    (
        "memory_overhead_factor = -0.1",
        "memory_overhead_factor",
        "from 0.0",
    ),
    (
        "ephemeral_storage = \"2Gi\"\nephemeral_storage_limit = \"1Gi\"",
        "ephemeral_storage",
        "at most 1Gi",
    ),
    (
        "resources = { cpu = 1 }",
        "resources.cpu",
        "keys of their own",
    ),
    (
        "resources = { \"nvidia.com/gpu\" = \"500m\" }",
        "resources.\"nvidia.com/gpu\"",
        "at least 1",
    ),
    (
        "volumes = [{ mount_path = \"/a\", empty_dir = true }]",
        "volumes[0]",
        "say name",
    ),
    (
        "volumes = [{ name = \"a\", empty_dir = true }]",
        "volumes[0]",
        "say mount_path",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"a\", empty_dir = true }]",
        "volumes[0].mount_path",
        "a slash",
    ),
    (
        "volumes = [{ name = \"boatswain-x\", mount_path = \"/a\", empty_dir = true }]",
        "volumes[0].name",
        "boatswain's own",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"/a\" }]",
        "volumes[0]",
        "exactly one of",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"/a\", empty_dir = true, secret = \"s\" }]",
        "volumes[0]",
        "exactly one of",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"/a\", secret = \"s\", size_limit = \"1Gi\" }]",
        "volumes[0].size_limit",
        "only for empty_dir",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"/a\", claim = \"c\", optional = true }]",
        "volumes[0].optional",
        "only for",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"/a\", claim = \"c\", subpath = \"x\" }]",
        "volumes[0].subpath",
        "did you mean sub_path?",
    ),
    (
        "volumes = [{ name = \"a\", mount_path = \"/a\", claim = \"c\", sub_path = \"../x\" }]",
        "volumes[0].sub_path",
        "without ..",
    ),
    (
        "affinity = { nodeAffinty = {} }",
        "affinity",
        "nodeAffinty: Kubernetes has no such field",
    ),
    ("affinity = 1", "affinity", "podAntiAffinity"),
    (
        "topology_spread = [{ max_skew = 1 }]",
        "topology_spread[0]",
        "say key",
    ),
    (
        "topology_spread = [{ key = \"zone\", uneven = \"Never\" }]",
        "topology_spread[0].uneven",
        "\"ScheduleAnyway\"",
    ),
    ("priority_class = \"A b\"", "priority_class", "lowercase"),
    (
        "scheduling_gates = [\"a b\"]",
        "scheduling_gates[0]",
        "a name",
    ),
    ("deletion_cost = 2147483648", "deletion_cost", "2147483647"),
    ("pre_stop = [\"\"]", "pre_stop", "name a program"),
    (
        "template_container = \"x\"",
        "template_container",
        "no template",
    ),
    (
        "security = { run_as_root = true }",
        "security.run_as_root",
        "known here",
    ),
    (
        "security = { run_as_user = 0, run_as_non_root = true }",
        "security.run_as_user",
        "another user",
    ),
    (
        "security = { privileged = true, privilege_escalation = false }",
        "security.privilege_escalation",
        "leave privilege_escalation out",
    ),
    (
        "security = { capabilities = [\"net_raw\"] }",
        "security.capabilities[0]",
        "without CAP_",
    ),
    (
        "security = { seccomp = \"None\" }",
        "security.seccomp",
        "\"RuntimeDefault\"",
    ),
];

// spec: C-2, K-5, K-6
#[test]
fn what_no_pod_can_be_made_of_is_refused_with_its_place_and_a_way_out() {
    for (text, key, part) in REFUSED {
        let key = format!("profiles.default.{key}");
        assert_refused(default_profile(text), text, &key, part);
    }
    for double in [
        "{ name = \"a\", mount_path = \"/b\"",
        "{ name = \"b\", mount_path = \"/a\"",
    ] {
        let text = format!(
            "volumes = [{{ name = \"a\", mount_path = \"/a\", empty_dir = true }}, {double}, claim = \"c\" }}]"
        );
        let error = default_profile(&text).unwrap_err();
        assert_eq!(error.mistakes[0].key, "profiles.default.volumes", "{error}");
    }
}

// spec: K-5
#[test]
fn memory_is_asked_for_with_the_larger_of_a_share_and_a_minimum_on_top() {
    let asked = |text: &str| default_profile(text).unwrap().memory_request();
    let mebi = |n: u64| Some(n << 20);
    assert_eq!(asked(""), None);
    assert_eq!(asked("memory = \"1Gi\""), mebi(1024));
    let both = "\nmemory_overhead_factor = 0.1\nmemory_overhead_min = \"384Mi\"";
    assert_eq!(asked(&format!("memory = \"1Gi\"{both}")), mebi(1024 + 384));
    assert_eq!(
        asked(&format!("memory = \"10Gi\"{both}")),
        mebi(10_240 + 1024)
    );
}

// spec: K-3
#[test]
fn sparks_labels_are_sparks_only_where_they_are_used() {
    let with = |scheme: &str| {
        let profile = "[profiles.default]\nimage = \"a\"\nlabels = { spark-role = \"x\" }";
        read(&format!("executors.labels = \"{scheme}\"\n{profile}"))
    };
    assert!(with("boatswain").is_ok());
    assert_eq!(
        with("spark").unwrap_err().mistakes[0].key,
        "profiles.default.labels.spark-role"
    );
}

// spec: C-4
#[test]
fn names_of_secrets_are_shown_and_secrets_are_not() {
    let text = "[profiles.default]\nimage = \"a\"\npull_secrets = [\"registry\"]\n\
                env = { TOKEN = { secret = \"keys\", key = \"token\" }, API_KEY = \"hunter2\" }\n\
                volumes = [{ name = \"k\", mount_path = \"/k\", secret = \"keys\" }]\n\
                security = { service_account_token = true }";
    let (_, effective) = Config::explain_toml(text, "a.toml", [], &[]).unwrap();
    let shown = effective.to_string();
    for line in [
        "pull_secrets = [\"registry\"]",
        "service_account_token = true",
        "env.TOKEN = { secret = \"keys\", key = \"token\" }",
        "secret = \"keys\"",
        "env.API_KEY = \"(hidden)\"",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    assert!(!shown.contains("hunter2"));
    let set = "profiles.default.env.TOKEN={ secret = \"keys\", key = \"token\" }";
    assert!(overridden(&[], &[set]).is_ok(), "a name is no secret");
}
