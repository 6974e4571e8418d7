//! Validates the security contexts of a pod and its containers, as far as the rules for single fields do not.

use serde_json::Value;

use super::rules;
use crate::api::status::Causes;
use crate::objects::object::{at, is_true, list, strings, text};

pub(super) fn security(pod: &Value, causes: &mut Causes) {
    let both = "spec.securityContext";
    let each = "spec.containers|initContainers[*].securityContext";
    for contexts in [both, each] {
        for profile in ["seccompProfile", "appArmorProfile"] {
            let path = format!("{contexts}.{profile}");
            rules::each(pod, &path, &mut |at, profile| {
                self::profile(profile, at, causes)
            });
        }
    }
    let host_users = at(pod, &["spec", "hostUsers"]) == Some(&Value::Bool(false));
    rules::each(pod, each, &mut |at, context| {
        let adds = |wanted: &str| strings(context, &["capabilities", "add"]).any(|c| c == wanted);
        let may_not_rise = context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false));
        for (holds, what) in [
            (is_true(context, &["privileged"]), "`privileged` to true"),
            (adds("CAP_SYS_ADMIN"), "`capabilities.Add` to CAP_SYS_ADMIN"),
        ] {
            if holds && may_not_rise {
                let detail = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
                causes.invalid(at, context, &detail);
            }
        }
        if text(context, &["procMount"]) == "Unmasked" && !host_users {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            causes.invalid(format!("{at}.procMount"), "Unmasked", detail);
        }
    });
    let parameters = list(pod, &["spec", "securityContext", "sysctls"]);
    for (i, parameter) in parameters.iter().enumerate() {
        let name = |parameter: &Value| text(parameter, &["name"]).to_owned();
        if parameters[..i]
            .iter()
            .any(|other| name(other) == name(parameter))
        {
            causes.duplicate(format!("{both}.sysctls[{i}].name"), name(parameter));
        }
    }
    if is_true(pod, &["spec", "shareProcessNamespace"]) && is_true(pod, &["spec", "hostPID"]) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.invalid(format!("{both}.shareProcessNamespace"), true, detail);
    }
}

/// A profile of the node's own has a name there, and no other has one.
fn profile(profile: &Value, path: &str, causes: &mut Causes) {
    let (field, name) = (
        format!("{path}.localhostProfile"),
        text(profile, &["localhostProfile"]),
    );
    let is_local = text(profile, &["type"]) == "Localhost";
    if is_local && name.is_empty() {
        causes.required(field, "must be set when type is Localhost");
    } else if !is_local && !name.is_empty() {
        causes.invalid(field, name, "can only be set when type is Localhost");
    } else if name.starts_with('/') {
        causes.invalid(field, name, "must be a relative path");
    } else if name.split('/').any(|step| step == "..") {
        causes.invalid(field, name, "must not contain '..'");
    }
}
