//! The key `allocation.strategy`, which says what creates the pods (spec A-80), and
//! `scheduling.gang`, which says who schedules gangs (spec A-82).

use serde_json::{Value as Json, json};

use super::declare::choice;
use super::document::Value;
use super::kinds::{Kind, OneOf, one_of};
use super::names::is_dns_label;
use super::notes::Notes;
use super::{Auth, ClusterMode, Config};

choice! {
    /// What creates executors' pods.
    #[derive(Default)]
    pub enum Strategy {
        /// boatswain, one pod at a time.
        #[default]
        Direct = "direct",
        /// One StatefulSet per profile, which boatswain scales.
        StatefulSet = "statefulset",
        /// One Deployment per profile, which boatswain scales.
        Deployment = "deployment",
    }
}

choice! {
    /// Whether the executors of a profile are a gang, and who schedules it.
    #[derive(Default)]
    pub enum Gang {
        /// Executors are independent.
        #[default]
        Off = "off",
        /// They are a gang. If it does not become complete, boatswain deletes its executors for a while.
        On = "on",
        /// Like `On`, with annotations for YuniKorn.
        Yunikorn = "yunikorn",
        /// Like `On`, with a PodGroup for Volcano.
        Volcano = "volcano",
        /// Like `On`, with a PodGroup for Kubernetes' own scheduler.
        Kubernetes = "kubernetes",
    }
}

choice! {
    /// Who admits executors.
    #[derive(Default)]
    pub enum Queue {
        /// Nobody: they are requested when they are wanted.
        #[default]
        Off = "off",
        /// Kueue, by Workloads (spec A-90).
        Kueue = "kueue",
    }
}

impl Gang {
    pub fn is_on(self) -> bool {
        self != Self::Off
    }
}

/// A [`Gang`], or a flag that stands for `On` or `Off`.
pub(super) struct GangKind;

impl Kind for GangKind {
    type Out = Gang;

    fn read(&self, value: &Value) -> Option<Gang> {
        match value {
            Value::Flag(true) => Some(Gang::On),
            Value::Flag(false) => Some(Gang::Off),
            other => self.words().read(other),
        }
    }

    fn allowed(&self) -> String {
        format!("{} or true or false", self.words().allowed())
    }

    fn schema(&self) -> Json {
        json!({"anyOf": [self.words().schema(), {"type": "boolean"}]})
    }

    fn show(&self, value: &Gang) -> String {
        self.words().show(value)
    }
}

impl GangKind {
    fn words(&self) -> OneOf<Gang> {
        one_of()
    }
}

/// The name of a set's revision is a label value, and is eleven characters longer than the set's.
const LONGEST_SET_NAME: usize = 52;

/// The keys that are read only where boatswain creates the pods itself.
const DIRECT_ONLY: [&str; 14] = [
    "allocation.batch_size",
    "allocation.max_rate",
    "allocation.creation_timeout",
    "allocation.max_pending",
    "allocation.pending_timeout",
    "allocation.stuck_after",
    "allocation.cancel_delay",
    "allocation.scale_down",
    "app.max_executors",
    "failures.node_max_failures",
    "failures.node_avoidance",
    "failures.stable_after",
    "failures.backoff_initial",
    "failures.backoff_max",
];

