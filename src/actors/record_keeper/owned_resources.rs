//! Owned resources: corrected when the record is created again, and checked regularly (spec K-8,
//! K-9, K-10).

use std::time::Duration;

use crate::kubernetes::owned_resources::OwnedResource;
use crate::kubernetes::pod_template::owner_reference;
use crate::kubernetes::record::record_name;
use crate::kubernetes::{Calls, Failure, FailureKind};
use crate::model::{PodUid, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// After this many failures the owner of claims is not changed any more: they work, and only the
/// cluster's garbage collection may delete them.
const MAX_TRIES: u32 = 5;

const RETRY: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
};

#[derive(Debug, Default)]
pub struct OwnedResources {
    wanted: Vec<OwnedResource>,
    /// Whether the configuration has claims on volumes.
    claims: bool,
    /// The record of this driver's start.
    first: Option<PodUid>,
    /// The record that must own them, if a check is due.
    due: Option<PodUid>,
    busy: bool,
    failures: u32,
    not_before: Tick,
}

#[derive(Debug)]
pub enum Settled {
    All,
    /// The owner of claims could not be changed.
    NoClaims(Failure),
    /// A resource that executors need could not be corrected.
    Failed(Failure),
}

impl OwnedResources {
    /// `claims`: whether the configuration has claims on volumes.
    pub fn new(wanted: Vec<OwnedResource>, claims: bool) -> Self {
        Self {
            wanted,
            claims,
            ..Self::default()
        }
    }

    /// Makes a check due, for this record.
    pub fn check(&mut self, record: &PodUid) {
        self.first.get_or_insert_with(|| record.clone());
        let forgotten = planted::is(Planted::ConfigMapForgotten);
        if !forgotten && (self.looks_for_claims(record) || !self.wanted.is_empty()) {
            self.due = Some(record.clone());
        }
    }

    /// A record that was created again gets the claims of profiles that left the configuration, too.
    fn looks_for_claims(&self, record: &PodUid) -> bool {
        self.claims || self.first.as_ref() != Some(record)
    }

    /// Executors may be requested only then.
    pub fn is_settled(&self) -> bool {
        self.due.is_none() && !self.busy
    }

    /// Returns the record for which a check must start now.
    pub fn next(&mut self, now: Tick) -> Option<PodUid> {
        if self.busy || now < self.not_before {
            return None;
        }
        let record = self.due.take()?;
        self.busy = true;
        Some(record)
    }

    pub fn next_at(&self) -> Option<Tick> {
        let waits = self.due.is_some() && !self.busy;
        waits.then_some(self.not_before)
    }

    pub fn settle(
        &self,
        calls: Calls,
        prefix: &str,
        record: &PodUid,
    ) -> impl Future<Output = Settled> + use<> {
        let (wanted, configured) = (self.wanted.clone(), self.claims);
        let looks_for_claims = self.looks_for_claims(record);
        let owner = owner_reference(prefix, record);
        let (name, record) = (record_name(prefix), record.clone());
        async move {
            for owned_resource in &wanted {
                if let Err(failure) = calls.ensure(owned_resource, &owner).await {
                    return Settled::Failed(failure);
                }
            }
            let listed = match looks_for_claims {
                true => calls.list_claims().await,
                false => Ok(Vec::new()),
            };
            let listed = match listed {
                Ok(listed) => listed,
                // Without claims in its configuration a driver needs no right to list them.
                Err(failure) if !configured && failure.kind == FailureKind::Rights => {
                    return Settled::All;
                }
                Err(failure) => return Settled::NoClaims(failure),
            };
            let strays: Vec<_> = (listed.iter())
                .filter(|claim| claim.ours && !claim.of_a_pod && !claim.spent)
                .filter(|claim| claim.record.as_ref() != Some(&record))
                .collect();
            if strays.is_empty() {
                return Settled::All;
            }
            // They may be a later application's, of which a driver that was superseded does not know yet (spec K-14).
            match calls.get_config_map(&name).await {
                Ok(Some(map)) if map.uid == record => {}
                // This driver is over, or makes its record anew and begins again.
                Ok(_) => return Settled::All,
                Err(failure) => return Settled::NoClaims(failure),
            }
            for claim in strays {
                match calls.give_claim(claim, &owner).await {
                    // The claim was replaced meanwhile.
                    Err(failure)
                        if matches!(failure.kind, FailureKind::Invalid | FailureKind::Conflict) => {
                    }
                    Err(failure) => return Settled::NoClaims(failure),
                    Ok(()) => {}
                }
            }
            Settled::All
        }
    }

