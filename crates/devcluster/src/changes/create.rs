//! Creates objects: POST requests, and updates of objects that do not exist.

use serde_json::{Value, json};

use super::write::{Answer, WriteContext};
use super::{admission, quota};
use crate::api::status::ApiError;
use crate::objects::object::{Key, set, text, unset};
use crate::objects::pod;
use crate::objects::resource::Resource;
use crate::storage::store::State;
use crate::validation::defaults;
use crate::validation::validate;

/// How many names are tried for `generateName`.
const NAMES_TRIED: usize = 8;

impl State {
    pub(crate) fn create(
        &mut self,
        resource: Resource,
        namespace: &str,
        mut object: Value,
        context: &mut WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        let traits = resource.traits();
        if !matches!(text(&object, &["metadata", "resourceVersion"]), "" | "0") {
            return Err(ApiError::unclassified(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if traits.namespaced {
            self.check_namespace(resource, namespace, text(&object, &["metadata", "name"]))?;
            set(&mut object, &["metadata", "namespace"], namespace.into());
        }
        unset(&mut object, &["metadata", "resourceVersion"]);
        let generated = self.generate_name(resource, namespace, &mut object, context);
        defaults::fill(resource, &mut object);
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ] {
            unset(&mut object, &["metadata", field]);
        }
        set(&mut object, &["metadata", "uid"], context.ids.uid().into());
        set(
            &mut object,
            &["metadata", "creationTimestamp"],
            context.text(),
        );
        if resource.has_generation() {
            set(&mut object, &["metadata", "generation"], 1.into());
        }
        let name = text(&object, &["metadata", "name"]).to_owned();
        let key = Key::new(resource, namespace, &name);
        admission::admit(self, &key, &mut object, context)?;
        defaults::admit(resource, &mut object);
        // A kubelet reports the status when it registers its node.
        if traits.has_status && resource != Resource::Nodes {
            unset(&mut object, &["status"]);
            if let Some(status) = defaults::first_status(resource, &object) {
                set(&mut object, &["status"], status);
            }
            pod::say_gated(&mut object, &context.text());
        }
        if resource == Resource::Services {
            self.assign_cluster_ip(&mut object);
        }
        key.check(validate::object(resource, &object))?;
        let updates = quota::admit(self, &key, &object)?;
        if self.get(&key).is_some() {
            return Err(match generated {
                true => ApiError::no_unique_name(traits.plural, traits.group, &name),
                false => ApiError::already_exists(traits.plural, traits.group, &name),
            });
        }
        for (quota, value) in updates {
            self.put(quota, value)?;
        }
        Ok(Answer::Object(self.put(key, object)?, true))
    }

    /// Resolves `generateName` to a free name, with as many attempts as a real server.
    fn generate_name(
        &self,
        resource: Resource,
        namespace: &str,
        object: &mut Value,
        context: &mut WriteContext<'_>,
    ) -> bool {
        let base = text(object, &["metadata", "generateName"]).to_owned();
        if base.is_empty() || !text(object, &["metadata", "name"]).is_empty() {
            return false;
        }
        let mut name = context.ids.name(&base);
        for _ in 1..NAMES_TRIED {
            if self.get(&Key::new(resource, namespace, &name)).is_none() {
                break;
            }
            name = context.ids.name(&base);
        }
        set(object, &["metadata", "name"], name.into());
        true
    }

    /// Refuses to create in a namespace that does not exist or is terminating.
    fn check_namespace(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let traits = resource.traits();
        let found = self.get(&Key::new(Resource::Namespaces, "", namespace));
        match found {
            None => Err(ApiError::not_found("namespaces", "", namespace)),
            Some(found) if found.is_terminating() => Err(ApiError::namespace_terminating(
                traits.plural,
                traits.group,
                name,
                namespace,
            )),
            Some(_) => Ok(()),
        }
    }

    /// Assigns a cluster IP to a service that is not headless. Nothing answers at that address.
    fn assign_cluster_ip(&self, service: &mut Value) {
        let kind = text(service, &["spec", "type"]);
        if kind == "ExternalName" || !text(service, &["spec", "clusterIP"]).is_empty() {
            return;
        }
        let next = self.resource_version() + 1;
        let address = format!("10.96.{}.{}", next / 254 % 256, next % 254 + 1);
        set(service, &["spec", "clusterIPs"], json!([address]));
        set(service, &["spec", "clusterIP"], address.into());
    }
}
