//! Tests that a gang can become complete as it is configured.

use super::*;

// spec: B-63, C-2
#[test]
fn a_gang_has_a_size_and_is_asked_for_as_a_whole() {
    let keys = |profile: &str| -> Vec<String> {
        match read(&format!("[scheduling]\ngang = true\n{LEAST}{profile}")) {
            Ok(_) => Vec::new(),
            Err(error) => error.mistakes.into_iter().map(|m| m.key).collect(),
        }
    };
    assert_eq!(keys(""), ["scheduling.gang"]);
    assert_eq!(
        keys("executors = 3\nmin_executors = 4"),
        ["profiles.default.executors"]
    );
    for sound in ["executors = 4", "executors = 0", "executors = 9"] {
        assert!(keys(&format!("{sound}\nmin_executors = 4")).is_empty());
    }
}

// spec: A-87, C-2
#[test]
fn a_gang_that_is_bound_as_a_whole_may_be_pending_as_a_whole() {
    let refused = |gang: &str, pending: u32| {
        let text = format!(
            "{LEAST}executors = 4\nmin_executors = 4\nmax_pending = {pending}\n[scheduling]\ngang = \"{gang}\"\n\
             [allocation]\nmax_pending = {pending}\n"
        );
        let error = read(&text).err();
        error.map_or(0, |error| error.mistakes.len())
    };
    for gang in ["volcano", "kubernetes"] {
        assert_eq!((refused(gang, 3), refused(gang, 4)), (2, 0), "{gang}");
    }
    for gang in ["on", "yunikorn"] {
        assert_eq!(refused(gang, 3), 0, "{gang}");
    }
}
