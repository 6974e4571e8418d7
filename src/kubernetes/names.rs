//! The prefix of the names of all of an application's objects (spec K-7).

/// The maximum length: a pod's name has at most 63 characters, of which `-exec-` and an id of 19 digits need 25.
pub const MAX_PREFIX: usize = 38;

/// Whether the text is a valid prefix: a DNS label short enough for any executor's id (spec K-7).
pub fn is_prefix(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    text.len() <= MAX_PREFIX
        && text.bytes().all(inner)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
}

/// Derives a prefix from the application's name; the result is always a DNS label (spec K-7).
pub fn prefix_from_app_name(app_name: &str) -> String {
    let mut prefix = String::with_capacity(MAX_PREFIX);
    for c in app_name.chars().flat_map(char::to_lowercase) {
        if prefix.len() == MAX_PREFIX {
            break;
        }
        match c {
            'a'..='z' => prefix.push(c),
            // A Service's name must begin with a letter, so every prefix does.
            '0'..='9' if prefix.is_empty() => prefix.extend(['a', c]),
            '0'..='9' => prefix.push(c),
            _ if prefix.is_empty() || prefix.ends_with('-') => {}
            _ => prefix.push('-'),
        }
    }
    prefix.truncate(prefix.trim_end_matches('-').len());
    if prefix.is_empty() {
        prefix.push_str("app");
    }
    prefix
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ExecutorId;
    use crate::model::ids::pod_name;

    // spec: K-7
    #[test]
    fn a_prefix_is_made_from_any_name() {
        for (name, prefix) in [
            ("etl", "etl"),
            ("Nightly ETL (v2)", "nightly-etl-v2"),
            ("--x--", "x"),
            ("7 dwarfs", "a7-dwarfs"),
            ("Zürich", "z-rich"),
            ("", "app"),
            ("日本", "app"),
        ] {
            assert_eq!(prefix_from_app_name(name), prefix, "{name}");
        }
    }

    proptest! {
        // spec: K-7
        #[test]
        fn whatever_the_name_and_the_id_a_pods_name_is_a_dns_label(name in "\\PC{0,100}") {
            let prefix = prefix_from_app_name(&name);
            prop_assert!(is_prefix(&prefix), "{:?}", prefix);
            prop_assert!(pod_name(&prefix, ExecutorId::MAX).len() <= 63);
        }
    }
}
