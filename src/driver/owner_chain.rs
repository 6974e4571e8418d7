//! The driver's pod and its controllers. The top controller owns the application record, so the
//! record outlives a replaced pod and is deleted with the object that runs the application (spec
//! K-2).

use crate::kubernetes::calls::{ControllerKind, Reference};
use crate::kubernetes::{Calls, Failure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerChain {
    pub pod: Reference,
    /// The top controller, or the pod itself without one.
    pub top: Reference,
}

impl OwnerChain {
    /// Whether the top controller is gone, or is being deleted. One of a kind that boatswain does not know is there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn top_is_gone(&self, calls: &Calls) -> Result<bool, Failure> {
        let Some(kind) = ControllerKind::of(&self.top) else {
            return Ok(false);
        };
        let read = calls.controller(kind, &self.top.name).await?;
        Ok(read.is_none_or(|read| read.uid != self.top.uid || read.is_deleted))
    }
}

/// Reads the owner chain of the pod with this name; `None` if the pod does not exist.
///
/// A ReplicaSet's controller is the top, because each version of a Deployment has its own
/// ReplicaSet. Any other controller is the top itself, even the Job of a CronJob: the next Job is
/// another application.
///
/// # Errors
/// If an object cannot be read.
pub async fn of_pod(calls: &Calls, name: &str) -> Result<Option<OwnerChain>, Failure> {
    let Some(found) = calls.controller_of_pod(name).await? else {
        return Ok(None);
    };
    let pod = Reference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: name.to_owned(),
        uid: found.uid,
    };
    let top = match found.controller {
        None => pod.clone(),
        Some(set) if ControllerKind::of(&set) == Some(ControllerKind::ReplicaSet) => {
            let above = calls.controller(ControllerKind::ReplicaSet, &set.name);
            let above = above.await?;
            // A ReplicaSet with the same name and another uid does not control the pod.
            let above = above.filter(|found| found.uid == set.uid);
            above.and_then(|found| found.controller).unwrap_or(set)
        }
        Some(controller) => controller,
    };
    Ok(Some(OwnerChain { pod, top }))
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::Router;
    use axum::routing::get;
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::Clients;
    use crate::testing::calls_to;

    fn reference(api_version: &str, kind: &str, name: &str) -> Reference {
        Reference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
        }
    }

    /// An object as a real server has it, with a controlling and another owner.
    fn object(api_version: &str, kind: &str, name: &str, owner: Option<Reference>) -> Value {
        let mut owners = vec![
            json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": false}),
        ];
        if let Some(owner) = owner {
            let mut owner = serde_json::to_value(owner).unwrap();
            owner["controller"] = true.into();
            owner["blockOwnerDeletion"] = true.into();
            owners.push(owner);
        }
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "ownerReferences": owners},
        })
    }

    /// The chain of a pod with this owner, if the ReplicaSet has that one.
    async fn owner_chain(
        of_pod: Option<Reference>,
        of_set: Option<Reference>,
    ) -> Option<OwnerChain> {
        let pod = object("v1", "Pod", "driver-0", of_pod);
        let set = object("apps/v1", "ReplicaSet", "driver-5f", of_set);
        let router = Router::new()
            .route(
                "/api/v1/namespaces/default/pods/driver-0",
                get(|| async move { Json(pod) }),
            )
            .route(
                "/apis/apps/v1/namespaces/default/replicasets/driver-5f",
                get(|| async move { Json(set) }),
            );
        let service =
            tower::ServiceExt::map_request(router, |request: http::Request<kube::client::Body>| {
                request.map(axum::body::Body::new)
            });
        let calls = calls_to(Clients::in_process(service, "default"));
        super::of_pod(&calls, "driver-0").await.unwrap()
    }

    // spec: K-2
    #[tokio::test(start_paused = true)]
    async fn the_top_outlives_a_pod_and_does_not_restart_the_application() {
        let deployment = reference("apps/v1", "Deployment", "driver");
        let set = reference("apps/v1", "ReplicaSet", "driver-5f");
        let job = reference("batch/v1", "Job", "nightly-2917");
        let stateful = reference("apps/v1", "StatefulSet", "driver");
        let rollout = reference("argoproj.io/v1alpha1", "Rollout", "driver");
        let pod = reference("v1", "Pod", "driver-0");
        let cases = [
            // Deployment, ReplicaSet, pod.
            (Some(set.clone()), Some(deployment.clone()), deployment),
            (Some(set.clone()), None, set.clone()),
            // A controller other than a Deployment that has ReplicaSets.
            (Some(set), Some(rollout.clone()), rollout),
            // CronJob, Job, pod: the Job is the top.
            (Some(job.clone()), None, job),
            (Some(stateful.clone()), None, stateful),
            (None, None, pod.clone()),
        ];
        for (of_pod, of_set, top) in cases {
            let owner_chain = owner_chain(of_pod, of_set).await.unwrap();
            assert_eq!((&owner_chain.top, &owner_chain.pod), (&top, &pod));
        }
    }

    // spec: K-2
    #[tokio::test(start_paused = true)]
    async fn a_recreated_replica_set_of_the_same_name_is_not_the_controller() {
        let mut set = reference("apps/v1", "ReplicaSet", "driver-5f");
        set.uid = "another".to_owned();
        let deployment = reference("apps/v1", "Deployment", "driver");
        let owner_chain = owner_chain(Some(set.clone()), Some(deployment))
            .await
            .unwrap();
        assert_eq!(owner_chain.top, set);
    }
}
