use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;

const MASTER_URL: &str = "spark+boatswain+https://etl-driver.jobs.svc:7117";

/// The files of the submitter's machine.
fn file(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("app.py" | "dir/app.py" | "/srv/lib.zip") => {
            Ok(path.to_string_lossy().into_owned().into_bytes())
        }
        Some("big.jar") => Ok(vec![0; 2_000_000]),
        Some("my.conf") => {
            Ok(b"spark.executor.instances 7\nspark.executor.memory 3g\nother 1".to_vec())
        }
        Some("driver.yaml") => Ok(Vec::new()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn read(words: &[&str]) -> Result<Submission, Vec<String>> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Submission::read(&words, &file)
}

/// A submission with the options that every one needs.
fn with(words: &[&str]) -> Result<Submission, Vec<String>> {
    let image = "spark.kubernetes.container.image=spark:4";
    read(&[&["--master", MASTER_URL, "--conf", image], words].concat())
}

fn settings(submission: &Submission) -> BTreeMap<String, String> {
    let text = submission.properties("word-count.jobs.svc", true);
    properties(&text)
        .into_iter()
        .map(|one| (one.key, one.value))
        .collect()
}

fn executors(submission: &Submission) -> Json {
    serde_json::from_str(&settings(submission)["spark.boatswain.profile"]).unwrap()
}

/// The one mistake that these arguments have.
fn mistake(words: &[&str]) -> String {
    let mistakes = with(words).unwrap_err();
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    mistakes[0].clone()
}

// spec: O-139
#[test]
fn options_win_over_conf_and_that_over_the_properties_file() {
    let submission = with(&[
        "--executor-memory",
        "1g",
        "--conf",
        "spark.executor.memory=2g",
        "--conf=spark.executor.cores=2",
        "--properties-file",
        "my.conf",
        "--class",
        "org.Main",
        "local:///app.jar",
        "--executor-memory",
        "9g",
    ]);
    let submission = submission.unwrap();
    let settings = settings(&submission);
    assert_eq!(settings["spark.executor.memory"], "1g");
    assert_eq!(settings["spark.executor.cores"], "2");
    assert_eq!(settings["spark.executor.instances"], "7");
    assert_eq!(
        submission.arguments,
        [
            "--class",
            "org.Main",
            "local:///app.jar",
            "--executor-memory",
            "9g"
        ]
    );
    assert_eq!(submission.name, "org.Main");
    assert_eq!(submission.notes, ["other: Spark's keys begin with spark."]);
}

// spec: O-139
#[test]
fn the_spark_driver_runs_in_client_mode_in_a_pod_that_executors_reach() {
    let submission = with(&[
        "--deploy-mode",
        "cluster",
        "--name",
        "Word Count",
        "local:///app.py",
    ])
    .unwrap();
    let settings = settings(&submission);
    for (key, value) in [
        ("spark.master", MASTER_URL),
        ("spark.submit.deployMode", "client"),
        ("spark.app.name", "Word Count"),
        ("spark.driver.host", "word-count.jobs.svc"),
        ("spark.driver.bindAddress", "0.0.0.0"),
        ("spark.driver.port", "7078"),
        ("spark.boatswain.tokenFile", "/boatswain/token"),
        ("spark.boatswain.caFile", "/boatswain/ca.crt"),
    ] {
        assert_eq!(settings[key], value, "{key}");
    }
    assert!(submission.waits);
    let master = Master {
        service: "etl-driver".to_owned(),
        namespace: "jobs".to_owned(),
    };
    assert_eq!(submission.master, master);
    let does_not_wait = with(&[
        "-c",
        "spark.kubernetes.submission.waitAppCompletion=false",
        "local:///a.py",
    ]);
    assert!(!does_not_wait.unwrap().waits);
}

// spec: O-139
#[test]
fn files_of_this_machine_are_copied_and_the_others_are_not() {
    let submission = with(&[
        "--py-files",
        "/srv/lib.zip,s3a://bucket/more.zip",
        "--archives",
        "file:///srv/lib.zip#env",
        "--jars",
        "local:///opt/a.jar, https://host/b.jar",
        "dir/app.py",
        "x",
    ]);
    let submission = submission.unwrap();
    let settings = settings(&submission);
    assert_eq!(
        settings["spark.submit.pyFiles"],
        "/boatswain/application/lib.zip,s3a://bucket/more.zip"
    );
    assert_eq!(
        settings["spark.archives"],
        "/boatswain/application/lib.zip#env"
    );
    assert_eq!(
        settings["spark.jars"],
        "local:///opt/a.jar,https://host/b.jar"
    );
    assert_eq!(submission.arguments, ["/boatswain/application/app.py", "x"]);
    let names: Vec<_> = submission
        .files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    assert_eq!(names, ["lib.zip", "app.py"], "each once");
    assert!(mistake(&["missing.py"]).contains("local:///PATH"));
    assert!(mistake(&["--py-files", "dir/app.py", "app.py"]).contains("rename one"));
    let large = mistake(&["--class", "M", "big.jar"]);
    assert!(
        large.contains("2000000 bytes") && large.contains("big.jar") && large.contains("s3a://"),
        "{large}"
    );
}

// spec: O-139
#[test]
fn executors_and_driver_get_what_spark_s_keys_for_kubernetes_say() {
    let words = "--conf spark.kubernetes.executor.label.team=a --conf spark.kubernetes.driver.label.team=b \
                 --conf spark.kubernetes.node.selector.disk=ssd --conf spark.kubernetes.driver.container.image=driver:1 \
                 --conf spark.kubernetes.driver.secrets.keys=/keys --conf spark.kubernetes.executor.secretKeyRef.K=s:k \
                 --conf spark.kubernetes.driverEnv.MODE=x --conf spark.executorEnv.MODE=y \
                 --conf spark.kubernetes.authenticate.driver.serviceAccountName=word-count \
                 --conf spark.kubernetes.executor.request.cores=100m --conf spark.kubernetes.driver.request.cores=200m \
                 --driver-memory 2g --driver-cores 4 --conf spark.kubernetes.namespace=jobs \
                 --conf spark.kubernetes.context=east --class M local:///app.jar";
    let submission = with(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
    assert_eq!(
        executors(&submission),
        json!({
            "image": "spark:4", "labels": {"team": "a"}, "node_selector": {"disk": "ssd"},
            "env": {"K": {"secret": "s", "key": "k"}}, "security": {"run_as_user": 185},
        }),
        "cores, memory and spark.executorEnv are the adapter's"
    );
    let driver = &submission.driver;
    assert_eq!(driver.image.as_deref(), Some("driver:1"));
    assert_eq!(driver.labels["team"], "b");
    assert_eq!(driver.node_selector["disk"], "ssd");
    assert_eq!(driver.service_account.as_deref(), Some("word-count"));
    assert_eq!(driver.cpu.as_ref().map(crate::Quantity::millis), Some(200));
    // 2 GiB, and 384 MiB on top.
    assert_eq!(driver.memory_request(), Some((2048 + 384) << 20));
    assert_eq!(driver.volumes[0].mount_path, "/keys");
    assert!(driver.env.contains_key("MODE"));
    assert_eq!(driver.security.run_as_user, Some(185));
    assert_eq!(
        (
            submission.namespace.as_deref(),
            submission.context.as_deref()
        ),
        (Some("jobs"), Some("east"))
    );
    assert!(submission.notes.is_empty(), "{:?}", submission.notes);
}

// spec: O-139
#[test]
fn what_is_given_as_a_profile_wins() {
    let submission = with(&[
        "--conf",
        "spark.kubernetes.executor.label.team=a",
        "--conf",
        r#"spark.boatswain.profile={"labels": {"team": "c"}, "security": {"run_as_user": 7}}"#,
        "--conf",
        r#"spark.boatswain.driver.profile={"priority_class": "high", "memory": "5Gi", "memory_limit": "6Gi"}"#,
        "local:///app.py",
    ]);
    let submission = submission.unwrap();
    assert_eq!(executors(&submission)["labels"]["team"], "c");
    assert_eq!(
        executors(&submission)["security"],
        json!({"run_as_user": 7})
    );
    assert_eq!(submission.driver.priority_class.as_deref(), Some("high"));
    assert_eq!(submission.driver.memory_request(), Some(5 << 30));
}

// spec: O-139
#[test]
fn a_python_program_has_more_memory_beside_the_heap_as_in_spark() {
    let python = with(&["local:///app.py"]).unwrap();
    assert_eq!(
        settings(&python)["spark.executor.memoryOverheadFactor"],
        "0.4"
    );
    assert_eq!(python.driver.memory_request(), Some((1024 + 409) << 20));
    let set = with(&[
        "--conf",
        "spark.kubernetes.memoryOverheadFactor=0.5",
        "local:///app.py",
    ])
    .unwrap();
    assert!(!settings(&set).contains_key("spark.executor.memoryOverheadFactor"));
    assert_eq!(set.driver.memory_request(), Some((1024 + 512) << 20));
}

/// Arguments that are refused, and how the mistake begins.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["--supervise", "local:///a.py"],
        "--supervise: an application is not started again",
    ),
    (
        &["--kill", "x", "local:///a.py"],
        "--kill: `kubectl delete job NAME`",
    ),
    (
        &["--status=x", "local:///a.py"],
        "--status: `kubectl get job NAME`",
    ),
    (
        &["--queue", "q", "local:///a.py"],
        "--queue: it is for YARN",
    ),
    (
        &["--keytab", "k", "local:///a.py"],
        "--keytab: mount a Secret",
    ),
    (
        &["--deploy-mode", "client", "local:///a.py"],
        "--deploy-mode client: this is the cluster mode",
    ),
    (
        &["--odd", "local:///a.py"],
        "--odd: spark-submit has no such option",
    ),
    (
        &["--properties-file", "none", "local:///a.py"],
        "--properties-file none: ",
    ),
    (&["--conf", "x", "local:///a.py"], "--conf x: it has no ="),
    (&["pyspark-shell"], "pyspark-shell: a shell cannot run"),
    (&[], "the application: there is none"),
    (
        &["--driver-memory", "much", "local:///a.py"],
        "spark.driver.memory: \"much\" is not a size",
    ),
    (
        &[
            "--conf",
            "spark.kubernetes.driver.volumes.emptyDir.tmp.x=1",
            "local:///a.py",
        ],
        "spark.kubernetes.driver.volumes.emptyDir.tmp.x: it is mounted nowhere",
    ),
    (
        &[
            "--conf",
            "spark.kubernetes.executor.podTemplateFile=a",
            "local:///a.py",
        ],
        "spark.kubernetes.executor.podTemplateFile: ",
    ),
    (
        &["--conf", "spark.boatswain.profile=[]", "local:///a.py"],
        "spark.boatswain.profile: give a JSON object",
    ),
    (
        &[
            "--conf",
            "spark.boatswain.driver.profile={\"cpus\": 1}",
            "local:///a.py",
        ],
        "spark.boatswain.driver.profile: cpus: ",
    ),
    (
        &[
            "--conf",
            "spark.kubernetes.submission.waitAppCompletion=no",
            "local:///a.py",
        ],
        "spark.kubernetes.submission.waitAppCompletion: \"no\" is neither",
    ),
];

