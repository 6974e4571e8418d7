//! What schedulers that know gangs read of a pod: that it belongs to one, and how large that is at least (spec A-82).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Common, ProfileSpec, resources};
use crate::kubernetes::labels::to_label_value;
use crate::model::ProfileName;

/// A scheduler that knows gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangScheduler {
    /// Reads annotations of the pods.
    Yunikorn,
    /// Reads an object, the PodGroup, that the pods name.
    Volcano,
}

/// How a pod's gang is scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangMark {
    scheduler: GangScheduler,
    /// At least so many of the profile make one; 0: each is of use by itself.
    least: u32,
    /// All of the application's task groups, as YuniKorn reads them.
    task_groups: Arc<str>,
    /// Until the room that is kept for a gang is given up, in seconds.
    timeout: u64,
}

/// The name of a profile's PodGroup.
pub fn group_name(prefix: &str, profile: &ProfileName) -> String {
    format!("{prefix}-{profile}")
}

/// Marks the pods of these profiles: their gangs are of at least so many, and come together within `timeout` seconds.
pub fn mark_profiles(
    scheduler: GangScheduler,
    least: &BTreeMap<ProfileName, u32>,
    timeout: u64,
    specs: &mut BTreeMap<ProfileName, ProfileSpec>,
) {
    let least = |profile: &ProfileName| least.get(profile).copied().unwrap_or(0);
    let groups: Vec<Value> = (specs.iter())
        .filter(|(profile, _)| least(profile) > 0)
        .map(|(profile, spec)| task_group(profile, least(profile), spec))
        .collect();
    let task_groups: Arc<str> = Value::from(groups).to_string().into();
    for (profile, spec) in specs {
        spec.gang = Some(GangMark {
            scheduler,
            least: least(profile),
            task_groups: Arc::clone(&task_groups),
            timeout,
        });
    }
}

fn task_group(profile: &ProfileName, least: u32, spec: &ProfileSpec) -> Value {
    let resources = resources(spec);
    // Who asks for nothing but a limit asks for that, as Kubernetes has it.
    let wanted = resources
        .get("requests")
        .or_else(|| resources.get("limits"));
    let mut group = json!({
        "name": profile.as_str(),
        "minMember": least,
        "minResource": wanted.cloned().unwrap_or_else(|| json!({})),
    });
    if !spec.node_selector.is_empty() {
        group["nodeSelector"] = json!(spec.node_selector);
    }
    if !spec.tolerations.is_empty() {
        group["tolerations"] = json!(spec.tolerations);
    }
    group
}

/// Says in a pod which gang it belongs to.
pub(super) fn mark(pod: &mut Value, common: &Common, profile: &ProfileName, gang: &GangMark) {
    let scheduler = match gang.scheduler {
        GangScheduler::Yunikorn => "yunikorn",
        GangScheduler::Volcano => "volcano",
    };
    if pod["spec"]["schedulerName"].is_null() {
        pod["spec"]["schedulerName"] = scheduler.into();
    }
    let mut notes = Vec::new();
    match gang.scheduler {
        GangScheduler::Yunikorn => {
            let app = common.app_id.as_str();
            pod["metadata"]["labels"]["applicationId"] = to_label_value(app).into();
            notes.push(("yunikorn.apache.org/app-id", app.to_owned()));
            if gang.least > 0 {
                let parameters = format!(
                    "placeholderTimeoutInSeconds={} gangSchedulingStyle=Hard",
                    gang.timeout
                );
                notes.extend([
                    (
                        "yunikorn.apache.org/task-group-name",
                        profile.as_str().to_owned(),
                    ),
                    (
                        "yunikorn.apache.org/task-groups",
                        gang.task_groups.to_string(),
                    ),
                    ("yunikorn.apache.org/schedulingPolicyParameters", parameters),
                ]);
            }
        }
        GangScheduler::Volcano if gang.least > 0 => notes.push((
            "scheduling.k8s.io/group-name",
            group_name(&common.prefix, profile),
        )),
        GangScheduler::Volcano => {}
    }
    for (name, text) in notes {
        pod["metadata"]["annotations"][name] = text.into();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::common;
    use super::*;

    fn marked(scheduler: GangScheduler) -> Value {
        let spec = ProfileSpec {
            cpu_request_millis: Some(500),
            ..ProfileSpec::default()
        };
        let other = ProfileSpec::default();
        let mut specs = BTreeMap::from([("default".into(), spec), ("extra".into(), other)]);
        let least = BTreeMap::from([("default".into(), 4), ("extra".into(), 0)]);
        mark_profiles(scheduler, &least, 300, &mut specs);
        let mut pod = json!({"metadata": {"labels": {}}, "spec": {}});
        let profile: ProfileName = "default".into();
        let gang = specs[&profile].gang.clone().unwrap();
        mark(&mut pod, &common(), &profile, &gang);
        pod
    }

    // spec: A-82
    #[test]
    fn yunikorn_is_told_the_group_how_many_it_takes_and_what_each_needs() {
        let pod = marked(GangScheduler::Yunikorn);
        assert_eq!(pod["spec"]["schedulerName"], "yunikorn");
        let notes = &pod["metadata"]["annotations"];
        assert_eq!(notes["yunikorn.apache.org/task-group-name"], "default");
        let groups = notes["yunikorn.apache.org/task-groups"].as_str().unwrap();
        let groups: Value = serde_json::from_str(groups).unwrap();
        let group = json!({"name": "default", "minMember": 4, "minResource": {"cpu": "500m"}});
        assert_eq!(groups, json!([group]));
        let parameters = &notes["yunikorn.apache.org/schedulingPolicyParameters"];
        let expected = "placeholderTimeoutInSeconds=300 gangSchedulingStyle=Hard";
        assert_eq!(parameters, expected);
        let app = common().app_id.to_string();
        assert_eq!(pod["metadata"]["labels"]["applicationId"], *app);
    }

    // spec: A-82
    #[test]
    fn volcano_is_told_the_pod_group() {
        let pod = marked(GangScheduler::Volcano);
        assert_eq!(pod["spec"]["schedulerName"], "volcano");
        let notes = &pod["metadata"]["annotations"];
        let group = format!("{}-default", common().prefix);
        assert_eq!(notes["scheduling.k8s.io/group-name"], *group);
    }
}
