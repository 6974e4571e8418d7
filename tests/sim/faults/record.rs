//! Edits, deletes and repairs the application record, as an operator might.

use std::time::Duration;

use serde_json::{Value, json};

use crate::checks::PREFIX;
use crate::objects::{NAMESPACE, is_executor, text};
use crate::script::{Fault, RecordEdit};
use crate::trace::trace_line;
use crate::world::World;

/// The id of another application, in an edited record.
const ANOTHER: &str = "another";

/// The record's data before and after an edit that made it unusable for drivers.
pub struct UnusableRecord {
    before: Value,
    after: Value,
}

impl World {
    pub(super) async fn edit_record(&mut self, what: RecordEdit, time: Duration) {
        let name = format!("{PREFIX}-app");
        let Some(before) = self
            .record_data()
            .await
            .filter(|_| self.unrepaired_record.is_none())
        else {
            return;
        };
        if what == RecordEdit::AnotherApplication && self.another_has_executors().await {
            return;
        }
        let incarnation: u64 = text(&before, "/incarnation").parse().unwrap_or(0);
        let raised = (incarnation + 3).to_string();
        let code = match what {
            RecordEdit::Delete => self.client.delete_config_map(&name, "Background").await,
            RecordEdit::Orphan => self.client.delete_config_map(&name, "Orphan").await,
            RecordEdit::RaiseIncarnation => self.write(json!({"incarnation": raised})).await,
            RecordEdit::InvalidData => self.write(json!({"incarnation": "many"})).await,
            RecordEdit::RemoveData => self.write(Value::Null).await,
            RecordEdit::NewerFormat => self.write(json!({"format": "99"})).await,
            RecordEdit::AnotherApplication => self.write(json!({"app-id": ANOTHER})).await,
            RecordEdit::AddLabel => {
                let labels = json!({"metadata": {"labels": {"example.com/seen": "yes"}}});
                self.client.patch_config_map(&name, &labels).await
            }
        };
        trace_line!("   {what:?} of the record: {code}");
        self.checks.note_record_edit(what);
        let after = self.record_data().await;
        self.unrepaired_record = match what {
            RecordEdit::InvalidData
            | RecordEdit::RemoveData
            | RecordEdit::NewerFormat
            | RecordEdit::AnotherApplication => Some(UnusableRecord {
                before,
                after: after.unwrap_or_default(),
            }),
            RecordEdit::Delete
            | RecordEdit::Orphan
            | RecordEdit::RaiseIncarnation
            | RecordEdit::AddLabel => None,
        };
        self.undo_after(time, Fault::RepairRecord);
    }

    /// Restores the record's data unless a driver has written since.
    pub(super) async fn repair_record(&mut self) {
        let Some(UnusableRecord { before, after }) = self.unrepaired_record.take() else {
            return;
        };
        if self.record_data().await.is_some_and(|now| now == after) {
            let code = self.write(before).await;
            trace_line!("   the record is repaired: {code}");
        }
        self.checks.note_record_repair();
    }

    /// Whether executors are left from an earlier edit like this. Their own record would know them; this one, which
    /// knows the executors of this application, would not.
    async fn another_has_executors(&self) -> bool {
        let state = self.cluster.state().await;
        state.pods(NAMESPACE).any(|pod| {
            is_executor(pod, ANOTHER, self.script.is_of_sets())
                && !(self.checks.excuses.foreign).contains(text(pod, "/metadata/uid"))
        })
    }

    async fn write(&self, data: Value) -> u16 {
        let name = format!("{PREFIX}-app");
        let patch = json!({"data": data});
        self.client.patch_config_map(&name, &patch).await
    }

    /// The record's data; `None` if there is no record.
    async fn record_data(&self) -> Option<Value> {
        let state = self.cluster.state().await;
        let record = (state.config_maps(NAMESPACE))
            .find(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"))?;
        Some(record.get("data").cloned().unwrap_or_default())
    }
}
