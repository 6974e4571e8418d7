//! Tests the `boatswain` binary's command line: its output and its exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::process::{Command, Output};

fn boatswain(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_boatswain"))
        .args(arguments)
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

// spec: O-2
#[test]
fn a_configuration_error_exits_with_78_and_names_the_allowed_values() {
    let image = "[profiles.default]\nimage = \"engine:1\"\n";
    let file = file(&format!("[poll]\ninterval = \"often\"\n{image}"));
    let path = file.path().to_str().unwrap();
    let output = boatswain(&["run", "--config", path], &[]);
    assert_eq!(output.status.code(), Some(78));
    let (stdout, stderr) = said(&output);
    assert_eq!(stdout, "");
    let expected = format!(
        "{path}:2:12: poll.interval: found \"often\"\n  \
         allowed: a duration from 100ms to 1day, such as \"30s\" or \"1h 30m\"\n"
    );
    assert_eq!(stderr, expected);
}

// spec: C-3
#[test]
fn the_environment_and_the_command_line_override_the_file() {
    let file = file("[poll]\ninterval = \"often\"\n");
    let path = file.path().to_str().unwrap();
    let env = [("BOATSWAIN__POLL__INTERVAL", "rarely")];
    let (_, stderr) = said(&boatswain(&["run", "--config", path], &env));
    assert!(
        stderr.starts_with("BOATSWAIN__POLL__INTERVAL: poll.interval: found \"rarely\"\n"),
        "{stderr}"
    );
    let set = ["run", "--config", path, "--set", "poll.interval=never"];
    let (_, stderr) = said(&boatswain(&set, &env));
    assert!(
        stderr.starts_with("--set poll.interval: poll.interval: found \"never\"\n"),
        "{stderr}"
    );
}

// spec: O-2
#[test]
fn a_missing_file_exits_with_78() {
    let output = boatswain(&["run", "--config", "/no/such/file.toml"], &[]);
    assert_eq!(output.status.code(), Some(78));
    let (_, stderr) = said(&output);
    assert!(
        stderr.starts_with("/no/such/file.toml: cannot be read: "),
        "{stderr}"
    );
    assert_eq!(
        stderr.lines().count(),
        2,
        "what it is and what to do: {stderr}"
    );
}

// spec: O-2
#[test]
fn invalid_arguments_exit_with_64_and_a_message() {
    for arguments in [
        &[][..],
        &["sail"],
        &["run"],
        &["run", "--config"],
        &["run", "--config", "a.toml", "--no-such-option"],
    ] {
        let output = boatswain(arguments, &[]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        let (stdout, stderr) = said(&output);
        assert_eq!(stdout, "", "{arguments:?}");
        assert!(!stderr.is_empty(), "{arguments:?}");
    }
}

// spec: C-4
#[test]
fn check_prints_the_settings_with_their_origin_or_every_error() {
    let good = file("[profiles.default]\nimage = \"engine:1\"\nenv = { TOKEN = \"hunter2\" }\n");
    let path = good.path().to_str().unwrap();
    let env = [("BOATSWAIN__POLL__INTERVAL", "10s")];
    let arguments = ["check", "--config", path, "--set", "app.name=etl"];
    let output = boatswain(&arguments, &env);
    assert_eq!(output.status.code(), Some(0));
    let (stdout, stderr) = said(&output);
    assert_eq!(stderr, "");
    let has = |value: &str, origin: &str| {
        let fits = |line: &str| line.starts_with(value) && line.ends_with(origin);
        assert!(stdout.lines().any(fits), "{value} {origin} in\n{stdout}");
    };
    has("image = \"engine:1\" ", &format!("# {path}:2"));
    has("interval = \"10s\" ", "# BOATSWAIN__POLL__INTERVAL");
    has("name = \"etl\" ", "# --set app.name");
    has("#keep_most = 100 ", "# default");
    assert!(!stdout.contains("hunter2"), "{stdout}");

    let bad = file("[poll]\ninterval = \"often\"\n[lifecycle]\nkeep_most = 0\n");
    let output = boatswain(&["check", "--config", bad.path().to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(78));
    let (stdout, stderr) = said(&output);
    assert_eq!(stdout, "");
    assert_eq!(stderr.matches("\n  ").count(), 3, "the image too: {stderr}");
}

// spec: C-7
#[test]
fn the_output_of_convert_passes_check() {
    let path = "crates/config/src/tests/spark/spark-defaults.conf";
    let output = boatswain(&["convert", path], &[]);
    assert_eq!(output.status.code(), Some(0));
    let (stdout, stderr) = said(&output);
    assert_eq!(stderr, "");
    // `convert` prints the path of Spark's template, which does not exist here.
    let template = |line: &&str| line.starts_with("template");
    assert_eq!(stdout.lines().filter(template).count(), 2, "{stdout}");
    let here: Vec<&str> = stdout.lines().filter(|line| !template(line)).collect();
    let converted = file(&here.join("\n"));
    let output = boatswain(
        &["check", "--config", converted.path().to_str().unwrap()],
        &[],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let empty = file("[{\"Classification\": \"spark-env\", \"Properties\": {}}]");
    let output = boatswain(&["convert", empty.path().to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        said(&output)
            .1
            .contains("no setting of Spark's is in it, read as EMR's JSON")
    );
    let output = boatswain(&["convert", "/no/such/file.conf"], &[]);
    assert_eq!(output.status.code(), Some(78));
    assert!(
        said(&output)
            .1
            .starts_with("cannot read /no/such/file.conf: ")
    );
}

// spec: K-1
#[test]
fn check_and_a_dry_run_show_the_rendered_template() {
    let template =
        file("spec: {hostNetwork: true, containers: [{name: engine, image: 'engine:1'}]}");
    let path = template.path().display();
    let config = file(&format!(
        "[profiles.default]\ntemplate = \"{path}\"\nexecutors = 1\n"
    ));
    let config = config.path().to_str().unwrap();
    let (shown, _) = said(&boatswain(&["check", "--config", config], &[]));
    for part in [
        format!("# Of {path} and profile default this becomes:"),
        "# The executor's container is engine; in the pod it is called executor.".to_owned(),
        "hostNetwork: true".to_owned(),
    ] {
        assert!(shown.contains(&part), "{part} in\n{shown}");
    }
    let (shown, _) = said(&boatswain(&["run", "--config", config, "--dry-run"], &[]));
    assert!(shown.contains("hostNetwork: true"), "{shown}");
    let bad = file("spec: {restartPolicy: Always}");
    let set = format!("profiles.default.template={}", bad.path().display());
    for command in ["check", "run"] {
        let output = boatswain(&[command, "--config", config, "--set", &set], &[]);
        assert_eq!(output.status.code(), Some(78));
        let (_, told) = said(&output);
        assert!(
            told.contains("spec.restartPolicy: only boatswain may set this"),
            "{told}"
        );
    }
}

// spec: O-4
#[test]
fn a_dry_run_prints_the_pod_and_contacts_no_cluster() {
    let run = ["run", "--config", "config/kubernetes.toml", "--dry-run"];
    // There is no cluster to connect to.
    let output = boatswain(&run, &[("KUBECONFIG", "/no/such/file")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (stdout, stderr) = said(&output);
    assert_eq!(stderr, "");
    assert_eq!(stdout.matches("kind: Pod\n").count(), 4, "{stdout}");
    assert_eq!(stdout.matches("kind: ConfigMap\n").count(), 1, "{stdout}");
}

/// The shipped files of printed objects: the path, what they are, and the command.
const SHIPPED: [(&str, &str, &str); 2] = [
    (
        "deploy/boatswain.yaml",
        "boatswain as a Job in a cluster, with the rights that it needs and no more. docs/kubernetes.md explains it.",
        "boatswain manifests --config config/kubernetes.toml --image boatswain:latest",
    ),
    (
        "deploy/spark/boatswain.yaml",
        "The boatswain of Spark applications. docs/spark.md explains it.",
        "boatswain manifests --config deploy/spark/boatswain.toml --namespace spark --kind deployment --image registry.example/boatswain:1",
    ),
];

// spec: O-51, O-52
#[test]
fn the_shipped_manifests_are_those_that_the_command_prints() {
    for (path, what, command) in SHIPPED {
        let arguments: Vec<&str> = command.split(' ').skip(1).collect();
        let output = boatswain(&arguments, &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let header = format!(
            "# {what}\n# Printed by:\n#\n#   {command}\n#\n# For your own configuration print your own.\n"
        );
        let expected = header + &said(&output).0;
        if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap() == expected,
            "{path} differs from what the command prints: write it with BOATSWAIN_WRITE_EXPECTED=1"
        );
    }
    let shipped = std::fs::read_to_string(SHIPPED[0].0).unwrap();
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&shipped).unwrap();
    let pod = &objects[4]["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"],
        true
    );
}

// spec: O-51
#[test]
fn the_manifests_of_a_configuration_contain_it_and_no_secret() {
    let of = |path: &str| {
        let run = [
            "manifests",
            "--config",
            path,
            "--image",
            "boatswain:1",
            "--set",
            "poll.interval=10s",
        ];
        // What this process's environment overrides is not in the driver's pod.
        boatswain(&run, &[("BOATSWAIN__CLUSTER__NAMESPACE", "elsewhere")])
    };
    let output = of("config/kubernetes.toml");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (stdout, stderr) = said(&output);
    assert_eq!(stderr, "");
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&stdout).unwrap();
    let kinds: Vec<_> = objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Job"]
    );
    let text = std::fs::read_to_string("config/kubernetes.toml").unwrap();
    assert_eq!(objects[3]["data"]["boatswain.toml"], text);
    let args = &objects[4]["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args[4], "poll.interval=10s");
    assert!(
        objects
            .iter()
            .all(|object| object["metadata"]["namespace"].is_null())
    );

    let profile = "[profiles.default]\nimage = \"engine:1\"\n";
    let secret = file(&format!("{profile}env = {{ DB_PASSWORD = \"hunter2\" }}\n"));
    let output = of(secret.path().to_str().unwrap());
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let (stdout, stderr) = said(&output);
    assert_eq!(stdout, "");
    assert!(
        stderr.contains("env.DB_PASSWORD") && !stderr.contains("hunter2"),
        "{stderr}"
    );

    let by_reference = "env = { DB_PASSWORD = { secret = \"db\", key = \"password\" } }";
    let reference = file(&format!("{profile}{by_reference}\n"));
    let output = of(reference.path().to_str().unwrap());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

// spec: O-75
#[test]
fn secrets_are_generated_anew_each_time_only_where_asked_for_and_shown_nowhere_else() {
    let config = file(
        "[profiles.default]\nimage = \"engine:1\"\n[api]\nlisten = \"127.0.0.1:8080\"\n\
         token_file = \"/etc/s/tokens\"\n",
    );
    let path = config.path().to_str().unwrap();
    let run = |more: &[&str]| {
        let fixed = ["manifests", "--config", path, "--image", "boatswain:1"];
        let output = boatswain(&[&fixed[..], more].concat(), &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        said(&output)
    };
    let token = |stdout: &str| {
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(stdout).unwrap();
        let mut secrets = objects.iter().filter(|object| object["kind"] == "Secret");
        let token = secrets.next()?["data"]["tokens"].as_str()?.to_owned();
        Some(token)
    };
    let (stdout, stderr) = run(&[]);
    assert_eq!(token(&stdout), None);
    assert!(
        stderr.contains("kubectl create secret generic boatswain-secrets --from-file=tokens"),
        "{stderr}"
    );

    let [first, second] = [(); 2].map(|()| {
        let (stdout, stderr) = run(&["--generate-secrets"]);
        let token = token(&stdout).unwrap();
        assert_eq!(stdout.matches(&token).count(), 1);
        assert_eq!(stderr, "", "a token is on no terminal");
        token
    });
    assert_ne!(first, second);
    // 32 random bytes in hexadecimal digits, in base64.
    assert_eq!(first.len(), 88);
}

#[test]
fn help_and_version_exit_with_0() {
    let output = boatswain(&["--version"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let expected = format!("boatswain {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(said(&output), (expected, String::new()));
    let output = boatswain(&["run", "--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).0.contains("--config <FILE>"));
}
