//! Injects faults into drivers: kills, pauses, hand-overs and changed configurations.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::config::OnSignal;
use boatswain::model::ProfileName;
use tokio::time::{Instant, timeout};

use crate::script::Fault;
use crate::world::{World, find};

impl World {
    pub(super) async fn befall_driver(&mut self, fault: Fault) {
        match fault {
            Fault::Kill { late } => {
                // A driver that is stopping may be killed as well.
                if let Some(number) = self.last_alive() {
                    self.starts.push(Instant::now() + late);
                    self.kill(number);
                }
            }
            Fault::KillAtRequest { requests, late } => {
                self.network.net().trap = Some(requests);
                self.starts.push(Instant::now() + late);
            }
            Fault::KillAtTurn { turns, late } => {
                if let Some(number) = self.last_alive()
                    && let Some(driver) = find(&mut self.fleet.borrow_mut(), number)
                {
                    driver.turns = Some(turns);
                    self.starts.push(Instant::now() + late);
                }
            }
            Fault::HandOver { late } => self.stop(OnSignal::HandOver, late),
            Fault::EndApplication { late } => self.stop(OnSignal::End, late),
            Fault::Reconfigure { pick } => {
                self.reconfigure(pick);
                self.stop(OnSignal::HandOver, Duration::ZERO);
            }
            Fault::Template { pick, image } => {
                self.change_template(pick, image);
                self.stop(OnSignal::HandOver, Duration::ZERO);
            }
            Fault::Second => self.start(),
            Fault::Pause { time } => {
                if let Some(number) = self.youngest()
                    && let Some(driver) = find(&mut self.fleet.borrow_mut(), number)
                {
                    driver.paused = true;
                    self.resumes.push((number, Instant::now() + time));
                }
            }
            Fault::Target { pick, target } => self.set_target(pick, target).await,
            _ => {}
        }
    }

    fn stop(&mut self, way: OnSignal, late: Duration) {
        if let Some(number) = self.youngest() {
            self.starts.push(Instant::now() + late);
            self.tell_to_stop(number, way);
        }
    }

    /// Removes a profile from the configuration of later drivers, or restores it.
    fn reconfigure(&mut self, pick: u64) {
        let profiles = &mut self.script.config.profiles;
        let all = self.profiles.len();
        let Some((name, profile)) = self.profiles.iter().nth(pick as usize % all) else {
            return;
        };
        self.checks.excuses.retargeted.insert(name.clone());
        if profiles.remove(name).is_none() || profiles.is_empty() {
            profiles.insert(name.clone(), profile.clone());
        }
    }

    async fn set_target(&mut self, pick: u64, target: u32) {
        let profiles = &self.script.config.profiles;
        let profile = profiles.keys().nth(pick as usize % profiles.len()).cloned();
        let (Some(profile), Some(number)) = (profile, self.youngest()) else {
            return;
        };
        let runs = self.checks.last(number).is_some();
        let handle = find(&mut self.fleet.borrow_mut(), number)
            .filter(|driver| runs && !driver.paused)
            .map(|driver| driver.handle.clone());
        if let Some(handle) = handle {
            self.checks.excuses.retargeted.insert(profile.clone());
            self.checks.target(&profile, target);
            let targets: BTreeMap<ProfileName, u32> = [(profile, target)].into();
            // A driver that is about to end does not answer.
            let _ = timeout(Duration::from_secs(1), handle.set_targets(targets)).await;
        }
    }
}