/// A queue admits what boatswain itself requests, and knows of gangs by `min_executors` (spec A-90).
pub(super) fn check_queue(config: &Config, notes: &mut Notes) {
    let scheduling = &config.scheduling;
    let keys = ["scheduling.queue", "scheduling.queue_name"];
    if !notes.are_sound(&keys) {
        return;
    }
    if scheduling.queue == Queue::Off {
        for key in ["scheduling.queue_name", "scheduling.queue_priority"] {
            if notes.is_set(key) {
                notes.contradict(
                    &[key],
                    "found, but it is read only with scheduling.queue = \"kueue\"",
                    "remove it, or set scheduling.queue = \"kueue\"",
                );
            }
        }
        return;
    }
    if scheduling.queue_name.is_none() {
        notes.refuse(
            "scheduling.queue_name",
            "missing, and scheduling.queue is \"kueue\"",
            "name the LocalQueue of the executors' namespace",
        );
    }
    if config.allocation.strategy != Strategy::Direct {
        notes.contradict(
            &["scheduling.queue", "allocation.strategy"],
            "found \"kueue\", but sets create their pods without asking a queue",
            "set allocation.strategy = \"direct\"; or remove scheduling.queue, and give the pods Kueue's label \
             kueue.x-k8s.io/queue-name",
        );
    }
    for name in config.profiles.keys() {
        let key = format!("profiles.{name}.memory_max");
        if notes.is_set(&key) {
            notes.contradict(
                &[&key],
                "found, but a queue admits executors of one size",
                "remove it, or scheduling.queue",
            );
        }
    }
    if scheduling.gang.is_on() {
        notes.contradict(
            &["scheduling.gang", "scheduling.queue"],
            "found on, but with a queue min_executors of a profile are admitted together anyway",
            "remove scheduling.gang",
        );
    }
}

/// Notes what cannot be combined with a set, and sets the defaults that follow.
pub(super) fn check(config: &mut Config, notes: &mut Notes) {
    let strategy = config.allocation.strategy;
    if strategy == Strategy::Direct || !notes.are_sound(&["allocation.strategy"]) {
        return;
    }
    let of_profiles = config.profiles.keys();
    let of_profiles = of_profiles
        .flat_map(|name| ["max_pending", "memory_max"].map(|key| format!("profiles.{name}.{key}")));
    let direct_only = DIRECT_ONLY.into_iter().map(str::to_owned);
    for key in direct_only.chain(of_profiles) {
        if notes.is_set(&key) {
            notes.contradict(
                &[&key],
                "found, but it is read only with allocation.strategy = \"direct\"",
                "remove it, or set allocation.strategy = \"direct\"",
            );
        }
    }
    claims(config, notes);
    if config.scheduling.gang == Gang::On {
        notes.contradict(
            &["scheduling.gang"],
            "found \"on\", but boatswain cannot choose which pods of a set are deleted",
            "name a scheduler that supports gangs (\"kubernetes\", \"yunikorn\" or \"volcano\"), or set allocation.strategy = \"direct\"",
        );
    }
    names(config, notes);
    let keys = ["backend.auth", "cluster.mode"];
    let sessions = &mut config.backend.sessions;
    if sessions.listen.is_none() || !notes.are_sound(&keys) {
        return;
    }
    match sessions.auth {
        Some(Auth::Kubernetes) => {}
        Some(Auth::Derived) => notes.refuse(
            "backend.auth",
            "found \"derived\", but all pods of a set have the same environment, and would have the same token",
            "set backend.auth = \"kubernetes\", or remove it",
        ),
        None => {
            if config.cluster.mode == ClusterMode::Embedded {
                let shown = "\"kubernetes\"".to_owned();
                (notes.effective).follow("backend", "auth", shown, "allocation.strategy");
            }
            sessions.auth = Some(Auth::Kubernetes);
        }
    }
}

/// A StatefulSet gives each pod its own claims; the pods of a Deployment are identical.
fn claims(config: &Config, notes: &mut Notes) {
    if config.allocation.strategy != Strategy::Deployment {
        return;
    }
    for (profile, described) in &config.profiles {
        if !described.claims.is_empty() {
            notes.refuse(
                &format!("profiles.{profile}.claims"),
                "found, but all pods of a deployment would share the volume",
                "remove it, or set allocation.strategy = \"statefulset\" or \"direct\"",
            );
        }
    }
}

