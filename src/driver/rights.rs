//! Asks which of the rights that the driver needs are missing (spec C-8).

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::task::JoinSet;

use crate::config::{ClusterMode, Config};
use crate::kubernetes::rights::Right;
use crate::kubernetes::{Calls, Failure};
use crate::manifests::Kind;
use crate::manifests::rights::rights;

use super::cluster;
use super::owner_chain::OwnerChain;
use super::succession;

/// The most questions to the API server at a time.
const AT_ONCE: usize = 4;

/// A start asks for this long; then it lets calls find out what is missing.
const LIMIT: Duration = Duration::from_secs(60);

/// Each right, and whether it is granted. Asks for the rules first, in one call, and one by one for what they do not
/// grant, because another authorizer than RBAC need not list what it allows.
async fn ask(calls: &Calls, rights: Vec<Right>) -> Result<Vec<(Right, bool)>, Failure> {
    let rules = calls.granted_rules().await?;
    let ask = |right: Right| {
        let listed = rules.iter().any(|rule| rule.grants(&right));
        async move {
            let granted = listed || calls.has_right(&right).await?;
            Ok((right, granted))
        }
    };
    let asked = stream::iter(rights).map(ask).buffered(AT_ONCE);
    asked.try_collect().await
}

/// Asks beside the other steps of a start, and logs each missing right with the rule that would grant it. What is
/// returned keeps asking until it is dropped.
pub(super) fn ask_at_start(
    config: &Config,
    calls: Calls,
    owner_chain: Option<&OwnerChain>,
) -> JoinSet<()> {
    let mut asking = JoinSet::new();
    if config.cluster.mode == ClusterMode::Embedded {
        return asking;
    }
    let kind = match owner_chain {
        Some(owner_chain) if owner_chain.top.kind == "Deployment" => Kind::Deployment,
        _ => Kind::Job,
    };
    let rights = rights(config, kind);
    asking.spawn(async move {
        let namespace = calls.namespace().to_owned();
        match tokio::time::timeout(LIMIT, ask(&calls, rights)).await {
            Ok(Ok(asked)) => {
                for (right, _) in asked.iter().filter(|(_, granted)| !granted) {
                    let (right, rule) = (right.to_string(), right.rule());
                    tracing::error!(
                        right,
                        namespace,
                        rule,
                        "a right is missing: add this rule to the driver's Role"
                    );
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "the rights cannot be asked for"),
            Err(_) => tracing::debug!("the API server did not say in time which rights there are"),
        }
    });
    asking
}

/// Asks the configured cluster for the rights that a driver of this kind needs there.
///
/// # Errors
/// If the cluster cannot be asked; the reason in words.
pub async fn ask_cluster(
    config: &Config,
    kind: Kind,
) -> Result<(String, Vec<(Right, bool)>), String> {
    if config.cluster.mode == ClusterMode::Embedded {
        return Err("cluster.mode is \"embedded\": there every right is granted".to_owned());
    }
    let clients = cluster::connect(config)
        .await
        .map_err(|error| error.to_string())?;
    let (calls, _) = succession::calls(config, &clients);
    let asked = ask(&calls, rights(config, kind)).await;
    let asked = asked.map_err(|failure| failure.to_string())?;
    Ok((calls.namespace().to_owned(), asked))
}
