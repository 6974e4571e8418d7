//! Gives a running container more memory, by the pod's subresource `resize` (spec L-44).

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::Calls;
use super::pods::PODS;
use super::transport::{Call, OBJECT_LIMIT, Query, STRATEGIC_MERGE_PATCH};
use crate::pod_template::grown_request;
use crate::refusal::Failure;
use boatswain_model::PodUid;
use boatswain_model::pod::Sighting;
use boatswain_model::quantity::Quantity;

impl Calls {
    /// Gives the executor container of a pod this memory limit, in bytes, and a request that grows alike. A pod whose limit
    /// is as high already stays as it is, and so does one whose container does not run: what it had when it was killed must
    /// be known (spec L-43). `None` if there is no pod of this uid.
    ///
    /// # Errors
    /// Notably a 404 that is not about this pod, from Kubernetes before 1.33, and a 422 from nodes that cannot.
    pub async fn resize_pod(
        &self,
        name: &str,
        uid: &PodUid,
        memory_limit: u64,
    ) -> Result<Option<Sighting>, Failure> {
        let path = self.pods_path(Some(name));
        let read = Call {
            method: Method::GET,
            path: path.clone(),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        let pod: Option<Value> = self.read_if_there(read, PODS, name).await?;
        let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == uid.as_str()) else {
            return Ok(None);
        };
        let Some(patch) = patch(&pod, &self.at.reader.container, memory_limit) else {
            return Ok(Some(self.at.reader.read(&pod.to_string())));
        };
        let write = Call {
            method: Method::PATCH,
            path: path + "/resize",
            query: self.write_query(),
            body: Some((STRATEGIC_MERGE_PATCH, Bytes::from(patch.to_string()))),
            limit: OBJECT_LIMIT,
        };
        self.pod_or_nothing(write, name).await
    }
}

/// The strategic merge patch; `None` if the container has no lower limit or does not run. The request must keep its share
/// of the limit: the pod's quality of service cannot change.
fn patch(pod: &Value, container: &str, memory_limit: u64) -> Option<Value> {
    let containers = pod["spec"]["containers"].as_array()?;
    let own = (containers.iter()).find(|one| one["name"] == container);
    let own = own.or_else(|| containers.first())?;
    let mut statuses = pod["status"]["containerStatuses"].as_array()?.iter();
    statuses
        .find(|status| status["name"] == own["name"] && status["state"]["running"].is_object())?;
    let amount = |kind: &str| {
        let amount: Quantity = own["resources"][kind]["memory"].as_str()?.parse().ok()?;
        Some(amount.bytes())
    };
    let before = amount("limits").filter(|before| *before < memory_limit)?;
    let mut resources = json!({"limits": {"memory": memory_limit.to_string()}});
    if let Some(request) = amount("requests") {
        let grown = grown_request(request, before, memory_limit);
        resources["requests"] = json!({"memory": grown.to_string()});
    }
    Some(json!({
        "metadata": {
            "uid": pod["metadata"]["uid"],
            "resourceVersion": pod["metadata"]["resourceVersion"],
        },
        "spec": {"containers": [{"name": own["name"], "resources": resources}]},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pod(resources: &Value) -> Value {
        json!({
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "spec": {"containers": [
                {"name": "sidecar", "resources": {"limits": {"memory": "1Mi"}}},
                {"name": "executor", "resources": resources},
            ]},
            "status": {"containerStatuses": [{"name": "executor", "state": {"running": {}}}]},
        })
    }

    // spec: L-44
    #[test]
    fn the_limit_of_the_executor_container_grows_and_its_request_alike() {
        for (request, grown) in [("100Mi", 150 * MIB), ("40Mi", 60 * MIB), ("1", 1)] {
            let resources = json!({
                "limits": {"memory": "100Mi", "cpu": "1"},
                "requests": {"memory": request, "cpu": "1"},
            });
            let want = json!({
                "metadata": {"uid": "u", "resourceVersion": "7"},
                "spec": {"containers": [{"name": "executor", "resources": {
                    "limits": {"memory": (150 * MIB).to_string()},
                    "requests": {"memory": grown.to_string()},
                }}]},
            });
            assert_eq!(patch(&pod(&resources), "executor", 150 * MIB), Some(want));
        }
    }

    // spec: L-44
    #[test]
    fn a_limit_that_is_as_high_already_or_missing_is_not_changed() {
        for resources in [
            json!({"limits": {"memory": "100Mi"}}),
            json!({"limits": {"memory": "1Gi"}}),
            json!({"limits": {"memory": "much"}}),
            json!({"requests": {"memory": "1Mi"}}),
            Value::Null,
        ] {
            assert_eq!(
                patch(&pod(&resources), "executor", 100 * MIB),
                None,
                "{resources}"
            );
        }
        assert_eq!(patch(&json!({}), "executor", MIB), None);
    }

    // spec: L-44, L-43
    #[test]
    fn what_a_container_had_when_it_ended_is_not_changed() {
        let mut pod = pod(&json!({"limits": {"memory": "100Mi"}}));
        let ended = json!({"terminated": {"exitCode": 137}});
        pod["status"]["containerStatuses"][0]["state"] = ended;
        assert_eq!(patch(&pod, "executor", 150 * MIB), None);
    }
}
