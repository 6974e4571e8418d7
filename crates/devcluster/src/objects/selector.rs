//! Label and field selectors, which restrict lists, watches and deletions of collections.

use serde_json::Value;

use super::label_selector::{self, LabelRequirement};
use super::object::Object;
use super::resource::Resource;
use crate::api::status::ApiError;

/// An object is selected if every requirement holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    field: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses both selectors of a query; an empty one has no requirements.
    pub fn parse(resource: Resource, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = label_selector::parse(labels).map_err(ApiError::bad_request)?;
        let fields = parse_fields(resource, fields).map_err(ApiError::bad_request)?;
        Ok(Self { labels, fields })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.labels.iter().all(|r| r.holds(object.labels()))
            && self.fields.iter().all(|r| r.holds(object.value()))
    }
}

impl FieldRequirement {
    fn holds(&self, object: &Value) -> bool {
        // The source of an event is its component or its reporter.
        let field = match self.field.as_str() {
            "source" if object.pointer("/source/component").is_some() => "source.component",
            "source" => "reportingComponent",
            field => field,
        };
        let found = field
            .split('.')
            .try_fold(object, |value, name| value.get(name));
        let value = match found {
            Some(Value::String(text)) => text.as_str(),
            Some(Value::Bool(true)) => "true",
            _ if matches!(
                self.field.as_str(),
                "spec.hostNetwork" | "spec.unschedulable"
            ) =>
            {
                "false"
            }
            _ => "",
        };
        (value == self.value) == self.equal
    }
}

/// The fields by which real servers select objects of this kind.
fn selectable(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Pods => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        Resource::Namespaces => &["metadata.name", "status.phase"],
        Resource::Services => &[
            "metadata.name",
            "metadata.namespace",
            "spec.clusterIP",
            "spec.type",
        ],
        Resource::Secrets => &["metadata.name", "metadata.namespace", "type"],
        Resource::Nodes => &["metadata.name", "spec.unschedulable"],
        Resource::Events => &[
            "metadata.name",
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        Resource::ClusterRoles | Resource::ClusterRoleBindings => &["metadata.name"],
        _ => &["metadata.name", "metadata.namespace"],
    }
}

fn parse_fields(resource: Resource, selector: &str) -> Result<Vec<FieldRequirement>, String> {
    let mut requirements = Vec::new();
    for part in selector.split(',') {
        if part.is_empty() {
            continue;
        }
        let (field, value, equal) = split_field(part)
            .ok_or_else(|| format!("invalid selector: '{selector}'; can't understand '{part}'"))?;
        // Names need no escapes, so none are read.
        if value.contains(['\\', '=']) {
            return Err(format!("invalid field selector: cannot read '{value}'"));
        }
        if !selectable(resource).contains(&field) {
            return Err(format!("field label not supported: {field}"));
        }
        requirements.push(FieldRequirement {
            field: field.to_owned(),
            value: value.to_owned(),
            equal,
        });
    }
    Ok(requirements)
}

fn split_field(part: &str) -> Option<(&str, &str, bool)> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, value, false));
    }
    if let Some(value) = rest.strip_prefix("==") {
        return Some((field, value, true));
    }
    Some((field, rest.strip_prefix('=')?, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::object::Key;
    use proptest::prelude::*;
    use serde_json::json;

    fn pod() -> Object {
        let value = json!({
            "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "demo", "n": "5", "empty": ""}},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running"},
        });
        Object::new(Key::new(Resource::Pods, "ns", "a"), value, 1)
    }

    fn selects(labels: &str, fields: &str) -> bool {
        Selector::parse(Resource::Pods, labels, fields)
            .expect("well-formed")
            .matches(&pod())
    }

    #[test]
    fn selected_objects_meet_every_label_requirement() {
        for yes in [
            "",
            "app",
            "app=demo",
            "app==demo",
            "app = demo",
            "app!=other",
            "none!=x",
            "!none",
            "app in (demo,x)",
            "app in ( x , demo )",
            "app notin (x,y)",
            "none notin (x)",
            "empty=",
            "app=demo,n",
        ] {
            assert!(selects(yes, ""), "{yes}");
        }
        for no in [
            "none",
            "app=x",
            "app!=demo",
            "!app",
            "app in (x)",
            "none in (x)",
            "app notin (demo)",
            "app,n=6",
        ] {
            assert!(!selects(no, ""), "{no}");
        }
    }

    #[test]
    fn field_requirements_treat_a_missing_field_as_empty() {
        for yes in [
            "metadata.name=a",
            "metadata.name==a",
            "status.phase!=Failed",
            "spec.nodeName=node-1,status.phase=Running",
            "status.podIP=",
            "metadata.namespace=ns",
        ] {
            assert!(selects("", yes), "{yes}");
        }
        assert!(!selects("", "metadata.name=b"));
        assert!(!selects("", "spec.nodeName="));
    }

    #[test]
    fn an_invalid_selector_is_a_bad_request() {
        for labels in [
            "=", "a in", "a in (", "a in (b", "a b", "a=b c", ",", "a=-", "-=a", "a>x", "a,,b",
        ] {
            let error = Selector::parse(Resource::Pods, labels, "").expect_err(labels);
            assert_eq!((error.code, error.reason), (400, "BadRequest"), "{labels}");
        }
        for fields in [
            "nonsense",
            "spec.hostname=x",
            "metadata.name=a=b",
            "metadata.name=\\x",
        ] {
            let error = Selector::parse(Resource::Pods, "", fields).expect_err(fields);
            assert_eq!((error.code, error.reason), (400, "BadRequest"), "{fields}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(labels in ".*", fields in ".*") {
            let _ = Selector::parse(Resource::Pods, &labels, &fields);
        }
    }
}
