//! Resource versions of Kubernetes objects: unsigned integers of any length (spec S-10).

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The position in the API server's history at which an object was written or a list was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Digits);

/// Nearly all versions fit in a `u64`; longer ones are stored as digits without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Digits {
    Word(u64),
    Long(Arc<str>),
}

impl ResourceVersion {
    /// Lower than any version that a server returns.
    pub const ZERO: ResourceVersion = ResourceVersion(Digits::Word(0));

    /// Parses a version; `None` if the text is not an unsigned integer.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = text.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self::ZERO);
        }
        Some(Self(match digits.parse() {
            Ok(word) => Digits::Word(word),
            Err(_) => Digits::Long(Arc::from(digits)),
        }))
    }
}

impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        Self(Digits::Word(number))
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Digits::Word(a), Digits::Word(b)) => a.cmp(b),
            (Digits::Word(_), Digits::Long(_)) => Ordering::Less,
            (Digits::Long(_), Digits::Word(_)) => Ordering::Greater,
            (Digits::Long(a), Digits::Long(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        }
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Digits::Word(word) => word.fmt(f),
            Digits::Long(digits) => f.write_str(digits),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> ResourceVersion {
        ResourceVersion::parse(text).unwrap()
    }

    // spec: S-10
    #[test]
    fn versions_compare_as_integers_of_any_length() {
        assert!(version("9") < version("10"));
        assert!(version("18446744073709551615") < version("18446744073709551616"));
        assert!(version("99999999999999999999") < version("100000000000000000000"));
        assert_eq!(version("0010"), version("10"));
        for bad in ["", "-1", "1.5", "0x10", "12a"] {
            assert_eq!(ResourceVersion::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_integers(a: u128, b: u128) {
            prop_assert_eq!(version(&a.to_string()).cmp(&version(&b.to_string())), a.cmp(&b));
        }
    }
}