// spec: O-139
#[test]
fn what_is_refused_is_named_with_what_to_do() {
    for (words, wanted) in REFUSED {
        let found = mistake(words);
        assert!(found.starts_with(wanted), "{words:?}: {found}");
    }
    let nothing = read(&[]).unwrap_err();
    assert_eq!(
        nothing.len(),
        3,
        "no application, master or image: {nothing:?}"
    );
}

// spec: O-139
#[test]
fn keys_without_an_effect_are_named() {
    let submission = with(&[
        "--conf",
        "spark.kubernetes.allocation.batch.size=5",
        "--conf",
        "spark.kubernetes.driver.pod.name=x",
        "--conf",
        "spark.kubernetes.strange=1",
        "--conf",
        "spark.sql.shuffle.partitions=4",
        "local:///a.py",
    ]);
    let notes = submission.unwrap().notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        notes[0].starts_with(
            "spark.kubernetes.allocation.batch.size: allocation.batch_size of boatswain"
        )
    );
    assert_eq!(notes[2], "spark.kubernetes.strange: it is not known here");
}

// spec: O-139
#[test]
fn the_master_is_a_service_that_is_reached_by_tls() {
    for url in [
        MASTER_URL,
        "local-cluster+boatswain+https://etl-driver.jobs.svc.cluster.local:1",
        "spark+boatswain+https://a.b:7",
    ] {
        assert!(master(url).is_ok(), "{url}");
    }
    for (url, why) in [
        ("spark+boatswain://etl-driver.jobs.svc:7117", "unencrypted"),
        ("spark+boatswain://local", "client mode"),
        ("k8s://https://host:6443", "makes its executors itself"),
        ("local[2]", "no URL"),
        ("yarn://x", "no boatswain"),
        ("spark+boatswain+https://etl-driver.jobs.svc", "no port"),
        ("spark+boatswain+https://10.0.0.1:7117", "no Service"),
        ("spark+boatswain+https://etl-driver:7117", "no Service"),
        ("spark+boatswain+https://a@b.c.svc:7117", "no Service"),
    ] {
        assert!(master(url).unwrap_err().contains(why), "{url}");
    }
}

proptest::proptest! {
    #[test]
    fn no_arguments_panic(words in proptest::collection::vec("(--conf|--master|--jars|--class|spark[.a-z]*=[^ ]*|\\PC*)", 0..8)) {
        let _ = Submission::read(&words, &file);
    }
}
