//! Draws false values for the application record, all of which a driver can read.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::objects::text;

/// A profile that no driver added.
pub const FALSE_PROFILE: &str = "unproven";

const LAST_ID: u64 = i64::MAX as u64;

/// A few keys of the record's data, and their new values. `highest` is the highest id of a pod.
pub fn draw(rng: &mut StdRng, data: &Value, highest: u64) -> BTreeMap<&'static str, String> {
    let mut edits = BTreeMap::new();
    for _ in 0..rng.random_range(1..5) {
        edits.extend(one(rng, data, highest));
    }
    edits
}

fn one(rng: &mut StdRng, data: &Value, highest: u64) -> Vec<(&'static str, String)> {
    let incarnation: u64 = text(data, "/incarnation").parse().unwrap_or(1);
    match rng.random_range(0..17) {
        0 => {
            let of = [0, 1, incarnation + 1, 1 << 63, u64::MAX - 1, u64::MAX];
            vec![("incarnation", pick(rng, &of).to_string())]
        }
        1 => vec![("targets", targets(rng))],
        2 | 3 => false_profile(rng),
        4 => vec![("ended", ids(rng, highest))],
        5 => vec![("bound", bound(rng, highest))],
        6 => vec![("reported", ids(rng, highest))],
        7 => {
            let of = [1, highest, 1 << 62, LAST_ID - 2_000, LAST_ID - 5, LAST_ID];
            vec![("reserved", pick(rng, &of).max(1).to_string())]
        }
        8 => vec![("ends", ends(rng))],
        9 => vec![("backoffs", backoffs(rng))],
        10 => failures(rng, highest),
        11 => vec![(
            "made",
            pick(rng, &[0, 1, u64::MAX - 1, u64::MAX]).to_string(),
        )],
        12 => vec![
            ("finished", rng.random_range(0..=255).to_string()),
            ("finished-why", "x".repeat(100_000)),
        ],
        13 => vec![(
            "held",
            json!({"targets": {"default": u32::MAX, FALSE_PROFILE: 3}, "by": "x".repeat(100_000)})
                .to_string(),
        )],
        14 => vec![
            ("holder", "somebody".to_owned()),
            ("holder-pod", "other-exec-1/4711".to_owned()),
        ],
        15 => vec![(
            "app-id",
            ["two", "one", "another"][rng.random_range(0..3)].to_owned(),
        )],
        _ => vec![
            ("origin", "elsewhere".to_owned()),
            ("unknown-key", "x".repeat(rng.random_range(0..900_000))),
        ],
    }
}

fn pick(rng: &mut StdRng, of: &[u64]) -> u64 {
    of[rng.random_range(0..of.len())]
}

fn targets(rng: &mut StdRng) -> String {
    match rng.random_range(0..3) {
        0 => json!({"default": u32::MAX}).to_string(),
        1 => json!({"default": rng.random_range(0..30), FALSE_PROFILE: 5, "": 7}).to_string(),
        _ => {
            // Kept for profiles that may be added again.
            let many: BTreeMap<_, _> = (0..5_000).map(|n| (format!("p{n}"), u32::MAX)).collect();
            json!(many).to_string()
        }
    }
}

/// A profile without a valid proof, and a target for it.
fn false_profile(rng: &mut StdRng) -> Vec<(&'static str, String)> {
    let mut edits = vec![
        (
            "profiles",
            json!({FALSE_PROFILE: {"image": "evil", "executors": 4}}).to_string(),
        ),
        ("targets", json!({FALSE_PROFILE: 5}).to_string()),
    ];
    if rng.random() {
        edits.push((
            "profile-proofs",
            json!({FALSE_PROFILE: "0".repeat(64)}).to_string(),
        ));
    }
    edits
}

fn ids(rng: &mut StdRng, highest: u64) -> String {
    match rng.random_range(0..5) {
        0 => format!("1-{}", highest.max(1)),
        1 => format!("1-{LAST_ID}"),
        2 => format!("{}-{}", 1_u64 << 61, 1_u64 << 62),
        3 => {
            let ids: Vec<_> = (0..20_000).map(|n| (2 * n + 1).to_string()).collect();
            ids.join(",")
        }
        _ => String::new(),
    }
}

fn bound(rng: &mut StdRng, highest: u64) -> String {
    match rng.random_range(0..8) {
        // Each of these is reported as lost, up to 100,000. That takes seconds.
        0 if rng.random_bool(0.1) => "1-1000000".to_owned(),
        0..4 => format!("1-{}", highest + 20),
        4 => format!("{}-{LAST_ID}", LAST_ID - 50),
        5 => {
            let ids: Vec<_> = (1..3_000).map(|n| (3 * n).to_string()).collect();
            ids.join(",")
        }
        _ => String::new(),
    }
}

fn ends(rng: &mut StdRng) -> String {
    let end = |n: usize| {
        json!({
            "executor": n + 1,
            "profile": FALSE_PROFILE,
            "class": "exited",
            "why": "x".repeat(300),
            "at": "9999-12-30T22:00:00Z",
            "time": "9999-12-30T22:00:00Z",
        })
    };
    let count = rng.random_range(0..1_500);
    json!((0..count).map(end).collect::<Vec<_>>()).to_string()
}

fn backoffs(rng: &mut StdRng) -> String {
    let far = ["-009999-01-02T01:59:59Z", "9999-12-30T22:00:00Z"][rng.random_range(0..2)];
    let backoff = json!({"step": u32::MAX, "until": far, "trialMs": u64::MAX});
    json!({"default": backoff, FALSE_PROFILE: backoff}).to_string()
}

fn failures(rng: &mut StdRng, highest: u64) -> Vec<(&'static str, String)> {
    let mut times = vec![json!([i64::MIN, u32::MAX]), json!([i64::MAX, 1])];
    let many = match rng.random() {
        true => 2_000,
        false => 2,
    };
    times.extend((0..many).map(|n| json!([n * 977 % 100_000, 1])));
    let nodes: BTreeMap<_, _> = (0..20).map(|n| (format!("node-{n}"), &times)).collect();
    let budget = json!({"largest": u32::MAX, "times": times});
    let mut failures = json!({
        // As drivers wrote it before they counted by profile.
        "largest": u32::MAX,
        "all": times,
        "profiles": {"default": budget, FALSE_PROFILE: budget},
        "nodes": nodes,
    });
    failures["profiles"][FALSE_PROFILE]["failed"] = "x".repeat(100_000).into();
    if rng.random_bool(0.3) {
        failures["spent"] = "x".repeat(100_000).into();
    }
    if rng.random_bool(0.5) {
        failures["profiles"]["default"]["times"] = json!([]);
    }
    vec![
        ("failures", failures.to_string()),
        ("failures-counted", ids(rng, highest)),
    ]
}
