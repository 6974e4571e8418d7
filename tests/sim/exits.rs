//! Checks how drivers exit: on request and in time, or for a reason that the injected faults explain.

use std::time::Duration;

use boatswain::config::OnSignal;
use boatswain::exit::Exit;
use devcluster::State;
use tokio::time::Instant;

use crate::checks::{PREFIX, Verdict};
use crate::drivers::Driver;
use crate::network_conditions::RequestFault;
use crate::objects::{NAMESPACE, text};
use crate::trace::trace_line;
use crate::world::World;

/// Tolerance on top of the time that a driver may take to stop.
const STOP_TOLERANCE: Duration = Duration::from_secs(6);

/// The time between two lists of what an end has left.
const LIST_INTERVAL: Duration = Duration::from_secs(3);

struct DriverExit {
    number: usize,
    stop_requested: Option<(OnSignal, Instant)>,
    since: Instant,
    exit: Exit,
}

impl World {
    // spec: I-11, O-2, O-10, O-11, W-7, A-24
    pub fn check_exits(&mut self) -> Verdict {
        let mut exits = Vec::new();
        for driver in self.drivers.borrow_mut().iter_mut() {
            let (number, stop_requested, since) =
                (driver.number, driver.stop_requested, driver.since);
            exits.extend(driver.take_exit().map(|exit| DriverExit {
                number,
                stop_requested,
                since,
                exit,
            }));
        }
        for driver_exit in exits {
            let (number, exit) = (driver_exit.number, driver_exit.exit);
            trace_line!("d{number} exits: {exit:?}");
            let is_budget_exit = matches!(exit, Exit::Finished(code) if self.may_exit_with(code, number, driver_exit.since));
            if !is_budget_exit && !self.is_explained(&driver_exit) {
                return Err(format!(
                    "I-11: d{number} ended with {exit:?}, which no request or fault explains"
                ));
            }
            let on_signal = driver_exit.stop_requested.map(|(on_signal, _)| on_signal);
            if on_signal == Some(OnSignal::End) && exit == Exit::Clean {
                self.checks.application_ended();
                self.ended_clean = true;
                // The record of an application that another driver has ended meanwhile, and a later one begun anew, is
                // not this one's to delete (O-108).
                let is_its_record = self.ended_at.is_none_or(|at| at < driver_exit.since);
                self.ended_last = is_its_record.then_some((number, driver_exit.since));
                self.ended_at = Some(Instant::now());
            }
            self.superseded_at_end |= on_signal == Some(OnSignal::End)
                && exit == Exit::Superseded
                && self.checks.was_incarnation_raised_since(driver_exit.since);
            self.checks.driver_ended(number);
            self.checks.budget.driver_ended(number, self.last_fault);
        }
        self.check_stop_times()?;
        self.ensure_driver();
        Ok(())
    }

    /// A driver that has ended the application leaves no record, unless another driver or a restore has written it.
    // spec: O-10, O-108
    pub fn check_record_is_gone(&mut self, state: &State) -> Verdict {
        let Some((number, since)) = self.ended_last.take() else {
            return Ok(());
        };
        let alone = !self.drivers.borrow().iter().any(Driver::is_alive);
        let checks = &self.checks;
        let is_anothers = checks.was_history_replaced_since(since)
            || checks.was_record_unusable_since(since)
            || checks.was_record_deleted_since(since)
            || checks.has_another_taken_over_since(number, since);
        let mut records = state.config_maps(NAMESPACE);
        let record = records.any(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"));
        match record && alone && !is_anothers {
            true => Err(format!(
                "O-11: d{number} ended the application with exit code 0, and its record is left"
            )),
            false => Ok(()),
        }
    }

    fn is_explained(&self, driver_exit: &DriverExit) -> bool {
        let DriverExit {
            number,
            stop_requested,
            since,
            exit,
        } = *driver_exit;
        let on_signal = stop_requested.map(|(on_signal, _)| on_signal);
        let checks = &self.checks;
        let started = checks.last_ledger(number).is_some();
        let incarnation = checks.incarnation(number);
        let has_future_incarnation = checks.excuses.has_future_incarnation(incarnation);
        let had_fault = |wanted: &[RequestFault]| {
            let shared = self.network.shared();
            let injected = shared.injected_faults.get(&number);
            injected.is_some_and(|injected| wanted.iter().any(|fault| injected.contains(fault)))
        };
        match exit {
            Exit::Clean => on_signal == Some(OnSignal::End),
            Exit::Superseded => {
                on_signal == Some(OnSignal::HandOver)
                    || checks.is_superseded(number)
                    || checks.was_history_replaced_since(since)
                    || checks.has_outdated_incarnation(number)
                    || checks.was_incarnation_raised_since(since)
                    || checks.has_lost_a_later_incarnation(number)
                    || checks.may_be_overwritten_by_an_earlier_one(number, since)
                    || has_future_incarnation
            }
            Exit::Child(_) => false,
            // Its start failed, whatever it was told meanwhile.
            Exit::Unreachable
                if !started && self.network.shared().injected_faults.contains_key(&number) =>
            {
                true
            }
            Exit::Unreachable => match stop_requested {
                // Pods of a younger driver, or indistinguishable from such, are logged by name and left.
                Some((OnSignal::End, at)) => {
                    self.last_fault >= Some(at)
                        || has_future_incarnation
                        || checks.has_a_successor(number)
                }
                _ => checks.may_be_spent(number),
            },
            Exit::Rights => {
                had_fault(&[RequestFault::RbacDenied, RequestFault::Unauthorized])
                    && !checks.had_executor(number)
            }
            Exit::Configuration => {
                let kinds = [
                    RequestFault::Admission,
                    RequestFault::Webhook,
                    RequestFault::Invalid,
                    RequestFault::NamespaceTerminating,
                ];
                had_fault(&kinds) && !checks.had_executor(number)
                    || checks.was_record_unusable_since(since)
                    // An older driver of an application that started again under a new id.
                    || self.script.config.app.id.is_none()
                        && (checks.was_history_replaced_since(since)
                            || checks.was_application_ended_since(since)
                            || checks.was_record_deleted_since(since))
            }
            Exit::Usage | Exit::Refused | Exit::Bug | Exit::Finished(_) | Exit::Interrupted => {
                false
            }
        }
    }

    /// A driver that is requested to stop does so in time, whatever the network does.
    // spec: O-10, O-109
    fn check_stop_times(&self) -> Verdict {
        let config = &self.script.config;
        for driver in self.drivers.borrow().iter() {
            let Some((on_signal, at)) = driver
                .stop_requested
                .filter(|_| driver.is_alive() && !driver.paused)
            else {
                continue;
            };
            let limit = match on_signal {
                // One that keeps the record may go on deleting what is left (spec O-144).
                OnSignal::End if config.ha.lease => {
                    config.shutdown.grace + LIST_INTERVAL + config.cluster.request_timeout
                }
                OnSignal::End => config.shutdown.grace,
                // The driver may already be ending the application, which only the grace bounds.
                _ if self.checks.may_be_spent(driver.number) => config.shutdown.grace,
                // For the requests in flight, then for the record.
                _ => 2 * (config.cluster.request_timeout + Duration::from_secs(2)),
            };
            if at.elapsed() > limit + STOP_TOLERANCE {
                return Err(format!(
                    "O-11: d{} was requested to stop ({on_signal:?}) and has not",
                    driver.number
                ));
            }
        }
        Ok(())
    }
}
