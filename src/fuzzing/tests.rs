//! Tests the properties with recorded examples and mutations of them. The fuzzer mutates them for
//! longer (scripts/fuzz).

use std::path::Path;

use proptest::prelude::*;

use super::*;

/// The examples of a target.
fn examples(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for file in [format!("{target}.txt"), format!("{target}-own.txt")] {
        let path = root.join("fuzz/seeds").join(file);
        if path.exists() {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(
                text.split("\n%%\n")
                    .map(|example| example.as_bytes().to_vec()),
            );
        }
    }
    assert!(!found.is_empty(), "nothing to begin with for {target}");
    found
}

/// A mutation of an example.
#[derive(Debug, Clone)]
enum Damage {
    /// Removes bytes.
    Cut(usize, usize),
    /// Inserts bytes.
    Insert(usize, Vec<u8>),
    /// Repeats a part of the example.
    Repeat(usize, usize, usize),
    /// Inserts a part of another example.
    Splice(usize, usize, usize, usize),
    /// Changes a byte.
    Change(usize, u8),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let at = 0_usize..20_000;
    let words = prop::sample::select(vec![
        "null",
        "\"\"",
        "-1",
        "18446744073709551616",
        "1e999",
        "{}",
        "[]",
        "\0",
        "\u{1b}[31m",
        "ü",
        "\u{10ffff}",
        "%2f",
        "..",
        "\n%\n",
        "\n",
        "\\",
        "\"",
        "=",
        ",",
        "$patch",
        "true",
    ]);
    let bytes = prop_oneof![
        words.prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..4),
    ];
    let damage = prop_oneof![
        (at.clone(), 1_usize..40).prop_map(|(at, length)| Damage::Cut(at, length)),
        (at.clone(), bytes).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (at.clone(), at.clone(), 1_usize..60)
            .prop_map(|(a, b, length)| Damage::Repeat(a, b, length)),
        (at.clone(), any::<usize>(), at.clone(), 1_usize..400)
            .prop_map(|(a, n, b, length)| Damage::Splice(a, n, b, length)),
        (at, any::<u8>()).prop_map(|(at, byte)| Damage::Change(at, byte)),
    ];
    prop::collection::vec(damage, 1..6)
}

fn damaged(examples: &[Vec<u8>], which: usize, damages: &[Damage]) -> Vec<u8> {
    let mut data = examples[which % examples.len()].clone();
    for damage in damages {
        let place = |at: &usize| at % (data.len() + 1);
        let part = |from: &[u8], at: usize, length: usize| -> Vec<u8> {
            from[at..].iter().take(length).copied().collect()
        };
        let (at, left_out, new) = match damage {
            Damage::Cut(at, length) => (place(at), *length, Vec::new()),
            Damage::Insert(at, bytes) => (place(at), 0, bytes.clone()),
            Damage::Repeat(from, to, length) => (place(to), 0, part(&data, place(from), *length)),
            Damage::Splice(at, other, from, length) => {
                let other = &examples[other % examples.len()];
                (place(at), 0, part(other, from % (other.len() + 1), *length))
            }
            Damage::Change(at, byte) => (place(at), 1, vec![*byte]),
        };
        let end = (at + left_out).min(data.len());
        data.splice(at..end, new);
    }
    data
}

/// Asserts a property of all examples, and of this many mutations.
fn holds(target: &str, cases: u32, property: fn(&[u8])) {
    let examples = examples(target);
    for example in &examples {
        property(example);
    }
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    });
    let outcome = runner.run(&(any::<usize>(), damages()), |(which, damages)| {
        let data = damaged(&examples, which, &damages);
        // Shown in the form in which it is given to the fuzzer.
        let shown = String::from_utf8_lossy(&data).into_owned();
        let held = std::panic::catch_unwind(|| property(&data));
        prop_assert!(held.is_ok(), "does not hold of:\n{shown}");
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{target}: {error}");
    }
}

// spec: I-11, C-2
#[test]
fn any_configuration_is_taken_or_refused_with_reasons() {
    holds("configuration", 400, configuration);
}

// spec: I-11, C-7
#[test]
fn any_file_of_sparks_becomes_one_that_can_be_used() {
    holds("spark", 200, spark);
}

// spec: I-11, W-5, S-15
#[test]
fn any_watch_is_read_to_its_end() {
    holds("watch_lines", 1_000, watch_lines);
}

// spec: I-11
#[test]
fn any_selector_is_understood_or_a_bad_request() {
    holds("selectors", 400, selectors);
}

// spec: I-11
#[test]
fn any_patch_leaves_an_object_of_its_type_or_everything_as_it_was() {
    holds("patch", 400, patch);
}

// spec: I-11
#[test]
fn any_page_token_is_a_place_or_a_bad_request() {
    holds("token", 1_000, token);
}

// spec: I-11, O-71
#[test]
fn any_requests_are_answered_and_none_as_the_servers_fault() {
    holds("requests", 150, requests);
}

// spec: B-1, B-2, B-5, B-10, I-8, I-11
#[test]
fn whatever_executors_say_is_answered_and_each_speaks_as_itself() {
    holds("sessions", 1_000, sessions);
}
