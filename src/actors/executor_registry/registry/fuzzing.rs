//! Checks what must be true whatever executors send.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Account, ConnectionId, Effect, Proof, Registry, Via};
use crate::config::{Config, Registration};
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::ledger::{Identity, Inheritance, Ledger};
use crate::model::news::{ListKind, Listed, News, Outcome, TargetChange};
use crate::model::{AppId, Batch, ExecutorId, Incarnation, Now, Snapshot, Tick};
use boatswain_agent::protocol::{FromExecutor, MESSAGE_LIMIT, ToExecutor, read};

const EXECUTORS: u64 = 4;

/// The limit of an answer, in bytes.
const ANSWER: usize = 4 * 1024;

/// The limit of parts that are processed.
const MOST_PARTS: usize = 200;

/// The longest pause between two messages, in milliseconds.
const LONGEST_PAUSE: u64 = 600_000;

/// Interprets the data as messages of executors, separated by `%`. The first line of a part names
/// the executor, the way and the pause before it in milliseconds: `1 r` is a request of one
/// executor, `2 c7 500` a message of another one over connection 7, `2 x7` the end of that
/// connection, `2 d` the decommissioning of that executor, `2 k` its kill. The rest is the message.
/// Each is answered for its own executor only, and the state is bounded (spec B-1 to B-16, I-8,
/// I-11).
pub fn sessions(data: &[u8]) {
    let mut world = World::new();
    let parts = data.split(|byte| *byte == b'%').take(MOST_PARTS);
    for part in parts.map(|part| part.strip_prefix(b"\n").unwrap_or(part)) {
        let end = part.iter().position(|byte| *byte == b'\n');
        let (head, message) = part.split_at(end.unwrap_or(part.len()));
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.split_whitespace().collect();
        world.apply(&words, message.get(1..).unwrap_or_default());
        world.check();
    }
}

struct World {
    ledger: Ledger,
    registry: Registry,
    millis: u64,
    /// The executor of each connection.
    open: BTreeMap<u64, ExecutorId>,
}

impl World {
    fn new() -> Self {
        let identity = Identity {
            app: AppId::from("app"),
            prefix: Arc::from("a"),
            incarnation: Incarnation(1),
            server_timeout: Duration::from_secs(10),
            decommission_timeout: Duration::from_secs(60),
            default_profile: "default".into(),
        };
        let now = Now::new(Tick::default(), jiff::Timestamp::UNIX_EPOCH);
        let targets = BTreeMap::from([("default".into(), 8)]);
        let inheritance = Inheritance::default();
        let mut ledger = Ledger::new(identity, inheritance, targets, "record".into(), now);
        let ticket = ledger.begin_list(now);
        let listed = Listed {
            ticket,
            version: 1.into(),
            kind: ListKind::ForWatch,
            items: Vec::new(),
        };
        ledger.list(listed, now);
        let mut config = Config::default();
        config.backend.sessions.registration = Some(Registration::Required);
        let (app, prefix) = (AppId::from("app"), "a".to_owned());
        let mut world = Self {
            ledger,
            registry: Registry::new(app, prefix, Incarnation(1), Arc::new(config)),
            millis: 0,
            open: BTreeMap::new(),
        };
        for id in (1..=EXECUTORS).filter_map(ExecutorId::new) {
            let profile = "default".into();
            let outcome = Outcome::Sent { profile };
            world.tell(News::Requested { id, outcome });
        }
        world.round();
        world
    }

    fn now(&self) -> Now {
        let tick = Tick::after_start(Duration::from_millis(self.millis));
        Now::new(tick, jiff::Timestamp::UNIX_EPOCH)
    }

    fn tell(&mut self, news: News) -> Option<Arc<Snapshot>> {
        let now = self.now();
        self.ledger.apply(news, now).snapshot
    }

    fn round(&mut self) {
        let current = self.ledger.current().clone();
        let batch = Batch::new(vec![Arc::new(current.with_everything_changed())], current);
        self.change_registry(|registry, _, now, effects| registry.round(&batch, now, effects));
    }

    /// Changes the registry, and carries out the effects on the ledger.
    fn change_registry<T>(
        &mut self,
        change: impl FnOnce(&mut Registry, &Snapshot, Tick, &mut Vec<Effect>) -> T,
    ) -> T {
        let (now, mut effects) = (self.now().tick, Vec::new());
        let snapshot = self.ledger.current().clone();
        let result = change(&mut self.registry, &snapshot, now, &mut effects);
        for effect in effects {
            let news = match effect {
                Effect::Session(id, session) => News::Session(id, session),
                Effect::Retire(id, why) => retired(id, why, LeaveMethod::Delete),
                Effect::Send(connection, _) | Effect::Close(connection) => {
                    assert!(
                        self.open.contains_key(&connection.0),
                        "sent over a closed connection"
                    );
                    continue;
                }
                Effect::AsksToGo(id, _) | Effect::Happened(id, ..) | Effect::Used(id, _) => {
                    assert!((1..=EXECUTORS).contains(&id.get()), "{id} is unknown");
                    continue;
                }
                Effect::ReadRecord => {
                    self.registry.record_read(true);
                    continue;
                }
                Effect::Degraded(_) | Effect::Recovered => continue,
            };
            self.change_ledger(news);
        }
        result
    }

