//! Deletes objects: at once, after a grace period, or when their last finalizer is removed.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::write::{Answer, WriteContext, seconds};
use crate::api::status::{ApiError, Causes, success};
use crate::objects::object::{Key, Object, at, list, number, set, text, unset};
use crate::objects::pod;
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The finalizer that keeps an owner until its dependents no longer refer to it.
pub const ORPHAN: &str = "orphan";

/// The finalizer that keeps an owner until its dependents are deleted.
pub const FOREGROUND: &str = "foregroundDeletion";

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after their owner.
    #[default]
    Background,
    /// They are deleted before their owner.
    Foreground,
    /// They stay, without the owner.
    Orphan,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The requested grace period in seconds; `None` for the object's own.
    pub grace: Option<i64>,
    /// A precondition: the uid the object must have.
    pub uid: Option<String>,
    /// A precondition: the resource version the object must have.
    pub resource_version: Option<String>,
    /// The propagation policy; background if `None`.
    pub propagation: Option<Propagation>,
    /// Whether to validate only.
    pub dry_run: bool,
}

fn invalid(cause: impl FnOnce(&mut Causes)) -> ApiError {
    ApiError::invalid("DeleteOptions", "meta.k8s.io", "", Causes::of(cause))
}

impl DeleteOptions {
    pub fn from_value(options: &Value) -> Result<Self, ApiError> {
        let wrong = |what: &str| {
            ApiError::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: {what}"
            ))
        };
        if !options.is_object() {
            return Err(wrong("no object"));
        }
        let given = meta::DeleteOptions::deserialize(options).map_err(|e| wrong(&e.to_string()))?;
        let kind = given.kind.unwrap_or_default();
        if !matches!(kind.as_str(), "" | "DeleteOptions") {
            return Err(wrong(&format!("kind {kind}")));
        }
        let preconditions = given.preconditions.unwrap_or_default();
        let mut read = Self {
            grace: given.grace_period_seconds,
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
            ..Self::default()
        };
        if let Some(policy) = given.propagation_policy {
            read.set_propagation(&policy)?;
        }
        let stages = given.dry_run.unwrap_or_default();
        if stages.iter().any(|stage| stage != "All") {
            return Err(invalid(|c| c.not_supported("dryRun", stages, &["All"])));
        }
        read.dry_run = !stages.is_empty();
        Ok(read)
    }

    pub fn set_propagation(&mut self, policy: &str) -> Result<(), ApiError> {
        self.propagation = Some(match policy {
            "Background" => Propagation::Background,
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            other => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                return Err(invalid(|c| {
                    c.not_supported("propagationPolicy", other, &known)
                }));
            }
        });
        Ok(())
    }
}

pub(crate) fn check_preconditions(
    object: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    match unmet(object, options) {
        Some(why) => Err(object.key().conflict(&why)),
        None => Ok(()),
    }
}

/// The precondition that an object does not meet, in words.
pub(crate) fn unmet(object: &Object, options: &DeleteOptions) -> Option<String> {
    if let Some(uid) = &options.uid
        && uid != object.uid()
    {
        return Some(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            object.uid()
        ));
    }
    if let Some(version) = &options.resource_version
        && *version != object.resource_version().to_string()
    {
        return Some(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            object.resource_version()
        ));
    }
    None
}

/// What a delete request does first.
enum Step {
    /// Sets a deletion timestamp and a grace period; a grace period of zero removes the object at once.
    Mark { grace: i64 },
    /// The object is terminating already, and this request changes nothing.
    Pending,
    /// Removes the object, unless finalizers remain.
    Now,
}

fn step(object: &Object, options: &DeleteOptions) -> Step {
    if object.key().resource != Resource::Pods {
        return Step::Now;
    }
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    if object.is_terminating() {
        // A repeated delete can only shorten the grace period.
        return match (object.deletion_grace().unwrap_or(0), asked) {
            (0, _) => Step::Now,
            (pending, Some(asked)) if asked < pending => Step::Mark { grace: asked },
            _ => Step::Pending,
        };
    }
    let spec = &object.value()["spec"];
    let own = number(spec, &["terminationGracePeriodSeconds"]).unwrap_or(0);
    let unassigned = text(spec, &["nodeName"]).is_empty();
    let grace = if unassigned || pod::has_ended(object) {
        0
    } else {
        asked.unwrap_or(own)
    };
    Step::Mark {
        grace: if grace < 0 { 1 } else { grace },
    }
}

