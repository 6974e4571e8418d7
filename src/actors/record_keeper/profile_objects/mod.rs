//! Maintains the objects of which each profile has one, with a number of pods: the
//! PodGroups that Volcano or Kubernetes' scheduler reads (spec A-82), or the executors'
//! PodDisruptionBudgets, whose number follows the target (spec K-12).
//!
//! It checks them periodically and when a profile is added, creates missing ones and corrects others. The object of a
//! removed profile is deleted (spec B-57).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Recipient};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, pending};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::actors::pod_allocator::decision::Answer;
use crate::actors::pod_allocator::meaning;
use crate::actors::pod_allocator::messages::GroupsRefused;
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::actors::profile_messages::{AddedProfile, ProfileGone};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::LookNow;
use crate::event_recorder::EventRecorder;
use crate::event_recorder::events::Note;
use crate::kubernetes::calls::{NO_POD_GROUPS, ObjectSeen, PodGroups, ProfileObject};
use crate::kubernetes::labels::EXECUTOR_ROLE;
use crate::kubernetes::pod_template::gangs::group_name;
use crate::kubernetes::pod_template::owner_reference;
use crate::kubernetes::{Calls, Failure, FailureKind, LabelScheme};
use crate::model::{AppId, PodUid, ProfileName, Snapshot};
use boatswain_agent::backoff::Backoff;

const LOOK_EVERY: Duration = Duration::from_secs(300);

/// The interval between comparisons of the targets with what was written.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// The interval between checks for the application record.
const WAIT: Duration = Duration::from_secs(1);

/// The interval between checks for an object that is being deleted. It may stay as long as the pods that name it.
const WAIT_FOR_DELETION: Duration = Duration::from_secs(10);

const TRIES: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
};

/// What the objects say about the application.
#[derive(Debug, Clone)]
pub struct Place {
    pub prefix: String,
    pub app_id: AppId,
    pub labels: LabelScheme,
}

/// Takes what concerns the objects of one kind for a task, which ends when this is dropped. The queue needs no limit: an
/// input is a command of an operator or the end of an outage.
pub struct ProfileObjects(mpsc::UnboundedSender<Input>);

enum Input {
    Added(Arc<AddedProfile>),
    /// Answered with whether the object is gone.
    Remove(ProfileGone, oneshot::Sender<bool>),
    ServerIsBack,
}

struct Keeper {
    object: ProfileObject,
    calls: Calls,
    place: Place,
    /// By profile. A profile with 0 has no object.
    least: Numbers,
    store: Addr<SnapshotStore>,
    event_recorder: Option<EventRecorder>,
    /// Is informed of PodGroups that are refused, and that they are no longer.
    refused: Option<Recipient<GroupsRefused>>,
    failures: u32,
    /// What the last check has found or written.
    correct: Option<Correct>,
}

/// The next look, which may be under way.
type Look = LocalBoxFuture<'static, Result<Looked, Failure>>;

type Numbers = BTreeMap<ProfileName, u32>;

