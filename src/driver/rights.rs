//! Asks the API server which rights this driver has (spec C-8).

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::config::{Config, Gang};
use crate::exit::Exit;
use crate::kubernetes::FailureKind;
use crate::kubernetes::calls::{NO_POD_GROUPS, SCHEDULING};
use crate::kubernetes::rights::Right;
use crate::kubernetes::{Calls, Clients, Failure};
use crate::manifests::WorkloadKind;
use crate::manifests::rights;

use super::succession;

/// Few, because the start's own requests share the API server's patience with them.
const AT_ONCE: usize = 4;
/// The time for all reviews together.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a driver that lacks a right waits to name all that are missing.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);

/// The rights that a configuration needs, and whom to ask for them.
pub struct Rights {
    needed: Vec<Right>,
    calls: Calls,
    pub namespace: String,
    needs_pod_groups: bool,
}

/// What a start says that needs PodGroups on a cluster without any (spec A-104).
pub(super) fn no_pod_groups() -> String {
    format!(
        "scheduling.gang is \"kubernetes\", and the API server serves no PodGroups of {SCHEDULING}: {NO_POD_GROUPS}"
    )
}

/// Why it is unknown which rights the driver has.
#[derive(Debug, thiserror::Error)]
pub enum Unknown {
    #[error("{0}")]
    Failed(Failure),
    #[error("the API server did not answer all reviews within 30 s")]
    Late,
}

impl Unknown {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Failed(failure)
                if matches!(failure.kind, FailureKind::Rights | FailureKind::Credentials) =>
            {
                Exit::Rights
            }
            _ => Exit::Unreachable,
        }
    }
}

impl Rights {
    pub(super) fn new(config: &Config, clients: &Clients, kind: Option<WorkloadKind>) -> Self {
        let (calls, place) = succession::calls(config, clients);
        Self {
            needed: rights::one_by_one(config, kind),
            calls,
            namespace: place.namespace,
            needs_pod_groups: config.scheduling.gang == Gang::Kubernetes,
        }
    }

    /// What the cluster has to serve for this configuration, and does not; `None` if there is nothing.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub async fn not_served(&self) -> Result<Option<String>, Unknown> {
        if !self.needs_pod_groups {
            return Ok(None);
        }
        let served = self.calls.pod_groups().await.map_err(Unknown::Failed)?;
        Ok(served.is_none().then(no_pod_groups))
    }

    /// Asks for the rules that apply in one call, and one by one for what these do not grant: a server whose webhook
    /// authorizes does not list what that allows.
    ///
    /// # Errors
    /// If a review was not answered; the driver may have all rights all the same.
    pub async fn review(self) -> Result<Vec<(Right, bool)>, Unknown> {
        let Self { needed, calls, .. } = self;
        let all = async {
            let rules = calls.granted_rules().await?;
            let ask = |right: Right| {
                // A Role's wildcards are listed, and grant nothing outside the namespace.
                let listed = !right.of_cluster && rules.iter().any(|rule| rule.grants(&right));
                let calls = &calls;
                async move {
                    let granted = listed || calls.has_right(&right).await?;
                    Ok((right, granted))
                }
            };
            let asked = stream::iter(needed).map(ask).buffered(AT_ONCE);
            asked.try_collect().await
        };
        match tokio::time::timeout(LIMIT, all).await {
            Ok(answered) => answered.map_err(Unknown::Failed),
            Err(_) => Err(Unknown::Late),
        }
    }

    /// Logs which rights are missing. The driver goes on: a call that is refused decides what becomes of it.
    pub(super) async fn report_missing(self) {
        let namespace = self.namespace.clone();
        match self.review().await {
            Ok(reviewed) => {
                for (right, _) in reviewed.into_iter().filter(|(_, granted)| !granted) {
                    let rule = right.rule();
                    tracing::warn!(%right, namespace, rule, "the driver lacks a right: add the rule to its Role");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "it is unknown which rights the driver has");
            }
        }
    }
}
