//! A client of the cluster's API, for what an operator does with kubectl.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::Request;

use super::process::until;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub uid: String,
    pub phase: String,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
    pub owner: Option<String>,
}

impl Pod {
    fn read(value: &Value) -> Self {
        let text = |pointer: &str| {
            let found = value.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        let owner = value.pointer("/metadata/ownerReferences/0/uid");
        Self {
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            phase: text("/status/phase"),
            deleting: value.pointer("/metadata/deletionTimestamp").is_some(),
            labels: labels
                .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
                .collect(),
            owner: owner.and_then(Value::as_str).map(str::to_owned),
        }
    }
}

/// How long a deleted pod may take to stop.
pub enum Grace {
    /// The pod's own grace period.
    Own,
    /// None, as with `kubectl delete --force --grace-period=0`.
    Force,
}

/// A client for one namespace.
pub struct Api {
    kubeconfig: PathBuf,
    pub namespace: String,
}

impl Api {
    pub fn new(kubeconfig: &Path, namespace: &str) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// Sends a request on a new connection, because the server may have been restarted since the last one.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            let client = Client::try_from(config.unwrap()).unwrap();
            let content_type = match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            let body = body
                .map(|body| serde_json::to_vec(body).unwrap())
                .unwrap_or_default();
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content_type)
                .body(body);
            client.request(request.unwrap()).await
        })
    }

    fn at(&self, kind: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}/{name}", self.namespace)
    }

    fn collection(&self, kind: &str) -> String {
        format!("/api/v1/namespaces/{}/{kind}", self.namespace)
    }

    /// All pods by name; an error if the API server does not answer.
    pub fn try_pods(&self) -> Result<Vec<Pod>, kube::Error> {
        let list = self.call("GET", &self.collection("pods"), None)?;
        Ok(list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(Pod::read)
            .collect())
    }

    pub fn pods(&self) -> Vec<Pod> {
        self.try_pods().unwrap()
    }

    pub fn create_pod(&self, pod: &Value) {
        self.create("pods", pod);
    }

    pub fn delete_pod(&self, name: &str, grace: Grace) {
        let options = match grace {
            Grace::Own => json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
            Grace::Force => {
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
            }
        };
        self.call("DELETE", &self.at("pods", name), Some(&options))
            .unwrap();
    }

    pub fn label_pod(&self, name: &str, labels: &Value) {
        let patch = json!({"metadata": {"labels": labels}});
        self.call("PATCH", &self.at("pods", name), Some(&patch))
            .unwrap();
    }

    /// Patches a pod's status as a node would; an error if it is refused.
    pub fn try_set_pod_status(&self, name: &str, status: &Value) -> Result<Value, kube::Error> {
        let patch = json!({"status": status});
        let path = format!("{}/status", self.at("pods", name));
        self.call("PATCH", &path, Some(&patch))
    }

    pub fn set_pod_status(&self, name: &str, status: &Value) {
        self.try_set_pod_status(name, status).unwrap();
    }

    /// Says of a pod what a node says whose kernel has killed the container.
    pub fn kill_for_memory(&self, name: &str) {
        let status = json!({"phase": "Failed", "containerStatuses": [{
            "name": "executor", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }]});
        self.set_pod_status(name, &status);
    }

    /// A ConfigMap's data, if it exists.
    pub fn config_map(&self, name: &str) -> Option<Value> {
        match self.call("GET", &self.at("configmaps", name), None) {
            Ok(map) => Some(map),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn create(&self, resource: &str, object: &Value) {
        self.made(resource, object);
    }

    /// Creates an object; what the API server made of it.
    pub fn made(&self, resource: &str, object: &Value) -> Value {
        self.call("POST", &self.collection(resource), Some(object))
            .unwrap()
    }

    /// A quota of pods; until its controller has counted them, a quota refuses none.
    pub fn create_quota(&self, name: &str, pods: usize) {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": name}, "spec": {"hard": {"pods": pods.to_string()}},
        });
        self.create("resourcequotas", &quota);
        until("the quota is counted", || {
            let quota = self.call("GET", &self.at("resourcequotas", name), None);
            quota.unwrap()["status"]["used"]["pods"]
                .is_string()
                .then_some(())
        });
    }

    pub fn create_config_map(&self, name: &str, data: &Value) {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": data,
        });
        self.create("configmaps", &map);
    }

    pub fn patch_config_map(&self, name: &str, data: &Value) {
        let patch = json!({"data": data});
        self.call("PATCH", &self.at("configmaps", name), Some(&patch))
            .unwrap();
    }

    pub fn own_config_map(&self, name: &str, owner: &Value) {
        let patch = json!({"metadata": {"ownerReferences": [owner]}});
        self.call("PATCH", &self.at("configmaps", name), Some(&patch))
            .unwrap();
    }

    pub fn delete_config_map(&self, name: &str) {
        self.delete("configmaps", name);
    }

    pub fn delete(&self, resource: &str, name: &str) {
        self.call("DELETE", &self.at(resource, name), None).unwrap();
    }

    pub fn create_namespace(&self) {
        let namespace = json!({"metadata": {"name": self.namespace}});
        self.call("POST", "/api/v1/namespaces", Some(&namespace))
            .unwrap();
    }

    pub fn delete_namespace(&self) -> Result<Value, kube::Error> {
        self.call(
            "DELETE",
            &format!("/api/v1/namespaces/{}", self.namespace),
            None,
        )
    }

    /// The versions of all objects that a driver writes. They stay the same without writes.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for kind in ["pods", "configmaps"] {
            let list = self.call("GET", &self.collection(kind), None).unwrap();
            for item in list["items"].as_array().unwrap() {
                let meta = &item["metadata"];
                let name = meta["name"].as_str().unwrap();
                if name == "kube-root-ca.crt" {
                    continue;
                }
                versions.insert(
                    format!("{kind}/{name}"),
                    meta["resourceVersion"].as_str().unwrap().to_owned(),
                );
            }
        }
        versions
    }
}
