//! Deletes leftovers in rounds until a look shows none that is not terminating (spec O-33).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::time::{sleep, timeout};

use super::{Cleaner, Found, Unseen};
use crate::exit::Exit;
use crate::kubernetes::leftovers::{Leftover, due};
use crate::kubernetes::{Failure, FailureKind};
use crate::model::PodUid;

/// As many deletes at a time as the client allows.
const AT_ONCE: usize = 64;

/// The time for controllers to follow a deletion, before the next look.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How a deletion ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many objects the API server has accepted to delete.
    pub deleted: usize,
    /// What is there and not being deleted.
    pub left: Vec<Left>,
    pub unseen: Vec<Unseen>,
    /// Why the last look failed.
    pub blind: Option<String>,
    denied: bool,
}

/// An object that is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub leftover: Leftover,
    /// `None`: the time was up.
    pub why: Option<String>,
}

impl Outcome {
    pub fn exit(&self) -> Exit {
        if self.denied || !self.unseen.is_empty() {
            return Exit::Rights;
        }
        match self.left.is_empty() && self.blind.is_none() {
            true => Exit::Clean,
            false => Exit::Unreachable,
        }
    }
}

/// What the rounds have come to; it outlasts them if the time is up.
struct Rounds {
    found: Found,
    accepted: BTreeSet<PodUid>,
    failed: BTreeMap<PodUid, Failure>,
    blind: Option<Failure>,
}

/// Whether the same request would be refused again.
fn is_final(failure: &Failure) -> bool {
    failure.is_refused()
        && !matches!(
            failure.kind,
            FailureKind::Wait | FailureKind::Conflict | FailureKind::Unreachable
        )
}

impl Cleaner {
    /// Deletes what was found, and what controllers make of it meanwhile, within this time.
    pub async fn delete(&self, found: Found, limit: Duration) -> Outcome {
        let mut rounds = Rounds {
            found,
            accepted: BTreeSet::new(),
            failed: BTreeMap::new(),
            blind: None,
        };
        // What is left then is reported.
        let _ = timeout(limit, self.go_on(&mut rounds)).await;
        rounds.outcome()
    }

    async fn go_on(&self, rounds: &mut Rounds) {
        while self.round(rounds).await {
            sleep(BETWEEN_LOOKS).await;
            match self.look().await {
                Ok(found) => {
                    rounds.found = found;
                    rounds.blind = None;
                }
                Err(failure) => {
                    let ends = is_final(&failure);
                    rounds.blind = Some(failure);
                    if ends {
                        return;
                    }
                }
            }
        }
    }

    /// Returns whether another round may change something.
    async fn round(&self, rounds: &mut Rounds) -> bool {
        let due = rounds.due();
        let mut again = false;
        let deletes = stream::iter(due).map(async |leftover| {
            let answer = self.calls.delete_leftover(&leftover).await;
            (leftover.uid, answer)
        });
        let mut answers = Box::pin(deletes.buffer_unordered(AT_ONCE));
        while let Some((uid, answer)) = answers.next().await {
            match answer {
                Ok(()) => {
                    rounds.failed.remove(&uid);
                    rounds.accepted.insert(uid);
                    again = true;
                }
                Err(failure) => {
                    again |= !is_final(&failure);
                    rounds.failed.insert(uid, failure);
                }
            }
        }
        again
    }
}

impl Rounds {
    /// The record stays while not all else can be looked at.
    fn due(&self) -> Vec<Leftover> {
        let all = due(&self.found.leftovers).into_iter();
        let blind = !self.found.unseen.is_empty();
        all.filter(|one| !(blind && one.is_record()))
            .cloned()
            .collect()
    }

