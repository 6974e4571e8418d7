//! The keys of a record's ConfigMap, read one by one.

use serde_json::Value;

use super::{RecordError, intervals, key};
use crate::calls::ConfigMap;
use boatswain_model::IdSet;
use boatswain_model::recorded_end::RecordedEnd;

/// The most executors that a record may say are bound to a pod: more than any cluster runs. A successor looks at each
/// of them, and one interval can name 2⁶³.
const MOST_BOUND: u64 = 1_000_000;

pub(super) struct Keys<'a> {
    pub(super) map: &'a ConfigMap,
}

impl<'a> Keys<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.map.data.get(key).map(|text| text.trim())
    }

    pub(super) fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(
        &self,
        key: &'static str,
    ) -> Result<Option<T>, RecordError> {
        match self.get(key) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|why: std::num::ParseIntError| self.unreadable(key, why.to_string())),
        }
    }

    pub(super) fn json<T: Default + serde::de::DeserializeOwned>(
        &self,
        key: &'static str,
    ) -> Result<T, RecordError> {
        match self.get(key) {
            None | Some("") => Ok(T::default()),
            Some(text) => {
                serde_json::from_str(text).map_err(|why| self.unreadable(key, why.to_string()))
            }
        }
    }

    pub(super) fn intervals(&self, key: &'static str) -> Result<IdSet, RecordError> {
        let text = self.get(key).unwrap_or_default();
        intervals::parse(text).map_err(|why| self.unreadable(key, why))
    }

    /// A set of ids each of which is bound to a pod.
    pub(super) fn bound(&self, key: &'static str) -> Result<IdSet, RecordError> {
        let bound = self.intervals(key)?;
        let count = bound.len();
        if count > MOST_BOUND {
            let why = format!("{count} executors, allowed are {MOST_BOUND}");
            return Err(self.unreadable(key, why));
        }
        Ok(bound)
    }

    /// The recorded ends, without those that another program has written in another form: they are only shown.
    pub(super) fn ends(&self) -> Result<Vec<RecordedEnd>, RecordError> {
        let ends: Vec<Value> = self.json(key::ENDS)?;
        let read = (ends.into_iter()).filter_map(|end| serde_json::from_value(end).ok());
        Ok(read.collect())
    }

    pub(super) fn missing(&self, key: &'static str) -> RecordError {
        self.unreadable(key, "missing".to_owned())
    }

    pub(super) fn unreadable(&self, key: &'static str, why: String) -> RecordError {
        RecordError::Unreadable {
            map: self.map.name.clone(),
            key,
            why,
        }
    }
}
