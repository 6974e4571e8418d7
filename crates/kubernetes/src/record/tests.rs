//! Writing, reading and succession of the record.

use super::*;
use boatswain_model::LossClass;
use boatswain_model::failures::KeptBudget;
use std::num::NonZeroU32;

fn id(number: u64) -> ExecutorId {
    ExecutorId::new(number).unwrap()
}

fn end(number: u64) -> RecordedEnd {
    RecordedEnd {
        executor: id(number),
        profile: "default".into(),
        reason: LossClass::OomKilled,
        exit_code: Some(137),
        why: "its memory ran out".into(),
        pod: Some("etl-exec-5".into()),
        node: Some("node-1".into()),
        memory_limit: NonZeroU32::new(1_024),
        at: "2026-03-01T10:15:30Z".parse().unwrap(),
        counted: true,
    }
}

fn full() -> Record {
    let backoff = SavedBackoff {
        step: 2,
        until: "2026-03-01T10:15:30Z".parse().unwrap(),
        trial_ms: Some(10_000),
    };
    let budget = KeptBudget {
        largest: 5,
        times: vec![(1_772_359_200_000, 1), (1_772_359_260_000, 7)],
        failed: Some("8 failures within 1h".into()),
        memory_limit: Some(1 << 30),
    };
    Record {
        app_id: "etl-7f3a".into(),
        incarnation: Incarnation(3),
        holder: Some("00c0ffee".into()),
        holder_pod: Some("driver-0/u1".into()),
        origin: Some("0ddba11".into()),
        targets: BTreeMap::from([("default".into(), 5), ("big".into(), 0)]),
        held: Some(Held {
            targets: BTreeMap::from([("default".into(), 5)]),
            by: Some("alice".into()),
        }),
        profiles: BTreeMap::from([("gpu".into(), json!({"image": "engine:2"}))]),
        profile_proofs: BTreeMap::from([("gpu".into(), "0ff1ce".into())]),
        removing: BTreeSet::from(["gpu".into()]),
        reserved: Some(id(1_000)),
        ended: [1, 2, 3, 7].map(id).into_iter().collect(),
        bound: [4, 5].map(id).into_iter().collect(),
        reported: [5].map(id).into_iter().collect(),
        ends: vec![end(5)],
        backoffs: BTreeMap::from([("big".into(), backoff)]),
        failures: KeptFailures {
            profiles: BTreeMap::from([("big".into(), budget)]),
            nodes: BTreeMap::from([("node-1".to_owned(), vec![(1_772_359_260_000, 2)])]),
            counted: [6, 7].map(id).into_iter().collect(),
            spent: Some("8 failures within 1h".into()),
        },
        made: Some(9),
        finished: Some(11),
        finished_why: Some("8 failures".into()),
    }
}

fn place() -> RecordPlace {
    RecordPlace {
        namespace: "jobs".to_owned(),
        prefix: "etl".to_owned(),
        app_name: "Nightly ETL".to_owned(),
        labels: LabelScheme::Boatswain,
        owner: None,
    }
}

/// The ConfigMap as the API server would return it.
fn stored(record: &Record) -> ConfigMap {
    let map = record.to_config_map(&place(), None);
    ConfigMap {
        name: "etl-app".to_owned(),
        uid: "record-uid".into(),
        version: 7.into(),
        deleting: false,
        labels: BTreeMap::new(),
        data: serde_json::from_value(map["data"].clone()).unwrap(),
    }
}

fn with(key: &str, value: Option<&str>) -> Result<Record, RecordError> {
    let mut map = stored(&full());
    match value {
        Some(value) => map.data.insert(key.to_owned(), value.to_owned()),
        None => map.data.remove(key),
    };
    Record::read(&map)
}

