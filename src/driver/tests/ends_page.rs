//! Compares docs/ends.md with the log lines for each way to end and each refusal, made from what
//! clusters write. `BOATSWAIN_WRITE_EXPECTED=1 cargo test --lib ends_page` writes the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::actors::pod_allocator::allocation::{Allocation, Inherited};
use crate::actors::pod_allocator::{meaning, notices};
use crate::actors::snapshot_store::journal::say_ended;
use crate::kubernetes::refusal::of_answer;
use crate::kubernetes::{LabelScheme, PodReader};
use crate::model::executor::{Bound, Gone, GoneEvidence, LeaveMethod, LeaveReason, Leaving};
use crate::model::pod::Sighting;
use crate::model::reasoning::{reason_of, reason_of_an_overdue};
use crate::model::{Ending, Entry, Epoch, ExecutorId, Incarnation, LossClass, Now, State, Tick};
use crate::telemetry::LogFormat;
use crate::telemetry::testing::logged;

const PODS: &str = include_str!("ends_page/pods.json");
const REFUSALS: &str = include_str!("ends_page/refusals.json");

/// How an executor ends, as a cluster shows it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    name: String,
    class: String,
    /// Where Kubernetes documents it.
    documented: String,
    /// The fields in which its pod differs from a usual one.
    pod: Value,
    /// The driver's leaving mark.
    leaving: Option<String>,
    gone: Option<String>,
    /// For how many seconds it has been Terminating.
    overdue: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    name: String,
    documented: String,
    code: u16,
    body: Value,
}

fn now() -> Now {
    Now::new(Tick::default(), jiff::Timestamp::UNIX_EPOCH)
}

fn mark(word: &str) -> LeaveReason {
    let (half_a_minute, words) = (Duration::from_secs(30), |text: &str| Arc::from(text));
    match word {
        "scaled-down" => LeaveReason::ScaledDown,
        "killed" => LeaveReason::Killed(words("alice")),
        "decommissioned" => LeaveReason::Decommissioned(words("the roll")),
        "node-leaving" => LeaveReason::NodeLeaving(words("node-1: it is being deleted")),
        "mislabelled" => LeaveReason::Mislabelled(words("boatswain.dev/role")),
        "heartbeat" => LeaveReason::HeartbeatTimeout(Duration::from_secs(120)),
        "unreachable" => LeaveReason::Unreachable(Duration::from_secs(120)),
        "disconnected" => LeaveReason::Disconnected,
        "registration" => LeaveReason::RegistrationTimeout(Duration::from_secs(300)),
        "never-starts" => LeaveReason::NeverStarts(half_a_minute, words("")),
        "pending-timeout" => LeaveReason::PendingTimeout(Duration::from_secs(300), words("")),
        other => panic!("no such mark: {other}"),
    }
}

/// Replaces the reason by the allocator's description of what this pod waits for (spec A-51).
fn in_its_words(why: LeaveReason, entry: &Entry) -> LeaveReason {
    let words =
        |pod: &crate::model::Pod| Arc::from(crate::actors::pod_allocator::waiting::words(pod));
    let words = entry.pod().map_or_else(|| Arc::from(""), |pod| words(pod));
    match why {
        LeaveReason::NeverStarts(waited, _) => LeaveReason::NeverStarts(waited, words),
        LeaveReason::PendingTimeout(waited, _) => LeaveReason::PendingTimeout(waited, words),
        why => why,
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = from.clone(),
    }
}

fn ending(end: &End) -> Ending {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "etl-exec-7", "uid": "0c8f", "resourceVersion": "81734",
            "labels": {
                "boatswain.dev/app-id": "etl-1", "boatswain.dev/role": "executor",
                "boatswain.dev/executor-id": "7", "boatswain.dev/profile": "default",
            },
        },
        "spec": {"nodeName": "node-3", "containers": [{"name": "executor"}], "restartPolicy": "Never"},
    });
    merge(&mut pod, &end.pod);
    let reader = PodReader {
        app_id: "etl-1".into(),
        prefix: "etl".into(),
        record: "etl-app".into(),
        labels: LabelScheme::Boatswain,
        container: "executor".into(),
        check_all_containers: true,
        of_sets: false,
    };
    let Sighting::Read(pod) = reader.read(&pod.to_string()) else {
        panic!("{}: cannot be read", end.name)
    };
    let id = ExecutorId::new(7).unwrap();
    let (tick, epoch) = (Tick::default(), Epoch::default());
    let mut entry = Entry::requested(id, "default".into(), Incarnation(1), tick, epoch);
    let bound = Bound {
        pod,
        epoch,
        bound_at: 1,
        since: tick,
        running_since: None,
        absent: None,
    };
    entry.state = match end.gone.as_deref() {
        None => State::Bound(bound),
        Some(how) => State::Gone(Gone {
            bound: (how != "lost").then_some(bound),
            how: match how {
                "deleted" => GoneEvidence::Deleted,
                "missing" => GoneEvidence::Missing,
                "lost" => GoneEvidence::LostBeforeStart,
                other => panic!("{}: gone how: {other}", end.name),
            },
            at: tick,
        }),
    };
    entry.leaving = end.leaving.as_deref().map(|word| Leaving {
        why: in_its_words(mark(word), &entry),
        how: LeaveMethod::Delete,
        since: tick,
    });
    let reason = match end.overdue {
        Some(seconds) => reason_of_an_overdue(&entry, Duration::from_secs(seconds)),
        None => reason_of(&entry),
    };
    assert_eq!(
        reason.class.to_string(),
        end.class,
        "{}: {}",
        end.name,
        reason.message
    );
    Ending {
        entry: Arc::new(entry),
        reason: Arc::new(reason),
    }
}

