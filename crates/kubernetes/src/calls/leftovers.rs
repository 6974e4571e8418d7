//! API calls on objects of any kind that an application left behind (spec O-33).

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::pods::{is_another, is_missing};
use super::transport::{Call, JSON, OBJECT_LIMIT, path};
use super::{Calls, SCHEDULING};
use crate::labels::LabelScheme;
use crate::leftovers::{Leftover, LeftoverKind};
use crate::refusal::Failure;
use crate::wire::PlainMetaWire;
use boatswain_model::AppId;

impl Calls {
    /// The kind in the version that the cluster serves; `None` if it does not serve it.
    pub async fn served_leftovers(
        &self,
        kind: LeftoverKind,
    ) -> Result<Option<LeftoverKind>, Failure> {
        if !kind.optional {
            return Ok(Some(kind));
        }
        if kind.group == SCHEDULING {
            let version = self.pod_groups().await?;
            return Ok(version.map(|version| LeftoverKind { version, ..kind }));
        }
        Ok(self.serves(kind.group).await?.then_some(kind))
    }

    /// Lists the objects of a kind that boatswain made for an application, with labels of either scheme.
    ///
    /// # Errors
    /// If any page or object cannot be read.
    pub async fn list_leftovers(
        &self,
        kind: LeftoverKind,
        app_id: &AppId,
    ) -> Result<Vec<Leftover>, Failure> {
        let mut found = Vec::new();
        for scheme in [LabelScheme::Boatswain, LabelScheme::Spark] {
            let selector = format!("{}={app_id}", scheme.keys().app_id);
            let listed = self.list_labelled(kind, &selector).await?;
            found.extend(listed.into_iter().filter(|one| one.is_of(app_id, scheme)));
        }
        Ok(found)
    }

    async fn list_labelled(
        &self,
        kind: LeftoverKind,
        selector: &str,
    ) -> Result<Vec<Leftover>, Failure> {
        let path = self.leftover_path(kind, None);
        let read = |item: &str| {
            read(kind, item)
                .map(Some)
                .map_err(|error| error.to_string())
        };
        self.list_all(&path, &format!("{}List", kind.kind), selector, read)
            .await
    }

    /// Deletes an object and, in the background, what it owns, with its uid as a precondition. An object that no longer
    /// exists is not an error.
    pub async fn delete_leftover(&self, leftover: &Leftover) -> Result<(), Failure> {
        let Leftover { kind, name, .. } = leftover;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": leftover.uid.as_str()},
        });
        let call = Call {
            method: Method::DELETE,
            path: self.leftover_path(*kind, Some(name)),
            query: self.write_query(),
            body: Some((JSON, Bytes::from(options.to_string()))),
            limit: OBJECT_LIMIT,
        };
        match self.answer(&self.clients().deletes, call).await {
            Ok(_) => Ok(()),
            Err(rejection)
                if is_missing(&rejection, kind.resource, name) || is_another(&rejection) =>
            {
                Ok(())
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    fn leftover_path(&self, kind: LeftoverKind, name: Option<&str>) -> String {
        let namespace = self.namespace();
        let mut segments = match kind.group {
            "" => vec!["api", kind.version],
            group => vec!["apis", group, kind.version],
        };
        segments.extend(["namespaces", namespace, kind.resource]);
        segments.extend(name);
        path(&segments)
    }
}

fn read(kind: LeftoverKind, json: &str) -> serde_json::Result<Leftover> {
    #[derive(Deserialize)]
    struct Item {
        metadata: PlainMetaWire,
    }
    let meta = serde_json::from_str::<Item>(json)?.metadata;
    let owners = meta.owner_references.unwrap_or_default().into_iter();
    Ok(Leftover {
        kind,
        name: meta.name,
        uid: meta.uid.into(),
        deleting: meta.deletion_timestamp.is_some(),
        labels: meta.labels.unwrap_or_default(),
        owners: owners.map(|owner| (owner.kind, owner.name)).collect(),
    })
}
