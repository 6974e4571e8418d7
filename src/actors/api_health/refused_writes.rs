//! Writes that the API server refuses for long, whoever makes them: pure (spec O-128).
//!
//! Each caller repeats its writes by itself. Here they are only followed, so that each kind of write is said once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::calls::WriteMade;
use crate::model::Tick;

/// A write that is refused again so long after it was first refused is said.
const LONG: Duration = Duration::from_secs(5);

/// A write that was not tried for so long is not wanted any more: no caller waits longer between its tries.
const NOT_WANTED: Duration = Duration::from_secs(600);

/// The objects that are followed of each kind of write. Which of more are refused is not known.
const MOST: usize = 1_000;

/// A kind of write that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWrite {
    /// Such as `delete`.
    pub verb: &'static str,
    pub resource: Arc<str>,
    /// The server's words, and the rule that would allow it if a right is missing.
    pub why: Arc<str>,
    pub since: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Refused(RefusedWrite),
    /// The last object was accepted, or its write is not wanted any more.
    Over(RefusedWrite),
}

#[derive(Debug, Default)]
pub struct RefusedWrites(BTreeMap<(&'static str, Arc<str>), Refused>);

#[derive(Debug)]
struct Refused {
    objects: BTreeMap<Arc<str>, Tries>,
    write: RefusedWrite,
    said: bool,
}

#[derive(Debug, Clone, Copy)]
struct Tries {
    first: Tick,
    last: Tick,
}

impl RefusedWrites {
    /// A write was answered.
    pub fn called(&mut self, method: &str, write: &WriteMade, now: Tick) -> Option<Change> {
        let verb = verb(method)?;
        // The allocator says why a profile gets no pods or claims, and pauses it (spec A-31).
        let is_of_a_pause = matches!(&*write.resource, "pods" | "persistentvolumeclaims");
        if verb == "create" && is_of_a_pause {
            return None;
        }
        let key = (verb, Arc::clone(&write.resource));
        let Some(why) = &write.refusal else {
            let refused = self.0.get_mut(&key)?;
            refused.objects.remove(&write.name);
            return refused.objects.is_empty().then(|| self.over(&key))?;
        };
        let refused = self.0.entry(key).or_insert_with(|| Refused {
            objects: BTreeMap::new(),
            write: RefusedWrite {
                verb,
                resource: Arc::clone(&write.resource),
                why: Arc::clone(why),
                since: now,
            },
            said: false,
        });
        if refused.objects.len() < MOST || refused.objects.contains_key(&write.name) {
            let tries = (refused.objects.entry(Arc::clone(&write.name)))
                .and_modify(|tries| tries.last = now)
                .or_insert(Tries {
                    first: now,
                    last: now,
                });
            let is_long = now.since(tries.first) >= LONG;
            if is_long && !refused.said {
                refused.said = true;
                (refused.write.why, refused.write.since) = (Arc::clone(why), tries.first);
                return Some(Change::Refused(refused.write.clone()));
            }
        }
        None
    }

    /// Forgets writes that are not wanted any more.
    pub fn forget(&mut self, now: Tick) -> Vec<Change> {
        for refused in self.0.values_mut() {
            (refused.objects).retain(|_, tries| now.since(tries.last) < NOT_WANTED);
        }
        let over = self.0.iter().filter(|(_, it)| it.objects.is_empty());
        let over: Vec<_> = over.map(|(key, _)| key.clone()).collect();
        over.iter().filter_map(|key| self.over(key)).collect()
    }

    fn over(&mut self, key: &(&'static str, Arc<str>)) -> Option<Change> {
        let refused = self.0.remove(key)?;
        refused.said.then_some(Change::Over(refused.write))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was said and is not over.
    pub fn said(&self) -> Vec<RefusedWrite> {
        let said = self.0.values().filter(|refused| refused.said);
        said.map(|refused| refused.write.clone()).collect()
    }
}

/// The verb as in a role's rules; `None` for a read.
fn verb(method: &str) -> Option<&'static str> {
    match method {
        "POST" => Some("create"),
        "PUT" => Some("update"),
        "PATCH" => Some("patch"),
        "DELETE" => Some("delete"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    fn write(resource: &str, name: &str, refusal: Option<&str>) -> WriteMade {
        WriteMade {
            resource: resource.into(),
            name: name.into(),
            refusal: refusal.map(Arc::from),
        }
    }

    fn delete(writes: &mut RefusedWrites, n: u64, refused: bool, second: u64) -> Option<Change> {
        let write = write("pods", &n.to_string(), refused.then_some("no"));
        writes.called("DELETE", &write, at(second))
    }

    // spec: O-128
    #[test]
    fn a_kind_of_write_that_is_refused_for_long_is_said_once_and_its_end_once() {
        let mut writes = RefusedWrites::default();
        let mut said = Vec::new();
        for second in [0, 1, 3, 7, 15, 30, 60] {
            for n in 0..2_000 {
                said.extend(delete(&mut writes, n, true, second));
            }
        }
        let refused = RefusedWrite {
            verb: "delete",
            resource: "pods".into(),
            why: "no".into(),
            since: at(0),
        };
        assert_eq!(said, [Change::Refused(refused.clone())]);
        assert_eq!(writes.said(), std::slice::from_ref(&refused));
        let over: Vec<_> = (0..2_000)
            .filter_map(|n| delete(&mut writes, n, false, 70))
            .collect();
        assert_eq!(over, [Change::Over(refused)]);
        assert!(writes.is_empty());
    }

    // spec: O-128
    #[test]
    fn a_refusal_that_is_soon_over_is_not_said() {
        let mut writes = RefusedWrites::default();
        for second in 0..5 {
            assert_eq!(delete(&mut writes, 1, true, second), None);
        }
        assert_eq!(delete(&mut writes, 1, false, 5), None);
        assert_eq!(delete(&mut writes, 1, true, 60), None, "it begins anew");
    }

    // spec: O-128
    #[test]
    fn what_is_refused_of_one_object_is_said_though_it_is_accepted_of_others() {
        let mut writes = RefusedWrites::default();
        for second in 0..5 {
            delete(&mut writes, 1, true, second);
            assert_eq!(delete(&mut writes, second + 2, false, second), None);
        }
        assert!(delete(&mut writes, 1, true, 5).is_some());
    }

    // spec: O-128
    #[test]
    fn a_refused_write_that_nobody_tries_any_more_is_over() {
        let mut writes = RefusedWrites::default();
        delete(&mut writes, 1, true, 0);
        delete(&mut writes, 1, true, 10);
        assert_eq!(writes.forget(at(609)), []);
        assert!(matches!(writes.forget(at(610))[..], [Change::Over(_)]));
        assert!(writes.said().is_empty());
    }

    // spec: O-128, A-31
    #[test]
    fn what_pauses_a_profile_is_said_by_its_pause_alone() {
        let mut writes = RefusedWrites::default();
        let mut refused = |method, resource, second| {
            let write = write(resource, "", Some("no"));
            writes.called(method, &write, at(second)).is_some()
        };
        for resource in ["pods", "persistentvolumeclaims"] {
            assert!(!refused("POST", resource, 0) && !refused("POST", resource, 60));
        }
        for (method, resource) in [("POST", "events"), ("PATCH", "pods"), ("PUT", "leases")] {
            assert!(!refused(method, resource, 0) && refused(method, resource, 60));
        }
    }
}
