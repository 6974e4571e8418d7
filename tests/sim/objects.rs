//! Helpers that read and edit API objects, bypassing fault injection, as the simulated kubelets, schedulers and
//! operators do.

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::checks::PREFIX;

/// The namespace of all simulated objects.
pub const NAMESPACE: &str = "default";

/// Path of the core API group.
const CORE: &str = "/api/v1";

/// Path of the API group of StatefulSets and Deployments.
const APPS: &str = "/apis/apps/v1";

/// A client whose requests no fault affects. Every method returns the HTTP status code.
#[derive(Clone)]
pub struct DirectClient(Router);

impl DirectClient {
    pub fn new(router: Router) -> Self {
        Self(router)
    }

    pub async fn bind(&self, name: &str, node: &str) -> u16 {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.call(Method::POST, &format!("pods/{name}/binding"), &binding)
            .await
    }

    /// Merges into a pod's status.
    pub async fn status(&self, name: &str, status: Value) -> u16 {
        let patch = json!({"status": status});
        self.call(Method::PATCH, &format!("pods/{name}/status"), &patch)
            .await
    }

    /// Merges into a pod.
    pub async fn patch(&self, name: &str, patch: &Value) -> u16 {
        self.call(Method::PATCH, &format!("pods/{name}"), patch)
            .await
    }

    pub async fn create(&self, pod: &Value) -> u16 {
        self.call(Method::POST, "pods", pod).await
    }

    /// Deletes a pod with a uid precondition; with `None` the pod's own grace period applies.
    pub async fn delete(&self, name: &str, uid: &str, grace: Option<u64>) -> u16 {
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
        });
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        self.call(Method::DELETE, &format!("pods/{name}"), &options)
            .await
    }

    /// Creates a node, or merges into one.
    pub async fn put_node(&self, name: &str, exists: bool, taints: &Value) -> u16 {
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {"taints": taints},
        });
        let (method, path) = match exists {
            true => (Method::PATCH, format!("/api/v1/nodes/{name}")),
            false => (Method::POST, "/api/v1/nodes".to_owned()),
        };
        self.call_at_path(method, &path, &node).await
    }

    /// Reports a node's state, as its kubelet does.
    pub async fn report_node(&self, name: &str, is_ready: bool) -> u16 {
        let status = if is_ready { "True" } else { "Unknown" };
        let report = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let path = format!("/api/v1/nodes/{name}/status");
        self.call_at_path(Method::PATCH, &path, &report).await
    }

    pub async fn delete_node(&self, name: &str) -> u16 {
        let path = format!("/api/v1/nodes/{name}");
        self.call_at_path(Method::DELETE, &path, &json!({})).await
    }

    /// Creates a ResourceQuota on pods and claims.
    pub async fn create_quota(&self, name: &str, pods: u32, claims: u32) -> u16 {
        let quota = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name},
            "spec": {"hard": {
                "pods": pods.to_string(),
                "persistentvolumeclaims": claims.to_string(),
            }},
        });
        self.call(Method::POST, "resourcequotas", &quota).await
    }

    /// Deletes that quota.
    pub async fn delete_quota(&self, name: &str) -> u16 {
        let path = format!("resourcequotas/{name}");
        self.call(Method::DELETE, &path, &json!({})).await
    }

    /// Merges into a ConfigMap.
    pub async fn patch_config_map(&self, name: &str, patch: &Value) -> u16 {
        self.call(Method::PATCH, &format!("configmaps/{name}"), patch)
            .await
    }

    /// Deletes a ConfigMap and, as the propagation policy says, its dependents.
    pub async fn delete_config_map(&self, name: &str, propagation: &str) -> u16 {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        });
        self.call(Method::DELETE, &format!("configmaps/{name}"), &options)
            .await
    }

    /// Merges into a set of this kind.
    pub async fn patch_set(&self, kind: &str, name: &str, patch: &Value) -> u16 {
        self.call_at(APPS, Method::PATCH, &format!("{kind}/{name}"), patch)
            .await
    }

    /// Deletes a set and, as the propagation policy says, its dependents.
    pub async fn delete_set(&self, kind: &str, name: &str, propagation: &str) -> u16 {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        });
        self.call_at(APPS, Method::DELETE, &format!("{kind}/{name}"), &options)
            .await
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> u16 {
        self.call_at(CORE, method, path, body).await
    }

    async fn call_at(&self, api: &str, method: Method, path: &str, body: &Value) -> u16 {
        let path = format!("{api}/namespaces/{NAMESPACE}/{path}");
        self.call_at_path(method, &path, body).await
    }

    async fn call_at_path(&self, method: Method, path: &str, body: &Value) -> u16 {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(body.to_string()))
            .unwrap();
        match self.0.clone().oneshot(request).await {
            Ok(response) => response.status().as_u16(),
            Err(never) => match never {},
        }
    }
}

/// The text at a JSON pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    // Like `Value::pointer`, without its slow handling of escapes.
    let mut keys = pointer.split('/').skip(1);
    let found = keys.try_fold(value, |value, key| match value {
        Value::Array(values) => values.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    });
    found.and_then(Value::as_str).unwrap_or_default()
}

/// A pod's label; empty if it is missing.
pub fn label<'a>(pod: &'a Value, key: &str) -> &'a str {
    (pod.get("metadata"))
        .and_then(|metadata| metadata.get("labels")?.get(key)?.as_str())
        .unwrap_or_default()
}

/// Whether a pod is being deleted.
pub fn is_terminating(pod: &Value) -> bool {
    pod.get("metadata")
        .is_some_and(|metadata| metadata.get("deletionTimestamp").is_some())
}

/// Whether the driver takes a pod for one of this application's executors, kept ones included (spec E-1). Sets name
/// their pods themselves.
pub fn is_executor(pod: &Value, app: &str, of_sets: bool) -> bool {
    let id = label(pod, "boatswain.dev/executor-id");
    label(pod, "boatswain.dev/app-id") == app
        && label(pod, "boatswain.dev/role") == "executor"
        && (of_sets || text(pod, "/metadata/name") == format!("{PREFIX}-exec-{id}"))
}

/// Whether a pod is labelled as dead and kept for inspection. The driver's lists exclude it.
pub fn is_inactive(pod: &Value) -> bool {
    label(pod, "boatswain.dev/inactive") == "true"
}

/// The uid of an object's first owner; empty if it has none.
pub fn owner(object: &Value) -> &str {
    text(object, "/metadata/ownerReferences/0/uid")
}
