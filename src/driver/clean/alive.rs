//! Whether the application's driver still lives: by its pod, or by its Lease (spec O-103).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Cleaner, Found, REQUEST_TIMEOUT};
use crate::kubernetes::calls::Lease;
use crate::kubernetes::{Failure, Record};

/// The interval between two looks at the Lease.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest look at a Lease, whatever duration it claims.
const LONGEST_LOOK: Duration = Duration::from_secs(5 * 60);

/// What is known of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alive {
    Yes(Holder),
    /// Its pod is gone, or its Lease is not renewed.
    No,
    /// It left no evidence.
    Unknown,
}

/// Who lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The pod of the record's holder, which runs.
    Pod(String),
    /// Who renews the Lease.
    Lease(Arc<str>),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod {name}, which holds the record, runs"),
            Self::Lease(holder) => write!(f, "{holder} holds the lease and renews it"),
        }
    }
}

/// How long the Lease has to stay unchanged until its holder counts as gone; `None` if nobody holds it.
fn patience(lease: &Lease) -> Option<Duration> {
    let held = lease.spec.holder.is_some();
    held.then(|| lease.spec.duration.min(LONGEST_LOOK))
}

impl Cleaner {
    /// Finds out whether a driver lives. `wait` is told of a Lease that is looked at for a while.
    ///
    /// # Errors
    /// If the pod or the Lease cannot be read.
    pub async fn driver(
        &self,
        found: &Found,
        wait: impl Fn(&str, Duration),
    ) -> Result<Alive, Failure> {
        let pod = found.record.as_ref().and_then(Record::driver_pod);
        if let Some((name, uid)) = pod {
            let there = self.calls.controller_of_pod(name).await?;
            if there.is_some_and(|there| there.uid == uid && there.runs) {
                return Ok(Alive::Yes(Holder::Pod(name.to_owned())));
            }
        }
        let lease = found.lease.as_ref();
        if let Some((lease, patience)) = lease.and_then(|lease| Some((lease, patience(lease)?))) {
            wait(lease.spec.holder.as_deref().unwrap_or_default(), patience);
            if let Some(holder) = self.renews(found, lease, patience).await? {
                return Ok(Alive::Yes(Holder::Lease(holder)));
            }
        }
        let ended = found
            .record
            .as_ref()
            .is_some_and(|record| record.finished.is_some());
        Ok(match pod.is_some() || lease.is_some() || ended {
            true => Alive::No,
            false => Alive::Unknown,
        })
    }

    /// Who renews or takes the Lease within this time. No clocks are compared, as between drivers (spec O-92).
    async fn renews(
        &self,
        found: &Found,
        first: &Lease,
        patience: Duration,
    ) -> Result<Option<Arc<str>>, Failure> {
        let name = found.leftovers.iter().find(|one| one.uid == first.uid);
        let name = name.map_or("", |lease| lease.name.as_str());
        let began = Instant::now();
        while began.elapsed() < patience {
            sleep(LOOK_EVERY.min(patience)).await;
            let now = self.calls.get_lease(name, REQUEST_TIMEOUT).await?;
            let changed = now.filter(|now| now.version != first.version);
            if let Some(holder) = changed.and_then(|lease| lease.spec.holder) {
                return Ok(Some(holder));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::calls::LeaseSpec;
    use crate::model::ResourceVersion;

    fn lease(holder: Option<&str>, seconds: u64) -> Lease {
        Lease {
            uid: "u".into(),
            version: ResourceVersion::parse("1").unwrap(),
            spec: LeaseSpec {
                holder: holder.map(Arc::from),
                duration: Duration::from_secs(seconds),
                ..LeaseSpec::default()
            },
        }
    }

    // spec: O-103
    #[test]
    fn a_lease_that_is_held_is_looked_at_for_its_duration_but_not_without_end() {
        assert_eq!(patience(&lease(None, 30)), None);
        assert_eq!(
            patience(&lease(Some("a"), 30)),
            Some(Duration::from_secs(30))
        );
        assert_eq!(patience(&lease(Some("a"), u64::MAX)), Some(LONGEST_LOOK));
    }
}
