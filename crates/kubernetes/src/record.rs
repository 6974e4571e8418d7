//! The application record: what a successor cannot learn from Kubernetes, as a value and as a ConfigMap (spec O-30).

mod errors;
mod intervals;
mod key;
mod keys;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::calls::ConfigMap;
use super::labels::LabelScheme;
use super::pod_template::recommended_labels;
use super::refusal::clean;
use boatswain_model::failures::KeptFailures;
use boatswain_model::made::CreatedCount;
use boatswain_model::recorded_end::RecordedEnd;
use boatswain_model::snapshot::asked;
use boatswain_model::{
    AppId, ExecutorId, IdSet, Incarnation, PodUid, ProfileName, ResourceVersion, Snapshot,
};
pub use errors::{AnotherName, NoSuccession, RecordError};
use keys::Keys;
pub use names::{check_name, id_in, name_in};

/// The format version that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The most bytes of a record: Kubernetes stores no larger ConfigMap. It bounds every list, map and set in a record,
/// because sets of ids are kept as intervals.
const MOST_BYTES: usize = 1024 * 1024;

/// The longest text of a key that is one text, in bytes.
const LONGEST_TEXT: usize = 4 * 1024;

/// The most ends that a record keeps.
pub const MOST_ENDS: usize = 100;

/// The longest text in a recorded end, in bytes.
const LONGEST_END_TEXT: usize = 256;

/// The longest id of an application, in characters: it is a label's value.
const LONGEST_APP_ID: usize = 63;

/// What a successor needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub app_id: AppId,
    /// The number of the latest start of a driver.
    pub incarnation: Incarnation,
    /// The identity of that start. Incarnations begin at one again in a record that was lost and created anew, so two
    /// live drivers may have the same number.
    pub holder: Option<Arc<str>>,
    /// The pod of that start, as `NAME/UID`; `None` outside a cluster.
    pub holder_pod: Option<Arc<str>>,
    /// The identity of the start that created the record; successors keep it. Records of different origin belong to
    /// different applications, even with the same name, and their incarnations are not comparable.
    pub origin: Option<Arc<str>>,
    /// The targets that were set while a driver ran; the configuration's targets apply to the other profiles.
    pub targets: BTreeMap<ProfileName, u32>,
    /// Present while the executors are held: then none is wanted.
    pub held: Option<Held>,
    /// Profiles that were added while a driver ran, with the configuration's keys.
    pub profiles: BTreeMap<ProfileName, Value>,
    /// The proof of each of these profiles that a driver of this application added it.
    pub profile_proofs: BTreeMap<ProfileName, Arc<str>>,
    /// Those of them that are being removed.
    pub removing: BTreeSet<ProfileName>,
    /// The highest id that may have been used. Ids are reserved in blocks, so that not every executor requires a write.
    pub reserved: Option<ExecutorId>,
    /// Ids that have ended.
    pub ended: IdSet,
    /// Ids that were bound to a pod and have not ended; those that adoption does not find are lost.
    pub bound: IdSet,
    /// Those of the bound ids whose end is reported, or is about to be.
    pub reported: IdSet,
    /// The last ends, the oldest first.
    pub ends: Vec<RecordedEnd>,
    /// The crash-loop backoffs.
    pub backoffs: BTreeMap<ProfileName, SavedBackoff>,
    /// The failures that are still counted.
    pub failures: KeptFailures,
    /// How many executors were made over the application's life, as of `ended` and `bound`; `None` in a
    /// record of an older program, which did not count.
    pub made: Option<u64>,
    /// The exit code of an application that has ended; a successor exits with it.
    pub finished: Option<u8>,
    /// Why the application ended, unless it was simply stopped.
    pub finished_why: Option<Arc<str>>,
}

/// A profile's crash-loop backoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedBackoff {
    pub step: u32,
    /// No executor is requested before this time.
    pub until: Timestamp,
    /// How long a probe has to run, in milliseconds; not in a record of an older program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_ms: Option<u64>,
}

/// What to restore when the hold ends (spec B-31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    pub targets: BTreeMap<ProfileName, u32>,
    /// Who requested the hold; `None` if the application was silent for too long.
    pub by: Option<Arc<str>>,
}

