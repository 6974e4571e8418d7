//! Validates the form of names, label keys and label values.

/// A real server's message for a name that is no DNS subdomain.
pub const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// A real server's message for a name that is no DNS label.
pub const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// A real server's message for a name that is none with an optional domain.
pub const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn valid(is_valid: bool, message: &'static str) -> Result<(), &'static str> {
    if is_valid { Ok(()) } else { Err(message) }
}

fn is_dns_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    bytes.iter().all(inner)
        && !bytes.is_empty()
        && bytes.first() != Some(&b'-')
        && bytes.last() != Some(&b'-')
}

fn is_plain_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.iter().all(inner) && ends(bytes.first()) && ends(bytes.last())
}

/// Validates a DNS subdomain, the form of most objects' names.
pub fn subdomain(name: &str) -> Result<(), &'static str> {
    valid(name.len() <= 253, "must be no more than 253 bytes")?;
    valid(name.split('.').all(is_dns_word), SUBDOMAIN)
}

/// Validates a DNS label, the form of names of namespaces and containers.
pub fn label(name: &str) -> Result<(), &'static str> {
    valid(name.len() <= 63, "must be no more than 63 bytes")?;
    valid(is_dns_word(name), LABEL)
}

/// Validates the key of a label or annotation: a word, optionally prefixed by a domain and a slash.
pub fn qualified(key: &str) -> Result<(), &'static str> {
    let word = match key.split_once('/') {
        Some((_, word)) if word.contains('/') => return Err(QUALIFIED),
        Some(("", _)) => return Err("prefix part must be non-empty"),
        Some((domain, word)) => {
            subdomain(domain)?;
            word
        }
        None => key,
    };
    valid(!word.is_empty(), "name part must be non-empty")?;
    valid(word.len() <= 63, "name part must be no more than 63 bytes")?;
    valid(is_plain_word(word), QUALIFIED)
}

/// Everything that is wrong with such a key: an empty one breaks two rules.
pub fn all_of_qualified(key: &str) -> impl Iterator<Item = &'static str> + use<> {
    let further = key.is_empty().then_some(QUALIFIED);
    qualified(key).err().into_iter().chain(further)
}

/// Validates the name of an environment variable, or its prefix.
pub fn variable(name: &str) -> Result<(), &'static str> {
    let is_plain = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    valid(
        name.bytes().all(is_plain),
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

/// Validates the name of an HTTP header.
pub fn header(name: &str) -> Result<(), &'static str> {
    valid(
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
         validation is '[-A-Za-z0-9]+')",
    )
}

/// Validates the name of a kernel parameter.
pub fn sysctl(name: &str) -> Result<(), &'static str> {
    let is_word = |word: &str| {
        let inner =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        word.bytes().all(inner) && ends(word.bytes().next()) && ends(word.bytes().last())
    };
    valid(
        name.len() <= 253 && name.split(['.', '/']).all(is_word),
        "must have at most 253 characters and match regex ^([a-z0-9][-_a-z0-9]*[a-z0-9]?[./])*[a-z0-9][-_a-z0-9]*$",
    )
}

pub fn label_value(value: &str) -> Result<(), &'static str> {
    valid(value.len() <= 63, "must be no more than 63 bytes")?;
    valid(value.is_empty() || is_plain_word(value), LABEL_VALUE)
}

/// Validates a name that may be any path segment.
pub fn path_segment(name: &str) -> Result<(), &'static str> {
    valid(!matches!(name, "." | ".."), "may not be '.' or '..'")?;
    valid(!name.contains('/'), "may not contain '/'")?;
    valid(!name.contains('%'), "may not contain '%'")
}

pub fn data_key(key: &str) -> Result<(), &'static str> {
    if key.is_empty() || key.len() > 253 {
        return Err("must be no more than 253 bytes");
    }
    if key == "." || key.starts_with("..") {
        return Err("must not be '.' or begin with '..'");
    }
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.bytes().all(inner) {
        return Ok(());
    }
    Err(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
         'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    )
}

pub fn port(name: &str) -> Vec<&'static str> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let has_letter = name.bytes().any(|b| b.is_ascii_lowercase());
    let checks = [
        valid(name.len() <= 15, "must be no more than 15 bytes"),
        valid(
            name.bytes().all(is_plain),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        valid(has_letter, "must contain at least one letter (a-z)"),
        valid(!name.contains("--"), "must not contain consecutive hyphens"),
        valid(
            !name.starts_with('-') && !name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    checks.into_iter().filter_map(Result::err).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_dns_subdomains() {
        for good in ["a", "exec-1", "a.b-c.d", "0"] {
            assert_eq!(subdomain(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "Exec_1",
            "-a",
            "a-",
            "a..b",
            ".a",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(subdomain(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn label_keys_may_have_a_domain_and_values_may_be_empty() {
        for good in ["app", "example.com/App_1", "a/b"] {
            assert_eq!(qualified(good), Ok(()), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "-a", "Bad_Domain/a"] {
            assert!(qualified(bad).is_err(), "{bad}");
        }
        assert_eq!(label_value(""), Ok(()));
        assert!(label_value("-").is_err());
        assert!(label_value(&"x".repeat(64)).is_err());
    }
}
