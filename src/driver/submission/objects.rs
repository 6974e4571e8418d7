//! What a Spark application consists of in the cluster: a Job with the Spark driver's pod, a Service by which executors
//! find it, and a Secret with its settings and files.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Boatswain, CA, Ca};
use crate::config::spark::{MOUNTED_AT, Submission};
use crate::driver::profile_spec;
use crate::kubernetes::calls::JOB_NAME;
use crate::kubernetes::pod_template::plain;
use crate::model::PodUid;

/// The Spark driver's container.
pub const CONTAINER: &str = "spark";

const PROPERTIES: &str = "spark.properties";
/// The volume with what the submission consists of.
const VOLUME: &str = "boatswain-submission";

/// How long a Job that nobody waits for stays after its end, in seconds: a day.
const KEPT: u32 = 24 * 3600;

/// The lifetime of the token by which the Spark driver calls boatswain, in seconds. The kubelet renews it.
const TOKEN: u32 = 3600;

pub(super) struct Objects {
    pub job: Value,
    service: Value,
    secret: Value,
}

impl Objects {
    pub fn all(self) -> Vec<Value> {
        // The Job's pod waits for the others.
        vec![self.secret, self.service, self.job]
    }

    /// The objects that belong to the Job, and their resources.
    pub fn owned(self, job: &str, uid: &PodUid) -> [(&'static str, Value); 2] {
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid.as_str(),
            "controller": true, "blockOwnerDeletion": false,
        });
        // The pod cannot start without the Secret.
        [("secrets", self.secret), ("services", self.service)].map(|(resource, mut object)| {
            object["metadata"]["ownerReferences"] = json!([owner]);
            (resource, object)
        })
    }
}

/// Fails if a request of the Spark driver's pod is above its limit: the resource, the request and the limit.
pub(super) fn objects(
    submission: &Submission,
    name: &str,
    namespace: &str,
    boatswain: &Boatswain,
) -> Result<Objects, (String, String, String)> {
    let labels = json!({
        // Not the application's: a boatswain's Service may select by such a name.
        "app.kubernetes.io/name": "spark",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/component": "spark-driver",
        "app.kubernetes.io/managed-by": "boatswain",
    });
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    let mut pod = plain(&profile_spec::spec(submission.driver.clone()), CONTAINER)?;
    if let Value::Object(labels) = labels {
        for (key, value) in labels {
            pod["metadata"]["labels"][key] = value;
        }
    }
    let spec = &mut pod["spec"];
    spec["restartPolicy"] = "Never".into();
    append(&mut spec["volumes"], volume(submission, name, boatswain));
    if let Some(containers) = spec["containers"].as_array_mut() {
        for container in containers.iter_mut().filter(|one| one["name"] == CONTAINER) {
            container["command"] = json!([format!("{}/bin/spark-submit", submission.spark_home())]);
            container["args"] = json!(arguments(submission));
            let mount = json!({"name": VOLUME, "mountPath": MOUNTED_AT, "readOnly": true});
            append(&mut container["volumeMounts"], mount);
        }
    }
    let (texts, data) = content(submission, &format!("{name}.{namespace}.svc"), boatswain);
    Ok(Objects {
        job: json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            // Spark has tried again already, and a second pod would begin from nothing.
            "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": KEPT, "template": pod},
        }),
        service: json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": "None", "selector": {JOB_NAME: name}, "publishNotReadyAddresses": true},
        }),
        secret: json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": metadata,
            "stringData": texts,
            "data": data,
        }),
    })
}

/// The settings are in a file: they may have secrets, and everybody sees a process's arguments.
fn arguments(submission: &Submission) -> Vec<String> {
    let file = format!("{MOUNTED_AT}/{PROPERTIES}");
    let first = ["--properties-file", &file, "--load-spark-defaults"].map(str::to_owned);
    // Kubernetes would replace $(NAME).
    let given = submission
        .arguments
        .iter()
        .map(|word| word.replace("$(", "$$("));
    first.into_iter().chain(given).collect()
}

type Texts = BTreeMap<String, String>;

/// The key of the Secret for the file at this place of the submission.
fn key(at: usize) -> String {
    format!("file-{at}")
}

/// The Secret's values: as texts, so that people can read a manifest, or else in base64.
fn content(submission: &Submission, host: &str, boatswain: &Boatswain) -> (Texts, Texts) {
    let has_ca = boatswain.ca != Ca::None;
    let (mut texts, mut data) = (Texts::new(), Texts::new());
    texts.insert(PROPERTIES.to_owned(), submission.properties(host, has_ca));
    if let Ca::Text(ca) = &boatswain.ca {
        texts.insert(CA.to_owned(), ca.clone());
    }
    for (at, file) in submission.files.iter().enumerate() {
        match str::from_utf8(&file.bytes) {
            Ok(text) => texts.insert(key(at), text.to_owned()),
            Err(_) => data.insert(key(at), BASE64.encode(&file.bytes)),
        };
    }
    (texts, data)
}