// spec: O-30
#[test]
fn a_record_is_read_as_written() {
    assert_eq!(Record::read(&stored(&full())), Ok(full()));
    let data = stored(&full()).data;
    assert_eq!((&*data["ended"], &*data["bound"]), ("1-3,7", "4-5"));
    let empty = Record::succeed(None, &"a".into(), 0).unwrap().record;
    assert_eq!(Record::read(&stored(&empty)), Ok(empty));
}

// spec: O-30, K-2
#[test]
fn a_record_is_written_as_a_config_map_with_its_version_as_precondition() {
    let owned = RecordPlace {
        owner: Some(json!({"kind": "Deployment", "name": "driver"})),
        ..place()
    };
    let map = full().to_config_map(&owned, Some((&"u".into(), &41.into())));
    let meta = &map["metadata"];
    assert_eq!(
        (&meta["name"], &meta["namespace"]),
        (&json!("etl-app"), &json!("jobs"))
    );
    assert_eq!(
        (&meta["uid"], &meta["resourceVersion"]),
        (&json!("u"), &json!("41"))
    );
    assert_eq!(meta["labels"]["boatswain.dev/app-id"], "etl-7f3a");
    assert_eq!(meta["labels"]["app.kubernetes.io/managed-by"], "boatswain");
    assert_eq!(meta["ownerReferences"][0]["kind"], "Deployment");
    let first = full().to_config_map(&place(), None);
    assert_eq!(first["metadata"].get("resourceVersion"), None);
    assert_eq!(first["metadata"].get("ownerReferences"), None);
}

// spec: O-30
#[test]
fn a_newer_format_is_refused_and_keys_that_an_older_one_lacks_are_empty() {
    assert_eq!(
        with("format", Some("2")).unwrap_err().to_string(),
        "ConfigMap etl-app: the record has format 2, this program reads up to 1: a newer boatswain wrote it, use that one"
    );
    for key in [
        "holder", "origin", "targets", "reserved", "ended", "bound", "backoffs", "finished",
    ] {
        assert!(with(key, None).is_ok(), "{key}");
    }
    assert!(with("something-new", Some("x")).is_ok());
}

// spec: O-30, O-98
#[test]
fn an_invalid_value_is_an_error_that_names_the_config_map_and_the_key() {
    for (key, value) in [
        ("format", None),
        ("format", Some("0")),
        ("format", Some("one")),
        ("app-id", None),
        ("app-id", Some("")),
        ("incarnation", None),
        ("incarnation", Some("-1")),
        ("targets", Some("[]")),
        ("targets", Some("{\"default\":-1}")),
        ("reserved", Some("0x10")),
        ("ended", Some("5-1")),
        ("bound", Some("a few")),
        (
            "backoffs",
            Some("{\"default\":{\"step\":1,\"until\":\"soon\"}}"),
        ),
        ("finished", Some("300")),
        ("made", Some("-1")),
        ("failures", Some("5")),
        (
            "failures",
            Some("{\"profiles\": {\"a\": {\"times\": [[1]]}}}"),
        ),
        ("failures-counted", Some("x")),
    ] {
        let error = with(key, value).unwrap_err().to_string();
        let begin = format!("ConfigMap etl-app, key {key}: ");
        assert!(error.starts_with(&begin), "{value:?}: {error}");
    }
}

// spec: O-30
#[test]
fn another_applications_record_is_not_taken_over() {
    let error = Record::read_own(&stored(&full()), &"mine".into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfigMap etl-app is the record of application etl-7f3a, not of mine: choose another prefix"
    );
    assert!(Record::read_own(&stored(&full()), &"etl-7f3a".into()).is_ok());
}

