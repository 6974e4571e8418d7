//! Decides which registrations are accepted: pure (spec B-1 to B-5).

use std::sync::Arc;

use crate::model::AppId;
use crate::model::executor::Class;
use crate::model::ids::id_in_pod_name;
use crate::model::{Entry, ExecutorId, PodUid, Snapshot};
use boatswain_agent::protocol::{Register, ToExecutor};

/// The identity that a token proves (spec B-5, O-112).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    Executor(ExecutorId),
    Pod { name: Arc<str>, uid: PodUid },
}

impl Proof {
    /// The executor that the bearer may speak for. `None` if the pod is not one of this application
    /// by its name or, where sets make the pods, by the ledger.
    pub fn executor(&self, prefix: &str, snapshot: Option<&Snapshot>) -> Option<ExecutorId> {
        match self {
            Self::Executor(id) => Some(*id),
            Self::Pod { name, uid } => match snapshot.filter(|snapshot| snapshot.of_sets) {
                Some(snapshot) => snapshot.by_uid.get(uid).copied(),
                None => id_in_pod_name(prefix, name),
            },
        }
    }
}

/// The delay after which an executor that registers too early tries again, in milliseconds.
const AGAIN_MS: u64 = 500;

/// Checks a registration. Returns the executor's id, its pod's uid and its entry, or the refusal.
/// `snapshot` is `None` before adoption; `drains`: a leaving executor may finish its work.
pub(super) fn admit<'a>(
    (app, prefix): (&AppId, &str),
    proof: &Proof,
    register: &Register,
    snapshot: Option<&'a Snapshot>,
    drains: impl Fn(&Entry) -> bool,
) -> Result<(ExecutorId, PodUid, &'a Arc<Entry>), ToExecutor> {
    if register.app != app.as_str() {
        let message = format!("this is the driver of application {app}");
        return Err(ToExecutor::refused("another-application", message));
    }
    if let (Proof::Pod { name, uid }, Some(snapshot)) = (proof, snapshot)
        && snapshot.of_sets
        && !snapshot.by_uid.contains_key(uid)
        && name.starts_with(&format!("{}-", prefix))
    {
        // The ledger's entry or the pod's id is missing, and comes soon (spec A-80, B-1).
        return Err(ToExecutor::Later { in_ms: AGAIN_MS });
    }
    if let (Proof::Pod { name, .. }, None) = (proof, snapshot)
        && id_in_pod_name(prefix, name).is_none()
    {
        return Err(ToExecutor::Later { in_ms: AGAIN_MS });
    }
    let id = spoken_for(prefix, proof, register, snapshot)?;
    let uid = PodUid::from(register.pod_uid.as_str());
    if let Proof::Pod { uid: proven, .. } = proof
        && *proven != uid
    {
        let message = "pod_uid is not that of the pod that the token was given to";
        return Err(ToExecutor::refused("not-yours", message));
    }
    let Some(snapshot) = snapshot else {
        return Err(ToExecutor::Later { in_ms: AGAIN_MS });
    };
    let Some(entry) = snapshot.entry(id) else {
        return Err(without_entry(id, snapshot));
    };
    if let Some(bound) = entry.uid()
        && *bound != uid
    {
        let message = format!("executor {id} runs in another pod, by the uid");
        return Err(ToExecutor::exit("another-pod", message));
    }
    match entry.class() {
        Class::Sent
        | Class::Unknown
        | Class::Pending(_)
        | Class::Running
        | Class::Odd
        | Class::Absent => Ok((id, uid, entry)),
        Class::Leaving if drains(entry) => Ok((id, uid, entry)),
        Class::Leaving | Class::Terminating => {
            let message = format!("executor {id} is on its way out");
            Err(ToExecutor::exit("leaving", message))
        }
        Class::Finished | Class::Gone => Err(ended(id)),
    }
}

/// The id on which the message and the token agree (spec B-5).
fn spoken_for(
    prefix: &str,
    proof: &Proof,
    register: &Register,
    snapshot: Option<&Snapshot>,
) -> Result<ExecutorId, ToExecutor> {
    let Some(id) = proof.executor(prefix, snapshot) else {
        let message = "the token's pod is no executor of this application, by its name";
        return Err(ToExecutor::refused("not-yours", message));
    };
    let by_number = register.executor.map(|number| number == id.get());
    let by_name = (register.pod.as_deref()).map(|named| match proof {
        Proof::Pod { name, .. } if snapshot.is_some_and(|s| s.of_sets) => **name == *named,
        _ => id_in_pod_name(prefix, named) == Some(id),
    });
    match (by_number, by_name) {
        (Some(false), _) | (_, Some(false)) | (None, None) => {
            let message = format!("the token is executor {id}'s, and the message is about another");
            Err(ToExecutor::refused("not-yours", message))
        }
        _ => Ok(id),
    }
}

fn without_entry(id: ExecutorId, snapshot: &Snapshot) -> ToExecutor {
    if snapshot.ended.contains(id) {
        return ended(id);
    }
    let message = format!("nothing is known of an executor {id}");
    ToExecutor::exit("unknown-executor", message)
}

fn ended(id: ExecutorId) -> ToExecutor {
    ToExecutor::exit("ended", format!("executor {id} has ended"))
}
