//! Builds executors' pods and volume claims from profiles (spec K-2, K-10).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::claims::making::Ensure;
use super::queue::Write;
use crate::kubernetes::claims::{ClaimFor, claim_json};
use crate::kubernetes::pod_template::{Common, NodeWeights, TemplateError, queued};
use crate::kubernetes::workloads::{
    Place, Queue, QueuedPods, owners, pod_sets, reclaimable, workload,
};
use crate::kubernetes::{PodBody, ProfileSpec, Template};
use crate::model::failures::Avoid;
use crate::model::{ExecutorId, PodUid, ProfileName};

/// The record that owns the pods may be created again (spec K-13).
pub struct Pods {
    common: Common,
    profiles: BTreeMap<ProfileName, ProfileSpec>,
    template: Template,
    queue: Option<Queue>,
    /// The limits, in bytes, to which the memory of new executors has grown.
    memory_limits: BTreeMap<ProfileName, u64>,
}

impl Pods {
    /// # Errors
    /// Fails if the API server would certainly refuse the pods.
    pub fn new(
        common: Common,
        profiles: BTreeMap<ProfileName, ProfileSpec>,
    ) -> Result<Self, TemplateError> {
        let template = Template::new(&common, &profiles)?;
        Ok(Self {
            common,
            profiles,
            template,
            queue: None,
            memory_limits: BTreeMap::new(),
        })
    }

    /// The same with Workloads in this queue (spec A-90).
    #[must_use]
    pub fn with_queue(self, queue: Option<Queue>) -> Self {
        Self { queue, ..self }
    }

    /// What a queue has to know of a profile's pods; `None` if the profile is unknown.
    pub fn queued(&self, profile: &ProfileName) -> Option<QueuedPods> {
        let spec = self.profiles.get(profile)?;
        Some(queued(spec, self.common.injection.as_ref()))
    }

    /// What is sent to write a Workload: the object, or a merge patch of it. `None` if there is nothing to send.
    pub(super) fn workload(&self, write: &Write, record: &PodUid) -> Option<Value> {
        let (patch, block) = match write {
            Write::Create {
                number,
                profile,
                size,
            } => {
                let place = Place {
                    prefix: &self.common.prefix,
                    app_id: &self.common.app_id,
                    labels: self.common.labels,
                    record,
                };
                let (queue, pods) = self.queue.as_ref().zip(self.queued(profile))?;
                return Some(workload(queue, place, (*number, profile), &pods, *size));
            }
            Write::Resize(block, size) => {
                let sets = pod_sets(&self.queued(&block.profile)?, *size);
                // If it got quota meanwhile, it is not changed.
                let version = json!({"resourceVersion": &*block.version});
                (
                    json!({"metadata": version, "spec": {"podSets": sets}}),
                    block,
                )
            }
            Write::Reclaim(block, pods) => {
                let status = json!({"reclaimablePods": reclaimable(*pods)});
                (json!({"status": status}), block)
            }
            Write::Own(block) => {
                let owners = owners(&self.common.prefix, record);
                (json!({"metadata": {"ownerReferences": owners}}), block)
            }
            Write::Delete(_) => return None,
        };
        let mut patch = patch;
        patch["metadata"]["uid"] = block.uid.as_str().into();
        Some(patch)
    }

    /// Adds a profile. Changes nothing if no pod can be built from it.
    pub(super) fn add_profile(
        &mut self,
        name: ProfileName,
        spec: ProfileSpec,
    ) -> Result<(), TemplateError> {
        if self.queue.is_some() && spec.growth.is_some() {
            return Err(TemplateError::Grows { profile: name });
        }
        let mut profiles = self.profiles.clone();
        profiles.insert(name, spec);
        self.template = self.rendered(&profiles)?;
        self.profiles = profiles;
        Ok(())
    }

    /// Forgets a removed profile (spec B-57).
    pub(super) fn remove_profile(&mut self, name: &ProfileName) {
        self.profiles.remove(name);
        self.common.preferred.remove(name);
        self.memory_limits.remove(name);
        self.render();
    }

    /// New pods avoid exactly these nodes.
    pub(super) fn avoid(&mut self, avoid: Avoid) {
        self.common.avoid = avoid;
        self.render();
    }

    /// New pods of these profiles have these memory limits, in bytes; others have the configured ones (spec L-43).
    pub(super) fn limit_memory(&mut self, limits: BTreeMap<ProfileName, u64>) {
        self.memory_limits = limits;
        self.render();
    }

    /// New pods of these profiles prefer exactly these nodes.
    pub(super) fn prefer(&mut self, nodes: BTreeMap<ProfileName, NodeWeights>) {
        let mut preferred = self.common.preferred.clone();
        for (profile, nodes) in nodes {
            if nodes.is_empty() || !self.profiles.contains_key(&profile) {
                preferred.remove(&profile);
            } else {
                preferred.insert(profile, nodes);
            }
        }
        if preferred == self.common.preferred {
            return;
        }
        self.common.preferred = preferred;
        self.render();
    }

    /// What was rendered before can be rendered with fewer profiles, other nodes and more memory.
    fn render(&mut self) {
        if let Ok(template) = self.rendered(&self.profiles) {
            self.template = template;
        }
    }

    fn rendered(
        &self,
        profiles: &BTreeMap<ProfileName, ProfileSpec>,
    ) -> Result<Template, TemplateError> {
        if self.memory_limits.is_empty() {
            return Template::new(&self.common, profiles);
        }
        let mut profiles = profiles.clone();
        for (name, limit) in &self.memory_limits {
            for name in [name.clone(), name.spares()] {
                if let Some(spec) = profiles.remove(&name) {
                    profiles.insert(name, spec.with_memory_limit(*limit));
                }
            }
        }
        Template::new(&self.common, &profiles)
    }

    /// The body of an executor's claim; `None` if its profile has no such volume.
    pub(super) fn claim(&self, ensure: &Ensure, record: &PodUid) -> Option<Value> {
        let claims = &self.profiles.get(&ensure.profile)?.claims;
        let spec = claims
            .iter()
            .find(|spec| spec.template.volume == ensure.volume)?;
        let of = ClaimFor {
            app_id: &self.common.app_id,
            app_name: &self.common.app_name,
            namespace: &self.common.namespace,
            prefix: &self.common.prefix,
            labels: self.common.labels,
            record,
            id: ensure.id,
            profile: &ensure.profile,
            pod: (&ensure.pod, Some(&ensure.uid)),
        };
        Some(claim_json(&ensure.name, &spec.template, &of))
    }

    /// The pod of an executor, owned by this record; `None` if the profile is unknown.
    pub(super) fn pod(
        &mut self,
        profile: &ProfileName,
        id: ExecutorId,
        record: &PodUid,
    ) -> Option<PodBody> {
        if self.common.record_uid != *record {
            self.common.record_uid = record.clone();
            self.template = self.rendered(&self.profiles).ok()?;
        }
        self.template.pod(profile, id)
    }
}
