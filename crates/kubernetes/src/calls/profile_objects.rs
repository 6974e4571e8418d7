//! API calls on the objects of which each profile has one: PodGroups (spec A-82) and the executors'
//! PodDisruptionBudgets (spec K-12).

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Calls;
use super::pods::{is_another, is_missing};
use super::transport::{self, Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, garbage, path};
use crate::refusal::Failure;
use crate::wire::{PlainOwnerWire, record_among};

/// The API group of Kubernetes' own PodGroups. It is always there, for PriorityClasses.
pub const SCHEDULING: &str = "scheduling.k8s.io";

/// The versions of that group with PodGroups, newest first: two of 1.37, one of 1.36. They differ in nothing that is
/// written here.
const POD_GROUP_VERSIONS: [&str; 3] = ["v1beta1", "v1alpha3", "v1alpha2"];

/// What to do where no version is served.
pub const NO_POD_GROUPS: &str = "switch it on: in Kubernetes 1.36 the API server takes --feature-gates=GenericWorkload=true,GangScheduling=true \
     --runtime-config=scheduling.k8s.io/v1alpha2=true, and the scheduler and the controller manager the same gates; or set \
     scheduling.gang to \"on\", which needs nothing of the cluster, or to \"volcano\" or \"yunikorn\" where that is installed";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileObject {
    PodGroup(PodGroups),
    DisruptionBudget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodGroups {
    Volcano,
    Kubernetes { version: &'static str },
}

impl PodGroups {
    /// Kubernetes' own, in the version of 1.36 until a server was asked.
    pub const KUBERNETES: Self = Self::Kubernetes {
        version: "v1alpha2",
    };
}

impl ProfileObject {
    pub fn group(self) -> &'static str {
        match self {
            Self::PodGroup(PodGroups::Volcano) => "scheduling.volcano.sh",
            Self::PodGroup(PodGroups::Kubernetes { .. }) => SCHEDULING,
            Self::DisruptionBudget => "policy",
        }
    }

    pub fn version(self) -> &'static str {
        match self {
            Self::PodGroup(PodGroups::Volcano) => "v1beta1",
            Self::PodGroup(PodGroups::Kubernetes { version }) => version,
            Self::DisruptionBudget => "v1",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::PodGroup(_) => "PodGroup",
            Self::DisruptionBudget => "PodDisruptionBudget",
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::PodGroup(_) => "podgroups",
            Self::DisruptionBudget => "poddisruptionbudgets",
        }
    }

    /// The key of a profile with the number of pods.
    pub fn profile_key(self) -> &'static str {
        match self {
            Self::PodGroup(_) => "min_executors",
            Self::DisruptionBudget => "min_available",
        }
    }

    /// The specification with this number of pods.
    pub fn spec(self, number: u32) -> Value {
        match self {
            Self::PodGroup(PodGroups::Volcano) => json!({"minMember": number}),
            Self::PodGroup(PodGroups::Kubernetes { .. }) => {
                json!({"schedulingPolicy": {"gang": {"minCount": number}}})
            }
            Self::DisruptionBudget => json!({"minAvailable": number}),
        }
    }

    /// Where the number is in the specification.
    fn number(self) -> &'static str {
        match self {
            Self::PodGroup(PodGroups::Volcano) => "/minMember",
            Self::PodGroup(PodGroups::Kubernetes { .. }) => "/schedulingPolicy/gang/minCount",
            Self::DisruptionBudget => "/minAvailable",
        }
    }

    /// Whether the number of an object that exists can be changed.
    pub fn is_mutable(self) -> bool {
        !matches!(self, Self::PodGroup(PodGroups::Kubernetes { .. }))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSeen {
    pub uid: String,
    /// It is being deleted, and something holds it up: Kubernetes keeps a PodGroup while pods name it.
    pub deleting: bool,
    /// `None` if it is missing, or no whole number.
    pub number: Option<u32>,
    /// The uid of the application record, if it is among the owners.
    pub owner: Option<String>,
}

impl Calls {
    /// Whether the cluster serves the API group. Without it, requests for its objects get a 404
    /// that contains no `Status`.
    pub async fn serves(&self, api_group: &str) -> Result<bool, Failure> {
        Ok(!self.versions_of(api_group).await?.is_empty())
    }

    /// The object as this cluster serves it; `None` if it does not. Budgets are served everywhere.
    pub async fn served(&self, object: ProfileObject) -> Result<Option<ProfileObject>, Failure> {
        Ok(match object {
            ProfileObject::DisruptionBudget => Some(object),
            ProfileObject::PodGroup(PodGroups::Volcano) => {
                self.serves(object.group()).await?.then_some(object)
            }
            ProfileObject::PodGroup(PodGroups::Kubernetes { .. }) => (self.pod_groups().await?)
                .map(|version| ProfileObject::PodGroup(PodGroups::Kubernetes { version })),
        })
    }

    /// The newest version of Kubernetes' PodGroups that the cluster serves and boatswain knows; `None` without any.
    pub async fn pod_groups(&self) -> Result<Option<&'static str>, Failure> {
        #[derive(Deserialize)]
        struct Resources {
            resources: Vec<Resource>,
        }
        #[derive(Deserialize)]
        struct Resource {
            name: String,
        }
        let served = self.versions_of(SCHEDULING).await?;
        let known = POD_GROUP_VERSIONS.into_iter();
        for version in known.filter(|known| served.iter().any(|one| one == known)) {
            let call = discovery(&["apis", SCHEDULING, version]);
            let Resources { resources } = self.read_json(call).await?;
            if resources.iter().any(|one| one.name == "podgroups") {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    async fn versions_of(&self, api_group: &str) -> Result<Vec<String>, Failure> {
        #[derive(Deserialize)]
        struct Groups {
            groups: Vec<Group>,
        }
        #[derive(Deserialize)]
        struct Group {
            name: String,
            versions: Vec<Version>,
        }
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        let Groups { groups } = self.read_json(discovery(&["apis"])).await?;
        let group = groups.into_iter().find(|group| group.name == api_group);
        let versions = group.map(|group| group.versions).unwrap_or_default();
        Ok(versions.into_iter().map(|one| one.version).collect())
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

    /// Fails with [`crate::FailureKind::AlreadyExists`] if the name is taken.
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

fn discovery(segments: &[&str]) -> Call {
    Call {
        method: Method::GET,
        path: path(segments),
        query: Query::default(),
        body: None,
        limit: OBJECT_LIMIT,
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
        deletion_timestamp: Option<String>,
    }
    let wire: Wire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let owners = wire.metadata.owner_references.unwrap_or_default();
    let number = wire.spec.pointer(object.number()).and_then(Value::as_u64);
    Ok(ObjectSeen {
        uid: wire.metadata.uid,
        deleting: wire.metadata.deletion_timestamp.is_some(),
        number: number.and_then(|number| u32::try_from(number).ok()),
        owner: record_among(&owners, record).map(str::to_owned),
    })
}
