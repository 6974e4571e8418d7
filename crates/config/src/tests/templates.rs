//! Tests of pod templates in files (spec K-1, K-2).

use super::*;

/// Reads a configuration in the same directory as a template.
fn beside(template: &str, profile: &str) -> Result<Profile, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("shapes")).unwrap();
    std::fs::write(directory.path().join("shapes/base.yaml"), template).unwrap();
    let file = directory.path().join("a.toml");
    let text = format!("[profiles.default]\ntemplate = \"shapes/base.yaml\"\n{profile}");
    std::fs::write(&file, text).unwrap();
    let (config, _) = Config::explain(&file, [], &[])?;
    Ok(config.profiles["default"].clone())
}

const TWO: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  labels: {team: data}
  creationTimestamp: null
spec:
  terminationGracePeriodSeconds: 90
  containers:
  - name: proxy
    image: proxy:1
  - name: engine
    image: engine:1
    resources: {limits: {cpu: 2, memory: 1Gi}}
"#;

// spec: K-1
#[test]
fn a_template_is_read_from_beside_the_configuration_and_may_have_the_image() {
    let profile = beside(TWO, "").unwrap();
    let template = profile.template.unwrap();
    let pod = template.pod.as_ref().unwrap();
    assert_eq!(
        pod["metadata"],
        serde_json::json!({"labels": {"team": "data"}})
    );
    assert_eq!(
        template.executor().unwrap()["image"],
        "proxy:1",
        "the first, where none is named"
    );
    assert_eq!(template.container.as_deref(), Some("proxy"));
    assert_eq!(profile.termination_grace, Duration::from_secs(90));
    let said = beside(TWO, "termination_grace = \"5s\"").unwrap();
    assert_eq!(said.termination_grace, Duration::from_secs(5));
}

// spec: K-1, K-2
#[test]
fn the_executors_container_is_the_one_that_is_named_else_executor_else_the_first() {
    let executor = |template: &str, key: &str| beside(template, key).unwrap().template.unwrap();
    let named = executor(TWO, "template_container = \"engine\"");
    assert_eq!(
        named.executor().unwrap()["resources"]["limits"]["cpu"],
        "2",
        "a number is a quantity as well"
    );
    assert_eq!(named.container.as_deref(), Some("engine"));
    let by_name = executor(&TWO.replace("engine\n", "executor\n"), "");
    assert_eq!(by_name.executor().unwrap()["image"], "engine:1");
    assert_eq!(by_name.container, None);
    let error = beside(TWO, "template_container = \"main\"")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("none is called \"main\"; there are: proxy, engine"),
        "{error}"
    );
    let none = executor("spec: {hostNetwork: true}", "image = \"a\"");
    assert_eq!(none.executor(), None);
}

/// What is refused: the template, and a part of the message.
const REFUSED: &[(&str, &str)] = &[
    (
        "metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}]}",
        "metadata.ownerReferences: only",
    ),
    (
        "metadata: {labels: {boatswain.dev/role: x}}",
        "metadata.labels.\"boatswain.dev/role\": only boatswain",
    ),
    (
        "metadata: {annotations: {boatswain.dev/draining: x}}",
        "metadata.annotations.\"boatswain.dev/draining\": only boatswain",
    ),
    (
        "spec: {restartPolicy: Always}",
        "spec.restartPolicy: only boatswain may set this\n  remove it, or say Never",
    ),
    (
        "spec: {containers: [{name: a, env: [{name: BOATSWAIN_APP_ID}]}]}",
        "spec.containers[0].env[0].name",
    ),
    (
        "spec: {volumes: [{name: boatswain-token, emptyDir: {}}]}",
        "spec.volumes[0].name",
    ),
    (
        "spec: {initContainers: [{name: executor}]}",
        "spec.initContainers[0].name: it is called executor",
    ),
    (
        "spec: {containers: [{name: a, imagePullPolcy: Always}]}",
        "spec.containers[0].imagePullPolcy: Kubernetes has no such field",
    ),
    ("spec: {containers: {name: a}}", "spec.containers: "),
    (
        "status: {phase: Running}",
        "status: Kubernetes has no such field",
    ),
    (
        "kind: Deployment",
        "kind: it is neither a Pod nor a PodTemplate",
    ),
    (
        "{kind: PodTemplate, template: {spec: {restartPolicy: OnFailure}}}",
        "template.spec.restartPolicy",
    ),
    ("- a", "it is no mapping"),
    ("a: [", "base.yaml: "),
];

