//! The allocator's rounds on the real ledger.

mod caps;
mod crash_loops;
mod down;
mod failure_budget;
mod gangs;
mod memory;
mod outcomes;
mod requests;
mod spares;
mod steps;
mod unknown_requests;
mod volume_claims;
mod worlds;

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;

use super::*;
use crate::actors::failures;
use crate::actors::pod_allocator::caps::Caps;
use crate::actors::pod_allocator::decision::Answer;
use crate::actors::pod_allocator::pace::Limits;
use crate::actors::pod_allocator::pause::Cause;
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::actors::pod_allocator::{claims, waiting};
use crate::model::Epoch;
use crate::model::executor::{Class, LeaveMethod};
use crate::model::failures::KeptFailures;
use crate::model::news::{Found, News, Outcome};
use crate::testing::{SERVER_TIMEOUT, Scenario, at, id};
use boatswain_agent::backoff::Backoff;

/// The size of the default profile's gang, if gangs are configured.
const GANG: u32 = 4;

const CREATION_TIMEOUT: Duration = Duration::from_secs(60);

fn settings() -> AllocationRules {
    let seconds = Duration::from_secs;
    AllocationRules {
        batch_size: 500,
        limits: Limits {
            max_in_flight: 32,
            max_rate: None,
            backoff: Backoff {
                initial: Duration::from_millis(200),
                max: seconds(5),
            },
        },
        stable_after: seconds(60),
        crash_backoff: Backoff {
            initial: seconds(1),
            max: seconds(300),
        },
        repeat_backoff: Backoff {
            initial: seconds(1),
            max: seconds(30),
        },
        creation_timeout: CREATION_TIMEOUT,
        server_timeout: SERVER_TIMEOUT,
        victims: victims::SurplusRules {
            cancel_delay: seconds(10),
            pending_only: false,
            decommission_timeout: Duration::from_secs(60),
        },
        failures: failures::FailureBudget {
            max: Some(1_000_000),
            window: seconds(3_600),
            rules: Vec::new(),
            configured: ["default".into(), "ok".into(), "refused".into()].into(),
            alone: false,
            node_max: None,
            node_if_possible: false,
            growth: BTreeMap::new(),
        },
        waiting: waiting::WaitLimits {
            pending_timeout: None,
            stuck_after: seconds(30),
        },
        caps: Caps::default(),
        claims: claims::ClaimRules::default(),
        gang: None,
    }
}

/// A first start, with ids reserved up to this one.
fn beginning(rng: StdRng, reserved: Option<ExecutorId>) -> Allocation {
    let inherited = Inherited {
        reserved,
        ..Inherited::default()
    };
    let now = Now::new(at(0), jiff::Timestamp::UNIX_EPOCH);
    Allocation::new(settings(), rng, &inherited, &BTreeMap::new(), now)
}

/// A start that inherits from earlier incarnations.
fn resuming(settings: AllocationRules, inherited: &Inherited, now: Now) -> Allocation {
    let rng = StdRng::seed_from_u64(7);
    Allocation::new(settings, rng, inherited, &BTreeMap::new(), now)
}

#[derive(Debug, Clone, Copy)]
enum Reply {
    Created,
    Refused(RefusalKind),
    NameTaken,
    /// A 5xx or a timeout: the outcome is unknown.
    Broke,
    Unreachable,
    Wait(u64),
}

/// A request in flight.
#[derive(Debug, Clone)]
struct Flight {
    profile: ProfileName,
    sent: Tick,
}

/// An allocator on its ledger. The test is the API server.
struct Driver {
    scenario: Scenario,
    allocation: Allocation,
    flights: BTreeMap<ExecutorId, Flight>,
    /// Every request that was sent, including repeats: when, and for which executor.
    left: Vec<(u64, u64)>,
    said: Vec<Notice>,
    reserves: Vec<u64>,
    keeps: Vec<BTreeMap<ProfileName, BackoffState>>,
    kept_failures: Vec<KeptFailures>,
    avoids: Vec<Avoid>,
    memory_limits: BTreeMap<ProfileName, u64>,
    retired: Vec<u64>,
    lists: Vec<Epoch>,
    ensures: Vec<claims::making::Ensure>,
    wake: Option<Tick>,
}

impl Driver {
    fn new(targets: &[(&str, u32)]) -> Self {
        Self::with(settings(), Scenario::new(targets))
    }