    fn outcome(self) -> Outcome {
        let living = self.found.leftovers.into_iter().filter(|one| !one.deleting);
        let left: Vec<Left> = living
            // Accepted after the last look.
            .filter(|one| !(one.is_record() && self.accepted.contains(&one.uid)))
            .map(|leftover| Left {
                why: (self.failed.get(&leftover.uid))
                    .map(|failure| failure.explained().to_string()),
                leftover,
            })
            .collect();
        let denied = |failure: &Failure| {
            matches!(failure.kind, FailureKind::Rights | FailureKind::Credentials)
        };
        let mut failures = left
            .iter()
            .filter_map(|one| self.failed.get(&one.leftover.uid));
        Outcome {
            deleted: self.accepted.len(),
            denied: failures.any(denied) || self.blind.as_ref().is_some_and(denied),
            left,
            unseen: self.found.unseen,
            blind: self.blind.map(|failure| failure.explained().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use kube::client::Body;
    use tokio::time::Instant;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::kubernetes::leftovers::LISTED;
    use crate::kubernetes::{Calls, CallsSpec, Clients, LabelScheme};

    fn leftover(resource: &str, name: &str) -> Leftover {
        let labels = [("app.kubernetes.io/component", "record")];
        Leftover {
            kind: *LISTED
                .iter()
                .find(|kind| kind.resource == resource)
                .unwrap(),
            name: name.to_owned(),
            uid: name.into(),
            deleting: false,
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            owners: Vec::new(),
        }
    }

    fn rounds(leftovers: Vec<Leftover>) -> Rounds {
        Rounds {
            found: Found {
                leftovers,
                ..Found::default()
            },
            accepted: BTreeSet::new(),
            failed: BTreeMap::new(),
            blind: None,
        }
    }

    /// A cleaner whose API server never answers.
    fn unanswered() -> Cleaner {
        let silent = service_fn(async |_: http::Request<Body>| {
            pending::<Result<http::Response<Body>, BoxError>>().await
        });
        let spec = CallsSpec {
            namespace: "jobs".to_owned(),
            app_id: "etl-1".into(),
            prefix: String::new(),
            labels: LabelScheme::default(),
            container: String::new(),
            check_all_containers: false,
            request_timeout: Duration::from_secs(10),
        };
        Cleaner {
            app_id: "etl-1".into(),
            calls: Calls::new(Clients::in_process(silent, "jobs"), spec),
        }
    }

    // spec: O-33
    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_nobody_answers_ends_in_time_and_names_what_is_left() {
        let found = Found {
            leftovers: vec![leftover("services", "etl-driver")],
            ..Found::default()
        };
        let began = Instant::now();
        let outcome = unanswered().delete(found, Duration::from_secs(60)).await;
        assert!(began.elapsed() <= Duration::from_secs(60));
        assert_eq!(outcome.left[0].leftover.to_string(), "Service etl-driver");
        let why = outcome.left[0].why.as_deref().unwrap_or_default();
        assert!(why.contains("no answer within"), "{why}");
        assert_eq!((outcome.deleted, outcome.exit()), (0, Exit::Unreachable));
    }

    // spec: O-33
    #[test]
    fn the_record_stays_while_something_cannot_be_looked_for() {
        let mut rounds = rounds(vec![leftover("configmaps", "etl-app")]);
        assert_eq!(rounds.due().len(), 1);
        rounds.found.unseen.push(Unseen {
            resource: "secrets",
            why: "no right".to_owned(),
        });
        assert!(rounds.due().is_empty());
        assert_eq!(rounds.outcome().exit(), Exit::Rights);
    }

    // spec: O-33
    #[test]
    fn the_exit_code_says_whether_something_is_left_and_whether_a_right_is_missing() {
        let service = leftover("services", "etl-driver");
        let mut terminates = service.clone();
        terminates.deleting = true;
        assert_eq!(rounds(vec![terminates]).outcome().exit(), Exit::Clean);
        assert_eq!(
            rounds(vec![service.clone()]).outcome().exit(),
            Exit::Unreachable
        );
        let mut denied = rounds(vec![service.clone()]);
        let failure = Failure::new(FailureKind::Rights, "no right");
        denied.failed.insert(service.uid, failure);
        assert_eq!(denied.outcome().exit(), Exit::Rights);
        // An error of an object that is gone since says nothing.
        let mut gone = rounds(Vec::new());
        let failure = Failure::new(FailureKind::Rights, "no right");
        gone.failed.insert("u".into(), failure);
        assert_eq!(gone.outcome().exit(), Exit::Clean);
        let mut blind = rounds(Vec::new());
        blind.blind = Some(Failure::new(FailureKind::TimedOut, "no answer"));
        assert_eq!(blind.outcome().exit(), Exit::Unreachable);
    }

    // spec: O-33
    #[test]
    fn a_refusal_is_final_but_not_an_outage_or_a_request_to_wait() {
        for kind in [
            FailureKind::Rights,
            FailureKind::Admission,
            FailureKind::Invalid,
        ] {
            assert!(is_final(&Failure::new(kind, "")), "{kind:?}");
        }
        for kind in [
            FailureKind::Wait,
            FailureKind::Conflict,
            FailureKind::Unreachable,
            FailureKind::Server,
        ] {
            assert!(!is_final(&Failure::new(kind, "")), "{kind:?}");
        }
    }
}
