//! What has to hold for the two applications and the other pods.

use std::time::Duration;

use boatswain::exit::Exit;
use tokio::time::{Instant, timeout};

use super::wire::Owner;
use super::{Application, MOST_ENTRIES, MOST_EXECUTORS, RESTART_DELAY, World, pods, record};
use crate::checks::Verdict;
use crate::objects::{NAMESPACE, is_terminating, label, text};
use crate::trace::trace_line;

impl World {
    /// A driver of the first application ends only for a reason that the record can give. The second one's does not end
    /// by itself.
    // spec: I-11, O-98
    pub(super) fn check_exits(&mut self) -> Verdict {
        let mut drivers = self.drivers.borrow_mut();
        for application in [&mut self.first, &mut self.second] {
            let Some(driver) = application.driver.and_then(|n| drivers.get_mut(n - 1)) else {
                continue;
            };
            let stop = driver.stop_requested.is_some();
            let Some(exit) = driver.take_exit() else {
                continue;
            };
            trace_line!("d{} exits with {exit:?}", driver.number);
            application.last_exit = Some(exit);
            let explained = match exit {
                Exit::Clean | Exit::Superseded if stop => true,
                Exit::Configuration | Exit::Superseded | Exit::Finished(_) => {
                    application.owner == Owner::First
                }
                _ => false,
            };
            if !explained {
                return Err(format!("I-11: d{} ended with {exit:?}", driver.number));
            }
            if exit != Exit::Clean {
                application.starts_at = Some(Instant::now() + RESTART_DELAY);
            }
        }
        Ok(())
    }

    // spec: I-8, O-12, O-98, L-34
    pub(super) async fn check_ledgers(&self) -> Verdict {
        let handles: Vec<_> = (self.drivers.borrow().iter())
            .filter(|driver| driver.is_alive())
            .map(|driver| (driver.number, driver.handle.clone()))
            .collect();
        for (number, handle) in handles {
            let Ok(ledger) = timeout(Duration::from_secs(1), handle.look()).await else {
                return Err(format!("O-12: d{number} does not answer"));
            };
            let Some(ledger) = ledger else { continue };
            if ledger.entries.len() > MOST_ENTRIES {
                let entries = ledger.entries.len();
                return Err(format!("I-8: d{number} has {entries} executors"));
            }
            for (profile, target) in &ledger.targets {
                let wanted = target.executors;
                if profile.as_str() != "default" || wanted > MOST_EXECUTORS {
                    return Err(format!("O-30: d{number} wants {wanted} of {profile}"));
                }
            }
        }
        Ok(())
    }

    /// No application has more executors than it may have, but for those that it is about to delete.
    // spec: I-3
    pub(super) async fn check_pods(&self) -> Verdict {
        let state = self.cluster.state().await;
        for application in [&self.first, &self.second] {
            let id = record(&state, application.prefix)
                .map(|record| text(record, "/data/app-id").to_owned());
            let count = pods(&state, application.prefix)
                .filter(|pod| Some(label(pod, "boatswain.dev/app-id")) == id.as_deref())
                .filter(|pod| !is_terminating(pod))
                .filter(|pod| !self.bystanders.contains_key(text(pod, "/metadata/name")))
                .count();
            if count > 2 * MOST_EXECUTORS as usize {
                return Err(format!("I-3: {:?} has {count} pods", application.owner));
            }
        }
        Ok(())
    }

    /// Exactly the wanted executors run.
    // spec: I-4
    pub(super) async fn check_converged(&self, application: &Application) -> Verdict {
        let state = self.cluster.state().await;
        let owner = application.owner;
        let Some(record) = record(&state, application.prefix) else {
            return Err(format!("O-30: {owner:?} has no record"));
        };
        let id = text(record, "/data/app-id");
        let own: Vec<_> = pods(&state, application.prefix)
            .filter(|pod| label(pod, "boatswain.dev/app-id") == id)
            .filter(|pod| !self.bystanders.contains_key(text(pod, "/metadata/name")))
            .collect();
        let run = (own.iter())
            .filter(|pod| text(pod, "/status/phase") == "Running" && !is_terminating(pod))
            .count();
        let wanted = application.executors;
        match own.len() == run && run == wanted {
            true => Ok(()),
            false => Err(format!(
                "I-4: {owner:?} has {} pods, of which {run} run, instead of {wanted}",
                own.len()
            )),
        }
    }

    // spec: I-7
    pub(super) async fn check_bystanders(&self) -> Verdict {
        let state = self.cluster.state().await;
        for (name, uid) in &self.bystanders {
            let pod = state.pod(NAMESPACE, name);
            if pod.is_none_or(|pod| text(pod, "/metadata/uid") != uid || is_terminating(pod)) {
                return Err(format!("I-7: pod {name} is gone, which is no executor"));
            }
        }
        Ok(())
    }
}
