//! Edits and deletes the application record, as a careless operator might.

use std::time::Duration;

use serde_json::{Value, json};

use crate::checks::PREFIX;
use crate::objects::{NAMESPACE, text};
use crate::script::{Fault, Tampering};
use crate::trace::say;
use crate::world::World;

/// The record's data before and after an edit that made it unusable for drivers.
pub struct Tampered {
    before: Value,
    after: Value,
}

impl World {
    pub(super) async fn tamper(&mut self, what: Tampering, time: Duration) {
        let name = format!("{PREFIX}-app");
        let Some(before) = self.record_data().await.filter(|_| self.tampered.is_none()) else {
            return;
        };
        let incarnation: u64 = text(&before, "/incarnation").parse().unwrap_or(0);
        let raised = (incarnation + 3).to_string();
        let code = match what {
            Tampering::Delete => self.hand.delete_config_map(&name, "Background").await,
            Tampering::Orphan => self.hand.delete_config_map(&name, "Orphan").await,
            Tampering::Raise => self.write(json!({"incarnation": raised})).await,
            Tampering::Nonsense => self.write(json!({"incarnation": "many"})).await,
            Tampering::Empty => self.write(Value::Null).await,
            Tampering::NewerFormat => self.write(json!({"format": "99"})).await,
            Tampering::AnotherApplication => self.write(json!({"app-id": "another"})).await,
            Tampering::Touch => {
                let labels = json!({"metadata": {"labels": {"example.com/seen": "yes"}}});
                self.hand.patch_config_map(&name, &labels).await
            }
        };
        say!("   {what:?} of the record: {code}");
        self.checks.tampered(what);
        let after = self.record_data().await;
        self.tampered = match what {
            Tampering::Nonsense
            | Tampering::Empty
            | Tampering::NewerFormat
            | Tampering::AnotherApplication => Some(Tampered {
                before,
                after: after.unwrap_or_default(),
            }),
            Tampering::Delete | Tampering::Orphan | Tampering::Raise | Tampering::Touch => None,
        };
        self.later(time, Fault::MendRecord);
    }

    /// Restores the record's data unless a driver has written since.
    pub(super) async fn mend_record(&mut self) {
        let Some(Tampered { before, after }) = self.tampered.take() else {
            return;
        };
        if self.record_data().await.is_some_and(|now| now == after) {
            let code = self.write(before).await;
            say!("   the record is mended: {code}");
        }
        self.checks.mended();
    }

    async fn write(&self, data: Value) -> u16 {
        let name = format!("{PREFIX}-app");
        let patch = json!({"data": data});
        self.hand.patch_config_map(&name, &patch).await
    }

    /// The record's data; `None` if there is no record.
    async fn record_data(&self) -> Option<Value> {
        let state = self.cluster.state().await;
        let record = (state.config_maps(NAMESPACE))
            .find(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"))?;
        Some(record.get("data").cloned().unwrap_or_default())
    }
}
