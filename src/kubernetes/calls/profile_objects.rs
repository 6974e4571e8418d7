//! API calls on the objects of which each profile has one: Volcano's PodGroups (spec A-82) and the
//! executors' PodDisruptionBudgets (spec K-10).

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Calls;
use super::pods::{is_another, is_missing};
use super::transport::{self, Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, garbage, path};
use crate::kubernetes::refusal::Failure;
use crate::kubernetes::wire::{PlainOwnerWire, record_among};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileObject {
    PodGroup,
    DisruptionBudget,
}

impl ProfileObject {
    pub fn group(self) -> &'static str {
        match self {
            Self::PodGroup => "scheduling.volcano.sh",
            Self::DisruptionBudget => "policy",
        }
    }

    pub fn version(self) -> &'static str {
        match self {
            Self::PodGroup => "v1beta1",
            Self::DisruptionBudget => "v1",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::PodGroup => "PodGroup",
            Self::DisruptionBudget => "PodDisruptionBudget",
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::PodGroup => "podgroups",
            Self::DisruptionBudget => "poddisruptionbudgets",
        }
    }

    /// The key of a profile with the number of pods.
    pub fn profile_key(self) -> &'static str {
        match self {
            Self::PodGroup => "min_executors",
            Self::DisruptionBudget => "min_available",
        }
    }

    /// The field of the specification with a number of pods.
    pub fn number(self) -> &'static str {
        match self {
            Self::PodGroup => "minMember",
            Self::DisruptionBudget => "minAvailable",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSeen {
    pub uid: String,
    /// `None` if it is missing, or no whole number.
    pub number: Option<u32>,
    /// The uid of the application record, if it is among the owners.
    pub owner: Option<String>,
}

impl Calls {
    /// Whether the cluster serves the API group. Without it, requests for its objects get a 404
    /// that contains no `Status`.
    pub async fn serves(&self, api_group: &str) -> Result<bool, Failure> {
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
        let Groups { groups } = self.read_json(call).await?;
        let mut names = groups.iter().map(|group| &group.name);
        Ok(names.any(|name| name == api_group))
    }

    /// Gets an object; `None` if the API server reports that it does not exist. Any other 404 is an
    /// error.
    pub async fn get_profile_object(
        &self,
        object: ProfileObject,
        name: &str,
    ) -> Result<Option<ObjectSeen>, Failure> {
        let call = self.profile_object_call(object, Method::GET, Some(name), None);
        let place = call.place();
        match self.answer(&self.clients().reads, call).await {
            Ok(body) => {
                let text = transport::text(&body);
                let seen = read(object, &text, &self.reader().record);
                seen.map(Some).map_err(|why| garbage(&place, &why))
            }
            Err(rejection) if is_missing(&rejection, object.resource(), name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Fails with [`crate::kubernetes::Kind::AlreadyExists`] if the name is taken.
    pub async fn create_profile_object(
        &self,
        object: ProfileObject,
        json: &Value,
    ) -> Result<(), Failure> {
        let call = self.profile_object_call(object, Method::POST, None, Some((JSON, json)));
        let answer = self.answer(&self.clients().creates, call).await;
        answer.map(drop).map_err(|rejection| rejection.failure)
    }

    /// Applies a merge patch. Fails if the object does not exist.
    pub async fn patch_profile_object(
        &self,
        object: ProfileObject,
        name: &str,
        merge_patch: &Value,
    ) -> Result<(), Failure> {
        let body = Some((MERGE_PATCH, merge_patch));
        let call = self.profile_object_call(object, Method::PATCH, Some(name), body);
        let answer = self.answer(&self.clients().creates, call).await;
        answer.map(drop).map_err(|rejection| rejection.failure)
    }

    /// Deletes the object with this uid. Not an error if it does not exist any more.
    pub async fn delete_profile_object(
        &self,
        object: ProfileObject,
        name: &str,
        uid: &str,
    ) -> Result<(), Failure> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
        });
        let body = Some((JSON, &options));
        let call = self.profile_object_call(object, Method::DELETE, Some(name), body);
        match self.answer(&self.clients().deletes, call).await {
            Ok(_) => Ok(()),
            Err(rejection)
                if is_missing(&rejection, object.resource(), name) || is_another(&rejection) =>
            {
                Ok(())
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    fn profile_object_call(
        &self,
        object: ProfileObject,
        method: Method,
        name: Option<&str>,
        body: Option<(&'static str, &Value)>,
    ) -> Call {
        let (group, version) = (object.group(), object.version());
        let namespace = self.namespace();
        let resource = object.resource();
        let mut segments = vec!["apis", group, version, "namespaces", namespace, resource];
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

fn read(object: ProfileObject, json: &str, record: &str) -> Result<ObjectSeen, String> {
    #[derive(Deserialize)]
    struct Wire {
        metadata: Meta,
        #[serde(default)]
        spec: Value,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        uid: String,
        owner_references: Option<Vec<PlainOwnerWire>>,
    }
    let wire: Wire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let owners = wire.metadata.owner_references.unwrap_or_default();
    let number = wire
        .spec
        .get(object.number())
        .unwrap_or(&json!(null))
        .as_u64();
    Ok(ObjectSeen {
        uid: wire.metadata.uid,
        number: number.and_then(|number| u32::try_from(number).ok()),
        owner: record_among(&owners, record).map(str::to_owned),
    })
}
