//! Injects faults into drivers: kills, pauses, hand-overs and changed configurations.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::config::OnSignal;
use boatswain::model::ProfileName;
use tokio::time::{Instant, timeout};

use crate::script::Fault;
use crate::world::{World, find_driver};

impl World {
    pub(super) async fn inject_driver_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Kill { restart_after } => {
                // A driver that is stopping may be killed as well.
                if let Some(number) = self.last_alive() {
                    self.starts.push(Instant::now() + restart_after);
                    self.kill(number);
                }
            }
            Fault::KillAtRequest {
                requests,
                restart_after,
            } => {
                self.network.shared().kill_countdown = Some(requests);
                self.starts.push(Instant::now() + restart_after);
            }
            Fault::KillAtPoll {
                polls,
                restart_after,
            } => {
                if let Some(number) = self.last_alive()
                    && let Some(driver) = find_driver(&mut self.drivers.borrow_mut(), number)
                {
                    driver.polls_left = Some(polls);
                    self.starts.push(Instant::now() + restart_after);
                }
            }
            Fault::HandOver { restart_after } => self.stop(OnSignal::HandOver, restart_after),
            Fault::EndApplication { restart_after } => self.stop(OnSignal::End, restart_after),
            Fault::Reconfigure { pick } => {
                self.reconfigure(pick);
                self.stop(OnSignal::HandOver, Duration::ZERO);
            }
            Fault::ChangeImage { pick, image } => {
                self.change_image(pick, image);
                self.stop(OnSignal::HandOver, Duration::ZERO);
            }
            Fault::StopAgain { end } => {
                let on_signal = match end {
                    true => OnSignal::End,
                    false => OnSignal::HandOver,
                };
                for driver in self.drivers.borrow().iter() {
                    if driver.is_alive() && driver.stop_requested.is_some() {
                        driver.handle.stop_by(on_signal);
                    }
                }
            }
            Fault::SecondDriver => self.start(),
            Fault::StartAndStop {
                polls,
                end,
                restart_after,
            } => {
                let on_signal = match end {
                    true => OnSignal::End,
                    false => OnSignal::HandOver,
                };
                self.starts.push(Instant::now() + restart_after);
                // A successor of a driver that still runs is no end of its executors.
                if let Some(number) = self.last_alive().filter(|_| end) {
                    self.kill(number);
                }
                let before = self.drivers.borrow().len();
                self.start();
                if let Some(driver) = self.drivers.borrow_mut().get_mut(before) {
                    driver.stop_after_polls = Some((polls, on_signal));
                }
            }
            Fault::Pause { time } => {
                if let Some(number) = self.youngest()
                    && let Some(driver) = find_driver(&mut self.drivers.borrow_mut(), number)
                {
                    driver.paused = true;
                    self.resumes.push((number, Instant::now() + time));
                }
            }
            Fault::Target { pick, target } => self.set_target(pick, target).await,
            _ => {}
        }
    }

    fn stop(&mut self, on_signal: OnSignal, restart_after: Duration) {
        if let Some(number) = self.youngest() {
            self.starts.push(Instant::now() + restart_after);
            self.request_stop(number, on_signal);
        }
    }

    /// Removes a profile from the configuration of later drivers, or restores it.
    fn reconfigure(&mut self, pick: u64) {
        let profiles = &mut self.script.config.profiles;
        let all = self.profiles.len();
        let Some((name, profile)) = self.profiles.iter().nth(pick as usize % all) else {
            return;
        };
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
        let runs = self.checks.last_ledger(number).is_some();
        let handle = find_driver(&mut self.drivers.borrow_mut(), number)
            .filter(|driver| runs && !driver.paused)
            .map(|driver| driver.handle.clone());
        if let Some(handle) = handle {
            self.checks.target(&profile, target);
            let targets: BTreeMap<ProfileName, u32> = [(profile, target)].into();
            // A driver that is about to end does not answer.
            let _ = timeout(Duration::from_secs(1), handle.set_targets(targets)).await;
        }
    }
}