// spec: O-31
#[test]
fn a_successor_raises_the_incarnation_and_starts_above_every_used_id() {
    let previous = Record {
        finished: None,
        ended: [1, 2_000].map(id).into_iter().collect(),
        ..full()
    };
    let next = Record::succeed(Some(&previous), &previous.app_id, 100).unwrap();
    assert_eq!(next.record.incarnation, Incarnation(4));
    assert_eq!(
        (next.first_id, next.record.reserved),
        (id(2_001), Some(id(2_100)))
    );
    assert_eq!(next.record.targets, previous.targets);
    assert_eq!(next.record.origin, previous.origin);
    assert_eq!(
        (&next.record.ended, &next.record.bound),
        (&previous.ended, &previous.bound)
    );

    let first = Record::succeed(None, &"a".into(), 100).unwrap();
    assert_eq!(first.record.incarnation, Incarnation(1));
    assert_eq!(
        (first.first_id, first.record.reserved),
        (ExecutorId::FIRST, Some(id(100)))
    );
    assert!(first.record.targets.is_empty(), "the configuration's stand");
}

// spec: O-108, O-31
#[test]
fn an_application_that_has_ended_has_no_successor() {
    let succeed = |record: Record| Record::succeed(Some(&record), &record.app_id, 100);
    assert_eq!(
        succeed(full()),
        Err(NoSuccession::Finished {
            code: 11,
            why: Some("8 failures".into())
        })
    );
    let used_up = Record {
        finished: None,
        reserved: Some(ExecutorId::MAX),
        ..full()
    };
    assert_eq!(succeed(used_up), Err(NoSuccession::NoMoreIds));
}

// spec: O-30
#[test]
fn ids_are_reserved_in_blocks_and_never_released() {
    let mut record = full();
    assert!(record.reserve(id(1_001), 100));
    assert_eq!(record.reserved, Some(id(1_100)));
    assert!(!record.reserve(id(500), 100));
    assert_eq!(record.reserved, Some(id(1_100)));
    assert!(record.reserve(ExecutorId::MAX, 100));
    assert_eq!(record.highest_id(), Some(ExecutorId::MAX));
}

