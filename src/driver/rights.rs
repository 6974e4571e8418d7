//! Asks the API server which rights this driver has (spec C-8).

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::config::Config;
use crate::exit::Exit;
use crate::kubernetes::Kind as FailureKind;
use crate::kubernetes::calls::Access;
use crate::kubernetes::pod_template::EXECUTOR_CONTAINER;
use crate::kubernetes::{Calls, CallsSpec, Clients, Failure};
use crate::manifests::Kind;
use crate::manifests::rights::{Right, one_by_one};
use crate::model::AppId;

use super::succession::label_scheme;

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
    pub(super) fn new(config: &Config, clients: Clients, kind: Kind) -> Self {
        let namespace = config.cluster.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| clients.default_namespace.clone());
        let spec = CallsSpec {
            namespace: namespace.clone(),
            app_id: AppId::from(""),
            prefix: config.pod_name_prefix(),
            labels: label_scheme(config),
            container: EXECUTOR_CONTAINER.to_owned(),
            check_all_containers: false,
            request_timeout: config.cluster.request_timeout,
        };
        Self {
            needed: one_by_one(config, kind),
            calls: Calls::new(clients, spec),
            namespace,
        }
    }

    /// Asks for each right by itself: a list of all rights (`SelfSubjectRulesReview`) is incomplete where a webhook
    /// authorizes.
    ///
    /// # Errors
    /// If one review was not answered; the driver may have all rights all the same.
    pub async fn review(self) -> Result<Vec<(Right, bool)>, Unknown> {
        let Self { needed, calls, .. } = self;
        let reviews = stream::iter(needed).map(|right| {
            let calls = calls.clone();
            async move {
                let access = Access {
                    verb: right.verb,
                    group: right.group,
                    resource: right.resource,
                    name: right.name.as_deref(),
                };
                let granted = calls.may(access).await?;
                Ok((right, granted))
            }
        });
        let all = reviews.buffered(AT_ONCE).try_collect();
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
