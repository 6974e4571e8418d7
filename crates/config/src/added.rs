//! Reads the description of a profile that is added at run time, by the same keys and rules as in
//! the file (spec B-26).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::document::{Node, Value};
use super::sections::{DAY, secs};
use super::spares;
use super::template::{PodTemplate, Templates};
use super::{ClusterMode, Config, DEFAULT_PROFILE, EmbeddedNode, Mistake, Origin, Profile};
use boatswain_model::ProfileName;

/// The one key that a profile of the configuration has not.
const TTL: &str = "ttl";

/// The one key that only a profile of the configuration has: spares of another one are added by their profile's name.
const SPARES: &str = "spares";

/// How long an added profile stays without a request that renews it; `None`: for ever (spec B-69).
pub fn profile_ttl(described: &Json) -> Option<Duration> {
    let ttl = humantime::parse_duration(described.get(TTL)?.as_str()?).ok()?;
    (secs(1)..=DAY).contains(&ttl).then_some(ttl)
}

/// The environment in which executors of an added profile would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Where {
    pub mode: ClusterMode,
    /// The node of the embedded cluster; ignored in a Kubernetes cluster.
    pub node: EmbeddedNode,
    /// The templates of the configuration's profiles, which added ones may name.
    templates: Arc<[PodTemplate]>,
    /// Whether there can be spares (spec A-117).
    takes_spares: bool,
    /// Whether executors can register (spec B-1).
    has_sessions: bool,
}

impl Where {
    pub fn of(config: &Config) -> Self {
        Self {
            mode: config.cluster.mode,
            node: config.embedded.node,
            templates: (config.profiles.values())
                .filter_map(|profile| profile.template.clone())
                .collect(),
            takes_spares: spares::are_possible(config),
            has_sessions: config.backend.sessions.listen.is_some(),
        }
    }

    /// Reads the description of the profile `name`.
    ///
    /// # Errors
    ///
    /// All mistakes in the description. Their keys are relative to the description, and empty where
    /// the description is wrong as a whole.
    pub fn profile(&self, name: &str, described: &Json) -> Result<Profile, Vec<Mistake>> {
        let mut described = described.clone();
        if described.get(TTL).is_some_and(|ttl| !ttl.is_null()) && profile_ttl(&described).is_none()
        {
            return Err(vec![Mistake {
                origin: Origin::Default,
                key: TTL.to_owned(),
                found: format!("{} is no time that a profile can be given", described[TTL]),
                fix: "give a duration such as \"1m\", from 1s to a day".to_owned(),
            }]);
        }
        let refused = |key: &str, found: &str, fix: String| {
            Err(vec![Mistake {
                origin: Origin::Default,
                key: key.to_owned(),
                found: found.to_owned(),
                fix,
            }])
        };
        if described.get(SPARES).is_some_and(|spares| spares != 0) {
            let found = "found spares, which a profile that is added has as another profile";
            let fix = format!("remove the key, and add {name}-spares, described like this one");
            return refused(SPARES, found, fix);
        }
        let spares_of = ProfileName::from(name).spares_of();
        if spares_of.is_some() && !self.takes_spares {
            let found = "found a profile of spares, and this driver can have none";
            let fix =
                "spares need backend.listen and pods of boatswain's own, without gangs and queues";
            return refused("", found, fix.to_owned());
        }
        let name = spares_of.as_ref().map_or(name, ProfileName::as_str);
        if let Some(keys) = described.as_object_mut() {
            keys.remove(TTL);
        }
        let mut root = json!({
            "cluster": {"mode": self.mode.as_str()},
            "profiles": {DEFAULT_PROFILE: {"executors": 0}, name: described},
        });
        if self.mode == ClusterMode::Embedded {
            root["embedded"] = json!({"node": self.node.as_str()});
        }
        let (mut config, notes) = Config::from_tree(
            node(&root),
            true,
            Templates::Known(Arc::clone(&self.templates)),
        );
        if notes.mistakes.is_empty() {
            let read = config.profiles.remove(&ProfileName::from(name));
            let read = read.unwrap_or_default();
            if read.memory_in_place && !self.has_sessions {
                let found =
                    "found true, and without sessions no executor says how much memory it uses";
                let fix = "remove the key; it needs a driver with backend.listen".to_owned();
                return refused("memory_in_place", found, fix);
            }
            return Ok(read);
        }
        let section = format!("profiles.{name}");
        let within = |mistake: Mistake| {
            let key = mistake.key.strip_prefix(&section).unwrap_or_default();
            Mistake {
                key: key.trim_start_matches('.').to_owned(),
                ..mistake
            }
        };
        Err(notes.mistakes.into_iter().map(within).collect())
    }
}

