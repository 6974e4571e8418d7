//! API calls on the Lease that decides which driver of an application writes (spec O-32).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Calls;
use super::pods::{is_missing, kind_is};
use super::transport::{self, Call, JSON, OBJECT_LIMIT, Query, Rejection, garbage, path};
use super::watch::Lines;
use crate::refusal::{Failure, clean};
use boatswain_model::{PodUid, ResourceVersion};

const LEASES: &str = "leases";

/// The longest text that is kept of a Lease, in bytes.
const LONGEST: usize = 512;

/// A Lease as the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub uid: PodUid,
    /// The precondition of a replace.
    pub version: ResourceVersion,
    pub spec: LeaseSpec,
}

/// What a holder writes. Times are for display: no clock is compared with them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseSpec {
    /// `None`: it is free.
    pub holder: Option<Arc<str>>,
    pub duration: Duration,
    /// When this holder acquired it.
    pub acquired: Option<Arc<str>>,
    /// When it was last renewed.
    pub renewed: Option<Arc<str>>,
    /// How often the holder has changed.
    pub transitions: u32,
}

pub type LeaseStream = Lines<Lease>;

/// Kubernetes' notation of times with microseconds.
pub fn micro_time(at: Timestamp) -> Arc<str> {
    Arc::from(at.strftime("%FT%T%.6fZ").to_string())
}

/// The Lease as an object. `replaces`: uid and version of the one that is replaced, the preconditions of the write.
pub fn lease_object(
    name: &str,
    owner: Option<&Value>,
    spec: &LeaseSpec,
    replaces: Option<(&PodUid, &ResourceVersion)>,
) -> Value {
    // A duration is a positive whole number of seconds there.
    let seconds = spec.duration.as_millis().div_ceil(1000).max(1);
    let mut object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": spec.holder.as_deref().unwrap_or_default(),
            "leaseDurationSeconds": i32::try_from(seconds).unwrap_or(i32::MAX),
            "leaseTransitions": i32::try_from(spec.transitions).unwrap_or(i32::MAX),
        },
    });
    for (key, time) in [
        ("acquireTime", &spec.acquired),
        ("renewTime", &spec.renewed),
    ] {
        if let Some(time) = time {
            object["spec"][key] = (&**time).into();
        }
    }
    if let Some(owner) = owner {
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    if let Some((uid, version)) = replaces {
        object["metadata"]["uid"] = uid.as_str().into();
        object["metadata"]["resourceVersion"] = version.to_string().into();
    }
    object
}