/// Deletes one object, or starts its deletion.
pub(crate) fn one(
    state: &mut State,
    key: &Key,
    options: &DeleteOptions,
    context: &WriteContext<'_>,
) -> Result<Answer, ApiError> {
    let old = match state.existing(key) {
        Ok(old) => old,
        Err(gone) => return lost_race(options, context).ok_or(gone),
    };
    check_preconditions(&old, options)?;
    if key.resource == Resource::Namespaces {
        return namespace(state, &old, context);
    }
    let step = step(&old, options);
    if matches!(step, Step::Pending) {
        return Ok(Answer::Object(old, false));
    }
    let mut new = old.value().clone();
    set_propagation_finalizers(&mut new, options);
    let has_finalizers = !list(&new, &["metadata", "finalizers"]).is_empty();
    match step {
        Step::Mark { grace } => mark(&mut new, grace, context),
        Step::Now if has_finalizers => mark(&mut new, 0, context),
        Step::Now | Step::Pending => {}
    }
    let grace = number(&new, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let marked = if new == *old.value() {
        old
    } else {
        state.put(key.clone(), new)?
    };
    if has_finalizers || grace > 0 {
        return Ok(Answer::Object(marked, false));
    }
    let last = state.remove(key).unwrap_or(marked);
    let traits = key.resource.traits();
    if traits.returns_deleted {
        return Ok(Answer::Object(last, false));
    }
    let mut details = json!({"name": &*key.name, "kind": traits.plural, "uid": last.uid()});
    if !traits.group.is_empty() {
        details["group"] = traits.group.into();
    }
    Ok(Answer::Status(200, success(200, Some(details))))
}

/// The answer to a delete whose object was removed after the request had arrived; `None` for the 404 error.
///
/// A real server first writes a grace period of zero and then removes the object. If another request removes it in
/// between, the server answers with what it wrote, which has no resource version.
fn lost_race(options: &DeleteOptions, context: &WriteContext<'_>) -> Option<Answer> {
    let seen = context.caller?.deletes.as_deref()?;
    check_preconditions(seen, options).ok()?;
    let keeps = options.propagation.unwrap_or_default() != Propagation::Background;
    if keeps || seen.finalizers().next().is_some() {
        return None;
    }
    let Step::Mark { grace: 0 } = step(seen, options) else {
        return None;
    };
    let mut last = seen.value().clone();
    mark(&mut last, 0, context);
    unset(&mut last, &["metadata", "resourceVersion"]);
    let traits = seen.key().resource.traits();
    last["kind"] = traits.kind.into();
    last["apiVersion"] = traits.api_version.into();
    Some(Answer::Status(200, last))
}

/// Namespaces that cannot be deleted.
const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];

/// A namespace is removed when its content is gone.
fn namespace(
    state: &mut State,
    old: &Object,
    context: &WriteContext<'_>,
) -> Result<Answer, ApiError> {
    let name = &*old.key().name;
    if PROTECTED.contains(&name) {
        return Err(old.key().forbidden("this namespace may not be deleted"));
    }
    let mut new = old.value().clone();
    if !old.is_terminating() {
        set(&mut new, &["metadata", "deletionTimestamp"], context.text());
        set(&mut new, &["status", "phase"], "Terminating".into());
    }
    if new == *old.value() {
        let why = "The system is ensuring all content is removed from this namespace.  Upon completion, this \
                   namespace will automatically be purged by the system.";
        return Err(old.key().conflict(why));
    }
    Ok(Answer::Object(state.put(old.key().clone(), new)?, false))
}

/// Sets or shortens the grace period. The first time, the generation increases.
fn mark(object: &mut Value, grace: i64, context: &WriteContext<'_>) {
    let until = at(object, &["metadata", "deletionTimestamp"])
        .and_then(Value::as_str)
        .map(str::to_owned);
    let began = match until {
        None => {
            if let Some(generation) = number(object, &["metadata", "generation"]) {
                set(object, &["metadata", "generation"], (generation + 1).into());
            }
            context.now
        }
        Some(until) => {
            let pending = number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            let until: jiff::Timestamp = until.parse().unwrap_or(context.now);
            until
                .checked_sub(jiff::SignedDuration::from_secs(pending))
                .unwrap_or(context.now)
        }
    };
    // A grace period beyond the last representable time is capped there.
    let until = began
        .checked_add(jiff::SignedDuration::from_secs(grace))
        .unwrap_or(jiff::Timestamp::MAX);
    set(
        object,
        &["metadata", "deletionTimestamp"],
        seconds(until).into(),
    );
    set(
        object,
        &["metadata", "deletionGracePeriodSeconds"],
        grace.into(),
    );
}

/// Sets the finalizers that the propagation policy requires. Without one, the finalizers of the object decide.
fn set_propagation_finalizers(object: &mut Value, options: &DeleteOptions) {
    let Some(propagation) = options.propagation else {
        return;
    };
    let mut finalizers = list(object, &["metadata", "finalizers"]).to_vec();
    finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        unset(object, &["metadata", "finalizers"]);
    } else {
        set(object, &["metadata", "finalizers"], finalizers.into());
    }
}

pub(crate) fn collection(
    state: &mut State,
    resource: Resource,
    objects: Vec<Arc<Object>>,
    options: &DeleteOptions,
    context: &WriteContext<'_>,
) -> Result<Answer, ApiError> {
    let version = state.resource_version();
    for object in &objects {
        one(state, object.key(), options, context)?;
    }
    Ok(Answer::Deleted {
        resource,
        version,
        objects,
    })
}
