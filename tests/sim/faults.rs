//! Executes the script's faults against the simulated world, one at a time.

pub mod commands;
mod drivers;
mod pods;
mod record;
mod sets;

use std::time::Duration;

use tokio::time::Instant;

use crate::network::Outage;
use crate::network_conditions::NetworkConditions;
use crate::node::NODE_NAMES;
use crate::script::{Fault, Recovery};
use crate::trace::trace_line;
use crate::world::World;

pub use record::UnusableRecord;

const QUOTA: &str = "pods";

impl World {
    /// Executes one fault.
    pub async fn inject(&mut self, fault: Fault) {
        if self.is_down() && needs_the_server(&fault) {
            trace_line!("   the server is unreachable");
            return;
        }
        match fault {
            Fault::Network { conditions, time } => {
                self.network.shared().conditions = conditions;
                self.undo_after(time, Fault::RestoreNetwork);
            }
            Fault::RestoreNetwork => {
                // The driver may have taken calls that failed for an outage (spec W-8).
                self.outage_ended = Some(Instant::now());
                self.network.shared().conditions = NetworkConditions::faultless()
            }
            Fault::CutWatches => self.cluster.cut_watches().await,
            Fault::SilenceWatches => {
                self.expected.watches_fall_silent();
                self.network.shared().silence_watches()
            }
            Fault::BreakWatches => self.network.shared().break_watches(),
            Fault::Compact { cut } => {
                self.cluster.compact().await;
                if cut {
                    self.cluster.cut_watches().await;
                }
            }
            Fault::Wipe => self.wipe().await,
            // Such a backup would bring back a broken record that nothing repairs.
            Fault::Backup if self.unrepaired_record.is_some() => {}
            Fault::Backup => self.backup = Some(self.cluster.state().await),
            Fault::Restore => self.restore().await,
            Fault::Outage {
                silent,
                time,
                recovery,
            } => {
                self.begin_outage(silent).await;
                self.undo_after(time, Fault::EndOutage(recovery));
            }
            Fault::EndOutage(recovery) => self.end_outage(recovery).await,
            Fault::Partition { time } => self.partition(Some(time)),
            Fault::EndPartition => self.partition(None),
            Fault::RefuseDeletes { time } => {
                self.network.shared().refuses_deletes = true;
                self.undo_after(time, Fault::AllowDeletes);
            }
            Fault::AllowDeletes => self.network.shared().refuses_deletes = false,
            Fault::Quota { pods, claims, time } => {
                let code = self.client.create_quota(QUOTA, pods, claims).await;
                trace_line!("   a quota of {pods} pods and {claims} claims: {code}");
                self.undo_after(time, Fault::RemoveQuota);
            }
            Fault::RemoveQuota => {
                self.client.delete_quota(QUOTA).await;
            }
            Fault::Webhook { what, time } => {
                self.network.shared().webhook = Some(what);
                self.undo_after(time, Fault::RemoveWebhook);
            }
            Fault::RemoveWebhook => {
                self.network.shared().webhook = None;
                self.remove_gates().await;
            }
            Fault::RotateKeys => self.issuer.rotate(),
            Fault::WithholdKeys { code, time } => {
                self.issuer.withhold(Some(code));
                time.into_iter()
                    .for_each(|time| self.undo_after(time, Fault::PublishKeys));
            }
            Fault::PublishKeys => self.issuer.withhold(None),
            Fault::ExpireToken { late } => self.expire_token(late),
            Fault::RewriteToken => self.rewrite_token(),
            Fault::Command { pick, count, what } => self.send_command(pick, count, what).await,
            Fault::Resume => self.resume().await,
            Fault::EditRecord { what, time } => self.edit_record(what, time).await,
            Fault::RepairRecord => self.repair_record().await,
            Fault::ScaleSet { .. } | Fault::DeleteSet { .. } => self.inject_set_fault(fault).await,
            fault if concerns_drivers(&fault) => self.inject_driver_fault(fault).await,
            fault => self.inject_pod_fault(fault).await,
        }
    }

    /// Executors cannot reach the driver for this long, or can again.
    fn partition(&mut self, time: Option<Duration>) {
        let Some(sessions) = &mut self.sessions else {
            return;
        };
        sessions.set_partitioned(time.is_some());
        if let Some(time) = time {
            self.undo_after(time, Fault::EndPartition);
        }
    }