/// The log line on a terminal, without its time.
fn line(say: impl FnOnce()) -> String {
    let log = logged(LogFormat::Pretty, say);
    assert_eq!(log.lines().count(), 1, "{log}");
    log.split_once(' ').unwrap().1.trim_end().to_owned()
}

fn refused(refusal: &Refusal) -> String {
    let place = "POST /api/v1/namespaces/jobs/pods";
    let failure = of_answer(
        place,
        refusal.code,
        None,
        refusal.body.to_string().as_bytes(),
    );
    let (_, answer) = meaning(&failure);
    let settings = crate::driver::settings::allocation_settings(
        &Default::default(),
        &Default::default(),
        (&Default::default(), &Default::default()),
        Default::default(),
        Duration::from_secs(60),
        Default::default(),
        None,
    );
    let rng = rand::rngs::StdRng::seed_from_u64(7);
    let mut allocation = Allocation::new(
        settings,
        rng,
        &Inherited::default(),
        &Default::default(),
        now(),
    );
    // An application that has had an executor continues after any refusal (spec A-24). One of the same profile would make
    // the refusal a change of the cluster (spec A-114).
    let (profile, other) = ("default".into(), "other".into());
    let created = crate::actors::pod_allocator::decision::Answer::Created;
    allocation.answered(&other, Tick::default(), &created, now());
    let said = allocation.answered(&profile, Tick::default(), &answer, now());
    assert_eq!(said.len(), 1, "{}: {said:?}", refusal.name);
    line(|| notices::log(&said[0]))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The expected page.
fn page(ends: &[End], refusals: &[Refusal]) -> String {
    let mut page = String::from(PREFACE);
    page.push_str("\n## Ends\n\n| what happened | reason | the line |\n|---|---|---|\n");
    for end in ends {
        let line = line(|| say_ended(&ending(end)));
        let line = line.trim_start_matches("INFO  executor ended ");
        let class = &end.class;
        let _ = writeln!(page, "| {} | {class} | `{}` |", cell(&end.name), cell(line));
    }
    page.push_str("\n## Refusals\n\n| what the server refuses for | the line |\n|---|---|\n");
    for refusal in refusals {
        let line = refused(refusal);
        let _ = writeln!(page, "| {} | `{}` |", cell(&refusal.name), cell(&line));
    }
    page.push_str("\n## Where clusters say so\n\n");
    let all = ends.iter().map(|end| (&end.name, &end.documented));
    let all = all.chain(
        refusals
            .iter()
            .map(|refusal| (&refusal.name, &refusal.documented)),
    );
    for (name, documented) in all {
        let _ = writeln!(page, "- {name}: {documented}");
    }
    page
}

const PREFACE: &str = "\
# Log lines for ends and refusals

The log line for each way in which an executor ends, and for each way in which the API server refuses a request for one.
A test makes this page from what clusters write, and fails when a line changes. The lines for ends begin with
`INFO  executor ended`, which is left out below. [What to do about each reason](operations.md#why-an-executor-ended).
";

// spec: L-20, A-21, A-22, A-23
#[test]
fn the_page_shows_the_line_of_each_end_and_each_refusal() {
    let ends: Vec<End> = serde_json::from_str(PODS).unwrap();
    let refusals: Vec<Refusal> = serde_json::from_str(REFUSALS).unwrap();
    let page = page(&ends, &refusals);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ends.md");
    if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == page,
        "docs/ends.md: see BOATSWAIN_WRITE_EXPECTED:\n{page}"
    );
}

// spec: L-20
#[test]
fn every_reported_reason_has_an_example() {
    let ends: Vec<End> = serde_json::from_str(PODS).unwrap();
    let shown: BTreeSet<&str> = ends.iter().map(|end| &*end.class).collect();
    let all: BTreeSet<String> = LossClass::ALL
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    // These are refusals, not ends of executors.
    let refusals = ["NotCreated", "TemplateRefused"];
    let missing: Vec<&String> = (all.iter())
        .filter(|class| !shown.contains(class.as_str()) && !refusals.contains(&class.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(shown.iter().all(|class| all.contains(*class)));
}

// spec: L-13, L-20
#[test]
fn only_ends_of_class_oom_killed_are_attributed_to_memory() {
    let ends: Vec<End> = serde_json::from_str(PODS).unwrap();
    for end in &ends {
        let said = &ending(end).reason.message;
        let blames_memory = said.contains("memory limit") || said.contains("want of memory");
        assert_eq!(
            blames_memory,
            end.class == "OomKilled",
            "{}: {said}",
            end.name
        );
    }
}