    /// The end of an outage ends the backoff (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        self.failures = 0;
        self.not_before = self.not_before.min(now);
    }

    /// Processes the result of a check. Returns the first failure in a row, to be logged.
    pub fn answered(&mut self, record: PodUid, settled: Settled, now: Tick) -> Option<Failure> {
        self.busy = false;
        let failure = match settled {
            Settled::All => {
                self.failures = 0;
                return None;
            }
            Settled::NoClaims(failure) if self.failures + 1 >= MAX_TRIES => {
                self.failures = 0;
                return Some(failure);
            }
            Settled::NoClaims(failure) | Settled::Failed(failure) => failure,
        };
        // If the record was created again meanwhile, the new one is next.
        self.due.get_or_insert(record);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + RETRY.delay(self.failures);
        (self.failures == 1).then_some(failure)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;

    use super::*;
    use crate::kubernetes::claims::{ClaimFor, claim_json};
    use crate::kubernetes::owned_resources::{Content, config_map};
    use crate::kubernetes::record::RecordPlace;
    use crate::kubernetes::{Clients, LabelScheme};
    use crate::model::ExecutorId;
    use crate::model::claims::{ClaimOwner, ClaimShape, ClaimTemplate};
    use crate::testing::calls_to;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    fn one() -> Vec<OwnedResource> {
        let place = RecordPlace {
            namespace: "ns".to_owned(),
            prefix: "a".to_owned(),
            app_name: "a".to_owned(),
            labels: LabelScheme::Boatswain,
            owner: None,
        };
        vec![config_map(&place, &"a".into(), &Content::default())]
    }

    fn failed() -> Failure {
        Failure::new(FailureKind::Server, "it broke")
    }

    // spec: K-14, K-10
    #[tokio::test(start_paused = true)]
    async fn only_the_record_that_exists_gets_the_claims_of_another() {
        let cluster = devcluster::start(devcluster::Options {
            collect_garbage: false,
            ..devcluster::Options::default()
        });
        let calls = calls_to(Clients::in_process(cluster.router(), "default"));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-app"}});
        let record = calls.create_config_map(&map).await.unwrap().uid;
        let template = ClaimTemplate {
            volume: "data".into(),
            shape: ClaimShape {
                access_modes: BTreeSet::from(["ReadWriteOnce".into()]),
                bytes: 1 << 30,
                ..ClaimShape::default()
            },
            owner: ClaimOwner::Application,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        };
        let of = ClaimFor {
            app_id: &"app".into(),
            app_name: "a",
            namespace: "default",
            prefix: "a",
            labels: LabelScheme::Boatswain,
            record: &"later".into(),
            id: ExecutorId::FIRST,
            profile: &"default".into(),
            pod: ("a-exec-1", None),
        };
        let claim = claim_json("a-exec-1-data", &template, &of);
        calls.create_claim(&claim).await.unwrap();
        let owned_resources = OwnedResources::new(Vec::new(), true);
        for (driver_of, owner) in [
            ("superseded".into(), "later".into()),
            (record.clone(), record),
        ] {
            let settled = owned_resources.settle(calls.clone(), "a", &driver_of).await;
            assert!(matches!(settled, Settled::All), "{settled:?}");
            let claim = calls.get_claim("a-exec-1-data").await.unwrap().unwrap();
            assert_eq!(claim.record, Some(owner));
        }
    }

    // spec: K-8
    #[test]
    fn mounted_resources_are_corrected_before_any_request_however_often_that_fails() {
        let mut owned_resources = OwnedResources::new(one(), false);
        assert!(owned_resources.is_settled());
        owned_resources.check(&"r2".into());
        let mut now = at(0);
        for n in 0..20 {
            assert!(!owned_resources.is_settled());
            let record = owned_resources.next(now).unwrap();
            assert_eq!(owned_resources.next(now), None, "one at a time");
            let said = owned_resources.answered(record, Settled::Failed(failed()), now);
            assert_eq!(said.is_some(), n == 0, "said once");
            now = owned_resources.next_at().unwrap();
        }
        let record = owned_resources.next(now).unwrap();
        owned_resources.answered(record, Settled::All, now);
        assert!(owned_resources.is_settled());
    }

    // spec: K-10
    #[test]
    fn claims_whose_owner_cannot_be_changed_do_not_block_requests_for_ever() {
        let mut owned_resources = OwnedResources::new(Vec::new(), true);
        owned_resources.check(&"r2".into());
        let mut now = at(0);
        for _ in 0..MAX_TRIES {
            assert!(!owned_resources.is_settled());
            let record = owned_resources.next(now).unwrap();
            owned_resources.answered(record, Settled::NoClaims(failed()), now);
            now = owned_resources.next_at().unwrap_or(now);
        }
        assert!(owned_resources.is_settled());
    }

    // spec: K-13, K-10
    #[test]
    fn a_record_that_is_created_again_gets_claims_though_the_configuration_has_none() {
        let mut owned_resources = OwnedResources::new(Vec::new(), false);
        owned_resources.check(&"r1".into());
        assert!(owned_resources.is_settled() && owned_resources.next(at(0)).is_none());
        owned_resources.check(&"r2".into());
        assert!(!owned_resources.is_settled());
        assert_eq!(owned_resources.next(at(0)), Some("r2".into()));
        assert!(owned_resources.looks_for_claims(&"r2".into()));
    }

    // spec: K-8
    #[test]
    fn a_record_that_is_created_again_during_a_check_is_next() {
        let mut owned_resources = OwnedResources::new(one(), false);
        owned_resources.check(&"r2".into());
        let record = owned_resources.next(at(0)).unwrap();
        owned_resources.check(&"r3".into());
        owned_resources.answered(record, Settled::All, at(1));
        assert_eq!(owned_resources.next(at(1)), Some("r3".into()));
    }

    // spec: W-14
    #[test]
    fn when_the_server_is_back_a_failed_check_is_repeated_and_its_backoff_begins_anew() {
        let mut owned_resources = OwnedResources::new(one(), false);
        owned_resources.check(&"r2".into());
        let mut now = at(0);
        for _ in 0..8 {
            let record = owned_resources.next(now).unwrap();
            owned_resources.answered(record, Settled::Failed(failed()), now);
            now = owned_resources.next_at().unwrap();
        }
        let before = at(1);
        assert_eq!(owned_resources.next(before), None);
        owned_resources.server_is_back(before);
        let record = owned_resources.next(before).unwrap();
        owned_resources.answered(record, Settled::Failed(failed()), before);
        assert_eq!(owned_resources.next_at(), Some(before + RETRY.delay(1)));
    }
}