    async fn begin_outage(&mut self, silent: bool) {
        self.network.shared().called_in_outage.clear();
        if silent {
            self.network.shared().outage = Some(Outage::Silent);
            self.network.shared().silence_watches();
        } else {
            self.network.shared().outage = Some(Outage::Refusing);
            self.cluster.cut_watches().await;
        }
    }

    /// Schedules the fault that undoes a temporary one.
    pub fn undo_after(&mut self, time: Duration, fault: Fault) {
        self.pending_undos.push((Instant::now() + time, fault));
    }

    /// Executes the undoing faults that are due.
    pub async fn undo(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self
            .pending_undos
            .extract_if(.., |(at, _)| *at <= now)
            .collect();
        for (_, fault) in due {
            if self.is_down() && matches!(fault, Fault::RepairRecord) {
                // Nobody can repair it now. Without a repair each driver would end at once, for hours.
                self.undo_after(Duration::from_secs(1), fault);
                continue;
            }
            trace_line!("-- {fault:?}");
            self.excuse_watch(&fault);
            self.inject(fault).await;
        }
    }

    pub async fn undo_all(&mut self) {
        let withheld = |(_, fault): &(Instant, Fault)| *fault == Fault::PublishKeys;
        if self.pending_undos.iter().any(withheld) {
            self.issuer.withhold(None);
        }
        self.pending_undos.clear();
        self.inject(Fault::RestoreNetwork).await;
        if self.is_down() {
            self.inject(Fault::EndOutage(Recovery::Unchanged)).await;
        }
        for fault in [
            Fault::RewriteToken,
            Fault::AllowDeletes,
            Fault::RemoveQuota,
            Fault::RemoveWebhook,
            Fault::RepairRecord,
            Fault::RemoveFinalizers,
        ] {
            self.inject(fault).await;
        }
        if self.script.is_of_sets() {
            self.inject(Fault::DeleteUnrecognised).await;
        }
        self.network.shared().kill_countdown = None;
        self.nodes.end_faults();
        if let Some(sessions) = &mut self.sessions {
            sessions.end_faults();
        }
    }

    /// Whether the API server is unreachable.
    pub fn is_down(&self) -> bool {
        self.network.shared().outage.is_some()
    }

    async fn wipe(&mut self) {
        self.cluster.empty().await;
        self.replace_history();
    }

    async fn restore(&mut self) {
        if let Some(backup) = self.backup.clone() {
            self.cluster.restore(backup).await;
            self.replace_history();
        }
    }

    async fn end_outage(&mut self, recovery: Recovery) {
        let outage = self.network.shared().outage.take();
        self.expect_watch_after(outage, recovery);
        match recovery {
            Recovery::Unchanged => {}
            Recovery::Compacted => self.cluster.compact().await,
            Recovery::Restored => self.restore().await,
            Recovery::Wiped => self.wipe().await,
        }
    }

    fn replace_history(&mut self) {
        // Until the nodes are written again, drivers see none, or those of another time.
        let nodes = NODE_NAMES.map(str::to_owned);
        self.checks.excuses.leaving_nodes.extend(nodes);
        self.network.shared().forget_states();
        self.checks.history_replaced();
        self.expected.history_replaced();
    }
}

/// Whether the fault is carried out through the API server.
fn needs_the_server(fault: &Fault) -> bool {
    !concerns_drivers(fault)
        && !matches!(
            fault,
            Fault::Network { .. }
                | Fault::RestoreNetwork
                | Fault::RefuseDeletes { .. }
                | Fault::AllowDeletes
                | Fault::WithholdKeys { .. }
                | Fault::PublishKeys
                | Fault::SilenceWatches
                | Fault::BreakWatches
                | Fault::EndOutage(_)
                | Fault::Outage { .. }
                | Fault::ExpireToken { .. }
                | Fault::RewriteToken
                | Fault::Partition { .. }
                | Fault::EndPartition
                | Fault::CrashLoop { .. }
                | Fault::Startup { .. }
        )
}

fn concerns_drivers(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Kill { .. }
            | Fault::KillAtRequest { .. }
            | Fault::KillAtPoll { .. }
            | Fault::HandOver { .. }
            | Fault::EndApplication { .. }
            | Fault::Reconfigure { .. }
            | Fault::ChangeImage { .. }
            | Fault::StopAgain { .. }
            | Fault::SecondDriver
            | Fault::StartAndStop { .. }
            | Fault::Pause { .. }
            | Fault::Target { .. }
            | Fault::Command { .. }
            | Fault::Resume
    )
}
