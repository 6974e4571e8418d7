//! Executes the script's faults against the simulated world, one at a time.

mod commands;
mod drivers;
mod pods;
mod record;
mod sets;

use tokio::time::Instant;

use crate::network::Down;
use crate::network_conditions::Weather;
use crate::script::{Back, Fault};
use crate::trace::say;
use crate::world::World;

pub use record::Tampered;

const QUOTA: &str = "pods";

impl World {
    /// Executes one fault.
    pub async fn befall(&mut self, fault: Fault) {
        if self.is_down() && needs_the_server(&fault) {
            say!("   nobody reaches the server");
            return;
        }
        match fault {
            Fault::Weather { weather, time } => {
                self.network.net().weather = weather;
                self.later(time, Fault::FairWeather);
            }
            Fault::FairWeather => self.network.net().weather = Weather::calm(),
            Fault::CutWatches => self.cluster.cut_watches().await,
            Fault::SilenceWatches => self.network.net().silence_watches(),
            Fault::TearWatches => self.network.net().tear_watches(),
            Fault::Compact { cut } => {
                self.cluster.compact().await;
                if cut {
                    self.cluster.cut_watches().await;
                }
            }
            Fault::Empty => self.lose_everything().await,
            // Such a backup would bring back a broken record that nothing repairs.
            Fault::Backup if self.tampered.is_some() => {}
            Fault::Backup => self.backup = Some(self.cluster.state().await),
            Fault::Restore => self.restore().await,
            Fault::Outage { silent, time, back } => {
                let down = if silent { Down::Silent } else { Down::Refusing };
                self.network.net().down = Some(down);
                match down {
                    Down::Silent => self.network.net().silence_watches(),
                    Down::Refusing => self.cluster.cut_watches().await,
                }
                self.later(time, Fault::Back(back));
            }
            Fault::Back(back) => self.come_back(back).await,
            Fault::Partition { time } => {
                if let Some(talk) = &mut self.talk {
                    talk.cut(true);
                    self.later(time, Fault::NoPartition);
                }
            }
            Fault::NoPartition => {
                if let Some(talk) = &mut self.talk {
                    talk.cut(false);
                }
            }
            Fault::Quota { pods, time } => {
                let code = self.hand.limit_pods(QUOTA, pods).await;
                say!("   a quota of {pods} pods: {code}");
                self.later(time, Fault::NoQuota);
            }
            Fault::NoQuota => {
                self.hand.lift_limit(QUOTA).await;
            }
            Fault::Webhook { what, time } => {
                self.network.net().webhook = Some(what);
                self.later(time, Fault::NoWebhook);
            }
            Fault::NoWebhook => {
                self.network.net().webhook = None;
                self.open_gates().await;
            }
            Fault::Ask { pick, count, what } => self.ask(pick, count, what).await,
            Fault::Resume => self.resume().await,
            Fault::Record { what, time } => self.tamper(what, time).await,
            Fault::MendRecord => self.mend_record().await,
            Fault::Scale { .. } | Fault::DropSet { .. } => self.befall_set(fault).await,
            fault if is_about_drivers(&fault) => self.befall_driver(fault).await,
            fault => self.befall_pods(fault).await,
        }
    }

    /// Schedules the fault that undoes a temporary one.
    pub fn later(&mut self, time: std::time::Duration, fault: Fault) {
        self.later.push((Instant::now() + time, fault));
    }

    /// Executes the undoing faults that are due.
    pub async fn undo(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.later.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, fault) in due {
            say!("-- {fault:?}");
            self.befall(fault).await;
        }
    }

    pub async fn undo_all(&mut self) {
        self.later.clear();
        self.befall(Fault::FairWeather).await;
        if self.is_down() {
            self.befall(Fault::Back(Back::Same)).await;
        }
        for fault in [
            Fault::NoQuota,
            Fault::NoWebhook,
            Fault::MendRecord,
            Fault::NoFinalizers,
        ] {
            self.befall(fault).await;
        }
        if self.script.is_of_sets() {
            self.befall(Fault::NoStrangers).await;
        }
        self.network.net().trap = None;
        self.node.calm();
        if let Some(talk) = &mut self.talk {
            talk.calm();
        }
    }

    /// Whether the API server is unreachable.
    pub fn is_down(&self) -> bool {
        self.network.net().down.is_some()
    }

    async fn lose_everything(&mut self) {
        self.cluster.empty().await;
        self.rewritten();
    }

    async fn restore(&mut self) {
        if let Some(backup) = self.backup.clone() {
            self.cluster.restore(backup).await;
            self.rewritten();
        }
    }

    async fn come_back(&mut self, back: Back) {
        self.network.net().down = None;
        match back {
            Back::Same => {}
            Back::Compacted => self.cluster.compact().await,
            Back::Older => self.restore().await,
            Back::Empty => self.lose_everything().await,
        }
    }

    fn rewritten(&mut self) {
        self.network.net().forget();
        self.checks.rewritten();
    }
}

/// Whether the fault is carried out through the API server.
fn needs_the_server(fault: &Fault) -> bool {
    !is_about_drivers(fault)
        && !matches!(
            fault,
            Fault::Weather { .. }
                | Fault::FairWeather
                | Fault::SilenceWatches
                | Fault::TearWatches
                | Fault::Back(_)
                | Fault::Outage { .. }
                | Fault::Partition { .. }
                | Fault::NoPartition
                | Fault::CrashLoop { .. }
                | Fault::Plague { .. }
        )
}

fn is_about_drivers(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Kill { .. }
            | Fault::KillAtRequest { .. }
            | Fault::KillAtTurn { .. }
            | Fault::HandOver { .. }
            | Fault::EndApplication { .. }
            | Fault::Reconfigure { .. }
            | Fault::Template { .. }
            | Fault::Second
            | Fault::Pause { .. }
            | Fault::Target { .. }
            | Fault::Ask { .. }
            | Fault::Resume
    )
}
