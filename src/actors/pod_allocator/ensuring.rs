//! Lists and creates volume claims (spec K-10, A-60, A-61).

use actix::Context;
use serde_json::Value;

use super::claims::making::{Ensure, Ensured};
use super::decision::Answer;
use super::{PodAllocator, meaning};
use crate::actors::snapshot_store::handle::Subscribes;
use crate::kubernetes::{Calls, FailureKind};
use crate::model::claims::Claim;
use crate::model::{Epoch, PodUid};

impl PodAllocator {
    /// Lists the application's claims. If that fails, none is reused (spec A-60).
    pub(super) fn list_claims(&mut self, epoch: Epoch, ctx: &mut Context<Self>) {
        let (calls, asked) = (self.calls.clone(), self.clock.now().tick);
        let list = async move { calls.list_claims().await };
        self.call(ctx, list, move |this, listed| {
            let claims: Option<Vec<Claim>> = match listed {
                Ok(claims) => Some(claims),
                Err(failure) => {
                    let error = failure.explained();
                    tracing::warn!(%error, "claims on volumes cannot be listed: none is reused");
                    None
                }
            };
            this.allocation.claims().listed(claims, asked, epoch);
        });
    }

    /// Creates a claim if it does not exist (spec K-10).
    pub(super) fn ensure_claim(
        &mut self,
        ensure: Ensure,
        record: Option<&PodUid>,
        ctx: &mut Context<Self>,
    ) {
        let body = record.and_then(|record| self.pods.claim(&ensure, record));
        let (calls, sent) = (self.calls.clone(), self.clock.now().tick);
        let asked = ensure.clone();
        let call = async move {
            match body {
                Some(body) => ensure_there(&calls, &asked, &body).await,
                // The profile is being forgotten, and its executors with it.
                None => Ensured::NotYet,
            }
        };
        self.call(ctx, call, move |this, ensured| {
            let now = this.clock.now();
            for notice in this.allocation.claim_answered(&ensure, sent, ensured, now) {
                this.say(notice);
            }
        });
    }
}

async fn ensure_there(calls: &Calls, ensure: &Ensure, claim: &Value) -> Ensured {
    if !ensure.new {
        match calls.get_claim(&ensure.name).await {
            Ok(Some(there)) => return found(&there),
            Ok(None) => {}
            Err(failure) => return Ensured::Failed(failure),
        }
    }
    let refusal = match calls.create_claim(claim).await {
        Ok(_) => return Ensured::There,
        Err(failure) => failure,
    };
    // An earlier request may have created it, and its answer was lost.
    if refusal.kind == FailureKind::AlreadyExists {
        return match calls.get_claim(&ensure.name).await {
            Ok(Some(there)) => found(&there),
            Ok(None) => Ensured::NotYet,
            Err(failure) => Ensured::Failed(failure),
        };
    }
    match meaning(&refusal).1 {
        Answer::Refused(kind, why) => Ensured::Refused(kind, why),
        Answer::Created | Answer::NameTaken | Answer::Trouble(..) => Ensured::Failed(refusal),
    }
}

fn found(claim: &Claim) -> Ensured {
    // A claim left by an earlier application of that name is deleted with its owner.
    let left = !claim.ours && (claim.record.is_some() || claim.of_a_pod);
    match (claim.ours, claim.spent || left) {
        (_, true) => Ensured::NotYet,
        (true, false) => Ensured::There,
        (false, false) => {
            let name = &claim.name;
            let why = format!("the name {name} is taken by a claim that is not this application's");
            Ensured::Taken(why.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::actors::pod_allocator::refusal::RefusalKind;
    use crate::kubernetes::{CallsSpec, Clients};
    use crate::model::ExecutorId;
    use crate::testing::{calls_spec, finish_deletion};
    use devcluster::{self, DevCluster, Options};

    fn cluster() -> (DevCluster, Calls) {
        let cluster = devcluster::start(Options {
            collect_garbage: false,
            ..Options::default()
        });
        let spec = CallsSpec {
            app_id: "a-1".into(),
            ..calls_spec()
        };
        let calls = Calls::new(Clients::in_process(cluster.router(), "default"), spec);
        (cluster, calls)
    }

    fn asked(new: bool) -> Ensure {
        Ensure {
            id: ExecutorId::FIRST,
            profile: "default".into(),
            pod: "a-exec-1".into(),
            uid: "u1".into(),
            volume: "data".into(),
            name: "a-exec-1-data".into(),
            new,
        }
    }

    fn body(app: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "a-exec-1-data", "labels": {"boatswain.dev/app-id": app}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    }

    // spec: K-10
    #[tokio::test]
    async fn a_claim_is_created_once_however_often_its_answer_is_lost() {
        let (cluster, calls) = cluster();
        for new in [true, true, false] {
            let ensured = ensure_there(&calls, &asked(new), &body("a-1")).await;
            assert_eq!(ensured, Ensured::There);
        }
        assert_eq!(
            cluster.writes().await,
            2,
            "what is looked for first is not written"
        );
        let claim = calls.get_claim("a-exec-1-data").await.unwrap().unwrap();
        calls.delete_claim(&claim).await.unwrap();
        finish_deletion(
            &Clients::in_process(cluster.router(), "default"),
            "a-exec-1-data",
        )
        .await;
        let ensured = ensure_there(&calls, &asked(false), &body("a-1")).await;
        assert_eq!(ensured, Ensured::There, "it was lost, and is made anew");
    }

    // spec: A-61
    #[tokio::test]
    async fn a_claim_that_the_cluster_refuses_is_told_from_one_that_is_not_ours() {
        let (_cluster, calls) = cluster();
        let refused = |ensured: Ensured, word: &str| match ensured {
            Ensured::Refused(RefusalKind::Blocked, why) | Ensured::Taken(why) => {
                assert!(why.contains(word), "{why}");
            }
            other => panic!("{other:?}"),
        };
        let mut bad = body("a-1");
        bad["metadata"]["name"] = "No_Name".into();
        refused(
            ensure_there(&calls, &asked(true), &bad).await,
            "metadata.name",
        );
        ensure_there(&calls, &asked(true), &body("another")).await;
        refused(
            ensure_there(&calls, &asked(true), &body("a-1")).await,
            "taken",
        );
    }

    // spec: A-61, O-30
    #[tokio::test]
    async fn a_claim_of_an_earlier_application_is_awaited_until_it_is_deleted() {
        let (cluster, calls) = cluster();
        let owners = [("ConfigMap", "a-app"), ("Pod", "a-exec-1")];
        for (kind, name) in owners {
            let mut left = body("a-0");
            left["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "gone"}]);
            ensure_there(&calls, &asked(true), &left).await;
            let ensured = ensure_there(&calls, &asked(true), &body("a-1")).await;
            assert_eq!(ensured, Ensured::NotYet, "{kind}");
            let claim = calls.get_claim("a-exec-1-data").await.unwrap().unwrap();
            calls.delete_claim(&claim).await.unwrap();
            finish_deletion(
                &Clients::in_process(cluster.router(), "default"),
                "a-exec-1-data",
            )
            .await;
        }
        let ensured = ensure_there(&calls, &asked(true), &body("a-1")).await;
        assert_eq!(ensured, Ensured::There);
    }
}
