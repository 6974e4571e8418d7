//! API calls on Volcano's PodGroups (spec A-82).

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::Calls;
use super::pods::is_missing;
use super::transport::{self, Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, garbage, path};
use crate::kubernetes::refusal::Failure;
use crate::kubernetes::wire::{PlainOwnerWire, record_among};

const POD_GROUPS: &str = "podgroups";

const GROUP: &str = "scheduling.volcano.sh";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroupSeen {
    /// The minimum number of pods (`minMember`).
    pub least: u32,
    /// The uid of the application record, if it is among the owners.
    pub owner: Option<String>,
}

impl Calls {
    /// Whether the cluster serves the API group of PodGroups. Without it, requests for PodGroups get a 404 that
    /// contains no `Status`.
    pub async fn serves_pod_groups(&self) -> Result<bool, Failure> {
        #[derive(Deserialize)]
        struct Groups {
            groups: Vec<Group>,
        }
        #[derive(Deserialize)]
        struct Group {
            name: String,
        }
        let call = Call {
            method: Method::GET,
            path: path(&["apis"]),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        let body = self.answer(&self.clients().reads, call).await;
        let body = body.map_err(|rejection| rejection.failure)?;
        let groups: Result<Groups, _> = serde_json::from_slice(&body);
        let groups = groups.map_err(|error| garbage(&place, &error.to_string()))?;
        Ok(groups.groups.iter().any(|group| group.name == GROUP))
    }

    /// Gets a PodGroup; `None` if the API server reports that it does not exist. Any other 404 is an error.
    pub async fn get_pod_group(&self, name: &str) -> Result<Option<PodGroupSeen>, Failure> {
        let call = self.pod_group_call(Method::GET, Some(name), None);
        let place = call.place();
        match self.answer(&self.clients().reads, call).await {
            Ok(body) => {
                let text = transport::text(&body);
                let read = read(&text, &self.reader().record);
                read.map(Some).map_err(|why| garbage(&place, &why))
            }
            Err(rejection) if is_missing(&rejection, POD_GROUPS, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Creates a PodGroup; fails with [`crate::kubernetes::Kind::AlreadyExists`] if the name is taken.
    pub async fn create_pod_group(&self, group: &Value) -> Result<(), Failure> {
        let call = self.pod_group_call(Method::POST, None, Some((JSON, group)));
        let answer = self.answer(&self.clients().creates, call).await;
        answer.map(drop).map_err(|rejection| rejection.failure)
    }

    /// Applies a merge patch to a PodGroup. Fails if the PodGroup does not exist.
    pub async fn patch_pod_group(&self, name: &str, merge_patch: &Value) -> Result<(), Failure> {
        let body = Some((MERGE_PATCH, merge_patch));
        let call = self.pod_group_call(Method::PATCH, Some(name), body);
        let answer = self.answer(&self.clients().creates, call).await;
        answer.map(drop).map_err(|rejection| rejection.failure)
    }

    fn pod_group_call(
        &self,
        method: Method,
        name: Option<&str>,
        body: Option<(&'static str, &Value)>,
    ) -> Call {
        let namespace = self.namespace();
        let mut segments = vec![
            "apis",
            GROUP,
            "v1beta1",
            "namespaces",
            namespace,
            POD_GROUPS,
        ];
        segments.extend(name);
        Call {
            query: match body {
                Some(_) => self.write_query(),
                None => Query::default(),
            },
            method,
            path: path(&segments),
            body: body.map(|(kind, object)| (kind, Bytes::from(object.to_string()))),
            limit: OBJECT_LIMIT,
        }
    }
}

fn read(json: &str, record: &str) -> Result<PodGroupSeen, String> {
    #[derive(Deserialize)]
    struct Wire {
        metadata: Meta,
        spec: Option<Spec>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        owner_references: Option<Vec<PlainOwnerWire>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        min_member: Option<i64>,
    }
    let wire: Wire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let owners = wire.metadata.owner_references.unwrap_or_default();
    let least = wire.spec.and_then(|spec| spec.min_member);
    Ok(PodGroupSeen {
        least: least.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        owner: record_among(&owners, record).map(str::to_owned),
    })
}
