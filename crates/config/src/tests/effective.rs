//! Tests of the output of `boatswain check`.

use super::mistakes::assert_is;
use super::*;

fn explained(text: &str, env: &[(&str, &str)], sets: &[&str]) -> (Config, String) {
    let (env, sets) = overrides(env, sets);
    let (config, effective) = Config::explain_toml(text, "a.toml", env, &sets).unwrap();
    (config, effective.to_string())
}

const MIXED: &str = r#"
[cluster]
namespace = "jobs"
request_timeout = "40s"

[profiles.default]
image = "engine:1"
args = ["--verbose", "a \"b\""]
env = { LANG = "C.UTF-8", DB_PASSWORD = "hunter2" }

[[profiles.default.tolerations]]
key = "dedicated"
effect = "NoExecute"

[profiles.large]
image = "engine:2"
executors = 1
"#;

// spec: C-4, C-3
#[test]
fn what_applies_is_shown_with_where_it_came_from() {
    let env = [("BOATSWAIN__POLL__INTERVAL", "10s")];
    let (_, shown) = explained(MIXED, &env, &["profiles.large.cpu=500m"]);
    assert_is(&shown, "effective.expected");
    for line in [
        "namespace = \"jobs\"",
        "# a.toml:3",
        "# BOATSWAIN__POLL__INTERVAL",
        "# --set profiles.large.cpu",
        "# default, raised for cluster.request_timeout",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
}

// spec: C-4
#[test]
fn what_is_shown_can_be_used_again_and_says_the_same() {
    for text in [MIXED, LEAST] {
        let (config, shown) = explained(text, &[], &["profiles.default.node_selector.\"a/b\"=c"]);
        let (mut again, _) = explained(&shown, &[], &[]);
        // Secrets are not printed, so they are excluded from the comparison.
        for (name, profile) in &mut again.profiles {
            if let Some(secret) = profile.env.get_mut("DB_PASSWORD") {
                secret.clone_from(&config.profiles[name].env["DB_PASSWORD"]);
            }
        }
        assert_eq!(again, config, "{shown}");
    }
}

// spec: C-4
#[test]
fn every_key_is_shown_once() {
    let text = format!("{LEAST}[pools.default]\nprofiles = []\n");
    let (root, _) = document::parse(&text);
    let (_, notes) = Config::from_tree(root, true, Templates::Unread);
    let shown = notes.effective.to_string();
    for known in Config::known_keys() {
        let path = known.path.replace("NAME", "default");
        let (section, key) = path.rsplit_once('.').unwrap();
        let part = shown
            .split("\n\n")
            .find(|part| part.starts_with(&format!("[{section}]")));
        let lines = part
            .unwrap()
            .lines()
            .map(|line| line.trim_start_matches(['#', ' ']));
        let lines = lines.filter(|line| line.split(' ').next() == Some(key));
        assert_eq!(lines.count(), 1, "{path} in\n{shown}");
    }
}

// spec: C-4, C-10
#[test]
fn secrets_are_shown_nowhere_and_not_taken_from_the_command_line() {
    let (config, shown) = explained(MIXED, &[], &[]);
    let secret = EnvValue::Text("hunter2".to_owned());
    assert_eq!(config.profiles["default"].env["DB_PASSWORD"], secret);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("env.DB_PASSWORD = \"(hidden)\""), "{shown}");
    for name in [
        "API_KEY",
        "AWS_SECRET",
        "GH_TOKEN",
        "apikey",
        "PRIVATE-KEY",
        "DB_PASS",
        "PASS",
        "MYSQL_PWD",
        "GITHUB_PAT",
        "SENTRY_DSN",
        "pass-2",
        "COOKIE",
        "SLACK_WEBHOOK_URL",
    ] {
        let set = format!("profiles.default.env.{name}=hunter2");
        let message = overridden(&[], &[&set]).unwrap_err().to_string();
        assert!(message.contains("list of processes"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
        let set = format!("profiles.default.env={{ {name} = \"hunter2\" }}");
        assert!(overridden(&[], &[&set]).is_err(), "{set}");
        let env = [(
            "BOATSWAIN__PROFILES__DEFAULT__ENV",
            &*format!("{{ {name} = \"hunter2\" }}"),
        )];
        assert!(overridden(&env, &[]).is_ok(), "{name}");
        let wrong = with(&format!(
            "profiles.a.image = \"a\"\nprofiles.a.env.{name} = 4711"
        ))
        .unwrap_err();
        assert!(!wrong.to_string().contains("4711"), "{wrong}");
    }
    let unreadable = ("BOATSWAIN__PROFILES__DEFAULT__ENV", "{ TOKEN = \"hunter2\"");
    let message = overridden(&[unreadable], &[]).unwrap_err().to_string();
    assert!(!message.contains("hunter2"), "{message}");
    for name in [
        "MONKEY", "LANG", "KEYBOARD", "PATH", "COMPASS", "PASSES", "PATTERN",
    ] {
        let set = format!("profiles.default.env.{name}=shown");
        assert!(overridden(&[], &[&set]).is_ok(), "{name}");
    }
}

// spec: C-4, C-10
#[test]
fn passwords_in_urls_and_arguments_are_shown_nowhere_and_not_taken_from_the_command_line() {
    let texts = [
        "postgres://me:hunter2@db:5432/etl?ssl=1",
        "prefix=amqp://:hunter2@mq",
        "--password=hunter2",
        "-Dspring.datasource.password=hunter2",
        "--api-key='hunter2'",
        "exec engine --token hunter2",
        "MYSQL_PWD=hunter2 engine --host a",
        "Server=db;User Id=me;Pwd=hunter2;Encrypt=true",
        "AUTH=\"Basic hunter2\"",
        "curl -H 'Authorization: Bearer hunter2' http://localhost",
        "curl -H 'X-Api-Key: hunter2' http://localhost",
        "https://hooks.slack.com/services/T0/B0/hunter2",
        "https://example.webhook.office.com/webhookb2/hunter2",
        "https://a.blob.core.windows.net/c?sv=2024&sig=hunter2&se=1",
        "-----BEGIN RSA PRIVATE KEY----- hunter2",
        "--cookie hunter2",
        "mysql -u me -phunter -phunter2",
        "-pHunter2hunter2",
        "{\"user\": \"me\", \"password\": \"hunter2\"}",
        "{\"password\":\"hunter2\"}",
    ];
    let (args, toml) = (texts.map(|text| format!("{text:?}")).join(", "), LEAST);
    let env: Vec<String> = (texts.iter().enumerate())
        .map(|(n, text)| format!("V{n} = {text:?}"))
        .collect();
    let text = format!(
        "{toml}\nargs = [\"--plain\", {args}, \"--password\", \"hunter2\", \"last\"]\nenv = {{ {} }}\n",
        env.join(", ")
    );
    let (config, shown) = explained(&text, &[], &[]);
    assert_eq!(config.profiles["default"].args.len(), texts.len() + 4);
    assert!(!shown.contains("hunter2"), "{shown}");
    let end = "\"(hidden)\", \"--password\", \"(hidden)\", \"last\"]";
    assert!(
        shown.contains("args = [\"--plain\", \"(hidden)\"") && shown.contains(end),
        "{shown}"
    );
    for text in texts {
        for set in [
            format!("profiles.default.env.URL={text}"),
            format!("profiles.default.args=[{text:?}]"),
            "profiles.default.args=[\"--password\", \"hunter2\"]".to_owned(),
        ] {
            let message = overridden(&[], &[&set]).unwrap_err().to_string();
            assert!(message.contains("list of processes"), "{set}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
    for text in [
        "http://db:5432/a@b",
        "http://me@db",
        "postgres://me:$(DB_PASSWORD)@db",
        "--password=$(DB_PASSWORD)",
        "--password-file=/run/secrets/password",
        "--token-path /run/token",
        "--passive=yes",
        "a=b",
        "--password --verbose",
        "-parallel",
        "-p 8080:80",
        "-p8080:80",
        "registry.example/token-service:1.2",
        "basic",
        "https://example.org/docs?sort=a",
        "https://hooks.example.org/",
    ] {
        let sets = [
            format!("profiles.default.env.URL={text}"),
            format!("profiles.default.args=[{text:?}]"),
        ];
        for set in sets {
            let result = overridden(&[], &[&set]);
            assert!(result.is_ok(), "{set}: {:?}", result.err());
        }
        let (_, shown) = explained(&format!("{LEAST}\nargs = [{text:?}]"), &[], &[]);
        assert!(shown.contains(text), "{text}: {shown}");
    }
}