fn volume(submission: &Submission, name: &str, boatswain: &Boatswain) -> Value {
    let item = |key: &str, path: &str| json!({"key": key, "path": path});
    let mut items = vec![item(PROPERTIES, PROPERTIES)];
    if let Ca::Text(_) = boatswain.ca {
        items.push(item(CA, CA));
    }
    for (at, file) in submission.files.iter().enumerate() {
        items.push(item(&key(at), &format!("application/{}", file.name)));
    }
    // Proves who calls, to this boatswain only (spec O-64).
    let audience = format!("boatswain.dev/{}/{}", boatswain.namespace, boatswain.prefix);
    let mut sources = vec![
        json!({"secret": {"name": name, "items": items}}),
        json!({"serviceAccountToken": {"path": "token", "audience": audience, "expirationSeconds": TOKEN}}),
    ];
    if let Ca::ConfigMap(name) = &boatswain.ca {
        sources.push(json!({"configMap": {"name": name, "items": [item(CA, CA)]}}));
    }
    json!({"name": VOLUME, "projected": {"sources": sources}})
}

fn append(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(words: &[&str]) -> Submission {
        let needed = [
            "--master",
            "spark+boatswain+https://etl-driver.jobs.svc:7117",
            "--conf",
            "spark.kubernetes.container.image=spark:4",
            "--conf",
            "spark.hadoop.fs.s3a.secret.key=hidden",
        ];
        let words: Vec<String> = (needed.iter().chain(words))
            .map(|word| (*word).to_owned())
            .collect();
        Submission::read(&words, &|_| Ok(b"print('hello')".to_vec())).unwrap()
    }

    fn made(words: &[&str]) -> Objects {
        let boatswain = Boatswain {
            namespace: "jobs".to_owned(),
            prefix: "etl".to_owned(),
            ca: Ca::Text("a certificate".to_owned()),
        };
        objects(&submission(words), "word-count-1", "apps", &boatswain).unwrap()
    }

    fn text<'s>(secret: &'s Value, key: &str) -> &'s str {
        secret["stringData"][key].as_str().unwrap()
    }

    // spec: O-139
    #[test]
    fn a_job_runs_spark_submit_in_client_mode_with_a_token_for_this_boatswain() {
        let Objects {
            job,
            service,
            secret,
        } = made(&["--name", "Word count", "app.py", "$(X)"]);
        let spec = &job["spec"]["template"]["spec"];
        let container = &spec["containers"][0];
        assert_eq!(container["name"], "spark");
        assert_eq!(container["image"], "spark:4");
        assert_eq!(container["command"], json!(["/opt/spark/bin/spark-submit"]));
        assert_eq!(
            container["args"],
            json!([
                "--properties-file",
                "/boatswain/spark.properties",
                "--load-spark-defaults",
                "/boatswain/application/app.py",
                "$$(X)",
            ])
        );
        assert_eq!(
            spec["volumes"][0]["projected"]["sources"],
            json!([
                {"secret": {"name": "word-count-1", "items": [
                    {"key": "spark.properties", "path": "spark.properties"},
                    {"key": "ca.crt", "path": "ca.crt"},
                    {"key": "file-0", "path": "application/app.py"},
                ]}},
                {"serviceAccountToken": {
                    "path": "token", "audience": "boatswain.dev/jobs/etl", "expirationSeconds": 3600,
                }},
            ])
        );
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["securityContext"]["runAsUser"], 185);
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(
            container["securityContext"]["capabilities"]["drop"],
            json!(["ALL"])
        );
        assert_eq!(job["spec"]["backoffLimit"], 0);
        assert_eq!(
            service["spec"]["selector"],
            json!({"batch.kubernetes.io/job-name": "word-count-1"})
        );
        assert!(
            text(&secret, "spark.properties").contains("spark.driver.host=word-count-1.apps.svc\n")
        );
        assert_eq!(text(&secret, "ca.crt"), "a certificate");
        assert_eq!(text(&secret, "file-0"), "print('hello')");
    }

    // spec: O-139
    #[test]
    fn no_setting_is_in_the_pod_s_description() {
        let Objects { job, secret, .. } = made(&["app.py"]);
        assert!(!job.to_string().contains("hidden"), "{job}");
        assert!(text(&secret, "spark.properties").contains("hidden"));
    }

    // spec: O-139
    #[test]
    fn what_belongs_to_the_job_goes_with_it() {
        for (_, object) in made(&["app.py"]).owned("word-count-1", &"u-1".into()) {
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!(
                (&owner["kind"], &owner["uid"]),
                (&json!("Job"), &json!("u-1"))
            );
        }
    }

    // spec: C-7
    #[test]
    fn a_manifest_has_boatswain_s_ca_from_the_config_map_of_its_executors() {
        let submission = submission(&[
            "--conf",
            "spark.kubernetes.namespace=jobs",
            "local:///app.py",
        ]);
        let [secret, service, job] =
            &crate::driver::submission::manifests(&submission, "pi").unwrap()[..]
        else {
            panic!("three objects")
        };
        for object in [secret, service, job] {
            assert_eq!(object["metadata"]["name"], "pi");
            assert_eq!(object["metadata"]["namespace"], "jobs");
        }
        let volume = &job["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"];
        assert_eq!(
            volume[1]["serviceAccountToken"]["audience"],
            "boatswain.dev/jobs/etl"
        );
        assert_eq!(volume[2]["configMap"]["name"], "etl-executor");
        assert!(
            text(secret, "spark.properties").contains("spark.boatswain.caFile=/boatswain/ca.crt")
        );
    }
}
