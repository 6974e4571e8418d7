//! Tests that the annotated configuration files agree with the code.

use super::*;

/// A key in an annotated file.
struct Shown<'t> {
    path: String,
    value: &'t str,
    left_out: bool,
}

fn shown(file: &str) -> Vec<Shown<'_>> {
    let mut section = "";
    let mut shown = Vec::new();
    for line in file.lines() {
        if let Some(header) = line
            .trim_start_matches('#')
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = header;
            continue;
        }
        let (line, left_out) = match line.strip_prefix('#') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let is_key = line.starts_with(|c: char| c.is_ascii_lowercase());
        if let Some((key, value)) = line.split_once(" = ").filter(|_| is_key) {
            let path = format!("{section}.{key}")
                .replace("profiles.default", "profiles.NAME")
                .replace("pools.batch", "pools.NAME");
            shown.push(Shown {
                path,
                value,
                left_out,
            });
        }
    }
    shown
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../config")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Whether two values are the same, regardless of quotes.
fn same(a: &str, b: &str) -> bool {
    let unquoted = |text: &str| text.trim_matches('"').to_owned();
    match (
        humantime::parse_duration(&unquoted(a)),
        humantime::parse_duration(&unquoted(b)),
    ) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

// spec: C-5
#[test]
fn the_reference_lists_every_key_with_its_default() {
    let text = file("reference.toml");
    let mut shown = shown(&text);
    let known = Config::known_keys();
    // Keys of list entries have no line of their own; those of tolerations are explained in the
    // text.
    assert!(known.iter().all(|key| !key.path.contains('[')), "{known:?}");
    for key in &known {
        let at = shown.iter().position(|line| line.path == key.path);
        let line = shown.remove(at.unwrap_or_else(|| panic!("{} is missing", key.path)));
        if let Some(default) = &key.default {
            assert!(
                same(line.value, default),
                "{}: {} is not {default}",
                key.path,
                line.value
            );
        }
    }
    let rest: Vec<&str> = shown.iter().map(|line| line.path.as_str()).collect();
    assert_eq!(rest, [""; 0], "no key but those that exist, each once");
    assert!(read(&text).is_ok());
}

/// What the keys of memory that grows need beside them.
fn of_growth(path: &str) -> Vec<String> {
    let needed: &[&str] = match path.strip_prefix("profiles.default.memory_") {
        Some("max") => &["profiles.default.memory_limit=1Gi"],
        Some("growth" | "in_place") => &[
            "profiles.default.memory_limit=1Gi",
            "profiles.default.memory_max=4Gi",
            "backend.listen=127.0.0.1:0",
        ],
        _ => &[],
    };
    needed.iter().map(|&set| set.to_owned()).collect()
}

// spec: C-5
#[test]
fn every_line_of_the_reference_could_be_used() {
    let text = file("reference.toml");
    // Each one separately, because some contradict each other.
    for line in shown(&text).iter().filter(|line| line.left_out) {
        let name = if line.path.starts_with("pools.") {
            "batch"
        } else {
            "default"
        };
        let path = line.path.replace("NAME", name);
        let mut sets = vec![format!("{path}={}", line.value)];
        if path.starts_with("pools.") {
            sets.push("pools.batch.profiles=[\"spot\", \"on-demand\"]".to_owned());
            let each = ["spot", "on-demand"].into_iter();
            sets.extend(each.map(|name| format!("profiles.{name}.image=none")));
        }
        if path.starts_with("embedded.") {
            sets.push("cluster.mode=embedded".to_owned());
        }
        if path == "embedded.start_delay" {
            sets.push("embedded.node=simulated".to_owned());
        }
        if path == "backend.registration" || path == "backend.auth" {
            sets.push("backend.listen=127.0.0.1:0".to_owned());
        }
        if path.ends_with("template_container") {
            sets.push("profiles.default.template=a.yaml".to_owned());
        }
        if path.ends_with("memory_overhead_min") || path.ends_with("memory_overhead_factor") {
            sets.push("profiles.default.memory=1Gi".to_owned());
        }
        if path.starts_with("scheduling.queue_") {
            sets.push("scheduling.queue=kueue".to_owned());
            sets.push("scheduling.queue_name=team".to_owned());
        }
        if path == "app.ttl" {
            sets.push("api.listen=127.0.0.1:0".to_owned());
        }
        if path.starts_with("tls.") {
            sets.push("backend.listen=127.0.0.1:0".to_owned());
        }
        let files = ["tls.certificate_file", "tls.key_file"];
        if files.contains(&path.as_str()) || path == "tls.ca_file" {
            let others = files.iter().filter(|file| **file != path);
            sets.extend(others.map(|file| format!("{file}=a.pem")));
        }
        if path == "agent.decommission_command" {
            let others = [
                "agent.inject=init",
                "agent.image=a",
                "backend.listen=127.0.0.1:0",
            ];
            sets.extend(others.map(str::to_owned));
        }
        if ["traces.token_file", "traces.ca_file"].contains(&path.as_str()) {
            sets.push("traces.collector=https://a".to_owned());
        }
        sets.extend(of_growth(&path));
        if path == "metrics.token_file" {
            sets.push("metrics.listen=127.0.0.1:0".to_owned());
        }
        if path == "api.service_accounts" || path == "api.audience" {
            sets.push("api.listen=127.0.0.1:0".to_owned());
            sets.push("api.token_file=token".to_owned());
        }
        if path == "api.audience" {
            sets.push("api.service_accounts={ \"a/b\" = \"read\" }".to_owned());
        }
        if ["api.listen", "app.ttl"].contains(&path.as_str()) {
            sets.push("api.token_file=token".to_owned());
        }
        sets.push("profiles.default.command=[\"sleep\"]".to_owned());
        let config = Config::from_toml(LEAST, "a.toml", [], &sets);
        assert!(config.is_ok(), "{}", config.unwrap_err());
    }
}

// spec: C-5
#[test]
fn the_files_to_start_from_can_be_used_and_show_true_defaults() {
    let known = Config::known_keys();
    for name in ["local.toml", "kubernetes.toml"] {
        let text = file(name);
        let config = Config::from_toml(&text, name, [], &[]);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.profiles["default"].executors, 4);
        for line in shown(&text).iter().filter(|line| line.left_out) {
            let key = known.iter().find(|key| key.path == line.path);
            let default = key.and_then(|key| key.default.as_deref()).unwrap_or("none");
            assert!(
                same(line.value, default),
                "{name}: {}: {default}",
                line.path
            );
        }
    }
}
