//! Carries out the writes of Workloads, and reads them (spec A-90).

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Context;
use serde_json::Value;

use super::decision::Answer;
use super::pause::Cause;
use super::queue::{Read, Write};
use super::{PodAllocator, meaning};
use crate::actors::snapshot_store::handle::Subscribes;
use crate::kubernetes::workloads::{Block, BlockState, Placement};
use crate::kubernetes::{Calls, Failure, FailureKind};
use crate::model::PodUid;

const NOT_INSTALLED: &str = "the cluster does not serve Workloads of kueue.x-k8s.io/v1beta2: install Kueue 0.15 or newer, or \
                             remove scheduling.queue";

type Placements = BTreeMap<PodUid, Arc<Placement>>;

/// How Workloads are written: the object to delete, or what is sent.
type Sends = Vec<(Write, Option<Value>)>;

impl PodAllocator {
    pub(super) fn queue(
        &mut self,
        writes: &[Write],
        record: Option<&PodUid>,
        ctx: &mut Context<Self>,
    ) {
        let send = |write: &Write| Some((write.clone(), self.pods.workload(write, record?)));
        let sends: Sends = writes.iter().filter_map(send).collect();
        let known = self.allocation.queue().map(|queue| queue.placements());
        let calls = self.calls.clone();
        let read = async move { write_and_read(&calls, sends, known.unwrap_or_default()).await };
        self.call(ctx, read, |this, read| {
            let now = this.clock.now().tick;
            if let Some(notice) = this.allocation.queue_read(read, now) {
                this.say(notice);
            }
        });
    }
}

async fn write_and_read(calls: &Calls, sends: Sends, known: Placements) -> Read {
    let mut trouble = None;
    for (write, body) in sends {
        if let Err(failure) = send(calls, &write, body.unwrap_or_default()).await {
            if !failure.is_refused() {
                // It may be committed yet, and the read must not be older.
                tokio::time::sleep(calls.request_timeout()).await;
            }
            // Somebody else was faster: what is read says how it is now.
            if !matches!(failure.kind, FailureKind::Conflict | FailureKind::NotFound) {
                trouble = Some(explained(&failure));
            }
        }
    }
    match calls.list_blocks().await {
        Ok(mut blocks) => {
            let unplaced = place(calls, &mut blocks, known).await;
            Read {
                blocks: Some(blocks),
                trouble: unplaced.or(trouble),
            }
        }
        Err(failure) => Read {
            blocks: None,
            trouble: Some(match failure.code {
                Some(404) => (Cause::Queued, NOT_INSTALLED.into()),
                _ => explained(&failure),
            }),
        },
    }
}

async fn send(calls: &Calls, write: &Write, body: Value) -> Result<(), Failure> {
    match write {
        Write::Create { .. } => calls.create_workload(&body).await,
        Write::Resize(block, _) | Write::Own(block) => {
            calls.patch_workload((&block.name, false), &body).await
        }
        Write::Reclaim(block, _) => calls.patch_workload((&block.name, true), &body).await,
        Write::Delete(block) => calls.delete_block(block).await,
    }
}

/// Reads the flavors of blocks that were admitted since the last look. Returns why one could not be read.
async fn place(
    calls: &Calls,
    blocks: &mut [Block],
    known: Placements,
) -> Option<(Cause, Arc<str>)> {
    let mut read: BTreeMap<String, Value> = BTreeMap::new();
    let mut trouble = None;
    for block in blocks {
        let BlockState::Admitted {
            flavors, placement, ..
        } = &mut block.state
        else {
            continue;
        };
        *placement = known.get(&block.uid).cloned();
        if placement.is_some() {
            continue;
        }
        let mut of = Some(Placement::default());
        for name in &*flavors {
            if !read.contains_key(name) {
                match calls.get_flavor(name).await {
                    Ok(flavor) => drop(read.insert(name.clone(), flavor)),
                    Err(failure) => trouble = Some(explained(&failure)),
                }
            }
            match (read.get(name), &mut of) {
                (Some(flavor), Some(of)) => of.add(flavor),
                _ => of = None,
            }
        }
        *placement = of.map(Arc::new);
    }
    trouble
}

/// What is refused is named as with a pod.
fn explained(failure: &Failure) -> (Cause, Arc<str>) {
    let why = failure.explained();
    let why = match failure.kind {
        FailureKind::Rights => format!("{why}: see docs/kubernetes.md, \"Rights\"").into(),
        _ => why,
    };
    match meaning(failure).1 {
        Answer::Refused(kind, _) => (Cause::Refused(kind), why),
        Answer::Created | Answer::NameTaken | Answer::Trouble(..) => (Cause::Queued, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::pod_allocator::refusal::RefusalKind;

    // spec
    #[test]
    fn a_refused_workload_is_named_as_a_refused_pod_is() {
        let cause = |kind| explained(&Failure::new(kind, "no")).0;
        assert_eq!(
            cause(FailureKind::Quota),
            Cause::Refused(RefusalKind::Quota)
        );
        assert_eq!(
            cause(FailureKind::Rights),
            Cause::Refused(RefusalKind::Rights)
        );
        assert_eq!(cause(FailureKind::Server), Cause::Queued);
    }
}