/// The names of a set's pods are derived from the set's name.
fn names(config: &Config, notes: &mut Notes) {
    let prefix = config.pod_name_prefix();
    for (profile, described) in &config.profiles {
        if described.executors == 0 && !notes.is_set(&format!("profiles.{profile}.image")) {
            continue;
        }
        let name = format!("{prefix}-{profile}");
        if !is_dns_label(&name, LONGEST_SET_NAME) && notes.are_sound(&["app.name"]) {
            notes.refuse(
                &format!("profiles.{profile}"),
                format!("its set would be {name:?}, which is not a valid name for a set"),
                format!(
                    "choose a shorter name of a-z, 0-9 and -: with the prefix at most {LONGEST_SET_NAME} characters"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Vec<String>> {
        let described = "[profiles.default]\nimage = \"a\"\n";
        let text = format!("{text}\n{described}");
        Config::from_toml(&text, "a.toml", [], &[])
            .map_err(|error| error.mistakes.iter().map(|m| m.key.clone()).collect())
    }

    fn refused(text: &str) -> Vec<String> {
        read(text).err().unwrap_or_default()
    }

    // spec
    #[test]
    fn what_a_set_cannot_do_is_refused_where_somebody_asks_for_it() {
        let set = "allocation.strategy = \"deployment\"";
        assert_eq!(refused(set), Vec::<String>::new());
        for (key, value) in [
            ("allocation.cancel_delay", "\"1s\""),
            ("allocation.max_pending", "3"),
            ("app.max_executors", "3"),
            ("failures.node_max_failures", "3"),
        ] {
            assert_eq!(refused(&format!("{set}\n{key} = {value}")), [key]);
            assert_eq!(refused(&format!("{key} = {value}")), Vec::<String>::new());
        }
        let claim =
            "[[profiles.other.claims]]\nname = \"data\"\nmount_path = \"/data\"\nsize = \"1Gi\"";
        let other = format!("{set}\n[profiles.other]\nimage = \"a\"\n{claim}");
        assert_eq!(refused(&other), ["profiles.other.claims"]);
        let stateful = other.replace("deployment", "statefulset");
        assert_eq!(refused(&stateful), Vec::<String>::new());
        let long = format!("{set}\napp.name = \"{}\"", "a".repeat(36));
        assert_eq!(refused(&long), Vec::<String>::new());
        let talks = "backend.listen = \"127.0.0.1:7078\"";
        let derived = format!("{set}\n{talks}\nbackend.auth = \"derived\"");
        assert_eq!(refused(&derived), ["backend.auth"]);
        let config = read(&format!("{set}\n{talks}")).unwrap();
        assert_eq!(config.backend.sessions.auth, Some(Auth::Kubernetes));
    }

    // spec: A-90
    #[test]
    fn a_queue_needs_a_name_and_pods_that_boatswain_requests_by_itself() {
        let queue = "scheduling.queue = \"kueue\"";
        assert_eq!(refused(queue), ["scheduling.queue_name"]);
        let named = format!("{queue}\nscheduling.queue_name = \"team\"");
        assert_eq!(refused(&named), Vec::<String>::new());
        let set = format!("{named}\nallocation.strategy = \"deployment\"");
        assert_eq!(refused(&set), ["scheduling.queue"]);
        let gang = format!("{named}\nscheduling.gang = \"on\"");
        assert!(refused(&gang).contains(&"scheduling.gang".to_owned()));
        for key in ["queue_name = \"team\"", "queue_priority = 3"] {
            let key = format!("scheduling.{key}");
            let name = key.split(' ').next().unwrap();
            assert_eq!(refused(&key), [name]);
        }
    }

    // spec: A-82, B-63
    #[test]
    fn a_gang_is_a_word_or_a_flag() {
        let gang = |value: &str| {
            let text = format!(
                "scheduling.gang = {value}\n[profiles.default]\nimage = \"a\"\nexecutors = 2\nmin_executors = 2\n"
            );
            Config::from_toml(&text, "a.toml", [], &[]).map(|config| config.scheduling.gang)
        };
        for (value, expected) in [
            ("true", Gang::On),
            ("false", Gang::Off),
            ("\"on\"", Gang::On),
            ("\"off\"", Gang::Off),
            ("\"yunikorn\"", Gang::Yunikorn),
            ("\"volcano\"", Gang::Volcano),
            ("\"kubernetes\"", Gang::Kubernetes),
        ] {
            assert_eq!(gang(value).unwrap(), expected, "{value}");
        }
        assert!(gang("\"slurm\"").is_err());
        assert!(Gang::Volcano.is_on() && !Gang::Off.is_on());
    }
}
