//! Builds executors' pods and volume claims from profiles (spec K-2, K-10).

use std::collections::BTreeMap;

use super::claims::making::Ensure;
use crate::kubernetes::claims::{ClaimFor, claim_json};
use crate::kubernetes::pod_template::{Common, NodeWeights, TemplateError};
use crate::kubernetes::{PodBody, ProfileSpec, Template};
use crate::model::failures::Avoid;
use crate::model::{ExecutorId, PodUid, ProfileName};

/// The record that owns the pods may be created again (spec K-2).
pub struct Pods {
    common: Common,
    profiles: BTreeMap<ProfileName, ProfileSpec>,
    template: Template,
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
        })
    }

    /// Adds a profile. Changes nothing if no pod can be built from it.
    pub(super) fn know(
        &mut self,
        name: ProfileName,
        spec: ProfileSpec,
    ) -> Result<(), TemplateError> {
        let mut profiles = self.profiles.clone();
        profiles.insert(name, spec);
        self.template = Template::new(&self.common, &profiles)?;
        self.profiles = profiles;
        Ok(())
    }

    /// Forgets a removed profile (spec B-52).
    pub(super) fn forget(&mut self, name: &ProfileName) {
        self.profiles.remove(name);
        self.common.preferred.remove(name);
        // It was rendered before, with more profiles.
        if let Ok(template) = Template::new(&self.common, &self.profiles) {
            self.template = template;
        }
    }

    /// New pods avoid exactly these nodes.
    pub(super) fn avoid(&mut self, avoid: Avoid) {
        self.common.avoid = avoid;
        // The template could be rendered before, and the nodes cannot make it fail.
        if let Ok(template) = Template::new(&self.common, &self.profiles) {
            self.template = template;
        }
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
        // As in `avoid`.
        if let Ok(template) = Template::new(&self.common, &self.profiles) {
            self.template = template;
        }
    }

    /// The body of an executor's claim; `None` if its profile has no such volume.
    pub(super) fn claim(&self, ensure: &Ensure, record: &PodUid) -> Option<serde_json::Value> {
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
            self.template = Template::new(&self.common, &self.profiles).ok()?;
        }
        self.template.pod(profile, id)
    }
}
