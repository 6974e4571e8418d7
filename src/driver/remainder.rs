//! What a driver leaves if its process ends at once, and who removes it (spec O-109).

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::{ClusterMode, Config};
use crate::kubernetes::Calls;
use crate::model::Snapshot;
use crate::model::executor::Class;

/// Who removes the executors of a driver that has not ended them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remover {
    kind: Kind,
    namespace: String,
    selector: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Embedded,
    /// The record has an owner, which is the driver's pod or above it.
    Pod,
    /// Without a pod: the record has no owner.
    Standby,
    Nobody,
}

/// What is known of it at any time, without a question to anybody.
#[derive(Debug, Clone)]
pub struct Remainder {
    ledger: watch::Receiver<Arc<Snapshot>>,
    remover: Remover,
}

/// What is left at an instant.
#[derive(Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Executors that nobody has deleted, or of which that is not known.
    pub executors: usize,
    pub terminating: usize,
    /// `None`: there is nothing to remove.
    pub removed_by: Option<&'static str>,
    /// Deletes the executors' pods; `None`: nobody has to.
    pub clean: Option<String>,
}

impl Remover {
    pub fn of(config: &Config, calls: &Calls) -> Self {
        Self {
            kind: match config.cluster.mode {
                ClusterMode::Embedded => Kind::Embedded,
                ClusterMode::Kubernetes if config.driver.pod_name.is_some() => Kind::Pod,
                ClusterMode::Kubernetes if config.ha.lease => Kind::Standby,
                ClusterMode::Kubernetes => Kind::Nobody,
            },
            namespace: calls.namespace().to_owned(),
            selector: calls.selector().to_owned(),
        }
    }

    /// Deletes all pods of the application's executors.
    pub fn command(&self) -> String {
        let Self {
            namespace,
            selector,
            ..
        } = self;
        format!("kubectl -n {namespace} delete pods -l '{selector}'")
    }

    fn remaining(&self, executors: usize, terminating: usize) -> Remaining {
        let removed_by = match (self.kind, executors, terminating) {
            (_, 0, 0) => None,
            (Kind::Embedded, ..) => Some("the embedded cluster, which ends with this process"),
            (_, 0, _) => Some("their nodes: they are deleted already"),
            (Kind::Pod, ..) => Some(
                "the next driver of the application, which adopts them or, if the end is recorded, deletes them; where \
                 none comes, Kubernetes, with the owner of the application's record",
            ),
            (Kind::Standby, ..) => Some(
                "the next driver of the application, which adopts them or, if the end is recorded, deletes them",
            ),
            (Kind::Nobody, ..) => {
                Some("nobody, until a driver of the application is started again")
            }
        };
        let is_left = executors > 0 && self.kind != Kind::Embedded;
        Remaining {
            executors,
            terminating,
            removed_by,
            clean: is_left.then(|| self.command()),
        }
    }
}

impl Remainder {
    pub(super) fn new(ledger: watch::Receiver<Arc<Snapshot>>, remover: Remover) -> Self {
        Self { ledger, remover }
    }

    /// `None`: the driver does not know its executors yet.
    pub fn now(&self) -> Option<Remaining> {
        let ledger = self.ledger.borrow();
        let classes = || ledger.entries.values().map(|entry| entry.class());
        let is_left = |class: &Class| class.is_live() || *class == Class::Leaving;
        let executors = classes().filter(is_left).count();
        let terminating = classes().filter(|class| *class == Class::Terminating);
        let terminating = terminating.count();
        (ledger.adopted).then(|| self.remover.remaining(executors, terminating))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::news::Outcome;
    use crate::testing::Scenario;

    fn remover(kind: Kind) -> Remover {
        Remover {
            kind,
            namespace: "jobs".to_owned(),
            selector: "app=etl".to_owned(),
        }
    }

    const COMMAND: &str = "kubectl -n jobs delete pods -l 'app=etl'";

    // spec: O-109
    #[test]
    fn who_removes_executors_depends_on_where_their_driver_runs() {
        let said = |kind, executors, terminating| {
            let left = remover(kind).remaining(executors, terminating);
            (left.removed_by.unwrap_or_default(), left.clean)
        };
        let (by, clean) = said(Kind::Pod, 3, 1);
        assert!(by.starts_with("the next driver"), "{by}");
        assert!(
            by.ends_with("the owner of the application's record"),
            "{by}"
        );
        assert_eq!(clean.as_deref(), Some(COMMAND));
        let (by, clean) = said(Kind::Standby, 3, 0);
        assert!(by.starts_with("the next driver"), "{by}");
        assert!(!by.contains("Kubernetes"), "{by}");
        assert_eq!(clean.as_deref(), Some(COMMAND));
        let (by, clean) = said(Kind::Nobody, 3, 0);
        assert!(by.starts_with("nobody"), "{by}");
        assert_eq!(clean.as_deref(), Some(COMMAND));
        let (by, clean) = said(Kind::Embedded, 3, 1);
        assert!(by.starts_with("the embedded cluster"), "{by}");
        assert_eq!(clean, None);
    }

    // spec: O-109
    #[test]
    fn what_is_deleted_already_needs_nobody() {
        for kind in [Kind::Pod, Kind::Standby, Kind::Nobody] {
            let left = remover(kind).remaining(0, 2);
            assert_eq!(
                left.removed_by,
                Some("their nodes: they are deleted already")
            );
            assert_eq!(left.clean, None);
            assert_eq!(remover(kind).remaining(0, 0).removed_by, None);
        }
    }

    // spec: O-109
    #[test]
    fn what_is_left_is_counted_from_the_ledger_once_it_has_adopted() {
        let told = |scenario: &Scenario| {
            let ledger = Arc::new(scenario.current().clone());
            let (_shown, ledger) = watch::channel(ledger);
            Remainder::new(ledger, remover(Kind::Nobody)).now()
        };
        let before = Scenario::before_adoption(&[("default", 5)], Default::default());
        assert_eq!(told(&before), None);
        let mut scenario = Scenario::new(&[("default", 5)]);
        for n in 1..=5 {
            let profile = "default".into();
            scenario.requested(n, Outcome::Sent { profile });
        }
        // 1 is requested only, 2 waits, 3 runs.
        (2..=5).for_each(|n| scenario.created(n));
        (3..=5).for_each(|n| scenario.runs(n));
        scenario.terminates(4);
        scenario.goes(5);
        let left = told(&scenario).unwrap();
        assert_eq!((left.executors, left.terminating), (3, 1));
    }
}