impl Calls {
    /// Gets the most recent Lease; `None` if the API server reports no such Lease.
    pub async fn get_lease(&self, name: &str, limit: Duration) -> Result<Option<Lease>, Failure> {
        match self.lease(Method::GET, Some(name), None, limit).await {
            Ok(lease) => Ok(Some(lease)),
            Err(rejection) if is_missing(&rejection, LEASES, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Creates a Lease; fails with [`crate::FailureKind::AlreadyExists`] if the name is taken.
    pub async fn create_lease(&self, lease: &Value, limit: Duration) -> Result<Lease, Failure> {
        let created = self.lease(Method::POST, None, Some(lease), limit).await;
        created.map_err(|rejection| rejection.failure)
    }

    /// Replaces a Lease. The object's `uid` and `resourceVersion` are preconditions.
    ///
    /// # Errors
    /// [`crate::FailureKind::Conflict`] if it was changed meanwhile, [`crate::FailureKind::NotFound`] if it
    /// does not exist.
    pub async fn replace_lease(
        &self,
        name: &str,
        lease: &Value,
        limit: Duration,
    ) -> Result<Lease, Failure> {
        let replaced = self
            .lease(Method::PUT, Some(name), Some(lease), limit)
            .await;
        replaced.map_err(|rejection| rejection.failure)
    }

    /// Watches one Lease from its current state on.
    ///
    /// # Errors
    /// If the watch does not begin.
    pub async fn watch_lease(
        &self,
        name: &str,
        timeout_seconds: u32,
    ) -> Result<LeaseStream, Failure> {
        let query = Query::default().with("fieldSelector", &format!("metadata.name={name}"));
        self.watch(self.lease_path(None), query, None, timeout_seconds, read)
            .await
    }

    async fn lease(
        &self,
        method: Method,
        name: Option<&str>,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<Lease, Rejection> {
        let query = match method {
            Method::GET => Query::default(),
            _ => Query::default().with_timeout(limit),
        };
        let call = Call {
            method,
            path: self.lease_path(name),
            query,
            body: body.map(|lease| (JSON, Bytes::from(lease.to_string()))),
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        let client = self.clients().leases;
        let body = self.answer_within(&client, limit, call).await?;
        let text = transport::text(&body);
        kind_is(&text, "Lease")
            .and_then(|()| read(&text))
            .map_err(|why| garbage(&place, &why).into())
    }

    fn lease_path(&self, name: Option<&str>) -> String {
        let group = ["apis", "coordination.k8s.io", "v1", "namespaces"];
        let mut segments = group.to_vec();
        segments.extend([self.namespace(), LEASES]);
        segments.extend(name);
        path(&segments)
    }
}

fn read(json: &str) -> Result<Lease, String> {
    #[derive(Deserialize)]
    struct Wire {
        metadata: Meta,
        spec: Option<Spec>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        uid: String,
        resource_version: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        holder_identity: Option<String>,
        lease_duration_seconds: Option<i64>,
        acquire_time: Option<String>,
        renew_time: Option<String>,
        lease_transitions: Option<i64>,
    }
    let wire: Wire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let version = ResourceVersion::parse(&wire.metadata.resource_version)
        .ok_or("metadata.resourceVersion: no unsigned integer")?;
    let spec = wire.spec.unwrap_or_default();
    let kept = |text: Option<String>| {
        let text = text.filter(|text| !text.is_empty())?;
        Some(clean(&text, LONGEST))
    };
    Ok(Lease {
        uid: wire.metadata.uid.into(),
        version,
        spec: LeaseSpec {
            holder: kept(spec.holder_identity),
            duration: Duration::from_secs(
                u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0),
            ),
            acquired: kept(spec.acquire_time),
            renewed: kept(spec.renew_time),
            transitions: u32::try_from(spec.lease_transitions.unwrap_or(0)).unwrap_or(0),
        },
    })
}

#[cfg(test)]
mod tests {
    use devcluster::{Options, start};
    use futures::StreamExt as _;

    use super::*;
    use crate::testing::calls_to;
    use crate::{Clients, FailureKind, WatchLine, WriteGate};

    const LIMIT: Duration = Duration::from_secs(5);

    fn held_by(holder: Option<&str>) -> LeaseSpec {
        let at = micro_time(Timestamp::UNIX_EPOCH);
        LeaseSpec {
            holder: holder.map(Arc::from),
            duration: Duration::from_millis(1_500),
            acquired: Some(at.clone()),
            renewed: Some(at),
            transitions: 3,
        }
    }

    // spec: O-32
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_created_replaced_in_the_version_that_was_read_and_watched() {
        let cluster = start(Options::default());
        let calls = calls_to(Clients::in_process(cluster.router(), "default"));
        assert_eq!(calls.get_lease("a-driver", LIMIT).await, Ok(None));
        let spec = held_by(Some("one"));
        let object = lease_object("a-driver", None, &spec, None);
        let created = calls.create_lease(&object, LIMIT).await.unwrap();
        let whole_seconds = LeaseSpec {
            duration: Duration::from_secs(2),
            ..spec
        };
        assert_eq!(created.spec, whole_seconds);
        let again = calls.create_lease(&object, LIMIT).await.unwrap_err();
        assert_eq!(again.kind, FailureKind::AlreadyExists);

        let mut lines = calls.watch_lease("a-driver", 60).await.unwrap();
        let Some(Ok(WatchLine::Seen(seen))) = lines.next().await else {
            panic!("the watch does not begin with the lease as it is")
        };
        assert_eq!(seen, created);
        let replaces = Some((&created.uid, &created.version));
        let free = lease_object("a-driver", None, &held_by(None), replaces);
        let replaced = calls.replace_lease("a-driver", &free, LIMIT).await.unwrap();
        assert_eq!(replaced.spec.holder, None);
        assert!(
            matches!(lines.next().await, Some(Ok(WatchLine::Seen(seen))) if seen == replaced),
            "a release is seen at once"
        );
        let late = calls
            .replace_lease("a-driver", &free, LIMIT)
            .await
            .unwrap_err();
        assert_eq!(late.kind, FailureKind::Conflict);
    }

    // spec: O-32
    #[tokio::test(start_paused = true)]
    async fn without_a_permit_only_reads_reviews_the_lease_and_events_pass() {
        let cluster = start(Options::default());
        let calls = calls_to(Clients::in_process(cluster.router(), "default"));
        let (_permit, closed) = tokio::sync::watch::channel(None);
        let calls = calls.gated(WriteGate::new(closed));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let refused = calls.create_config_map(&map).await.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Unreachable, "{refused}");
        assert_eq!(calls.get_config_map("a").await, Ok(None));
        let object = lease_object("a-driver", None, &held_by(Some("one")), None);
        assert!(calls.create_lease(&object, LIMIT).await.is_ok());
        let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about,
        });
        assert_eq!(calls.create_event(&event).await, Ok(()));
        // A review changes nothing.
        assert_eq!(calls.granted_rules().await.map(drop), Ok(()));
        assert_eq!(
            calls.review_token("a.b.c", "engine").await.map(drop),
            Ok(())
        );
    }

    // spec: O-32
    #[test]
    fn the_name_of_a_namespace_does_not_open_the_gate() {
        for namespace in ["events", "leases", "namespaces"] {
            let steps = [
                "apis",
                "apps",
                "v1",
                "namespaces",
                namespace,
                "statefulsets",
                "x",
            ];
            let call = Call {
                method: Method::PATCH,
                path: path(&steps),
                query: Query::default(),
                body: None,
                limit: OBJECT_LIMIT,
            };
            assert!(call.is_guarded(), "{namespace}");
            assert_eq!(call.resource(), "statefulsets");
        }
    }
}
