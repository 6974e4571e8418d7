//! Checks how drivers exit: on request and in time, or for a reason that the injected faults explain.

use std::time::Duration;

use boatswain::config::OnSignal;
use boatswain::exit::Exit;
use tokio::time::Instant;

use crate::checks::Verdict;
use crate::network_conditions::Ill;
use crate::trace::say;
use crate::world::World;

/// Tolerance on top of the time that a driver may take to stop.
const MARGIN: Duration = Duration::from_secs(6);

struct Ended {
    number: usize,
    told: Option<(OnSignal, Instant)>,
    since: Instant,
    exit: Exit,
}

impl World {
    // spec: I-11, O-2, O-10, O-11, W-7, A-24
    pub fn see_exits(&mut self) -> Verdict {
        let mut exits = Vec::new();
        for driver in self.fleet.borrow_mut().iter_mut() {
            let (number, told, since) = (driver.number, driver.told, driver.since);
            exits.extend(driver.take_exit().map(|exit| Ended {
                number,
                told,
                since,
                exit,
            }));
        }
        for ended in exits {
            let (number, exit) = (ended.number, ended.exit);
            say!("d{number} exits: {exit:?}");
            let over = matches!(exit, Exit::Finished(code) if self.may_end_with(code, ended.since));
            if !over && !self.is_scripted(&ended) {
                return Err(format!(
                    "I-11: d{number} ended with {exit:?}, and nobody had asked for it"
                ));
            }
            let way = ended.told.map(|(way, _)| way);
            if way == Some(OnSignal::End) && exit == Exit::Clean {
                self.checks.application_ended();
                self.ended_clean = true;
            }
            self.checks.over(number);
            self.checks.budget.driver_over(number, self.last_trouble);
        }
        self.ends_in_time()?;
        self.keep_one_alive();
        Ok(())
    }

    fn is_scripted(&self, ended: &Ended) -> bool {
        let Ended {
            number,
            told,
            since,
            exit,
        } = *ended;
        let way = told.map(|(way, _)| way);
        let checks = &self.checks;
        let started = checks.last(number).is_some();
        let refused = |ills: &[Ill]| {
            let net = self.network.net();
            let dealt = net.refused.get(&number);
            dealt.is_some_and(|dealt| ills.iter().any(|ill| dealt.contains(ill)))
        };
        match exit {
            // A driver that is stopped before it has started has nothing to do.
            Exit::Clean => way == Some(OnSignal::End) || told.is_some() && !started,
            Exit::Superseded => {
                way == Some(OnSignal::HandOver)
                    || checks.is_superseded(number)
                    || checks.was_rewritten_since(since)
                    || checks.is_outnumbered(number)
                    || checks.was_raised_since(since)
            }
            Exit::Child(_) => false,
            Exit::Unreachable => match told {
                // Pods of a younger driver, or indistinguishable from such, are logged by name and left.
                Some((OnSignal::End, at)) => {
                    self.last_trouble >= Some(at)
                        || !checks.excuses.unborn.is_empty()
                        || checks.has_a_successor(number)
                }
                _ if checks.budget.may_be_spent() => true,
                _ => !started && self.network.net().refused.contains_key(&number),
            },
            Exit::Rights => {
                refused(&[Ill::Rights, Ill::Credentials]) && !checks.had_an_executor(number)
            }
            Exit::Configuration => {
                let kinds = [
                    Ill::Admission,
                    Ill::Webhook,
                    Ill::Invalid,
                    Ill::NamespaceTerminating,
                ];
                refused(&kinds) && !checks.had_an_executor(number)
                    || checks.was_garbled_since(since)
                    // An older driver of an application that started again under a new id.
                    || self.script.config.app.id.is_none()
                        && (checks.was_rewritten_since(since)
                            || checks.was_ended_since(since)
                            || checks.was_deleted_since(since))
            }
            Exit::Usage | Exit::Refused | Exit::Bug | Exit::Finished(_) | Exit::Interrupted => {
                false
            }
        }
    }

    /// A driver that is asked to stop does so in time, whatever the network does.
    // spec: O-10, O-11
    fn ends_in_time(&self) -> Verdict {
        let config = &self.script.config;
        for driver in self.fleet.borrow().iter() {
            let Some((way, at)) = driver.told.filter(|_| driver.is_alive() && !driver.paused)
            else {
                continue;
            };
            let most = match way {
                OnSignal::End => config.shutdown.grace,
                // The driver may already be ending the application, which only the grace bounds.
                _ if self.checks.budget.may_be_spent() => config.shutdown.grace,
                // For the requests in flight, then for the record.
                _ => 2 * (config.cluster.request_timeout + Duration::from_secs(2)),
            };
            if at.elapsed() > most + MARGIN {
                return Err(format!(
                    "O-11: d{} was told to stop ({way:?}) and has not",
                    driver.number
                ));
            }
        }
        Ok(())
    }
}