// spec: K-1, K-2, O-2
#[test]
fn a_template_that_cannot_be_used_is_refused_with_its_file_and_the_place_in_it() {
    for (template, part) in REFUSED {
        let read = beside(template, "image = \"a\"");
        let message = assert_refused(read, template, "profiles.default.template", part);
        assert!(message.contains("shapes/base.yaml: "), "{message}");
        assert!(message.contains("a.toml:2:12: "), "{message}");
    }
    let sound = "spec: {restartPolicy: Never, containers: [{name: executor}]}";
    assert!(beside(sound, "image = \"a\"").is_ok());
}

// spec: K-1
#[test]
fn a_template_that_cannot_be_read_is_refused_and_the_api_has_no_file_read() {
    for missing in ["nowhere.yaml", "shapes", "/dev/zero"] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("shapes")).unwrap();
        let file = directory.path().join("a.toml");
        let text = format!("[profiles.default]\nimage = \"a\"\ntemplate = \"{missing}\"");
        std::fs::write(&file, text).unwrap();
        let error = Config::explain(&file, [], &[]).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }
    let described = serde_json::json!({"executors": 1, "image": "a", "template": "/etc/passwd"});
    let config = read("[profiles.default]\nimage = \"a\"").unwrap();
    let mistakes = Where::of(&config).profile("gpu", &described).unwrap_err();
    let keys: Vec<&str> = mistakes
        .iter()
        .map(|mistake| mistake.key.as_str())
        .collect();
    assert_eq!(
        keys,
        ["template"],
        "spec B-26: whoever speaks to the api names no files of this machine"
    );
}

// spec: K-1, K-2
#[test]
fn a_name_or_a_namespace_and_documents_that_are_no_template_are_noted() {
    let template = "kind: ConfigMap\nmetadata: {name: files}\n---\n\
                    kind: Pod\nmetadata: {name: a, namespace: b, labels: {x: z}}\nspec: {containers: [{name: executor}]}\n---\n";
    let profile = beside(template, "image = \"a\"").unwrap();
    let template = profile.template.unwrap();
    let metadata = serde_json::json!({"labels": {"x": "z"}});
    assert_eq!(template.pod.unwrap()["metadata"], metadata);
    let notes = [
        "ConfigMap files is not used: it is no pod template",
        "metadata.name \"a\" is not used: names are made of executors.pod_name_prefix",
        "metadata.namespace \"b\" is not used: executors are in the namespace of cluster.namespace",
    ];
    assert_eq!(template.notes, notes);
    let two = "kind: Pod\nspec: {containers: []}\n---\nkind: Pod\nmetadata: {name: b}\nspec: {containers: []}\n";
    let said = beside(two, "image = \"a\"").unwrap_err().to_string();
    assert!(
        said.contains("it has 2 documents: Pod, Pod b\n  keep the one"),
        "{said}"
    );
}

// spec: K-1, C-2
#[test]
fn all_unknown_fields_are_told_at_once_and_a_misplaced_one_says_where_it_belongs() {
    let template = "labels: {a: b}\nmetadata: {nodeSelector: {a: b}}\n\
                    spec: {image: a, frobnicate: 1, capabilities: {drop: [ALL]}, containers: [{name: executor, runAsUser: 0}]}";
    let said = beside(template, "image = \"a\"").unwrap_err().to_string();
    for part in [
        "labels: Kubernetes has no such field\n  it belongs to metadata",
        "metadata.nodeSelector: Kubernetes has no such field\n  it belongs to spec",
        "spec.image: Kubernetes has no such field\n  it belongs to spec.containers[]",
        "spec.frobnicate: Kubernetes has no such field\n  see `kubectl explain pod`",
        "spec.capabilities: Kubernetes has no such field\n  it belongs to spec.containers[].securityContext",
        "spec.containers[0].runAsUser: Kubernetes has no such field\n  it belongs to spec.securityContext or spec.containers[].securityContext",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
}

// spec: K-2
#[test]
fn what_names_the_executors_container_follows_its_name() {
    let template = "metadata: {annotations: {kubectl.kubernetes.io/default-container: engine}}\n\
                    spec: {containers: [{name: engine}, {name: log, env: [{name: A, valueFrom: \
                    {resourceFieldRef: {containerName: engine, resource: limits.cpu}}}]}]}";
    let template = beside(template, "image = \"a\"").unwrap().template.unwrap();
    let pod = template.pod.as_ref().unwrap();
    let shown = "/spec/containers/1/env/0/valueFrom/resourceFieldRef/containerName";
    assert_eq!(pod.pointer(shown).unwrap(), "executor");
    let default = "kubectl.kubernetes.io/default-container";
    assert_eq!(pod["metadata"]["annotations"][default], "executor");
    assert_eq!(template.annotation(default, "engine").1, "executor");
}