#[derive(Debug, Clone)]
struct Correct {
    record: PodUid,
    numbers: Numbers,
    checked_at: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Todo {
    Nothing,
    Create(Value),
    /// Apply this merge patch.
    Patch(Value),
    /// Delete it, because what is wrong cannot be changed; it is created when it is gone.
    Replace,
    /// It is being deleted.
    Await,
}

pub fn todo(
    object: ProfileObject,
    place: &Place,
    profile: &ProfileName,
    number: u32,
    record: &PodUid,
    seen: Option<&ObjectSeen>,
) -> Todo {
    let owners = json!([owner_reference(&place.prefix, record)]);
    let mut spec = object.spec(number);
    if seen.is_some_and(|seen| seen.deleting) {
        return Todo::Await;
    }
    let owner = seen.and_then(|seen| seen.owner.as_deref());
    if seen.is_some_and(|seen| seen.number == Some(number)) && owner == Some(record.as_str()) {
        return Todo::Nothing;
    }
    if let Some(seen) = seen {
        if seen.number != Some(number) && !object.is_mutable() {
            return Todo::Replace;
        }
        return Todo::Patch(json!({"metadata": {"ownerReferences": owners}, "spec": spec}));
    }
    let keys = place.labels.keys();
    if object == ProfileObject::DisruptionBudget {
        spec["selector"] = json!({"matchLabels": {
            keys.app_id: place.app_id.as_str(),
            keys.role: EXECUTOR_ROLE,
            keys.profile: profile.as_str(),
        }});
        // A pod that is not Ready does no work that an eviction would lose.
        spec["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
    }
    Todo::Create(json!({
        "apiVersion": format!("{}/{}", object.group(), object.version()),
        "kind": object.kind(),
        "metadata": {
            "name": group_name(&place.prefix, profile),
            "labels": {keys.app_id: place.app_id.as_str()},
            "ownerReferences": owners,
        },
        "spec": spec,
    }))
}

/// A budget above the target would forbid every eviction.
fn numbers(object: ProfileObject, least: &Numbers, snapshot: &Snapshot) -> Numbers {
    let number = |profile, least: u32| match object {
        ProfileObject::PodGroup(_) => least,
        ProfileObject::DisruptionBudget => least.min(snapshot.target(profile)),
    };
    (least.iter())
        .map(|(profile, least)| (profile.clone(), number(profile, *least)))
        .collect()
}

enum Looked {
    /// All objects are correct.
    Correct(Correct),
    /// The application record does not exist at the moment.
    TooEarly,
    /// The cluster does not have this kind.
    NotServed,
    /// An object that was deleted is not gone yet.
    Going,
    /// The API server refuses to create these, and all others are correct.
    Refused(BTreeMap<ProfileName, (RefusalKind, Arc<str>)>),
}

impl ProfileObjects {
    /// `least`: the least number of executors by profile. A profile with 0 gets no object.
    pub fn start(
        object: ProfileObject,
        calls: Calls,
        place: Place,
        mut least: Numbers,
        store: Addr<SnapshotStore>,
        event_recorder: Option<EventRecorder>,
        refused: Option<Recipient<GroupsRefused>>,
    ) -> Self {
        least.retain(|_, least| *least > 0);
        let keeper = Keeper {
            object,
            calls,
            place,
            least,
            store,
            event_recorder,
            refused,
            failures: 0,
            correct: None,
        };
        let (inputs, queue) = mpsc::unbounded_channel();
        actix::spawn(keeper.run(queue));
        Self(inputs)
    }

    // Sending fails only if the driver has ended.

    pub fn add_profile(&self, added: Arc<AddedProfile>) {
        let _ = self.0.send(Input::Added(added));
    }

    /// The end of an outage ends the backoff (spec W-8).
    pub fn server_is_back(&self) {
        let _ = self.0.send(Input::ServerIsBack);
    }

    /// Deletes the object of a removed profile. Returns whether nothing of it is left to delete.
    pub fn remove_profile(&self, profile: ProfileGone) -> impl Future<Output = bool> + use<> {
        let (answer, gone) = oneshot::channel();
        let _ = self.0.send(Input::Remove(profile, answer));
        async move { gone.await.unwrap_or(false) }
    }
}

impl Keeper {
    async fn run(mut self, mut inputs: mpsc::UnboundedReceiver<Input>) {
        // Nothing is looked at before a profile has an object.
        let mut look = match self.least.is_empty() {
            true => pending().boxed_local(),
            false => self.look_after(Duration::ZERO),
        };
        loop {
            tokio::select! {
                biased;
                input = inputs.recv() => match input {
                    None => return,
                    // A check in flight may not know the newest profile. Another one replaces it.
                    Some(Input::Added(added)) => if self.adds(&added) {
                        look = self.look_after(Duration::ZERO);
                    },
                    Some(Input::ServerIsBack) => if self.failures > 0 {
                        // The first failure is reported already.
                        self.failures = 1;
                        look = self.look_after(Duration::ZERO);
                    },
                    Some(Input::Remove(profile, answer)) => {
                        let mut gone = true;
                        if self.had(&profile) {
                            // A check in flight may create the object again.
                            drop(std::mem::replace(&mut look, pending().boxed_local()));
                            gone = self.deleted(&profile.name).await;
                            look = self.look_after(Duration::ZERO);
                        }
                        let _ = answer.send(gone);
                    }
                },
                looked = &mut look => {
                    let pause = self.looked(looked);
                    look = self.look_after(pause);
                }
            }
        }
    }

    fn look_after(&self, pause: Duration) -> Look {
        let (object, calls, store) = (self.object, self.calls.clone(), self.store.clone());
        let (place, least) = (self.place.clone(), self.least.clone());
        let last = self.correct.clone();
        let looked = async move {
            sleep(pause).await;
            let snapshot = store.send(LookNow).await.ok();
            let snapshot = snapshot.map(|now| now.0);
            look(object, calls, place, least, snapshot, last).await
        };
        looked.boxed_local()
    }

    /// Returns whether the new profile has an object.
    fn adds(&mut self, added: &AddedProfile) -> bool {
        let least = match self.object {
            ProfileObject::PodGroup(_) => added.bounds.least,
            ProfileObject::DisruptionBudget => added.min_available.unwrap_or(0),
        };
        if least > 0 {
            self.least.insert(added.name.clone(), least);
        }
        least > 0
    }

    /// Whether the removed profile had an object.
    fn had(&mut self, gone: &ProfileGone) -> bool {
        let number = &gone.described[self.object.profile_key()];
        let had_one = number.as_u64().is_some_and(|number| number > 0);
        self.least.remove(&gone.name).is_some() || had_one
    }

    /// Deletes the object of this profile. Returns whether nothing is left to do.
    async fn deleted(&self, profile: &ProfileName) -> bool {
        let name = group_name(&self.place.prefix, profile);
        let Err(failure) = delete(self.object, &self.calls, &name).await else {
            return true;
        };
        let (object, error) = (self.object.kind(), failure.explained());
        // It selects no pods, and goes with the application record.
        let stays = failure.kind == FailureKind::Rights;
        if stays {
            tracing::warn!(object, name, %error, "the object of a removed profile stays: it cannot be deleted");
        } else {
            tracing::debug!(object, name, %error, "the object of a removed profile is not deleted yet");
        }
        stays
    }

    /// Returns the delay until the next check.
    fn looked(&mut self, looked: Result<Looked, Failure>) -> Duration {
        match looked {
            Ok(Looked::Correct(correct)) => {
                self.tell_refused(BTreeMap::new());
                if std::mem::take(&mut self.failures) > 0 {
                    tracing::info!("recovered: every {} is correct", self.object.kind());
                }
                self.correct = Some(correct);
                match self.object {
                    ProfileObject::PodGroup(_) => LOOK_EVERY,
                    ProfileObject::DisruptionBudget => FOLLOW_EVERY,
                }
            }
            Ok(Looked::Refused(refused)) => {
                let first = refused.values().next().cloned();
                self.tell_refused(refused);
                match first {
                    Some((kind, why)) => self.failed(&why, hint(kind == RefusalKind::Rights)),
                    None => WAIT,
                }
            }
            Ok(Looked::TooEarly) => WAIT,
            Ok(Looked::Going) => WAIT_FOR_DELETION,
            Ok(Looked::NotServed) => {
                let hint = match self.object {
                    ProfileObject::PodGroup(PodGroups::Kubernetes { .. }) => NO_POD_GROUPS,
                    _ => "install Volcano (volcano.sh), or set scheduling.gang to another word",
                };
                let group = self.object.group();
                let error = format!("the cluster does not have the kind PodGroup of {group}");
                self.failed(&error, hint)
            }
            Err(failure) => {
                let is_right = failure.kind == FailureKind::Rights;
                self.failed(&failure.explained(), hint(is_right))
            }
        }
    }

    fn tell_refused(&self, refused: BTreeMap<ProfileName, (RefusalKind, Arc<str>)>) {
        if let Some(allocator) = &self.refused {
            allocator.do_send(GroupsRefused(refused));
        }
    }

    /// Logs the first failure, and returns the delay until the next check.
    fn failed(&mut self, error: &str, hint: &str) -> Duration {
        self.correct = None;
        self.failures += 1;
        if self.failures == 1 {
            let (reason, what) = match self.object {
                ProfileObject::PodGroup(_) => (
                    "PodGroupMissing",
                    "the PodGroups are out of date, and executors may stay pending",
                ),
                ProfileObject::DisruptionBudget => (
                    "DisruptionBudgetMissing",
                    "the executors' PodDisruptionBudgets are out of date: drains may evict too many executors, or none",
                ),
            };
            tracing::warn!(error, hint, "degraded: {what}");
            if let Some(event_recorder) = &self.event_recorder {
                event_recorder.record(Note {
                    reason,
                    about: self.place.prefix.clone(),
                    text: format!("Degraded: {what}: {error}: {hint}"),
                    warning: true,
                });
            }
        }
        TRIES.delay(self.failures)
    }
}

fn hint(is_right_missing: bool) -> &'static str {
    match is_right_missing {
        true => "grant it: see docs/kubernetes.md, \"Rights\"",
        false => "it is tried again",
    }
}

/// Creates or corrects each object. Nothing is read where the last check found everything as it is
/// wanted now, a short time ago.
async fn look(
    object: ProfileObject,
    calls: Calls,
    place: Place,
    least: Numbers,
    snapshot: Option<Snapshot>,
    last: Option<Correct>,
) -> Result<Looked, Failure> {
    // The record owns the objects, so they wait for it (spec K-13).
    let snapshot = snapshot.filter(|snapshot| snapshot.adopted);
    let Some((snapshot, record)) =
        snapshot.and_then(|all| all.record.clone().map(|uid| (all, uid)))
    else {
        return Ok(Looked::TooEarly);
    };
    let numbers = numbers(object, &least, &snapshot);
    let same = |last: &Correct| last.record == record && last.numbers == numbers;
    if let Some(last) = last.filter(same)
        && last.checked_at.elapsed() < LOOK_EVERY
    {
        return Ok(Looked::Correct(last));
    }
    let Some(object) = calls.served(object).await? else {
        return Ok(Looked::NotServed);
    };
    let (mut going, mut refused) = (false, BTreeMap::new());
    for (profile, number) in &numbers {
        let name = group_name(&place.prefix, profile);
        let seen = calls.get_profile_object(object, &name).await?;
        match todo(object, &place, profile, *number, &record, seen.as_ref()) {
            Todo::Nothing => {}
            Todo::Await => going = true,
            Todo::Create(json) => {
                let created = calls.create_profile_object(object, &json).await;
                let answer = created.map_err(|failure| (meaning(&failure).1, failure));
                match answer {
                    Ok(()) => {}
                    Err((Answer::Refused(kind, why), _)) => {
                        refused.insert(profile.clone(), (kind, why));
                    }
                    Err((_, failure)) => return Err(failure),
                }
            }
            Todo::Patch(patch) => calls.patch_profile_object(object, &name, &patch).await?,
            Todo::Replace => {
                let uid = seen.map(|seen| seen.uid).unwrap_or_default();
                calls.delete_profile_object(object, &name, &uid).await?;
                going = true;
            }
        }
    }
    if !refused.is_empty() {
        return Ok(Looked::Refused(refused));
    }
    if going {
        return Ok(Looked::Going);
    }
    Ok(Looked::Correct(Correct {
        record,
        numbers,
        checked_at: Instant::now(),
    }))
}

/// Deletes the object, if there is one.
async fn delete(object: ProfileObject, calls: &Calls, name: &str) -> Result<(), Failure> {
    let Some(object) = calls.served(object).await? else {
        return Ok(());
    };
    match calls.get_profile_object(object, name).await? {
        None => Ok(()),
        Some(seen) => calls.delete_profile_object(object, name, &seen.uid).await,
    }
}

#[cfg(test)]
mod tests;
