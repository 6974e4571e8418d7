//! Benchmark of an update of the ledger, and of a subscriber's round over its changes.
//!
//! spec: S-25
//!
//! The times are CPU times of this thread, so that other load on the machine matters less. An
//! update is one decoded watch event: it is applied, and a snapshot is made and delivered to two
//! subscribers.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use boatswain::model::delivery::{Delivery, Timing};
use boatswain::model::ledger::{Identity, Inheritance, Ledger};
use boatswain::model::news::{ListKind, Listed, News};
use boatswain::model::pod::{Phase, PodIdentity, Sighting};
use boatswain::model::{
    Batch, Entry, Epoch, ExecutorId, Incarnation, Now, Pod, ProfileName, ResourceVersion, Tick,
};

const FLEETS: [u64; 3] = [1_000, 10_000, 100_000];
const CHANGES: u64 = 100;
const TIMING: Timing = Timing {
    interval: Duration::from_secs(1),
    quiet_latency: Duration::from_millis(10),
    min_gap: Duration::from_millis(50),
    max_buffered: 10_000,
};

fn pod(id: ExecutorId, version: u64) -> Pod {
    Pod {
        uid: format!("8c2f7a52-0000-4000-8000-{:012}", id.get()).into(),
        name: format!("etl-exec-{id}").into(),
        version: ResourceVersion::from(version),
        identity: PodIdentity::Executor {
            id,
            profile: Some("default".into()),
            incarnation: Some(Incarnation(1)),
        },
        phase: Phase::Running,
        ..Pod::blank()
    }
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        spent.tv_sec.unsigned_abs(),
        spent.tv_nsec.unsigned_abs() as u32,
    )
}

/// A ledger of this many running executors, and an endless watch on it.
struct Fleet {
    ledger: Ledger,
    subscribers: [Delivery; 2],
    version: u64,
    executors: u64,
    now: Now,
}

impl Fleet {
    fn new(executors: u64) -> Self {
        let now = Now::new(Tick::default(), Timestamp::UNIX_EPOCH);
        let profile = ProfileName::from("default");
        let identity = Identity {
            app: "etl".into(),
            prefix: "etl".into(),
            incarnation: Incarnation(2),
            server_timeout: Duration::from_secs(10),
            decommission_timeout: Duration::from_secs(60),
            default_profile: profile.clone(),
        };
        let targets = BTreeMap::from([(profile, executors as u32)]);
        let inheritance = Inheritance::default();
        let mut ledger = Ledger::new(identity, inheritance, targets, "record".into(), now);
        let ids = (1..=executors).filter_map(ExecutorId::new);
        let ticket = ledger.begin_list(now);
        let listed = Listed {
            ticket,
            version: executors.into(),
            kind: ListKind::PollNewest,
            items: ids
                .map(|id| Sighting::Read(Arc::new(pod(id, id.get()))))
                .collect(),
        };
        ledger.list(listed, now);
        let snapshot = ledger.current().clone();
        let delivery = || Delivery::new(TIMING, &snapshot, now.tick);
        Self {
            subscribers: [delivery(), delivery()],
            ledger,
            version: executors,
            executors,
            now,
        }
    }

    fn next_id(&mut self) -> ExecutorId {
        self.version += 1;
        let number = self.version.wrapping_mul(7_919) % self.executors + 1;
        ExecutorId::new(number).unwrap_or(ExecutorId::FIRST)
    }

    /// The next watch event. Consecutive events are of different executors, spread over the fleet.
    fn event(&mut self) -> News {
        let id = self.next_id();
        News::Seen {
            pod: Sighting::Read(Arc::new(pod(id, self.version))),
            epoch: Epoch::default(),
        }
    }

    fn update(&mut self, news: News) {
        let applied = self.ledger.apply(news, self.now);
        if let Some(snapshot) = &applied.snapshot {
            for subscriber in &mut self.subscribers {
                subscriber.push(snapshot, self.now.tick);
            }
        }
        black_box(applied);
    }

    /// Delivers the waiting batches to both subscribers, which look at all changes. The caller
    /// drops the batches.
    fn round(&mut self) -> Vec<Batch> {
        let mut live = 0;
        let mut batches = Vec::with_capacity(self.subscribers.len());
        for subscriber in &mut self.subscribers {
            let batch = subscriber.take(self.ledger.current(), self.now.tick);
            let latest = batch.latest();
            for id in batch.changed_executors() {
                live += latest
                    .entry(id)
                    .map_or(0, |entry| usize::from(entry.class().is_live()));
            }
            subscriber.decided(None);
            batches.push(batch);
        }
        black_box(live);
        batches
    }
}

fn updates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("update");
    for executors in FLEETS {
        let mut fleet = Fleet::new(executors);
        group.bench_function(BenchmarkId::from_parameter(executors), |bencher| {
            bencher.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for chunk in 0..times.div_ceil(CHANGES) {
                    let news: Vec<News> = (chunk * CHANGES..times.min((chunk + 1) * CHANGES))
                        .map(|_| fleet.event())
                        .collect();
                    let began = cpu_time();
                    news.into_iter().for_each(|news| fleet.update(news));
                    spent += cpu_time() - began;
                    fleet.round();
                }
                spent
            });
        });
    }
    group.finish();
}

/// The lower bound for any ledger on such a map: replaces one entry while the previous map is kept.
fn floor(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("floor of an update");
    for executors in FLEETS {
        let mut fleet = Fleet::new(executors);
        let mut map = fleet.ledger.current().entries.clone();
        group.bench_function(BenchmarkId::from_parameter(executors), |bencher| {
            bencher.iter_custom(|times| {
                let mut kept = Vec::with_capacity(times as usize);
                let ids: Vec<_> = (0..times).map(|_| fleet.next_id()).collect();
                let began = cpu_time();
                for id in ids {
                    if let Some(entry) = map.get(id).map(|entry| Entry::clone(entry)) {
                        kept.push(map.clone());
                        map.insert(Arc::new(entry));
                    }
                }
                cpu_time() - began
            });
        });
    }
    group.finish();
}

/// A round with and without freeing the snapshots that only its batches kept.
fn rounds(criterion: &mut Criterion) {
    for (name, freeing) in [
        ("round over 100 changes", false),
        ("round and its freeing", true),
    ] {
        let mut group = criterion.benchmark_group(name);
        for executors in [1_000, 100_000] {
            let mut fleet = Fleet::new(executors);
            group.bench_function(BenchmarkId::from_parameter(executors), |bencher| {
                bencher.iter_custom(|times| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..times {
                        for _ in 0..CHANGES {
                            let news = fleet.event();
                            fleet.update(news);
                        }
                        let began = cpu_time();
                        let batches = fleet.round();
                        if freeing {
                            drop(batches);
                            spent += cpu_time() - began;
                        } else {
                            spent += cpu_time() - began;
                            drop(batches);
                        }
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, floor, updates, rounds);
criterion_main!(benches);
