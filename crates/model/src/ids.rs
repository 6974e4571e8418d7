//! Identifiers of executors, pods, profiles, applications, incarnations and epochs.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An executor's number, from 1; an application never uses one twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutorId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not an executor id: a whole number from 1 to 9223372036854775807 is needed, without sign or leading zeros"
)]
pub struct NotAnExecutorId;

impl ExecutorId {
    pub const FIRST: ExecutorId = ExecutorId(1);
    /// Ids stay below 2⁶³, so that they fit in a client's signed integer (spec E-2).
    pub const MAX: ExecutorId = ExecutorId(i64::MAX as u64);

    /// `None` if the number is out of range.
    pub fn new(number: u64) -> Option<Self> {
        (Self::FIRST.0..=Self::MAX.0)
            .contains(&number)
            .then_some(Self(number))
    }

    /// Parses the one text that stands for an id; `007`, `+7`, ` 7` and overlong texts are refused.
    ///
    /// # Errors
    /// The text is not exactly what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Result<Self, NotAnExecutorId> {
        let canonical =
            text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        if !canonical {
            return Err(NotAnExecutorId);
        }
        text.parse().ok().and_then(Self::new).ok_or(NotAnExecutorId)
    }

    pub fn get(self) -> u64 {
        self.0
    }

    /// The following id; `None` after the last.
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of an executor's pod: `<prefix>-exec-<id>` (spec E-1).
pub fn pod_name(prefix: &str, id: ExecutorId) -> String {
    format!("{prefix}-exec-{id}")
}

/// The id in a pod's name with this prefix; `None` if the name has another form.
pub fn id_in_pod_name(prefix: &str, name: &str) -> Option<ExecutorId> {
    let number = name.strip_prefix(prefix)?.strip_prefix("-exec-")?;
    ExecutorId::parse(number).ok()
}

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

shared_text!(
    /// Identifies an application. It has one driver at a time.
    AppId
);
shared_text!(
    /// The name of a profile.
    ProfileName
);
shared_text!(
    /// A pod's `metadata.uid`; Kubernetes never uses one again.
    PodUid
);

/// How the names of profiles end whose executors are spares.
const SPARES: &str = "-spares";

impl ProfileName {
    /// The profile of this profile's spares (spec A-117).
    #[must_use]
    pub fn spares(&self) -> Self {
        Self::from(format!("{self}{SPARES}"))
    }

    /// The profile whose spares are in this one; `None`: its executors are no spares.
    pub fn spares_of(&self) -> Option<Self> {
        self.0.strip_suffix(SPARES).map(Self::from)
    }

    /// Whether the executors in this profile are the spares of that one.
    pub fn is_spares_of(&self, profile: &Self) -> bool {
        self.spares_of().as_ref() == Some(profile)
    }

    pub fn is_of_spares(&self) -> bool {
        self.0.ends_with(SPARES)
    }
}

/// The number of a driver's start, counted in the record. The driver with the highest one is the valid one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The history of the API server to which a resource version belongs (spec S-13). Versions of different epochs cannot
/// be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: E-2
    #[test]
    fn an_id_is_read_from_its_one_text_only() {
        for bad in [
            "-1",
            "+1",
            "0",
            "007",
            "0x7",
            "",
            " 7",
            "7 ",
            "9223372036854775808",
            "１",
        ] {
            assert_eq!(ExecutorId::parse(bad), Err(NotAnExecutorId), "{bad:?}");
        }
        assert_eq!(
            ExecutorId::parse(&"9".repeat(5_000_000)),
            Err(NotAnExecutorId)
        );
        assert_eq!(ExecutorId::parse("7"), Ok(ExecutorId(7)));
        assert_eq!(
            ExecutorId::parse("9223372036854775807"),
            Ok(ExecutorId::MAX)
        );
        assert_eq!(ExecutorId::MAX.next(), None);
    }

    // spec: E-1
    #[test]
    fn a_pod_name_stands_for_one_id_under_one_prefix() {
        let id = ExecutorId(12);
        assert_eq!(pod_name("etl", id), "etl-exec-12");
        assert_eq!(id_in_pod_name("etl", "etl-exec-12"), Some(id));
        for other in [
            "etl-exec-012",
            "etl-exec-",
            "etl2-exec-12",
            "etl-exec-12-x",
            "exec-12",
        ] {
            assert_eq!(id_in_pod_name("etl", other), None, "{other}");
        }
    }
}
