//! Pods as they were last seen at the API server.

use std::sync::Arc;

use super::{Pod, PodIdentity, ResourceVersion};
use crate::PodUid;

/// A pod from the API server: decoded, or the parts of it that could be decoded (spec S-15).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    Read(Arc<Pod>),
    Unreadable(Unreadable),
}

/// The readable parts of a pod that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub name: Option<Arc<str>>,
    pub uid: Option<PodUid>,
    pub version: Option<ResourceVersion>,
    pub identity: Option<PodIdentity>,
    /// The decoder's error.
    pub error: Arc<str>,
}

impl Sighting {
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Sighting::Read(pod) => Some(&pod.name),
            Sighting::Unreadable(part) => part.name.as_ref(),
        }
    }

    pub fn identity(&self) -> Option<&PodIdentity> {
        match self {
            Sighting::Read(pod) => Some(&pod.identity),
            Sighting::Unreadable(part) => part.identity.as_ref(),
        }
    }

    pub fn uid(&self) -> Option<&PodUid> {
        match self {
            Sighting::Read(pod) => Some(&pod.uid),
            Sighting::Unreadable(part) => part.uid.as_ref(),
        }
    }

    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Sighting::Read(pod) => Some(&pod.version),
            Sighting::Unreadable(part) => part.version.as_ref(),
        }
    }
}
