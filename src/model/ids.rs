//! Names of things: executors, pods, profiles, applications, incarnations, epochs.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An executor's number: 1, 2, 3 …, never used twice by an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutorId(u64);

/// Why a text is no executor id (spec E-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not an executor id: a whole number from 1 to 9223372036854775807 is needed, without sign or leading zeros"
)]
pub struct NotAnExecutorId;

impl ExecutorId {
    /// The first id of an application.
    pub const FIRST: ExecutorId = ExecutorId(1);
    /// Ids stay below 2⁶³, so that any client's signed integer holds them (spec E-2).
    pub const MAX: ExecutorId = ExecutorId(i64::MAX as u64);

    /// An id from a number, where it is one.
    pub fn new(number: u64) -> Option<Self> {
        (Self::FIRST.0..=Self::MAX.0)
            .contains(&number)
            .then_some(Self(number))
    }

    /// An id from the one text that stands for it; `007`, `+7`, ` 7` and megabytes of digits are refused.
    ///
    /// # Errors
    /// Where the text is not exactly what [`fmt::Display`] would write.
    pub fn parse(text: &str) -> Result<Self, NotAnExecutorId> {
        let canonical =
            text.len() <= 19 && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        if !canonical {
            return Err(NotAnExecutorId);
        }
        text.parse().ok().and_then(Self::new).ok_or(NotAnExecutorId)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The id after this one; the last id has none.
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

/// The id that a pod's name stands for, under this prefix.
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
            /// The text itself.
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
    /// One distributed job; one driver at a time.
    AppId
);
shared_text!(
    /// A named shape of executor.
    ProfileName
);
shared_text!(
    /// What Kubernetes calls one pod, and no other pod ever.
    PodUid
);

/// The number of a driver's start: the record counts them, the highest one is the driver.
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

/// Which history of the API server a resource version belongs to (spec S-13): versions of different epochs do not compare.
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