/// Converts JSON to the tree that a file is parsed into. Nulls are dropped.
fn node(json: &Json) -> Node {
    let value = match json {
        Json::Null => Value::Table(BTreeMap::new()),
        Json::Bool(flag) => Value::Flag(*flag),
        Json::Number(number) => match number.as_i128() {
            Some(whole) => Value::Whole(whole),
            None => Value::Number(number.to_string()),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(node).collect()),
        Json::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Table(
                fields
                    .map(|(key, value)| (key.clone(), node(value)))
                    .collect(),
            )
        }
    };
    Node::at(Origin::Default, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::from_toml(text, "a.toml", [], &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn kubernetes() -> Where {
        Where {
            mode: ClusterMode::Kubernetes,
            node: EmbeddedNode::Process,
            templates: Arc::from([]),
            takes_spares: false,
            has_sessions: false,
        }
    }

    // spec: B-26
    #[test]
    fn a_profile_is_described_by_the_keys_of_the_file() {
        let described = json!({
            "executors": 3, "image": "engine:2", "memory": "1Gi", "cpu": 0.5, "command": ["work"],
            "env": {"LANG": "C"}, "termination_grace": "10s", "slots": 4, "cpu_limit": null,
        });
        let profile = kubernetes().profile("gpu", &described).unwrap();
        let text = "[profiles.default]\nexecutors = 0\n[profiles.gpu]\nexecutors = 3\nimage = \"engine:2\"\n\
                    memory = \"1Gi\"\ncpu = 0.5\ncommand = [\"work\"]\nenv = { LANG = \"C\" }\n\
                    termination_grace = \"10s\"\nslots = 4";
        assert_eq!(profile, config(text).profiles["gpu"]);
    }

    // spec: B-26, L-44
    #[test]
    fn memory_grows_in_place_where_the_driver_has_sessions() {
        let grows = json!({
            "image": "a", "memory_limit": "1Gi", "memory_max": "2Gi", "memory_in_place": true,
        });
        let mistakes = kubernetes().profile("gpu", &grows).unwrap_err();
        assert_eq!(mistakes[0].key, "memory_in_place");
        let with_sessions = Where {
            has_sessions: true,
            ..kubernetes()
        };
        let profile = with_sessions.profile("gpu", &grows).unwrap();
        assert!(profile.memory_in_place);
    }

    // spec: B-69
    #[test]
    fn a_profile_may_have_a_time_to_live_which_one_of_the_file_has_not() {
        let with = |ttl: Json| json!({"executors": 1, "image": "a", "ttl": ttl});
        assert_eq!(profile_ttl(&with(json!("90s"))), Some(secs(90)));
        assert_eq!(profile_ttl(&with(Json::Null)), None);
        assert!(kubernetes().profile("gpu", &with(json!("90s"))).is_ok());
        assert!(kubernetes().profile("gpu", &with(Json::Null)).is_ok());
        for wrong in [json!("0s"), json!("25h"), json!("soon"), json!(60)] {
            let mistakes = kubernetes().profile("gpu", &with(wrong)).unwrap_err();
            assert_eq!(mistakes[0].key, "ttl");
        }
        let file = "[profiles.default]\nimage = \"a\"\nttl = \"90s\"";
        assert!(Config::from_toml(file, "a.toml", [], &[]).is_err());
    }

    // spec: B-26, K-1
    #[test]
    fn a_profile_names_a_template_of_the_configuration_as_the_configuration_does() {
        let template = PodTemplate {
            path: "shapes/base.yaml".into(),
            pod: Some(json!({"spec": {"containers": [{"name": "executor", "image": "base"}]}})),
            container: Some("engine".to_owned()),
            notes: Vec::new(),
        };
        let place = Where {
            templates: Arc::from([template.clone()]),
            ..kubernetes()
        };
        let named = |path: &str, container: Option<&str>| {
            let described =
                json!({"executors": 1, "template": path, "template_container": container});
            place.profile("gpu", &described)
        };
        for container in [None, Some("engine")] {
            let profile = named("shapes/base.yaml", container).unwrap();
            assert_eq!(profile.template.as_ref(), Some(&template));
        }
        for (path, container) in [
            ("shapes/base.yaml", Some("proxy")),
            ("/etc/passwd", None),
            ("./shapes/base.yaml", None),
        ] {
            let mistakes = named(path, container).unwrap_err();
            assert_eq!(mistakes[0].key, "template", "{path} {container:?}");
        }
    }

    // spec: B-26, C-2
    #[test]
    fn all_mistakes_are_told_by_their_keys() {
        let keys = |name: &str, described: Json| {
            let mistakes = kubernetes().profile(name, &described).unwrap_err();
            mistakes.into_iter().map(|m| m.key).collect::<Vec<String>>()
        };
        let wrong = json!({"memory": 5, "imgae": "a", "env": {"BOATSWAIN_X": "1"}, "executors": 1, "image": "a"});
        let mut found = keys("gpu", wrong);
        found.sort_unstable();
        assert_eq!(found, ["env.BOATSWAIN_X", "imgae", "memory"]);
        assert_eq!(
            keys("gpu", json!({"executors": 1})),
            ["image"],
            "a real cluster needs one"
        );
        assert_eq!(keys("gpu", json!(["image"])), [""]);
        assert_eq!(keys("No Name", json!({"executors": 0})), [""]);
        assert_eq!(
            keys("gpu", json!({"executors": -1, "image": "a"})),
            ["executors"]
        );
    }

    // spec: A-117, B-26
    #[test]
    fn the_spares_of_an_added_profile_are_another_one_where_there_can_be_spares() {
        let described = json!({"executors": 2, "image": "a"});
        let with_spares = Where {
            takes_spares: true,
            ..kubernetes()
        };
        let profile = with_spares.profile("gpu-spares", &described).unwrap();
        assert_eq!(profile, with_spares.profile("gpu", &described).unwrap());
        assert!(kubernetes().profile("gpu-spares", &described).is_err());
        let spares = json!({"executors": 2, "image": "a", "spares": 1});
        let mistakes = with_spares.profile("gpu", &spares).unwrap_err();
        assert_eq!(mistakes[0].key, "spares");
        assert!(mistakes[0].fix.contains("add gpu-spares"), "{mistakes:?}");
    }
}