impl Held {
    /// What the ledger says of a hold.
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        snapshot.held.as_ref().map(|hold| Self {
            targets: asked(&snapshot.targets),
            by: hold.by.clone(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Succession {
    /// The record, which must be written before anything else.
    pub record: Record,
    /// The first id it may use. A list may still show higher ones.
    pub first_id: ExecutorId,
}

pub fn record_name(prefix: &str) -> String {
    format!("{prefix}-app")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPlace {
    pub namespace: String,
    pub prefix: String,
    /// For display.
    pub app_name: String,
    pub labels: LabelScheme,
    /// An owner reference to the top of the driver pod's controller chain; `None` outside the cluster.
    pub owner: Option<Value>,
}

impl Record {
    /// Builds the record of the next incarnation, with a new block of ids above all that may have been used.
    ///
    /// # Errors
    /// If the application has ended, or its ids or incarnations are used up.
    pub fn succeed(
        previous: Option<&Record>,
        app_id: &AppId,
        block: u64,
    ) -> Result<Succession, NoSuccession> {
        let mut record = match previous {
            Some(Record {
                finished: Some(code),
                finished_why,
                ..
            }) => {
                return Err(NoSuccession::Finished {
                    code: *code,
                    why: finished_why.clone(),
                });
            }
            Some(previous) => previous.clone(),
            None => Record::new(app_id.clone()),
        };
        let next = record.incarnation.0.checked_add(1);
        record.incarnation = Incarnation(next.ok_or(NoSuccession::NoMoreIncarnations)?);
        let used = record.highest_id();
        let first_id = match used {
            Some(id) => id.next().ok_or(NoSuccession::NoMoreIds)?,
            None => ExecutorId::FIRST,
        };
        record.reserved = Some(block_end(first_id, block));
        Ok(Succession { record, first_id })
    }

    /// The record of an application that has not started yet.
    fn new(app_id: AppId) -> Self {
        Self {
            app_id,
            incarnation: Incarnation(0),
            holder: None,
            holder_pod: None,
            origin: None,
            targets: BTreeMap::new(),
            held: None,
            profiles: BTreeMap::new(),
            profile_proofs: BTreeMap::new(),
            removing: BTreeSet::new(),
            reserved: None,
            ended: IdSet::new(),
            bound: IdSet::new(),
            reported: IdSet::new(),
            ends: Vec::new(),
            backoffs: BTreeMap::new(),
            failures: KeptFailures::default(),
            made: Some(0),
            finished: None,
            finished_why: None,
        }
    }

    /// Cuts the texts to what fits into a log line. A record is shortened before it is written and when it is read, so
    /// that it is read as written.
    pub fn shorten(&mut self) {
        let held = self.held.as_mut().and_then(|held| held.by.as_mut());
        let texts = [
            self.holder.as_mut(),
            self.holder_pod.as_mut(),
            self.origin.as_mut(),
            held,
            self.failures.spent.as_mut(),
            self.finished_why.as_mut(),
        ];
        let budgets = self.failures.profiles.values_mut();
        let failed = budgets.filter_map(|budget| budget.failed.as_mut());
        for text in texts.into_iter().flatten().chain(failed) {
            *text = Arc::from(clean(text, LONGEST_TEXT).trim());
        }
    }

    /// Adds an end, as reported from now on (spec L-1).
    pub fn add_end(&mut self, mut end: RecordedEnd) {
        let texts = [Some(&mut end.why), end.pod.as_mut(), end.node.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = Arc::from(clean(text, LONGEST_END_TEXT).trim());
        }
        self.reported.insert(end.executor);
        self.ends.push(end);
        let surplus = self.ends.len().saturating_sub(MOST_ENDS);
        self.ends.drain(..surplus);
    }

    /// Replaces the failures. Those of the recorded ends that they include are counted.
    pub fn set_failures(&mut self, failures: KeptFailures) {
        for end in &mut self.ends {
            end.counted |= failures.counted.contains(end.executor);
        }
        self.failures = failures;
    }

    /// Forgets a profile that was added while a driver ran (spec B-57).
    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.profiles.remove(profile);
        self.profile_proofs.remove(profile);
        self.removing.remove(profile);
        self.targets.remove(profile);
        self.backoffs.remove(profile);
        self.failures.profiles.remove(profile);
        if let Some(held) = &mut self.held {
            held.targets.remove(profile);
        }
    }

    /// A merge patch that opens the record of an application that has ended, in the version that was read: nothing that
    /// it has failed by counts any more (spec O-131).
    pub fn reopening(read: &ConfigMap) -> Value {
        json!({
            "metadata": {
                "uid": read.uid.as_str(),
                "resourceVersion": read.version.to_string(),
            },
            "data": {
                key::FINISHED: null,
                key::FINISHED_WHY: null,
                key::FAILURES: null,
                key::BACKOFFS: null,
            },
        })
    }

    /// The name and the uid of the driver's pod; `None` outside a cluster.
    pub fn driver_pod(&self) -> Option<(&str, &str)> {
        self.holder_pod.as_deref()?.split_once('/')
    }

    pub fn highest_id(&self) -> Option<ExecutorId> {
        let last = |ids: &IdSet| ids.last_below(u64::MAX);
        self.reserved.max(last(&self.ended)).max(last(&self.bound))
    }

    /// How many executors were made; an upper bound if the record's writer did not count.
    pub fn made(&self) -> CreatedCount {
        let most = || self.ended.len() + self.bound.len();
        CreatedCount::inherited(self.made.unwrap_or_else(most), self.bound.clone())
    }

    /// Reserves a block of ids from `from` on, unless it is reserved already. Returns whether the record changed.
    pub fn reserve(&mut self, from: ExecutorId, block: u64) -> bool {
        let end = Some(block_end(from, block));
        let changed = end > self.reserved;
        self.reserved = self.reserved.max(end);
        changed
    }

    /// The record as a ConfigMap. `replaces` has the uid and version of the current ConfigMap, the preconditions of the
    /// write.
    pub fn to_config_map(
        &self,
        place: &RecordPlace,
        replaces: Option<(&PodUid, &ResourceVersion)>,
    ) -> Value {
        let mut labels = recommended_labels(&self.app_id, &place.app_name, "record");
        labels.insert(
            place.labels.keys().app_id.to_owned(),
            self.app_id.as_str().into(),
        );
        let mut map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": record_name(&place.prefix),
                "namespace": place.namespace,
                "labels": labels,
            },
            "data": self.data(),
        });
        map["data"][key::APP_NAME] = place.app_name.trim().into();
        if let Some(owner) = &place.owner {
            map["metadata"]["ownerReferences"] = json!([owner]);
        }
        if let Some((uid, version)) = replaces {
            map["metadata"]["uid"] = uid.as_str().into();
            map["metadata"]["resourceVersion"] = version.to_string().into();
        }
        map
    }

    fn data(&self) -> Map<String, Value> {
        let mut data = Map::new();
        let mut put = |key: &str, text: String| data.insert(key.to_owned(), text.into());
        put(key::FORMAT, FORMAT.to_string());
        put(key::APP_ID, self.app_id.to_string());
        put(key::INCARNATION, self.incarnation.to_string());
        put(key::TARGETS, json!(self.targets).to_string());
        put(key::ENDED, intervals::text(&self.ended));
        put(key::BOUND, intervals::text(&self.bound));
        if !self.reported.is_empty() {
            put(key::REPORTED, intervals::text(&self.reported));
        }
        if !self.ends.is_empty() {
            put(key::ENDS, json!(self.ends).to_string());
        }
        put(key::BACKOFFS, json!(self.backoffs).to_string());
        if !self.profiles.is_empty() {
            put(key::PROFILES, json!(self.profiles).to_string());
        }
        if !self.profile_proofs.is_empty() {
            put(key::PROFILE_PROOFS, json!(self.profile_proofs).to_string());
        }
        if !self.removing.is_empty() {
            put(key::REMOVING, json!(self.removing).to_string());
        }
        if let Some(held) = &self.held {
            put(key::HELD, json!(held).to_string());
        }
        if let Some(holder) = &self.holder {
            put(key::HOLDER, holder.to_string());
        }
        if let Some(pod) = &self.holder_pod {
            put(key::HOLDER_POD, pod.to_string());
        }
        if let Some(origin) = &self.origin {
            put(key::ORIGIN, origin.to_string());
        }
        if let Some(reserved) = self.reserved {
            put(key::RESERVED, reserved.to_string());
        }
        if self.failures != KeptFailures::default() {
            put(key::FAILURES, json!(self.failures).to_string());
            put(key::COUNTED, intervals::text(&self.failures.counted));
        }
        if let Some(made) = self.made {
            put(key::MADE, made.to_string());
        }
        if let Some(code) = self.finished {
            put(key::FINISHED, code.to_string());
        }
        if let Some(why) = &self.finished_why {
            put(key::FINISHED_WHY, why.to_string());
        }
        data
    }

    /// Reads a record. Keys that an older format lacks are taken as empty, and unknown keys are ignored.
    ///
    /// # Errors
    /// If a newer program wrote the record, or a key is invalid or beyond its bound.
    pub fn read(map: &ConfigMap) -> Result<Self, RecordError> {
        let keys = Keys { map };
        let bytes: usize = map.data.values().map(String::len).sum();
        if bytes > MOST_BYTES {
            let why = format!("the record has {bytes} bytes, allowed are {MOST_BYTES}");
            return Err(keys.unreadable(key::ALL, why));
        }
        let format: u32 = keys
            .number(key::FORMAT)?
            .ok_or_else(|| keys.missing(key::FORMAT))?;
        if format > FORMAT {
            return Err(RecordError::Newer {
                map: map.name.clone(),
                found: format,
            });
        }
        if format == 0 {
            return Err(keys.unreadable(key::FORMAT, "there is no format 0".to_owned()));
        }
        let app_id = keys.get(key::APP_ID).filter(|id| !id.is_empty());
        if app_id.is_some_and(|id| id.len() > LONGEST_APP_ID) {
            let why = format!("longer than {LONGEST_APP_ID} characters");
            return Err(keys.unreadable(key::APP_ID, why));
        }
        let incarnation = keys.number(key::INCARNATION)?;
        let reserved = match keys.get(key::RESERVED) {
            None | Some("") => None,
            Some(text) => Some(
                ExecutorId::parse(text)
                    .map_err(|why| keys.unreadable(key::RESERVED, why.to_string()))?,
            ),
        };
        let mut record = Self {
            app_id: app_id.ok_or_else(|| keys.missing(key::APP_ID))?.into(),
            incarnation: Incarnation(incarnation.ok_or_else(|| keys.missing(key::INCARNATION))?),
            holder: keys.get(key::HOLDER).map(Arc::from),
            holder_pod: keys.get(key::HOLDER_POD).map(Arc::from),
            origin: keys.get(key::ORIGIN).map(Arc::from),
            targets: keys.json(key::TARGETS)?,
            held: keys.json(key::HELD)?,
            profiles: keys.json(key::PROFILES)?,
            profile_proofs: keys.json(key::PROFILE_PROOFS)?,
            removing: keys.json(key::REMOVING)?,
            reserved,
            ended: keys.intervals(key::ENDED)?,
            bound: keys.bound(key::BOUND)?,
            reported: keys.bound(key::REPORTED)?,
            ends: Vec::new(),
            backoffs: keys.json(key::BACKOFFS)?,
            failures: KeptFailures {
                counted: keys.intervals(key::COUNTED)?,
                ..keys.json(key::FAILURES)?
            },
            made: keys.number(key::MADE)?,
            finished: keys.number(key::FINISHED)?,
            finished_why: keys.get(key::FINISHED_WHY).map(Arc::from),
        };
        let Self {
            removing, profiles, ..
        } = &mut record;
        removing.retain(|profile| profiles.contains_key(profile));
        record.shorten();
        let reported = record.reported.clone();
        keys.ends()?.into_iter().for_each(|end| record.add_end(end));
        record.reported = reported;
        Ok(record)
    }

    /// As [`Record::read`], but also fails if the record belongs to another application.
    pub fn read_own(map: &ConfigMap, wanted: &AppId) -> Result<Self, RecordError> {
        let record = Self::read(map)?;
        if record.app_id == *wanted {
            return Ok(record);
        }
        Err(RecordError::AnotherApplication {
            map: map.name.clone(),
            found: record.app_id,
            wanted: wanted.clone(),
        })
    }
}

/// The last id of a block, which is shorter where the range of ids ends.
fn block_end(first: ExecutorId, block: u64) -> ExecutorId {
    let last = first.get().saturating_add(block.saturating_sub(1));
    ExecutorId::new(last).unwrap_or(ExecutorId::MAX)
}

#[cfg(test)]
mod tests;
