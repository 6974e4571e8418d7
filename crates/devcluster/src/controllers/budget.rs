//! The disruption controller: keeps the status of PodDisruptionBudgets.
//!
//! It remembers which pods each budget selects, so that an event costs the same however many pods there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::changes::write::{Part, Write, seconds};
use crate::objects::budgets::{self, Amount, Limit};
use crate::objects::object::{
    Key, Object, at, condition, entries, is_true, list, number, set, text,
};
use crate::objects::resource::Resource;
use crate::storage::follow::{Follower, Update};
use crate::storage::server::Store;
use crate::storage::store::State;

/// How long an evicted pod that is not deleted counts as disrupted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// Keeps the budgets until the cluster stops. It holds `_alive` until it ends.
pub(crate) async fn run(store: Store, _alive: watch::Receiver<()>) {
    let mut follower = Follower::new(&store);
    let mut known: BTreeMap<Key, Known> = BTreeMap::new();
    let mut checks: BTreeMap<Key, Instant> = BTreeMap::new();
    loop {
        let next = checks.values().min().copied();
        let update = tokio::select! {
            biased;
            update = follower.next() => match update {
                Some(update) => Some(update),
                None => return,
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => None,
        };
        let mut due = take(&mut known, update);
        let is_due = |at: &Instant| *at <= Instant::now();
        due.extend(
            checks
                .iter()
                .filter(|(_, at)| is_due(at))
                .map(|(key, _)| key.clone()),
        );
        for key in due {
            checks.remove(&key);
            if let Some(wait) = reconcile(&store, &known, &key).await {
                checks.insert(key, Instant::now() + wait);
            }
        }
    }
}

/// The pods that a budget selects.
#[derive(Debug, Default)]
struct Known {
    pods: BTreeMap<Arc<str>, Pod>,
    healthy: u64,
    /// The pods' controllers, with the number of their pods.
    controllers: BTreeMap<Controller, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    is_healthy: bool,
    controller: Option<Controller>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Controller {
    uid: String,
    api_version: String,
    kind: String,
    name: String,
}

impl Known {
    fn of(state: &State, budget: &Object) -> Self {
        let mut known = Self::default();
        for pod in state.list(Resource::Pods, Some(&budget.key().namespace)) {
            known.update(budget, pod.key(), Some(pod));
        }
        known
    }

    /// Takes over what has become of a pod. Returns whether that matters.
    fn update(&mut self, budget: &Object, key: &Key, pod: Option<&Arc<Object>>) -> bool {
        let pod = pod.filter(|pod| budgets::selects(budget, pod.labels()));
        let new = pod.map(|pod| Pod {
            is_healthy: is_healthy(pod),
            controller: controller(pod),
        });
        let old = self.pods.remove(&key.name);
        if let Some(old) = &old {
            self.healthy -= u64::from(old.is_healthy);
            if let Some(controller) = &old.controller
                && let Some(count) = self.controllers.get_mut(controller)
            {
                *count -= 1;
                if *count == 0 {
                    self.controllers.remove(controller);
                }
            }
        }
        let is_changed = old != new;
        if let Some(new) = new {
            self.healthy += u64::from(new.is_healthy);
            if let Some(controller) = &new.controller {
                *self.controllers.entry(controller.clone()).or_default() += 1;
            }
            self.pods.insert(key.name.clone(), new);
        }
        is_changed
    }
}

fn is_healthy(pod: &Object) -> bool {
    condition(pod.value(), "Ready") == "True" && !pod.is_terminating()
}

fn controller(pod: &Object) -> Option<Controller> {
    let mut owners = list(pod.value(), &["metadata", "ownerReferences"]).iter();
    let owner = owners.find(|owner| is_true(owner, &["controller"]))?;
    let of = |field: &str| text(owner, &[field]).to_owned();
    Some(Controller {
        uid: of("uid"),
        api_version: of("apiVersion"),
        kind: of("kind"),
        name: of("name"),
    })
}

/// Takes over what has changed. Returns the budgets that it may affect.
fn take(known: &mut BTreeMap<Key, Known>, update: Option<Update>) -> BTreeSet<Key> {
    let mut due = BTreeSet::new();
    match update {
        None => {}
        Some(Update::Reset(state)) => {
            known.clear();
            for budget in state.list(Resource::PodDisruptionBudgets, None) {
                known.insert(budget.key().clone(), Known::of(&state, budget));
                due.insert(budget.key().clone());
            }
        }
        Some(Update::Events(events, state)) => {
            for event in events {
                let (key, selector) = (event.object().key(), ["spec", "selector"]);
                if key.resource == Resource::PodDisruptionBudgets {
                    due.insert(key.clone());
                    let before = event.previous().map(|old| at(old.value(), &selector));
                    let is_same = before == Some(at(event.object().value(), &selector));
                    match state.get(key) {
                        Some(_) if is_same && known.contains_key(key) => {}
                        Some(budget) => {
                            known.insert(key.clone(), Known::of(&state, budget));
                        }
                        None => {
                            known.remove(key);
                        }
                    }
                }
                if key.resource == Resource::Pods {
                    let all = state.list(Resource::PodDisruptionBudgets, Some(&key.namespace));
                    for budget in all {
                        if let Some(known) = known.get_mut(budget.key())
                            && known.update(budget, key, state.get(key))
                        {
                            due.insert(budget.key().clone());
                        }
                    }
                }
            }
        }
    }
    due
}

/// Updates the status of a budget. Returns when to check it again.
async fn reconcile(store: &Store, known: &BTreeMap<Key, Known>, key: &Key) -> Option<Duration> {
    let state = store.state();
    let (budget, known) = (state.get(key)?, known.get(key)?);
    let now = store.clock().now();
    let before = at(budget.value(), &["status"]).cloned();
    let mut status = before.clone().unwrap_or_else(|| json!({}));
    let (disrupted, wait) = disrupted(&state, budget, now);
    let time = Value::from(seconds(now));
    match expected(&state, budget, known) {
        Ok((expected, desired)) => {
            let gone = disrupted.keys().filter(|name| {
                let pod = known.pods.get(name.as_str());
                pod.is_some_and(|pod| pod.is_healthy)
            });
            let healthy = known.healthy.saturating_sub(gone.count() as u64);
            let allowed = match expected {
                0 => 0,
                _ => healthy.saturating_sub(desired),
            };
            let generation = number(budget.value(), &["metadata", "generation"]).unwrap_or(1);
            status = json!({
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "disruptionsAllowed": allowed,
                "observedGeneration": generation,
                "conditions": list(&status, &["conditions"]),
            });
            if !disrupted.is_empty() {
                set(&mut status, &["disruptedPods"], disrupted.into());
            }
            budgets::set_allowed(&mut status, &time);
        }
        Err(why) => budgets::set_failed(&mut status, &why, &time),
    }
    if before.as_ref() != Some(&status) {
        let mut object = budget.value().clone();
        set(&mut object, &["status"], status);
        let (key, part) = (key.clone(), Part::Status);
        // It is refused if the budget has changed; the event of that brings it back here.
        if let Err(error) = store.write(Write::Update { key, part, object }).await {
            tracing::debug!(target: "cluster.budgets", error = error.message, "a write was refused");
        }
    }
    wait
}

/// The evicted pods that are about to be deleted, and when the first of them will have had enough time for that.
fn disrupted(
    state: &State,
    budget: &Object,
    now: Timestamp,
) -> (serde_json::Map<String, Value>, Option<Duration>) {
    let mut left = serde_json::Map::new();
    let mut wait: Option<Duration> = None;
    for (name, since) in entries(budget.value(), &["status", "disruptedPods"]) {
        let key = Key::new(Resource::Pods, &budget.key().namespace, name);
        if state.get(&key).is_none_or(|pod| pod.is_terminating()) {
            continue;
        }
        let Some(at) = since.as_str().and_then(|at| at.parse::<Timestamp>().ok()) else {
            continue;
        };
        let timeout = SignedDuration::try_from(DELETION_TIMEOUT).unwrap_or_default();
        let rest = timeout.saturating_sub(now.duration_since(at));
        if let Ok(rest) = Duration::try_from(rest)
            && !rest.is_zero()
        {
            left.insert(name.clone(), since.clone());
            wait = wait.into_iter().chain([rest]).min();
        }
    }
    (left, wait)
}

/// How many pods there should be, and how many of them must be healthy.
fn expected(state: &State, budget: &Object, known: &Known) -> Result<(u64, u64), String> {
    match budgets::limit(budget) {
        None => Ok((0, 0)),
        Some(Limit::Available(Amount::Pods(desired))) => Ok((known.pods.len() as u64, desired)),
        Some(Limit::Available(share)) => {
            let all = scale(state, budget, known)?;
            Ok((all, share.of_all(all)))
        }
        Some(Limit::Unavailable(most)) => {
            let all = scale(state, budget, known)?;
            Ok((all, all.saturating_sub(most.of_all(all))))
        }
    }
}

/// The replicas of all controllers of a budget's pods.
fn scale(state: &State, budget: &Object, known: &Known) -> Result<u64, String> {
    let mut scales = BTreeMap::new();
    for controller in known.controllers.keys() {
        let found = scale_of(state, &budget.key().namespace, controller)?;
        let (uid, replicas) = found.ok_or_else(|| {
            let of = |pod: &Pod| pod.controller.as_ref() == Some(controller);
            let pod = known.pods.iter().find(|(_, pod)| of(pod));
            let name = pod.map_or("", |(name, _)| name);
            format!("found no controllers for pod \"{name}\"")
        })?;
        scales.insert(uid, replicas);
    }
    Ok(scales.into_values().sum())
}

/// The uid and the replicas of a controller, or of the Deployment that it belongs to; `None` if it does not exist.
fn scale_of(
    state: &State,
    namespace: &str,
    controller: &Controller,
) -> Result<Option<(String, u64)>, String> {
    let Controller {
        uid,
        api_version,
        kind,
        name,
    } = controller;
    let resource = Resource::of_kind(api_version, kind)
        .ok_or_else(|| format!("no matches for kind \"{kind}\" in version \"{api_version}\""))?;
    let traits = resource.traits();
    if !resource.is_workload() {
        let dot = if traits.group.is_empty() { "" } else { "." };
        let (plural, group) = (traits.plural, traits.group);
        return Err(format!(
            "{plural}{dot}{group} does not implement the scale subresource"
        ));
    }
    let found = state.get(&Key::new(resource, namespace, name));
    let Some(found) = found.filter(|found| found.uid() == uid) else {
        return Ok(None);
    };
    let mut owners = found.owners().filter_map(|owner| state.by_uid(owner.uid));
    let owner = owners.find(|owner| owner.key().resource == Resource::Deployments);
    let scaled = owner.unwrap_or(found);
    let replicas = number(scaled.value(), &["spec", "replicas"]).unwrap_or(0);
    let replicas = u64::try_from(replicas).unwrap_or(0);
    Ok(Some((scaled.uid().to_owned(), replicas)))
}
