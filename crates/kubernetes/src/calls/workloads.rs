//! API calls on Kueue's Workloads and ResourceFlavors (spec A-90).

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::Calls;
use super::transport::{Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, path};
use crate::leftovers::{Leftover, WORKLOADS};
use crate::refusal::{Failure, FailureKind};
use crate::workloads::{Block, GROUP, VERSION, read};

impl Calls {
    /// Lists the application's blocks in their most recent state.
    ///
    /// # Errors
    /// If any of them cannot be read.
    pub async fn list_blocks(&self) -> Result<Vec<Block>, Failure> {
        let reader = self.reader();
        let selector = format!("{}={}", reader.labels.keys().app_id, reader.app_id);
        let read = |item: &str| read(item, reader.labels, &reader.record);
        let path = self.workload_path(&[]);
        self.list_all(&path, "WorkloadList", &selector, read).await
    }

    pub async fn get_flavor(&self, name: &str) -> Result<Value, Failure> {
        let call = Call {
            method: Method::GET,
            path: path(&["apis", GROUP, VERSION, "resourceflavors", name]),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        self.read_json(call).await
    }

    /// Creates a Workload. That it exists is not an error.
    pub async fn create_workload(&self, workload: &Value) -> Result<(), Failure> {
        let write = self.write_workload(Method::POST, &[], (JSON, workload));
        match write.await {
            Err(failure) if failure.kind == FailureKind::AlreadyExists => Ok(()),
            written => written,
        }
    }

    /// Applies a merge patch to a Workload, or to its status.
    pub async fn patch_workload(
        &self,
        (name, status): (&str, bool),
        patch: &Value,
    ) -> Result<(), Failure> {
        let below = [name, "status"];
        let below = &below[..1 + usize::from(status)];
        self.write_workload(Method::PATCH, below, (MERGE_PATCH, patch))
            .await
    }

    /// Deletes a block's Workload, by uid. One that no longer exists is not an error.
    pub async fn delete_block(&self, block: &Block) -> Result<(), Failure> {
        let leftover = Leftover {
            kind: WORKLOADS,
            name: block.name.to_string(),
            uid: block.uid.clone(),
            deleting: false,
            labels: Default::default(),
            owners: Vec::new(),
        };
        self.delete_leftover(&leftover).await
    }

    async fn write_workload(
        &self,
        method: Method,
        below: &[&str],
        (kind, body): (&'static str, &Value),
    ) -> Result<(), Failure> {
        let call = Call {
            method,
            path: self.workload_path(below),
            query: self.write_query(),
            body: Some((kind, Bytes::from(body.to_string()))),
            limit: OBJECT_LIMIT,
        };
        let answer = self.answer(&self.clients().creates, call).await;
        answer.map(drop).map_err(|rejection| rejection.failure)
    }

    fn workload_path(&self, below: &[&str]) -> String {
        let mut segments = vec!["apis", GROUP, VERSION, "namespaces", self.namespace()];
        segments.push(WORKLOADS.resource);
        segments.extend(below);
        path(&segments)
    }
}
