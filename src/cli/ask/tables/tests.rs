//! Tests of the texts for people.

use serde_json::json;

use super::*;

// spec: O-137
#[test]
fn applications_are_a_table_with_their_namespace_where_there_are_several() {
    let one = json!({
        "namespace": "jobs", "name": "My\u{1b}ETL", "id": "etl-1", "state": "its driver runs",
        "driver": "etl-0", "executors": 4, "age_seconds": 7_300,
    });
    let answer = json!({"applications": [one]});
    assert_eq!(
        applications(&answer, false, false),
        "NAME    ID     EXECUTORS  AGE  DRIVER  STATE\n\
         My ETL  etl-1  4          2h   etl-0   its driver runs"
    );
    assert!(applications(&answer, true, false).starts_with("NAMESPACE  NAME"));
    assert!(applications(&answer, true, true).contains("STATE            SINCE"));
    assert_eq!(applications(&json!({}), true, false), "no applications");
    let ages = [(0, "0s"), (119, "119s"), (120, "2m"), (172_800, "2d")];
    for (seconds, shown) in ages {
        assert_eq!(age(&json!({"age": seconds}), "age"), shown);
    }
}

// spec: O-43
#[test]
fn names_are_one_on_each_line() {
    let answer = json!({"executors": [{"executor": 3}, {"executor": 4}], "applications": [{"id": "a\u{1b}b"}]});
    assert_eq!(names(&answer, "executors", "executor"), "3\n4");
    assert_eq!(names(&answer, "applications", "id"), "a b");
    assert_eq!(names(&json!({}), "executors", "executor"), "");
}

// spec: L-43, O-131
#[test]
fn a_profile_whose_memory_has_grown_says_so() {
    let grown = json!({"target": 2, "grown_memory": "96Mi"});
    let shown = status(&json!({"adopted": true, "profiles": {"gpu": grown}}));
    assert!(
        shown.contains("\ngpu: memory grown to 96Mi after OomKilled"),
        "{shown}"
    );
}

// spec: L-40, O-131
#[test]
fn what_has_failed_is_named_with_its_reason() {
    let failed = json!({"target": 0, "failed": "4\u{1b}failures"});
    let shown = status(&json!({"adopted": true, "profiles": {"gpu": failed}}));
    assert!(shown.contains("\ngpu: has failed: 4 failures"), "{shown}");
    let closed = json!({"app": "t-1", "exit_code": 11, "why": "4 failures"});
    let shown = reopened(&closed);
    let begin = "application t-1 had ended with code 11: 4 failures\n";
    assert!(shown.starts_with(begin), "{shown}");
}

// spec: O-43
#[test]
fn the_status_is_a_table_with_reasons_and_losses_below() {
    let answer = json!({
        "app": "app-1", "incarnation": 2, "adopted": true,
        "driver": {"version": "0.1.0", "namespace": "etl", "api_server": "https://10.96.0.1/", "up_seconds": 7200},
        "profiles": {"default": {
            "target": 4, "running": 2, "registered": 1, "pending": 2, "requested": 0, "unanswered": 0, "uncertain": 0, "leaving": 0,
            "waiting_for": [{"why": "unscheduled: no\u{1b}nodes", "executors": 2}],
            "removing": true,
            "paused": {"cause": "quota-exceeded", "why": "exceeded quota: few", "for_seconds": 9, "again_in_seconds": 4},
        }},
        "losses": [{
            "time": "2026-01-01T00:00:00.123456Z", "executor": 7, "profile": "default",
            "reason": "OomKilled", "why": "out of memory",
        }],
    });
    assert_eq!(
        status(&answer),
        "application app-1, incarnation 2\n\
         boatswain 0.1.0, up for 2h; namespace etl, API server https://10.96.0.1/\n\
         PROFILE  TARGET  RUNNING  REGISTERED  PENDING  REQUESTED  UNANSWERED  UNCERTAIN  LEAVING\n\
         default  4       2        1           2        0          0           0          0\n\
         default: is being removed\n\
         default: quota-exceeded for 9 s, next attempt in 4 s: exceeded quota: few\n\
         default: 2 waiting: unscheduled: no nodes\n\
         \n\
         ended last:\n\
         TIME                 EXECUTOR  PROFILE  REASON     WHY\n\
         2026-01-01T00:00:00  7         default  OomKilled  out of memory"
    );
}

// spec: O-43, B-74
#[test]
fn a_pool_is_told_with_what_is_requested_of_each_profile_and_what_would_be_usually() {
    let profile = |name: &str, target: u32, preferred: u32| json!({"profile": name, "target": target, "preferred": preferred, "trying": 0});
    let mut spot = profile("spot", 6, 8);
    let shown = |spot: &Value| {
        let pool = json!({"target": 10, "profiles": [spot, profile("on-demand", 4, 2)]});
        status(&json!({"adopted": true, "profiles": {}, "pools": {"batch": pool}}))
    };
    spot["again_in_seconds"] = 480.into();
    let waits = "\npool batch: 10 wanted: 6 (usually 8) of spot, more are tried in 480 s; 4 (usually 2) of on-demand";
    assert!(shown(&spot).contains(waits), "{}", shown(&spot));
    spot["trying"] = 2.into();
    let tries = "6 (usually 8) of spot, 2 more are being tried; 4";
    assert!(shown(&spot).contains(tries), "{}", shown(&spot));
    let all = shown(&profile("spot", 8, 8));
    assert!(all.contains(": 8 of spot; 4"), "{all}");
}