// spec: O-98
#[test]
fn every_field_of_a_record_is_bounded_when_it_is_read() {
    let why = |key: &str, value: &str| with(key, Some(value)).unwrap_err().to_string();
    for bound in [
        "1-100000000",
        "1-9223372036854775807",
        "1-600000,700000-1200000",
    ] {
        let why = why("bound", bound);
        assert!(why.contains("allowed are 1000000"), "{why}");
    }
    assert!(with("bound", Some("1-1000000")).is_ok());
    // A driver looks at each of them too.
    let of_reported = why("reported", "1-9223372036854775807");
    assert!(of_reported.contains("allowed are 1000000"), "{of_reported}");
    // As intervals, of which there are few in a mebibyte.
    for key in ["ended", "failures-counted"] {
        let many: Vec<String> = (1..140_000).map(|n| (2 * n).to_string()).collect();
        assert!(with(key, Some("1-9223372036854775807")).is_ok());
        assert!(with(key, Some(&many.join(","))).is_ok());
    }
    let large = format!("{{\"default\": 5 {}}}", " ".repeat(MOST_BYTES));
    for key in [
        "targets",
        "held",
        "profiles",
        "profile-proofs",
        "backoffs",
        "failures",
    ] {
        let why = why(key, &large);
        assert!(why.contains("allowed are 1048576"), "{key}: {why}");
    }
    assert!(why("app-id", &"a".repeat(64)).contains("63 characters"));
    let nested = format!("{{\"gpu\": {}1{}}}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(why("profiles", &nested).contains("recursion limit"));
    let long = "x\u{7}".repeat(400_000);
    let text = |record: Record| record.finished_why.unwrap();
    let shortened = text(with("finished-why", Some(&long)).unwrap());
    assert!(shortened.len() < LONGEST_TEXT + 4 && !shortened.contains('\u{7}'));
    let held = format!("{{\"targets\": {{}}, \"by\": \"{}\"}}", "x".repeat(900_000));
    let by = with("held", Some(&held)).unwrap().held.unwrap().by.unwrap();
    assert!(by.len() < LONGEST_TEXT + 4);
}

// spec: O-30, A-5
#[test]
fn a_count_at_its_limit_stays_there() {
    let record = with("made", Some("18446744073709551615")).unwrap();
    assert_eq!(record.made().count(), u64::MAX);
    assert!(with("made", Some("18446744073709551616")).is_err());
    let record = with("incarnation", Some("18446744073709551615")).unwrap();
    let record = Record {
        finished: None,
        ..record
    };
    let next = Record::succeed(Some(&record), &record.app_id, 1_000);
    assert_eq!(next, Err(NoSuccession::NoMoreIncarnations));
}

// spec: O-30, L-38
#[test]
fn failures_of_an_older_program_which_were_not_counted_by_profile_count_no_more() {
    let older =
        r#"{"all": [[1767225606154, 3]], "largest": 6, "nodes": {}, "spent": "4 failures"}"#;
    let failures = with("failures", Some(older)).unwrap().failures;
    assert!(failures.profiles.is_empty());
    assert_eq!(failures.spent.as_deref(), Some("4 failures"));
}

// spec: O-131
#[test]
fn a_record_that_is_opened_again_has_nothing_that_counts_and_keeps_the_rest() {
    let closed = stored(&full());
    let patch = Record::reopening(&closed);
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let mut data = closed.data.clone();
    for (key, value) in patch["data"].as_object().unwrap() {
        assert!(value.is_null());
        data.remove(key);
    }
    let opened = Record::read(&ConfigMap { data, ..closed }).unwrap();
    let expected = Record {
        failures: KeptFailures {
            counted: full().failures.counted,
            ..KeptFailures::default()
        },
        backoffs: BTreeMap::new(),
        finished: None,
        finished_why: None,
        ..full()
    };
    assert_eq!(opened, expected);
    assert!(Record::succeed(Some(&opened), &opened.app_id, 1_000).is_ok());
}

// spec: O-98
#[test]
fn a_shortened_record_is_read_as_written() {
    for why in [
        "\u{7} 8 failures\n",
        &"é\u{7}".repeat(9_000),
        &"x".repeat(LONGEST_TEXT + 1),
        "",
    ] {
        let mut record = full();
        record.finished_why = Some(why.into());
        record.failures.spent = Some(why.into());
        for budget in record.failures.profiles.values_mut() {
            budget.failed = Some(why.into());
        }
        record.held.as_mut().unwrap().by = Some(why.into());
        record.shorten();
        assert_eq!(
            Record::read(&stored(&record)),
            Ok(record.clone()),
            "{why:?}"
        );
        let mut again = record.clone();
        again.shorten();
        assert_eq!(again, record);
    }
}

// spec: O-30
#[test]
fn a_record_keeps_the_last_hundred_ends_in_short_and_no_unreadable_one() {
    let mut record = Record {
        ends: Vec::new(),
        reported: IdSet::new(),
        ..full()
    };
    for number in 1..=150 {
        record.add_end(RecordedEnd {
            why: "why ".repeat(1_000).into(),
            ..end(number)
        });
    }
    let kept: Vec<u64> = record.ends.iter().map(|end| end.executor.get()).collect();
    assert_eq!(kept, (51..=150).collect::<Vec<_>>());
    assert_eq!(record.reported, (1..=150).map(id).collect());
    let mut map = stored(&record);
    let bytes = map.data["ends"].len();
    assert!(bytes < 50_000, "{bytes}");
    assert_eq!(Record::read(&map).unwrap(), record);

    let one =
        r#"{"executor":1,"profile":"p","reason":"Exited","why":"w","at":"2026-03-01T10:15:30Z"}"#;
    let other = one.replace("Exited", "OfALaterProgram");
    map.data.insert("ends".into(), format!("[{one},{other},3]"));
    let read = Record::read(&map).unwrap();
    assert_eq!(read.ends.len(), 1);
    assert_eq!(read.reported, record.reported, "as written");
}
