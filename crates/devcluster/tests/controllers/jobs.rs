//! Jobs: which pods they run, when, and what their status says.

mod replacement;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use kube::api::{DeleteParams, PostParams, PropagationPolicy, WatchEvent, WatchParams};

use super::*;

impl World {
    fn jobs(&self) -> Api<Job> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates the Job `work` with these fields in its spec.
    async fn job(&self, spec: Value) -> Job {
        let job = job(spec);
        let made = self.jobs().create(&PostParams::default(), &job).await;
        settle().await;
        made.unwrap()
    }

    async fn status(&self) -> JobStatus {
        let job = self.jobs().get("work").await.unwrap();
        job.status.unwrap_or_default()
    }

    /// The Job's conditions that hold, with their reasons.
    async fn conditions(&self) -> Vec<(String, String)> {
        conditions(&self.status().await)
    }

    async fn change(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let params = PatchParams::default();
        self.jobs().patch("work", &params, &patch).await.unwrap();
        settle().await;
    }

    /// The pod that neither has ended nor is being deleted.
    async fn active(&self) -> Option<Pod> {
        let pods = self.all_pods().await.into_iter();
        let mut active = pods
            .filter(|pod| !is_terminating(pod) && !matches!(phase(pod), "Failed" | "Succeeded"));
        let first = active.next();
        assert!(active.next().is_none(), "more than one pod is active");
        first
    }

