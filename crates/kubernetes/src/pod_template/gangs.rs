//! The pod metadata that gang schedulers read: which gang the pod belongs to, and the gang's minimum size (spec A-82).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Common, PodBody, ProfileSpec, merge};
use crate::labels::to_label_value;
use boatswain_model::ProfileName;
use boatswain_model::quantity::{Quantity, cpu_text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangScheduler {
    /// Reads annotations of the pods.
    Yunikorn,
    /// Reads a PodGroup object, which the pods name.
    Volcano,
    /// Kubernetes' own: the same, with another PodGroup.
    Kubernetes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangMark {
    scheduler: GangScheduler,
    /// The minimum number of the profile's executors in a gang; 0 for no gang.
    least: u32,
    /// All task groups of the application, in YuniKorn's format.
    task_groups: Arc<str>,
    /// The seconds after which the scheduler releases the resources reserved for an incomplete gang.
    timeout: u64,
}

pub fn group_name(prefix: &str, profile: &ProfileName) -> String {
    format!("{prefix}-{profile}")
}

#[derive(Debug, Clone)]
pub struct Gangs {
    scheduler: GangScheduler,
    /// In seconds; as in `GangMark`.
    timeout: u64,
    groups: BTreeMap<ProfileName, Value>,
}

impl Gangs {
    /// Starts with no gangs. A gang must be complete within `timeout` seconds.
    pub fn new(scheduler: GangScheduler, timeout: u64) -> Self {
        Self {
            scheduler,
            timeout,
            groups: BTreeMap::new(),
        }
    }

    /// Adds the gangs of all these profiles and marks their pods. `least` has each gang's minimum size.
    pub fn add_all(
        &mut self,
        least: &BTreeMap<ProfileName, u32>,
        specs: &mut BTreeMap<ProfileName, ProfileSpec>,
    ) {
        let least = |profile: &ProfileName| least.get(profile).copied().unwrap_or(0);
        for (profile, spec) in specs.iter() {
            self.add_profile(profile, least(profile), spec);
        }
        let task_groups = self.task_groups();
        for (profile, spec) in specs {
            spec.gang = Some(self.mark(least(profile), &task_groups));
        }
    }

    /// Adds the gang of a new profile and marks its pods. Pods of earlier profiles keep the earlier task groups,
    /// because YuniKorn reads only the list in an application's first pod.
    pub fn add(&mut self, profile: &ProfileName, least: u32, spec: &mut ProfileSpec) {
        self.add_profile(profile, least, spec);
        spec.gang = Some(self.mark(least, &self.task_groups()));
    }

    /// Profiles that are added later do not list its task group.
    pub fn remove(&mut self, profile: &ProfileName) {
        self.groups.remove(profile);
    }

    fn add_profile(&mut self, profile: &ProfileName, least: u32, spec: &ProfileSpec) {
        if least > 0 {
            let group = task_group(profile, least, spec);
            self.groups.insert(profile.clone(), group);
        }
    }

    fn task_groups(&self) -> Arc<str> {
        let groups: Vec<&Value> = self.groups.values().collect();
        json!(groups).to_string().into()
    }

    fn mark(&self, least: u32, task_groups: &Arc<str>) -> GangMark {
        GangMark {
            scheduler: self.scheduler,
            least,
            task_groups: Arc::clone(task_groups),
            timeout: self.timeout,
        }
    }
}

fn task_group(profile: &ProfileName, least: u32, spec: &ProfileSpec) -> Value {
    let pod = merge::shape(spec);
    let spec = &pod["spec"];
    let mut group = json!({
        "name": profile.as_str(),
        "minMember": least,
        "minResource": wanted(spec),
    });
    for field in ["nodeSelector", "tolerations"] {
        if !spec[field].is_null() {
            group[field] = spec[field].clone();
        }
    }
    group
}

/// The sum of the containers' requests. A missing request defaults to the limit, as in Kubernetes.
fn wanted(spec: &Value) -> Value {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        let of = |kind: &str| {
            container["resources"][kind]
                .as_object()
                .into_iter()
                .flatten()
        };
        let asked: BTreeMap<&String, &Value> = of("limits").chain(of("requests")).collect();
        for (name, amount) in asked {
            all.entry(name).or_default().extend(amount.as_str());
        }
    }
    let total = |name: &str, amounts: &[&str]| match (name, amounts) {
        (_, [one]) => (*one).to_owned(),
        ("cpu", several) => cpu_text(sum(several, Quantity::millis)),
        (_, several) => sum(several, Quantity::bytes).to_string(),
    };
    let totals = all.iter().map(|(name, amounts)| {
        let total = total(name, amounts);
        ((*name).to_owned(), total.into())
    });
    Value::Object(totals.collect())
}

fn sum(amounts: &[&str], measure: impl Fn(&Quantity) -> u64) -> u64 {
    let amounts = amounts.iter().filter_map(|text| text.parse().ok());
    amounts.fold(0, |sum, amount| sum.saturating_add(measure(&amount)))
}

/// The annotation, and the field of the specification, by which a pod names its PodGroup.
const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
const KUBERNETES_GROUP: &str = "schedulingGroup";

impl PodBody {
    /// The same pod without a PodGroup, so that it is scheduled by itself.
    #[must_use]
    pub fn without_group(self) -> Self {
        let Ok(mut pod) = serde_json::from_slice::<Value>(&self.json) else {
            return self;
        };
        for (part, key) in [
            ("/metadata/annotations", VOLCANO_GROUP),
            ("/spec", KUBERNETES_GROUP),
        ] {
            if let Some(fields) = pod.pointer_mut(part).and_then(Value::as_object_mut) {
                fields.remove(key);
            }
        }
        Self {
            name: self.name,
            json: Bytes::from(pod.to_string()),
        }
    }
}

pub(super) fn mark(pod: &mut Value, common: &Common, profile: &ProfileName, gang: &GangMark) {
    let scheduler = match gang.scheduler {
        GangScheduler::Yunikorn => Some("yunikorn"),
        GangScheduler::Volcano => Some("volcano"),
        GangScheduler::Kubernetes => None,
    };
    if let Some(scheduler) = scheduler
        && pod["spec"]["schedulerName"].is_null()
    {
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
        _ if gang.least == 0 => {}
        GangScheduler::Volcano => {
            notes.push((VOLCANO_GROUP, group_name(&common.prefix, profile)));
        }
        GangScheduler::Kubernetes => {
            let name = group_name(&common.prefix, profile);
            pod["spec"][KUBERNETES_GROUP] = json!({"podGroupName": name});
        }
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
        let resources = json!({"requests": {"cpu": "500m"}});
        let sidecar =
            json!({"name": "side", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
        let spec = ProfileSpec {
            base: json!({"spec": {"containers": [sidecar]}}),
            container: [("resources".to_owned(), resources)].into_iter().collect(),
            ..ProfileSpec::default()
        };
        let other = ProfileSpec::default();
        let mut specs = BTreeMap::from([("default".into(), spec), ("extra".into(), other)]);
        let least = BTreeMap::from([("default".into(), 4), ("extra".into(), 0)]);
        Gangs::new(scheduler, 300).add_all(&least, &mut specs);
        let mut pod = json!({"metadata": {"labels": {}}, "spec": {}});
        let profile: ProfileName = "default".into();
        let gang = specs[&profile].gang.clone().unwrap();
        mark(&mut pod, &common(), &profile, &gang);
        pod
    }

    // spec: A-82
    #[test]
    fn yunikorn_gets_each_task_group_with_its_minimum_size_and_resources() {
        let pod = marked(GangScheduler::Yunikorn);
        assert_eq!(pod["spec"]["schedulerName"], "yunikorn");
        let notes = &pod["metadata"]["annotations"];
        assert_eq!(notes["yunikorn.apache.org/task-group-name"], "default");
        let groups = notes["yunikorn.apache.org/task-groups"].as_str().unwrap();
        let groups: Value = serde_json::from_str(groups).unwrap();
        let resources = json!({"cpu": "1500m", "memory": "1Gi"});
        let group = json!({"name": "default", "minMember": 4, "minResource": resources});
        assert_eq!(groups, json!([group]));
        let parameters = &notes["yunikorn.apache.org/schedulingPolicyParameters"];
        let expected = "placeholderTimeoutInSeconds=300 gangSchedulingStyle=Hard";
        assert_eq!(parameters, expected);
        let app = common().app_id.to_string();
        assert_eq!(pod["metadata"]["labels"]["applicationId"], *app);
    }

    // spec: A-82
    #[test]
    fn volcano_pods_name_their_pod_group() {
        let pod = marked(GangScheduler::Volcano);
        assert_eq!(pod["spec"]["schedulerName"], "volcano");
        let notes = &pod["metadata"]["annotations"];
        let group = format!("{}-default", common().prefix);
        assert_eq!(notes["scheduling.k8s.io/group-name"], *group);
    }

    // spec: A-82
    #[test]
    fn pods_for_kubernetes_name_their_pod_group_and_no_scheduler() {
        let pod = marked(GangScheduler::Kubernetes);
        let group = format!("{}-default", common().prefix);
        let spec = json!({"schedulingGroup": {"podGroupName": group}});
        assert_eq!(pod["spec"], spec);
    }

    // spec: A-87
    #[test]
    fn a_pod_that_is_scheduled_by_itself_names_no_pod_group() {
        for scheduler in [GangScheduler::Volcano, GangScheduler::Kubernetes] {
            let pod = PodBody {
                name: "p".into(),
                json: Bytes::from(marked(scheduler).to_string()),
            };
            let pod = String::from_utf8(pod.without_group().json.to_vec()).unwrap();
            assert!(!pod.contains("roup"), "{pod}");
        }
    }
}
