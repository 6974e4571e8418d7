//! Rules for Kubernetes names, and the prefix of pod names (spec K-7).

use super::sections::Labels;

/// Which names a table may have, and their description in error messages.
pub(super) type NameRule = (fn(&str) -> bool, &'static str);

/// The longest prefix with which `<prefix>-exec-<id>` fits the 63 characters of a DNS label for
/// every id: `-exec-` takes 6, an id below 2⁶³ takes 19 (spec K-7).
pub const LONGEST_PREFIX: usize = 63 - 6 - 19;

/// Whether a text is a DNS label of at most `longest` characters: lowercase letters, digits and
/// inner dashes.
pub fn is_dns_label(text: &str, longest: usize) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=longest).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a text is a DNS subdomain, such as a pod's name: labels joined by dots, at most 253
/// characters.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| is_dns_label(label, 63))
}

/// Whether a text is a valid label value; the empty text is.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

/// Whether a text is a valid label key: a name, optionally after a DNS subdomain and a slash.
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_dns_subdomain(domain) && is_label_name(name),
        None => is_label_name(text),
    }
}

/// Whether a text is a valid name of an environment variable in a pod.
pub fn is_env_name(text: &str) -> bool {
    text.bytes().all(is_name_byte)
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
}

/// Whether a text is a valid key in the data of a Secret or ConfigMap.
pub fn is_data_key(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(is_name_byte)
        && text != "."
        && !text.starts_with("..")
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

/// The name of the executor's container in its pod (spec K-2).
pub(super) const EXECUTOR_CONTAINER: &str = "executor";

/// The recommended Kubernetes labels that boatswain sets (spec K-3).
const RECOMMENDED: [&str; 5] = ["name", "instance", "component", "managed-by", "version"];

/// The labels that Spark sets.
const SPARK: [&str; 5] = [
    "spark-app-selector",
    "spark-role",
    "spark-exec-id",
    "spark-exec-resourceprofile-id",
    "spark-exec-inactive",
];

/// Whether boatswain sets this label of executor pods itself (spec K-2, K-3).
pub fn is_own_label(key: &str, labels: Labels) -> bool {
    let recommended = key.strip_prefix("app.kubernetes.io/");
    key.starts_with("boatswain.dev/")
        || recommended.is_some_and(|name| RECOMMENDED.contains(&name))
        || (labels == Labels::Spark && SPARK.contains(&key))
}

fn is_label_name(text: &str) -> bool {
    let outer = |b: &u8| b.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && text.bytes().all(is_name_byte)
        && bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
}

/// Derives the prefix of object names from the application's name: a DNS label that begins with a
/// letter and has at most [`LONGEST_PREFIX`] characters (spec K-7). A name that is no such label
/// loses something, so the prefix ends in a digest of the whole name, and two names do not collide.
/// `None` where the name contains no usable character.
pub fn prefix_of(app_name: &str) -> Option<String> {
    let mut label = String::new();
    for c in app_name.chars() {
        if c.is_ascii_alphanumeric() {
            label.push(c.to_ascii_lowercase());
        } else if !label.is_empty() && !label.ends_with('-') {
            label.push('-');
        }
    }
    let mut label = label.trim_end_matches('-').to_owned();
    if label.is_empty() {
        return None;
    }
    if label.starts_with(|c: char| c.is_ascii_digit()) {
        label.insert_str(0, "app-");
    }
    if label != app_name || label.len() > LONGEST_PREFIX {
        let digest = format!("-{:06x}", digest(app_name) & 0xff_ffff);
        label.truncate(LONGEST_PREFIX - digest.len());
        label.truncate(label.trim_end_matches('-').len());
        label.push_str(&digest);
    }
    Some(label)
}

/// FNV-1a. Unlike the standard hasher it is the same on every machine and in every release.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // spec: K-7
    #[test]
    fn the_prefix_is_made_from_the_apps_name() {
        let cases = [
            ("boatswain", Some("boatswain")),
            ("sales-etl", Some("sales-etl")),
            ("Nightly ETL (eu)", Some("nightly-etl-eu-HASH")),
            ("3-body", Some("app-3-body-HASH")),
            ("--", None),
            ("日本", None),
        ];
        for (name, prefix) in cases {
            let hash = format!("{:06x}", digest(name) & 0xff_ffff);
            let prefix = prefix.map(|prefix| prefix.replace("HASH", &hash));
            assert_eq!(prefix_of(name), prefix, "{name}");
        }
    }

    // spec: K-7
    #[test]
    fn two_long_names_that_begin_alike_keep_apart() {
        let long = "a-very-long-name-that-would-not-fit-into-a-label";
        let one = prefix_of(&format!("{long}-one"));
        let two = prefix_of(&format!("{long}-two"));
        assert_ne!(one, two);
    }

    // spec: K-7
    #[test]
    fn names_that_are_not_alike_keep_apart_although_they_lose_the_same() {
        let names = [
            "sales-etl",
            "sales etl",
            "Sales.ETL",
            "SALES-ETL",
            "sales--etl",
            "-sales-etl",
        ];
        let prefixes: std::collections::BTreeSet<_> = names.map(prefix_of).into();
        assert_eq!(prefixes.len(), names.len(), "{prefixes:?}");
    }

    proptest! {
        // spec: K-7
        #[test]
        fn names_stay_within_63_characters_whatever_the_name_and_the_id(name in ".*", id in 1..=u64::MAX / 2) {
            if let Some(prefix) = prefix_of(&name) {
                let pod = format!("{prefix}-exec-{id}");
                prop_assert!(is_dns_label(&pod, 63), "{pod}");
                prop_assert!(pod.starts_with(|c: char| c.is_ascii_lowercase()), "{pod}");
            }
        }
    }

    #[test]
    fn kubernetes_names_are_told_from_others() {
        assert!(is_dns_label("a-1", 63));
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(!is_dns_label(bad, 63), "{bad}");
        }
        assert!(is_dns_subdomain("driver-0.spark.svc"));
        for bad in ["", "a..b", ".a"] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
        assert!(is_label_key("kubernetes.io/arch") && is_label_key("Disk_Type"));
        for bad in ["", "/a", "a/", "a/b/c", "-a", "a b"] {
            assert!(!is_label_key(bad), "{bad}");
        }
        assert!(is_label_value("") && is_label_value("arm64"));
        assert!(!is_label_value("a/b"));
        assert!(is_env_name("PATH") && is_env_name("my.var-1"));
        for bad in ["", "1A", "A=B", "A B"] {
            assert!(!is_env_name(bad), "{bad}");
        }
    }
}
