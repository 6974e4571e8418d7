//! Tests of error messages: ten files with five mistakes each, and for each file the complete
//! expected message.

use super::*;

/// A file in the folder of these tests.
fn path(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests")
        .join(file)
}

/// Compares with a file. With BOATSWAIN_WRITE_EXPECTED set, writes it instead, for review.
pub(super) fn assert_is(text: &str, file: &str) {
    let path = path(file);
    if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{file}: see BOATSWAIN_WRITE_EXPECTED");
}

pub(super) fn given(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap()
}

// spec: C-2
#[test]
fn five_mistakes_are_told_at_once_each_with_its_place_and_a_way_out() {
    let files = [
        "keys",
        "types",
        "units",
        "ranges",
        "contradictions",
        "profiles",
        "tolerations",
        "syntax",
        "names",
        "choices",
    ];
    for name in files {
        let text = given(&format!("mistakes/{name}.toml"));
        let file = format!("{name}.toml");
        let error = Config::from_toml(&text, &file, [], &[]).expect_err(name);
        assert_is(&format!("{error}\n"), &format!("mistakes/{name}.expected"));
        assert_eq!(error.mistakes.len(), 5, "{name}:\n{error}");
        for mistake in &error.mistakes {
            assert!(
                matches!(mistake.origin, Origin::File { .. }),
                "{name}: {mistake:?}"
            );
        }
    }
}

// spec: C-2
#[test]
fn a_mistake_brings_no_others_with_it() {
    for text in [
        // The image is missing only because its name was mistyped.
        "[profiles.default]\nimgae = \"engine:1\"",
        // Which programs are required depends on a mode that is unknown.
        "cluster.mode = \"embeded\"\n[profiles.default]\ncommand = [\"a\"]",
        "cluster.mode = \"embedded\"\n[embedded]\nnode = \"simulate\"",
        "profiles = 1",
        "[profils.default]\nimage = \"engine:1\"",
        "failures.backoff_initial = \"10m\"\nfailures.backoff_max = \"long\"\n[profiles.default]\nimage = \"a\"",
        "[poll\ninterval = \"10s\"\nintervall = 1\n[profiles.default]\nimage = \"a\"",
        "watch.enabled = false\npoll.enabled = 0\n[profiles.default]\nimage = \"a\"",
    ] {
        let error = read(text).expect_err(text);
        assert_eq!(error.mistakes.len(), 1, "{text}\n{error}");
    }
}

// spec: C-2
#[test]
fn mistakes_in_the_file_and_in_overrides_are_told_together() {
    let sets = ["poll.interval=x".to_owned(), "a b".to_owned()];
    let env = [("BOATSWAIN__LOG__LEVEL".to_owned(), "loud".to_owned())];
    let text = format!("app.nmae = \"x\"\n{LEAST}");
    let error = Config::from_toml(&text, "a.toml", env, &sets).unwrap_err();
    let origins: Vec<String> = error
        .to_string()
        .lines()
        .filter(|line| !line.starts_with("  "))
        .filter_map(|line| Some(line.split_once(": ")?.0.to_owned()))
        .collect();
    let expected = [
        "a.toml:1:5",
        "--set a b",
        "--set poll.interval",
        "BOATSWAIN__LOG__LEVEL",
    ];
    assert_eq!(origins, expected, "{error}");
}
