//! Opens the record of an application again that ended because it had failed too often (spec O-131).

use std::sync::Arc;
use std::time::Duration;

use super::{Alive, Cleaner, Found, Holder};
use crate::exit::OVER_BUDGET;
use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::leftovers::{CONFIG_MAPS, prefix_of_record};
use crate::kubernetes::record::RecordError;
use crate::kubernetes::{Failure, Record};

/// The record of an application that ended because it had failed too often.
#[derive(Debug)]
pub struct Closed {
    /// The failures that it ended for, if the record says so.
    pub why: Option<Arc<str>>,
    map: ConfigMap,
}

/// Why a record is not opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    #[error("{}", .0.explained())]
    Call(Failure),
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error(
        "there is no record of the application in this namespace\nlook at --app and --namespace"
    )]
    None,
    #[error(
        "the application has not ended, and has a driver: {0}\nend it with `boatswain stop`, or reset one of its profiles"
    )]
    Lives(Holder),
    #[error("the application has not ended: start its driver")]
    Open,
    #[error(
        "the application ended with code {0}, and not because it had failed too often\n`boatswain clean` deletes it, and its next driver begins anew"
    )]
    Otherwise(u8),
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        Self::Call(failure)
    }
}

impl Cleaner {
    /// Reads the record. A driver marks it as ended last, so an application with such a record has none.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub async fn closed(&self, wait: impl Fn(&str, Duration)) -> Result<Closed, NotOpened> {
        let maps = self.calls.list_leftovers(CONFIG_MAPS, &self.app_id).await?;
        let record = maps.into_iter().find(|map| map.is_record());
        let Some(leftover) = record else {
            return Err(NotOpened::None);
        };
        let map = self.calls.get_config_map(&leftover.name).await?;
        let map = map.ok_or(NotOpened::None)?;
        let record = Record::read_own(&map, &self.app_id)?;
        match record.finished {
            Some(OVER_BUDGET) => Ok(Closed {
                why: record.finished_why,
                map,
            }),
            Some(code) => Err(NotOpened::Otherwise(code)),
            None => {
                let mut found = Found {
                    record: Some(record),
                    ..Found::default()
                };
                if let Some(prefix) = prefix_of_record(&leftover.name) {
                    self.look_for_lease(prefix, &mut found).await?;
                }
                Err(match self.driver(&found, wait).await? {
                    Alive::Yes(holder) => NotOpened::Lives(holder),
                    Alive::No | Alive::Unknown => NotOpened::Open,
                })
            }
        }
    }

    /// Opens the record in the version that was read.
    ///
    /// # Errors
    /// If the server refuses, or the record has changed meanwhile.
    pub async fn reopen(&self, closed: &Closed) -> Result<(), Failure> {
        let patch = Record::reopening(&closed.map);
        let patched = self.calls.patch_config_map(&closed.map.name, &patch).await;
        patched.map(drop)
    }
}