// spec: O-43, A-94
#[test]
fn nothing_is_tried_while_a_queue_decides() {
    let mut pause = json!({"cause": "queued", "why": "quota is short", "for_seconds": 9});
    assert_eq!(paused(&pause), "queued for 9 s: quota is short");
    pause["cause"] = "crash-loop".into();
    assert_eq!(
        paused(&pause),
        "crash-loop for 9 s, one is being tried: quota is short"
    );
}

// spec: O-43, B-13, B-20
#[test]
fn that_the_driver_doubts_itself_or_waits_for_executors_is_said() {
    let answer = json!({
        "app": "app-1", "incarnation": 2, "adopted": true, "ready": false, "losses": [], "profiles": {},
        "degraded": {"why": "this process stood still for 20 s", "for_seconds": 7},
    });
    let shown = status(&answer);
    assert!(
        shown.contains("\ndegraded for 7 s: this process stood still for 20 s; "),
        "{shown}"
    );
    assert!(shown.contains("\nnot ready: "), "{shown}");
}

// spec: O-43, O-128
#[test]
fn what_the_api_server_refuses_is_said() {
    let answer = json!({
        "app": "app-1", "incarnation": 2, "adopted": true, "ready": true, "losses": [], "profiles": {},
        "refused_writes": [{"verb": "delete", "resource": "pods", "why": "no", "for_seconds": 7}],
    });
    let shown = status(&answer);
    let expected = "\nthe API server has refused to delete pods for 7 s: no\n";
    assert!(shown.contains(expected), "{shown}");
}

// spec: O-43, B-21
#[test]
fn an_executors_session_is_shown_with_how_busy_it_is() {
    let executor = |session| json!({"executor": 7, "profile": "default", "state": "running", "age_seconds": 5, "session": session});
    let busy = json!({"state": "connected", "busy_slots": 1, "slots": 4, "heard_seconds_ago": 3});
    let shown = executors(
        &json!({"executors": [executor(busy), executor(json!(null))]}),
        false,
    );
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[1].contains("running  5s   connected, 1 of 4 busy"),
        "{shown}"
    );
    assert!(lines[2].ends_with("5s"), "{shown}");
    let usage =
        json!({"memory_bytes": 734_003_200, "memory_limit_bytes": 1_073_741_824, "cpu_cores": 0.5});
    let busy = json!({"heard_seconds_ago": 3, "usage": usage});
    let wide = executors(&json!({"executors": [executor(busy)]}), true);
    assert!(
        wide.contains("HEARD  INCARNATION\n") && wide.ends_with("3s"),
        "{wide}"
    );
    assert!(wide.contains("700 of 1024Mi  0.50"), "{wide}");
}

// spec: O-78
#[test]
fn evidence_is_shown_below_the_history_and_cannot_control_the_terminal() {
    let answer = json!({
        "executor": 7, "now": null, "left_out_after_the_first": 0, "events": [],
        "evidence": {
            "pod": "t-exec-7",
            "warnings": [{"time": "T1", "reason": "FailedMount", "message": "no\u{1b}[2Jvolume", "count": 3}],
            "log": ["begin", "\u{1b}]0;owned\u{7}end\r\u{9b}31m"],
            "log_of_previous_run": true,
            "missing": ["warnings: may not\nlist"],
        },
    });
    assert_eq!(
        history(&answer),
        "executor 7 has ended\n\n\
         pod t-exec-7:\n\
         \u{20} T1  warning  FailedMount (3 times): no [2Jvolume\n\
         \u{20} the end of the previous run's log:\n\
         \u{20}   begin\n\
         \u{20}    ]0;owned end  31m\n\
         \u{20} not shown: warnings: may not list"
    );
}

// spec: O-43, B-51
#[test]
fn a_story_says_what_is_left_out() {
    let answer = json!({
        "executor": 7, "now": null, "left_out_after_the_first": 3,
        "events": [
            {"id": "1-1", "time": "T1", "event": "requested", "executor": 7, "profile": "default"},
            {"id": "1-9", "time": "T2", "event": "ended", "executor": 7, "profile": "default", "reason": "Exited", "exit_code": 3},
        ],
    });
    assert_eq!(
        history(&answer),
        "executor 7 has ended\n  T1  requested\n  … 3 events no longer kept\n  T2  ended  exit_code=3  reason=Exited"
    );
}

// spec: O-43, O-145
#[test]
fn an_end_says_what_the_executor_used_at_most() {
    let end = |usage| json!({"time": "T1", "event": "ended", "usage": usage});
    let usage = json!({
        "memory_bytes": 1, "memory_limit_bytes": 1_073_741_824, "peak_memory_bytes": 734_003_200, "p99_cpu_cores": 0.5,
    });
    let line = event(&end(usage));
    assert_eq!(line, "T1  ended  usage=700 of 1024Mi, 0.50 cores");
    let line = event(&end(json!({"peak_memory_bytes": 1_048_576})));
    assert_eq!(line, "T1  ended  usage=1Mi");
    let of_another_client = event(&end(json!({"memory_bytes": 1})));
    assert_eq!(of_another_client, r#"T1  ended  usage={"memory_bytes":1}"#);
}
