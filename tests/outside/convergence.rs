//! Waiting for a cluster to have what is wanted.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use super::api::Pod;
use super::cluster::Cluster;
use super::process::{PATIENCE, until};

/// A cluster without writes for this long counts as quiet. This is longer than the delay of the application record,
/// and long enough for several polls.
const QUIET: Duration = Duration::from_millis(6_500);

impl Cluster {
    /// The uids of the executors' pods, if exactly this many run and there is no other pod.
    fn running(&self, count: usize) -> Option<BTreeSet<String>> {
        let pods = self.api.try_pods().ok()?;
        let runs = |pod: &Pod| pod.phase == "Running" && !pod.deleting;
        (pods.len() == count && pods.iter().all(runs))
            .then(|| pods.into_iter().map(|pod| pod.uid).collect())
    }

    /// Waits until there are exactly this many pods, all of them running.
    pub fn converges(&self, count: usize) -> BTreeSet<String> {
        until(&format!("{count} pods run"), || self.running(count))
    }

    /// Waits until there are exactly this many pods, all of them running, and there are no more writes. Returns the
    /// pods' uids.
    pub fn settles(&self, count: usize) -> BTreeSet<String> {
        let began = Instant::now();
        loop {
            let uids = self.converges(count);
            if self.stays_unwritten() && self.running(count).is_some_and(|now| now == uids) {
                return uids;
            }
            assert!(began.elapsed() < PATIENCE, "it is written on and on");
        }
    }

    fn stays_unwritten(&self) -> bool {
        let before = self.state();
        thread::sleep(QUIET);
        self.state() == before
    }
}