    /// Sends news to the ledger, and the changed snapshots to the registry.
    fn change_ledger(&mut self, news: News) {
        let snapshots = self.tell(news).into_iter().collect();
        let batch = Batch::new(snapshots, self.ledger.current().clone());
        let (now, mut effects) = (self.now().tick, Vec::new());
        self.registry.round(&batch, now, &mut effects);
    }

    fn apply(&mut self, words: &[&str], message: &[u8]) {
        let number = |text: &str| text.parse::<u64>().ok();
        let who = words.first().and_then(|word| number(word)).unwrap_or(1);
        let Some(id) = ExecutorId::new(who % EXECUTORS + 1) else {
            return;
        };
        let pause = words.get(2).and_then(|word| number(word)).unwrap_or(0);
        self.millis += pause.min(LONGEST_PAUSE);
        self.change_registry(|registry, snapshot, now, effects| {
            registry.look(Some(snapshot), now, effects)
        });
        let (what, which) = words
            .get(1)
            .unwrap_or(&"r")
            .split_at_checked(1)
            .unwrap_or(("r", ""));
        let connection = number(which).unwrap_or(0) % 8;
        let by = || Arc::from("somebody");
        match what {
            "x" => {
                self.open.remove(&connection);
                let connection = ConnectionId(connection);
                self.change_registry(|registry, _, now, effects| {
                    registry.lost(connection, now, effects)
                });
            }
            "d" => {
                let within = Duration::from_secs(60);
                self.change_ledger(retired(
                    id,
                    LeaveReason::Decommissioned(by()),
                    LeaveMethod::Drain { within },
                ));
            }
            "k" => self.change_ledger(retired(id, LeaveReason::Killed(by()), LeaveMethod::Delete)),
            "c" => {
                // A connection belongs to the executor whose token opened it.
                let owner = *self.open.entry(connection).or_insert(id);
                self.receive(owner, Via::Connection(ConnectionId(connection)), message);
            }
            _ => self.receive(id, Via::Request, message),
        }
    }

    fn receive(&mut self, id: ExecutorId, via: Via, message: &[u8]) {
        let message = match read(message) {
            Ok(message) => message,
            Err(misread) => {
                assert!(!misread.code.is_empty() && !misread.message.is_empty());
                return check_answers(&[misread.answer()]);
            }
        };
        assert!(!matches!(&message, FromExecutor::Register(r) if r.pod_uid.is_empty()));
        let proof = Proof::Executor(id);
        let answers = self.change_registry(|registry, snapshot, now, effects| {
            registry.receive(&proof, via, &message, Some(snapshot), now, effects)
        });
        assert!(!answers.is_empty(), "a message without an answer");
        for answer in &answers {
            if let ToExecutor::Registered(registered) = answer {
                assert_eq!(
                    registered.executor,
                    id.get(),
                    "registered as another executor"
                );
            }
        }
        check_answers(&answers);
    }

    fn check(&self) {
        let registry = &self.registry;
        let most = usize::try_from(EXECUTORS).unwrap_or(usize::MAX);
        assert!(registry.accounts.len() <= most && registry.orders.len() <= most);
        assert!(registry.due.len() <= 2 * most, "{:?}", registry.due);
        assert!(registry.connections.len() <= self.open.len().max(1));
        let registered: u32 = registry.registered.values().sum();
        assert_eq!(registered as usize, registry.accounts.len());
        let within =
            |account: &Account| (account.busy_slots).is_none_or(|busy| busy <= account.about.slots);
        assert!(
            registry.accounts.values().all(within),
            "more busy slots than there are"
        );
    }
}

fn retired(id: ExecutorId, why: LeaveReason, how: LeaveMethod) -> News {
    News::Retire {
        ids: vec![id],
        aim: TargetChange::Stay,
        why,
        how,
    }
}

/// Checks that each answer can be sent, is short, and can be decoded to itself.
fn check_answers(answers: &[ToExecutor]) {
    for answer in answers {
        let text = serde_json::to_string(answer).unwrap_or_default();
        assert!(
            (2..=ANSWER.min(MESSAGE_LIMIT)).contains(&text.len()),
            "{text}"
        );
        let again: Option<ToExecutor> = serde_json::from_str(&text).ok();
        assert_eq!(again.as_ref(), Some(answer), "{text}");
    }
}
