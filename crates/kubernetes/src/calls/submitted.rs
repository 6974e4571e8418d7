//! API calls on an application that runs as a Job: the Job, what belongs to it, and its pods (spec O-139).

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::Calls;
use super::transport::{Call, JSON, OBJECT_LIMIT, Query, path};
use crate::leftovers::{Leftover, LeftoverKind};
use crate::refusal::{Failure, FailureKind};
use boatswain_model::PodUid;

/// The label that Kubernetes gives a Job's pods.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";

const JOBS: LeftoverKind = LeftoverKind {
    group: "batch",
    version: "v1",
    kind: "Job",
    resource: "jobs",
    optional: false,
};

impl Calls {
    /// Creates a Job whose name nobody else has. If there is one, the answer to an earlier try was lost.
    ///
    /// # Errors
    /// If it is not there, or may not be.
    pub async fn create_job(&self, name: &str, job: &Value) -> Result<PodUid, Failure> {
        let body = Some((JSON, Bytes::from(job.to_string())));
        let call = self.job_call(Method::POST, None, self.write_query(), body);
        let job = match self.read_json::<Job>(call).await {
            Err(failure) if failure.kind == FailureKind::AlreadyExists => {
                self.get_job(name).await?.ok_or(failure)?
            }
            created => created?,
        };
        let uid = job.metadata.uid;
        let without = || Failure::new(FailureKind::Garbage, "the Job that was made has no uid");
        uid.map(|uid| uid.as_str().into()).ok_or_else(without)
    }

    /// `None`: there is no such Job.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get_job(&self, name: &str) -> Result<Option<Job>, Failure> {
        let call = self.job_call(Method::GET, Some(name), Query::default(), None);
        self.read_if_there(call, JOBS.resource, name).await
    }

    /// Lists the pods of a Job.
    ///
    /// # Errors
    /// If any of them cannot be read.
    pub async fn pods_of_job(&self, name: &str) -> Result<Vec<Pod>, Failure> {
        self.pods_with(&format!("{JOB_NAME}={name}")).await
    }

    /// Lists the pods with these labels.
    ///
    /// # Errors
    /// If the selector is refused, or any of them cannot be read.
    pub async fn pods_with(&self, selector: &str) -> Result<Vec<Pod>, Failure> {
        let read = |item: &str| {
            let pod = serde_json::from_str::<Pod>(item);
            pod.map(Some).map_err(|error| error.to_string())
        };
        self.list_all(&self.pods_path(None), "PodList", selector, read)
            .await
    }

    /// Creates an object of the core group. That it exists is not an error: the answer to an earlier try was lost.
    ///
    /// # Errors
    /// If it is not there.
    pub async fn create_object(&self, resource: &str, object: &Value) -> Result<(), Failure> {
        match self.write(Method::POST, resource, None, object).await {
            Err(failure) if failure.kind == FailureKind::AlreadyExists => Ok(()),
            written => written,
        }
    }

    /// Deletes a Job and, in the background, what it owns. A Job that is gone is not an error.
    ///
    /// # Errors
    /// If it may still be there.
    pub async fn delete_job(&self, name: &str, uid: &PodUid) -> Result<(), Failure> {
        let job = Leftover {
            kind: JOBS,
            name: name.to_owned(),
            uid: uid.clone(),
            deleting: false,
            labels: Default::default(),
            owners: Vec::new(),
        };
        self.delete_leftover(&job).await
    }

    fn job_call(
        &self,
        method: Method,
        name: Option<&str>,
        query: Query,
        body: Option<(&'static str, Bytes)>,
    ) -> Call {
        let mut segments = vec!["apis", JOBS.group, JOBS.version, "namespaces"];
        segments.extend([self.namespace(), JOBS.resource]);
        segments.extend(name);
        Call {
            method,
            path: path(&segments),
            query,
            body,
            limit: OBJECT_LIMIT,
        }
    }
}