    fn with(settings: AllocationRules, scenario: Scenario) -> Self {
        Self::seeded(7, settings, scenario)
    }

    fn seeded(seed: u64, settings: AllocationRules, scenario: Scenario) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let inherited = Inherited {
            reserved: ExecutorId::new(1_000_000),
            ..Inherited::default()
        };
        let least = BTreeMap::from([(ProfileName::from("default"), GANG)]);
        let allocation = Allocation::new(settings, rng, &inherited, &least, scenario.now());
        Self::of(allocation, scenario)
    }

    fn of(allocation: Allocation, scenario: Scenario) -> Self {
        Self {
            scenario,
            allocation,
            flights: BTreeMap::new(),
            left: Vec::new(),
            said: Vec::new(),
            reserves: Vec::new(),
            keeps: Vec::new(),
            kept_failures: Vec::new(),
            avoids: Vec::new(),
            memory_limits: BTreeMap::new(),
            retired: Vec::new(),
            lists: Vec::new(),
            ensures: Vec::new(),
            wake: None,
        }
    }

    /// Whether the next round must follow at once.
    fn is_cut_short(&self) -> bool {
        self.wake.is_some_and(|at| at <= self.scenario.now().tick)
    }

    /// One round, carried out as the actor does. Returns the executors that were requested.
    fn round(&mut self) -> Vec<u64> {
        let decision = self
            .allocation
            .decide(&self.scenario.batch(), self.scenario.now());
        self.wake = decision.wake;
        let mut asked = Vec::new();
        for action in decision.actions {
            match action {
                Action::Request { id, profile } => {
                    let outcome = Outcome::Sent {
                        profile: profile.clone(),
                    };
                    assert!(self.scenario.current().entry(id).is_none(), "{id} twice");
                    self.scenario.tell(News::Requested { id, outcome });
                    assert!(self.scenario.current().entry(id).is_some(), "A-11");
                    self.send(id, profile, &mut asked);
                }
                Action::Repeat { id, profile } => {
                    let outcome = Outcome::SentAgain;
                    self.scenario.tell(News::Requested { id, outcome });
                    self.send(id, profile, &mut asked);
                }
                Action::Retire(ids, why, how) => {
                    self.retired.extend(ids.iter().map(|id| id.get()));
                    self.scenario.tell(News::Retire {
                        ids,
                        aim: crate::model::news::TargetChange::Stay,
                        why,
                        how,
                    });
                }
                Action::Promote(ids) => self.scenario.tell(News::Promote(ids)),
                Action::ListClaims(epoch) => self.lists.push(epoch),
                Action::EnsureClaim(ensure) => self.ensures.push(ensure),
                Action::Reserve(up_to) => self.reserves.push(up_to.get()),
                Action::KeepBackoffs(kept) => self.keeps.push(kept),
                Action::KeepFailures(kept) => self.kept_failures.push(kept),
                Action::Avoid(avoid) => self.avoids.push(avoid),
                Action::LimitMemory(limits) => {
                    assert!(asked.is_empty(), "L-43: requests come after it");
                    self.memory_limits = limits;
                }
                Action::Queue(_) => unreachable!("there is no queue"),
                Action::Say(notice) => {
                    if let Notice::ProfileFailed { profile, why } = notice.clone() {
                        self.scenario.tell(News::Failed { profile, why });
                    }
                    if let Notice::Grown { profile, limit } = notice.clone() {
                        self.scenario.tell(News::Grown { profile, limit });
                    }
                    self.said.push(notice);
                }
            }
        }
        asked
    }

    fn send(&mut self, id: ExecutorId, profile: ProfileName, asked: &mut Vec<u64>) {
        asked.push(id.get());
        self.left.push((self.scenario.millis, id.get()));
        let sent = self.scenario.now().tick;
        let doubled = self.flights.insert(id, Flight { profile, sent });
        assert!(doubled.is_none(), "{id} is in flight twice");
        assert!(self.allocation.in_flight() as usize >= self.flights.len());
    }

    fn answer(&mut self, n: u64, reply: Reply) {
        let why: Arc<str> = Arc::from("no");
        let refused = Outcome::Refused(Arc::clone(&why));
        let (outcome, answer) = match reply {
            Reply::Created => (self.scenario.creation(n), Answer::Created),
            Reply::Refused(kind) => (refused, Answer::Refused(kind, why)),
            Reply::NameTaken => (Outcome::NameTaken, Answer::NameTaken),
            Reply::Broke => (Outcome::Broke(Arc::clone(&why)), Answer::Trouble(None, why)),
            Reply::Unreachable => (refused, Answer::Trouble(None, why)),
            Reply::Wait(seconds) => {
                let wait = Duration::from_secs(seconds);
                (refused, Answer::Trouble(Some(wait), why))
            }
        };
        self.answer_so(n, outcome, &answer);
    }

    fn answer_so(&mut self, n: u64, outcome: Outcome, answer: &Answer) {
        let Flight { profile, sent } = self.flights.remove(&id(n)).unwrap();
        self.scenario.requested(n, outcome);
        let now = self.scenario.now();
        let said = self.allocation.answered(&profile, sent, answer, now);
        self.said.extend(said);
    }

    fn answer_all(&mut self, reply: impl Fn(u64, &ProfileName) -> Reply) {
        for (id, flight) in self.flights.clone() {
            self.answer(id.get(), reply(id.get(), &flight.profile));
        }
    }

    /// Rounds until one requests nothing. Each request is answered a millisecond later.
    fn settle(&mut self, reply: impl Fn(u64, &ProfileName) -> Reply) {
        for _ in 0..10_000 {
            self.round();
            if self.flights.is_empty() && !self.scenario.has_news() {
                return;
            }
            self.scenario.pass(1);
            self.answer_all(&reply);
        }
        panic!("it does not settle");
    }

    /// All wanted executors run.
    fn fill(&mut self) {
        self.settle(|_, _| Reply::Created);
        for n in self.ids_where(|class| matches!(class, Class::Pending(_))) {
            self.scenario.runs(n);
        }
        self.round();
    }

    /// Running executors become stable.
    fn all_stay(&mut self) {
        self.scenario.pass(61_000);
        self.round();
    }

    /// Passes time as in production: a round at each wake, at each interval of a second, and after
    /// any news. `step` is called before each round.
    fn live(&mut self, millis: u64, mut step: impl FnMut(&mut Self)) {
        let end = self.scenario.millis + millis;
        while self.scenario.millis < end {
            step(self);
            self.round();
            let wake = self
                .wake
                .map(|wake| u64::try_from(wake.since(at(0)).as_micros().div_ceil(1_000)).unwrap());
            let next = self.scenario.millis + 1_000;
            let next = if self.scenario.has_news() {
                self.scenario.millis + 10
            } else {
                wake.map_or(next, |wake| wake.clamp(self.scenario.millis + 1, next))
            };
            self.scenario.millis = next.min(end);
        }
    }

    /// The paused profiles: why, since when and until when, in milliseconds.
    fn pauses(&self) -> Vec<(Cause, u64, Option<u64>)> {
        let millis = |tick: Tick| u64::try_from(tick.since(at(0)).as_millis()).unwrap();
        let pauses = self.allocation.pauses(self.scenario.current());
        (pauses.into_values())
            .map(|pause| (pause.cause, millis(pause.since), pause.until.map(millis)))
            .collect()
    }

    fn ids_where(&self, of: impl Fn(Class) -> bool) -> Vec<u64> {
        let entries = self.scenario.current().entries.values();
        entries
            .filter(|entry| of(entry.class()))
            .map(|entry| entry.id.get())
            .collect()
    }

    /// Ended executors are reported and gone, as LifecycleManager would do.
    fn bury(&mut self) {
        for n in self.ids_where(|class| !class.is_live()) {
            let entry = self.scenario.entry(n).cloned().unwrap();
            if entry.uid().is_some() && !entry.is_gone() {
                self.scenario.goes(n);
            }
            self.scenario.report(n);
        }
        self.scenario.release();
    }

    fn live_of(&self, profile: &str) -> u32 {
        self.scenario.counts(profile).live()
    }

    /// How many requests were sent within these milliseconds.
    fn left_within(&self, from: u64, to: u64) -> usize {
        let within = |(when, _): &&(u64, u64)| (from..to).contains(when);
        self.left.iter().filter(within).count()
    }
}

/// A look-up by name, sent now, that finds nothing.
fn find_nothing(driver: &mut Driver, n: u64) {
    let (sent, epoch) = (driver.scenario.now().tick, driver.scenario.current().epoch);
    driver.scenario.tell(News::LookedUp {
        id: id(n),
        sent,
        epoch,
        found: Found::Nothing,
    });
}
