//! Changes of pods: the mark of an executor that drains, which is an annotation for a successor and a label for disruption
//! budgets (spec L-12); protection from autoscalers; the promotion of a spare.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::labels::{DRAINING, LabelScheme, PROTECTION};
use boatswain_model::pod::{DrainedFor, Draining, cut};
use boatswain_model::{PodUid, ProfileName};

/// The label of decommissioned executors' pods; its value is `true`.
const LABEL: &str = "boatswain.dev/decommissioning";

/// The reason in the annotation if the application has ended.
const APPLICATION_ENDED: &str = "application-ended";

#[derive(Serialize, Deserialize)]
struct Written<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Cow<'a, str>>,
    until: Timestamp,
}

/// Reads the annotation; `None` if it is invalid.
pub fn read(annotation: &str) -> Option<Draining> {
    let written: Written<'_> = serde_json::from_str(annotation).ok()?;
    let why = match (written.by, written.node, written.why.as_deref()) {
        (Some(by), ..) => DrainedFor::Asked(cut(&by)),
        (None, Some(node), _) => DrainedFor::NodeLeaving(cut(&node)),
        (None, None, Some(APPLICATION_ENDED)) => DrainedFor::ApplicationEnded,
        (None, None, _) => DrainedFor::Surplus,
    };
    let until = written.until;
    Some(Draining { why, until })
}

/// Builds the merge patch that marks the pod, with its uid as a precondition. `unprotects`: whether autoscalers may empty its
/// node from now on (spec L-42).
pub fn patch(uid: &PodUid, mark: &Draining, unprotects: bool) -> Value {
    let mut written = Written {
        by: None,
        why: None,
        node: None,
        until: mark.until,
    };
    match &mark.why {
        DrainedFor::Surplus => {}
        DrainedFor::ApplicationEnded => written.why = Some(APPLICATION_ENDED.into()),
        DrainedFor::Asked(by) => written.by = Some(Cow::from(&**by)),
        DrainedFor::NodeLeaving(which) => written.node = Some(Cow::from(&**which)),
    }
    let mut annotations = match unprotects {
        true => protection(false),
        false => json!({}),
    };
    annotations[DRAINING] = json!(json!(written).to_string());
    json!({"metadata": {
        "uid": uid.as_str(),
        "annotations": annotations,
        "labels": {LABEL: "true"},
    }})
}

/// Builds the merge patch by which autoscalers leave the pod's node alone, or do so no longer (spec L-42).
pub fn protect(uid: &PodUid, is_protected: bool) -> Value {
    let annotations = protection(is_protected);
    json!({"metadata": {"uid": uid.as_str(), "annotations": annotations}})
}

/// Builds the merge patch by which a spare becomes an executor of this profile (spec A-118).
pub fn promote(uid: &PodUid, labels: LabelScheme, profile: &ProfileName) -> Value {
    let labels = json!({labels.keys().profile: profile.as_str()});
    json!({"metadata": {"uid": uid.as_str(), "labels": labels}})
}

fn protection(is_protected: bool) -> Value {
    let value = |value: &str| match is_protected {
        true => json!(value),
        false => Value::Null,
    };
    (PROTECTION.iter())
        .map(|(key, text)| ((*key).to_owned(), value(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: L-12
    #[test]
    fn a_successor_reads_what_was_written() {
        for why in [
            DrainedFor::Surplus,
            DrainedFor::ApplicationEnded,
            DrainedFor::NodeLeaving("n1: it is being deleted".into()),
            DrainedFor::Asked("somebody \"else\"".into()),
        ] {
            let until = "2026-11-21T20:00:00Z".parse().unwrap();
            let mark = Draining { why, until };
            let patch = patch(&"u1".into(), &mark, true);
            let written = patch["metadata"]["annotations"][DRAINING].as_str().unwrap();
            assert_eq!(read(written), Some(mark));
            assert_eq!(
                patch["metadata"]["labels"]["boatswain.dev/decommissioning"],
                "true"
            );
            assert_eq!(patch["metadata"]["uid"], "u1");
            let annotations = patch["metadata"]["annotations"].as_object().unwrap();
            assert_eq!(annotations["karpenter.sh/do-not-disrupt"], Value::Null);
        }
        for garbage in ["", "{}", "true", r#"{"until": "soon"}"#, r#"{"by": 1}"#] {
            assert_eq!(read(garbage), None, "{garbage}");
        }
    }
}