    /// Waits for the next active pod.
    async fn next(&self) -> Pod {
        for _ in 0..10_000 {
            if let Some(pod) = self.active().await {
                return pod;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("no pod came: {:?}", self.status().await);
    }

    /// Ends a pod, and returns the seconds until the next one is active.
    async fn replaced_after(&self, pod: &Pod, code: i32) -> u64 {
        let at = self.seconds();
        self.exits(pod, code).await;
        self.next().await;
        self.seconds() - at
    }
}

fn job(mut spec: Value) -> Job {
    let mut template = json!({
        "metadata": {"labels": {"app": "work"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1"}]},
    });
    for (field, value) in spec["pod"].as_object().into_iter().flatten() {
        template["spec"][field] = value.clone();
    }
    spec.as_object_mut().unwrap().remove("pod");
    spec["template"] = template;
    serde_json::from_value(json!({"metadata": {"name": "work"}, "spec": spec})).unwrap()
}

fn conditions(status: &JobStatus) -> Vec<(String, String)> {
    let conditions = status.conditions.iter().flatten();
    let hold = conditions.filter(|c| c.status == "True");
    hold.map(|c| (c.type_.clone(), c.reason.clone().unwrap_or_default()))
        .collect()
}

fn policy() -> Value {
    json!({"rules": [
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [11, 64]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [137]}},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    ]})
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    pairs.iter().map(own).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_one_pod_with_its_labels_and_an_owner() {
    let world = World::without_node();
    let made = world.job(json!({})).await;
    let uid = made.uid().unwrap();
    let pod = world.active().await.unwrap();
    assert!(pod.name_any().starts_with("work-"));
    for (label, value) in [
        ("app", "work"),
        ("batch.kubernetes.io/job-name", "work"),
        ("job-name", "work"),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("controller-uid", &uid),
    ] {
        assert_eq!(pod.labels()[label], value, "{label}");
    }
    let owner = &pod.owner_references()[0];
    assert_eq!((&*owner.kind, &owner.uid), ("Job", &uid));
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(true), Some(true))
    );
    assert_eq!(pod.finalizers(), ["batch.kubernetes.io/job-tracking"]);
    let spec = made.spec.unwrap();
    assert_eq!(
        (spec.parallelism, spec.completions, spec.backoff_limit),
        (Some(1), Some(1), Some(6))
    );
    assert_eq!(
        spec.pod_replacement_policy.as_deref(),
        Some("TerminatingOrFailed")
    );
    assert_eq!(
        spec.selector.unwrap().match_labels.unwrap()["batch.kubernetes.io/controller-uid"],
        uid
    );
    assert_eq!(made.metadata.labels.unwrap()["app"], "work");
    world.runs(&pod).await;
    settle().await;
    let status = world.status().await;
    assert_eq!(
        (status.active, status.ready, status.terminating),
        (Some(1), Some(1), Some(0))
    );
    assert!(status.start_time.is_some() && status.succeeded.is_none() && status.failed.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_job_is_complete_after_the_condition_that_it_will_be() {
    let world = World::without_node();
    world.job(json!({})).await;
    let jobs = world.jobs();
    let params = WatchParams::default().timeout(20);
    let seen = jobs.watch(&params, "0").await.unwrap();
    let pod = world.active().await.unwrap();
    world.exits(&pod, 0).await;
    settle().await;
    let seen: Vec<WatchEvent<Job>> = seen.boxed().try_collect().await.unwrap();
    let mut steps: Vec<Vec<(String, String)>> = Vec::new();
    for event in seen {
        let (WatchEvent::Added(job) | WatchEvent::Modified(job)) = event else {
            continue;
        };
        steps.push(conditions(&job.status.unwrap()));
    }
    steps.dedup();
    let met = ("SuccessCriteriaMet", "CompletionsReached");
    let complete = ("Complete", "CompletionsReached");
    assert_eq!(steps, [pairs(&[]), pairs(&[met]), pairs(&[met, complete])]);
    let status = world.status().await;
    assert_eq!(
        (status.succeeded, status.active, status.failed),
        (Some(1), None, None)
    );
    assert!(status.completion_time.is_some());
    let pod = &world.all_pods().await[0];
    assert!(pod.finalizers().is_empty(), "its end is counted");
    pass(60).await;
    assert_eq!(world.all_pods().await.len(), 1, "no other pod follows");
}

#[tokio::test(start_paused = true)]
async fn as_many_pods_run_at_once_as_allowed_and_as_are_still_needed() {
    let world = World::without_node();
    world.job(json!({"parallelism": 2, "completions": 3})).await;
    for (there, succeeded) in [(2, 1), (3, 2), (3, 3)] {
        let pods = world.all_pods().await;
        assert_eq!(pods.len(), there);
        let running = pods.iter().find(|pod| phase(pod) != "Succeeded");
        world.exits(running.unwrap(), 0).await;
        settle().await;
        assert_eq!(world.status().await.succeeded, Some(succeeded));
    }
    assert_eq!(world.conditions().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_after_a_delay_that_doubles() {
    let world = World::without_node();
    world.job(json!({"backoffLimit": 3})).await;
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let pod = world.next().await;
        pauses.push(world.replaced_after(&pod, 1).await);
    }
    assert_eq!(pauses, [10, 20, 40]);
    let last = world.next().await;
    world.exits(&last, 1).await;
    settle().await;
    let why = "BackoffLimitExceeded";
    assert_eq!(
        world.conditions().await,
        pairs(&[("FailureTarget", why), ("Failed", why)])
    );
    assert_eq!(world.status().await.failed, Some(4));
    pass(1_000).await;
    assert!(world.active().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_delay_ends_at_ten_minutes_and_starts_anew_after_a_success() {
    let world = World::without_node();
    world
        .job(json!({"backoffLimit": 100, "completions": 3}))
        .await;
    let mut last = 0;
    for _ in 0..8 {
        let pod = world.next().await;
        last = world.replaced_after(&pod, 1).await;
    }
    assert_eq!(last, 600);
    let pod = world.next().await;
    world.exits(&pod, 0).await;
    settle().await;
    let pod = world.active().await.expect("the next pod comes at once");
    assert_eq!(world.replaced_after(&pod, 1).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_starts_anew_when_resumed() {
    let world = World::with_node();
    world.job(json!({"suspend": true, "backoffLimit": 0})).await;
    assert!(world.all_pods().await.is_empty());
    let status = world.status().await;
    assert!(status.start_time.is_none());
    assert_eq!(conditions(&status), pairs(&[("Suspended", "JobSuspended")]));
    pass(5).await;
    world.change(json!({"suspend": false})).await;
    pass(1).await;
    let pod = world.active().await.unwrap();
    let status = world.status().await;
    assert_eq!(
        status.start_time.unwrap().0.to_string(),
        "2026-01-01T00:00:05Z"
    );
    assert_eq!(
        status.conditions.unwrap()[0].reason.as_deref(),
        Some("JobResumed")
    );
    world.change(json!({"suspend": true})).await;
    pass(2).await;
    assert!(world.all_pods().await.is_empty());
    let status = world.status().await;
    assert_eq!(status.failed, None, "it did not fail");
    assert_eq!(conditions(&status), pairs(&[("Suspended", "JobSuspended")]));
    world.change(json!({"suspend": false})).await;
    assert_ne!(world.active().await.unwrap().uid(), pod.uid());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_active_for_too_long_fails_when_its_pods_are_gone() {
    let world = World::with(NodeKind::Simulated(SimulatedNode {
        stop_delay: Duration::from_secs(5),
        ..SimulatedNode::default()
    }));
    world
        .job(json!({"activeDeadlineSeconds": 60, "backoffLimit": 0}))
        .await;
    pass(59).await;
    assert_eq!(world.conditions().await, []);
    pass(2).await;
    assert!(is_terminating(&world.all_pods().await[0]));
    let why = "DeadlineExceeded";
    assert_eq!(world.conditions().await, pairs(&[("FailureTarget", why)]));
    pass(5).await;
    assert!(world.all_pods().await.is_empty());
    assert_eq!(
        world.conditions().await,
        pairs(&[("FailureTarget", why), ("Failed", why)])
    );
    assert_eq!(world.status().await.failed, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_with_its_pods_after_its_time() {
    let world = World::without_node();
    world.job(json!({"ttlSecondsAfterFinished": 30})).await;
    let pod = world.active().await.unwrap();
    pass(100).await;
    world.exits(&pod, 0).await;
    pass(29).await;
    assert_eq!(world.all_pods().await.len(), 1);
    pass(3).await;
    assert!(world.all_pods().await.is_empty());
    assert!(world.jobs().get_opt("work").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_stay_after_their_job_unless_the_deletion_is_to_be_propagated() {
    let propagated = |policy| DeleteParams {
        propagation_policy: Some(policy),
        ..DeleteParams::default()
    };
    for (params, left) in [
        (DeleteParams::default(), 1),
        (propagated(PropagationPolicy::Orphan), 1),
        (propagated(PropagationPolicy::Background), 0),
        (propagated(PropagationPolicy::Foreground), 0),
    ] {
        let world = World::with_node();
        world.job(json!({})).await;
        pass(1).await;
        world.jobs().delete("work", &params).await.unwrap();
        pass(5).await;
        assert!(world.jobs().get_opt("work").await.unwrap().is_none());
        let pods = world.all_pods().await;
        assert_eq!(pods.len(), left, "{params:?}");
        for pod in pods {
            assert!(pod.finalizers().is_empty() && pod.owner_references().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_jobs_are_refused_with_the_fields_that_are_wrong() {
    let world = World::without_node();
    let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
    let codes = |codes: Value| rule(json!({"action": "FailJob", "onExitCodes": codes}));
    let path = "spec.podFailurePolicy.rules[0]";
    for (spec, cause) in [
        (json!({"completions": -1}), "spec.completions: Invalid value: -1: must be greater than or equal to 0".to_owned()),
        (json!({"pod": {"restartPolicy": "Always"}}), "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"".to_owned()),
        (json!({"podFailurePolicy": policy(), "pod": {"restartPolicy": "OnFailure"}}), "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified".to_owned()),
        (json!({"podFailurePolicy": policy(), "podReplacementPolicy": "TerminatingOrFailed"}), "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"".to_owned()),
        (json!({"completionMode": "Indexed", "completions": 2}), "spec.completionMode: Unsupported value: \"Indexed\": supported values: \"NonIndexed\"".to_owned()),
        (json!({"backoffLimitPerIndex": 1}), "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode".to_owned()),
        (codes(json!({"operator": "In", "values": [0]})), format!("{path}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator")),
        (codes(json!({"operator": "In", "values": [2, 1]})), format!("{path}.onExitCodes.values: Invalid value: [2,1]: must be ordered")),
        (codes(json!({"operator": "In", "values": [1, 1]})), format!("{path}.onExitCodes.values[1]: Duplicate value: 1")),
        (codes(json!({"operator": "In", "values": []})), format!("{path}.onExitCodes.values: Invalid value: []: at least one value is required")),
        (codes(json!({"operator": "In", "values": [1], "containerName": "other"})), format!("{path}.onExitCodes.containerName: Invalid value: \"other\": must be one of the container or initContainer names in the pod template")),
        (rule(json!({"action": "Retry", "onExitCodes": {"operator": "In", "values": [1]}})), format!("{path}.action: Unsupported value: \"Retry\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"")),
        (rule(json!({"action": "Count"})), format!("{path}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required")),
    ] {
        let job = job(spec.clone());
        let answer = world.jobs().create(&PostParams::default(), &job).await;
        let (code, _, causes) = refusal(answer);
        assert_eq!((code, causes), (422, vec![cause]), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_template_of_a_job_is_immutable_and_its_parallelism_is_not() {
    let world = World::without_node();
    world.job(json!({"completions": 3})).await;
    let patch = |spec: Value| Patch::Merge(json!({"spec": spec}));
    let params = PatchParams::default();
    for fixed in [
        json!({"completions": 4}),
        json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}),
        json!({"podFailurePolicy": policy()}),
    ] {
        let answer = world.jobs().patch("work", &params, &patch(fixed)).await;
        assert_eq!(refusal(answer).0, 422);
    }
    world.change(json!({"parallelism": 2})).await;
    assert_eq!(world.all_pods().await.len(), 2);
    world.change(json!({"parallelism": 0})).await;
    assert!(world.all_pods().await.is_empty());
    assert_eq!(world.status().await.failed, None);
}

#[tokio::test(start_paused = true)]
async fn runs_with_the_same_seed_are_alike() {
    async fn run() -> Vec<String> {
        let world = World::with_node();
        world.job(json!({"parallelism": 3, "completions": 5})).await;
        pass(1).await;
        let pods = world.all_pods().await;
        world.exits(&pods[0], 1).await;
        pass(30).await;
        let pods = world.all_pods().await;
        let pods = pods.iter().map(|pod| serde_json::to_string(pod).unwrap());
        let job = world.jobs().get("work").await.unwrap();
        pods.chain([serde_json::to_string(&job).unwrap()]).collect()
    }
    assert_eq!(run().await, run().await);
}
