//! Memory that grows.

use super::*;

// spec: L-43, C-2
#[test]
fn memory_grows_from_its_limit_to_a_maximum_that_is_no_smaller() {
    let keys = |profile: &str| -> Vec<String> {
        let error = with_profile(profile).err();
        let mistakes = error.map_or(Vec::new(), |error| error.mistakes);
        mistakes.into_iter().map(|mistake| mistake.key).collect()
    };
    for (profile, key) in [
        ("memory_max = \"1Gi\"", "memory_max"),
        ("memory_limit = \"2Gi\"\nmemory_max = \"1Gi\"", "memory_max"),
        (
            "memory_limit = \"2Gi\"\nmemory_growth = 2.0",
            "memory_growth",
        ),
        (
            "memory_limit = \"2Gi\"\nmemory_in_place = true",
            "memory_in_place",
        ),
        (
            "memory_limit = \"1Gi\"\nmemory_max = \"2Gi\"\nmemory_growth = 1.0",
            "memory_growth",
        ),
    ] {
        assert_eq!(
            keys(profile),
            [format!("profiles.default.{key}")],
            "{profile}"
        );
    }
    let sound = "memory_limit = \"1Gi\"\nmemory_max = \"1Gi\"";
    let config = with_profile(sound).unwrap();
    let growth = config.profiles["default"].growth().unwrap();
    let gib = 1 << 30;
    assert_eq!(
        (growth.from, growth.max, growth.thousandths),
        (gib, gib, 1_500)
    );
    let config = with_profile("memory_limit = \"1Gi\"").unwrap();
    assert_eq!(config.profiles["default"].growth(), None);
}

// spec: L-44, C-2
#[test]
fn memory_grows_in_place_only_where_executors_say_how_much_they_use() {
    let grows = "memory_limit = \"1Gi\"\nmemory_max = \"2Gi\"\nmemory_in_place = true\n";
    let text = refused(&format!("{LEAST}{grows}"));
    assert!(text.contains("profiles.default.memory_in_place"), "{text}");
    assert!(text.contains("set backend.listen"), "{text}");
    let sessions = "[backend]\nlisten = \"127.0.0.1:0\"";
    let config = read(&format!("{LEAST}{grows}{sessions}")).unwrap();
    assert!(config.profiles["default"].growth().unwrap().in_place);
}

// spec: L-43, A-90
#[test]
fn memory_does_not_grow_where_all_executors_are_of_one_size() {
    let grows = "memory_limit = \"1Gi\"\nmemory_max = \"2Gi\"\n";
    for elsewhere in [
        "[allocation]\nstrategy = \"statefulset\"",
        "[scheduling]\nqueue = \"kueue\"\nqueue_name = \"team\"",
    ] {
        let text = refused(&format!("{LEAST}{grows}{elsewhere}"));
        assert!(text.contains("profiles.default.memory_max"), "{text}");
        assert_eq!(text.matches("profiles.").count(), 1, "{text}");
    }
}
