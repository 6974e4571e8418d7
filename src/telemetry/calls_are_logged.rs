use super::LogFormat;
use super::testing::logged;
use crate::kubernetes::Clients;
use crate::kubernetes::testing::{calls_to, executor};

// spec: O-46
#[test]
fn each_call_is_logged_at_debug_without_its_query() {
    let log = logged(LogFormat::Json, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let cluster = devcluster::start(devcluster::Options::default());
            let calls = calls_to(Clients::in_process(cluster.router(), "default"));
            calls.create_pod(&executor(1)).await.unwrap();
            calls.create_pod(&executor(1)).await.unwrap_err();
        });
    });
    let lines: Vec<serde_json::Value> = (log.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["message"] == "API call")
        .collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| (&line["verb"], &line["path"], &line["outcome"]))
        .collect();
    let (post, path) = ("POST".into(), "/api/v1/namespaces/default/pods".into());
    assert_eq!(
        told,
        [
            (&post, &path, &"ok".into()),
            (&post, &path, &"already-exists".into())
        ]
    );
    assert!(
        lines.iter().all(|line| line["duration_ms"].is_u64()),
        "{log}"
    );
}
