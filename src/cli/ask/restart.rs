//! `boatswain restart`: replaces executors, a few at a time (spec O-140).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use boatswain_client::{Client, ClientError, Decommission, Executor, Executors, Status};
use clap::Args;
use humantime::format_duration;
use tokio::time::{Instant, sleep};

use super::commands::{Which, Who, all, ids, which};
use super::{Connection, REFRESH_INTERVAL};
use crate::cli::{complain, fail, say};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(in crate::cli) struct RestartArgs {
    #[command(flatten)]
    connection: Connection,
    /// The executors: ids such as 4 or 1-3, or pods such as etl-exec-4 [default: all that live]
    #[arg(value_name = "EXECUTOR", value_parser = which)]
    executors: Vec<Which>,
    /// Replace only those of this profile
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How many executors of a profile may be missing at a time
    #[arg(long, value_name = "N", default_value = "1")]
    at_a_time: NonZeroU32,
    /// How long an executor may take to finish its work, such as 30s or 1h 30m [default: the
    /// driver's backend.decommission_timeout]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    within: Option<Duration>,
    /// Give up when nothing has changed for this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    who: Who,
}

pub(in crate::cli) fn restart(args: &RestartArgs) -> Exit {
    args.connection.ask(async |client| {
        let living = all(client).await?;
        let named = match ids(&args.executors, &living) {
            Ok(named) => BTreeSet::from_iter(named),
            Err(why) => return Ok(fail(Exit::Refused, why)),
        };
        let is_meant = |one: &&Executor| {
            (named.is_empty() || named.contains(&one.executor))
                && (args.profile.as_deref()).is_none_or(|profile| one.profile == profile)
        };
        let old: BTreeMap<u64, String> = (living.executors.iter().filter(is_meant))
            .map(|one| (one.executor, one.profile.clone()))
            .collect();
        if old.is_empty() {
            let of = (args.profile.as_ref()).map(|profile| format!(" of profile {profile}"));
            let of = of.unwrap_or_default();
            let why = format!("no such executor{of} lives\n`boatswain executors` lists them");
            return Ok(fail(Exit::Refused, why));
        }
        Restart::of(old, args.at_a_time).run(args, client).await
    })
}

/// Executors that are to be replaced.
struct Restart {
    /// Their ids and profiles.
    old: BTreeMap<u64, String>,
    /// Those that were told to leave; lists may show it later.
    told: BTreeSet<u64>,
    at_a_time: usize,
}

/// What is to be done now, and what is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Step {
    /// Who has to leave.
    now: Vec<u64>,
    /// Who stays until others have been replaced.
    later: usize,
    /// Who has not left yet.
    leaving: usize,
    /// How many executors are wanted and do not run.
    missing: usize,
}

impl Restart {
    fn of(old: BTreeMap<u64, String>, at_a_time: NonZeroU32) -> Self {
        Self {
            old,
            told: BTreeSet::new(),
            at_a_time: at_a_time.get() as usize,
        }
    }

    async fn run(&mut self, args: &RestartArgs, client: &Client) -> Result<Exit, ClientError> {
        let all_old = self.old.len();
        let (mut last, mut since) = (Step::default(), Instant::now());
        loop {
            let status = client.status().await?;
            if status.held.is_some() {
                let why = "the executors are held\n`boatswain resume` ends that";
                return Ok(fail(Exit::Refused, why));
            }
            let step = self.step(&status, &all(client).await?);
            if step == Step::default() {
                return Ok(say(format_args!("{all_old} executors were replaced")));
            }
            if step != last {
                (last, since) = (step.clone(), Instant::now());
            } else if since.elapsed() > args.timeout {
                let why = given_up(&step, args.timeout);
                return Ok(fail(Exit::Refused, why));
            }
            if !step.now.is_empty() {
                self.tell(args, client, &step.now).await?;
                let told = all_old - step.later;
                complain(format_args!("{told} of {all_old}: {:?}", step.now));
            }
            sleep(REFRESH_INTERVAL).await;
        }
    }

    async fn tell(
        &mut self,
        args: &RestartArgs,
        client: &Client,
        executors: &[u64],
    ) -> Result<(), ClientError> {
        let within = args.within.map(|time| format_duration(time).to_string());
        let body = Decommission {
            by: args.who.by.clone(),
            executors: executors.to_vec(),
            replace: Some(true),
            within,
        };
        client.decommission(&body).await?;
        self.told.extend(executors);
        Ok(())
    }

    /// Chooses who leaves now: of each profile the lowest ids, as many as may be missing.
    fn step(&self, status: &Status, living: &Executors) -> Step {
        let mut step = Step::default();
        let profiles: BTreeSet<&String> = self.old.values().collect();
        for name in profiles {
            let (leaving, staying): (Vec<&Executor>, Vec<&Executor>) = (living.executors.iter())
                .filter(|one| one.profile == *name)
                .partition(|one| one.state == "leaving" || self.told.contains(&one.executor));
            let is_old = |one: &&&Executor| self.old.contains_key(&one.executor);
            let wanted = status
                .profiles
                .get(name)
                .map_or(0, |profile| profile.target);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            let missing = wanted.saturating_sub(count_of_working(&staying));
            let mut olds = staying.iter().filter(is_old).map(|one| one.executor);
            let room = self.at_a_time.saturating_sub(missing);
            step.now.extend(olds.by_ref().take(room));
            step.later += olds.count();
            step.leaving += leaving.iter().filter(is_old).count();
            step.missing += missing;
        }
        step
    }
}

/// How many run, and have a session, if any of them has one.
fn count_of_working(executors: &[&Executor]) -> usize {
    let register = executors.iter().any(|one| one.session.is_some());
    let works = |one: &&&Executor| {
        let session = one.session.as_ref();
        one.state == "running"
            && (!register || session.is_some_and(|session| session.state != "disabled"))
    };
    executors.iter().filter(works).count()
}

fn given_up(step: &Step, timeout: Duration) -> String {
    let (later, leaving, missing) = (step.later + step.now.len(), step.leaving, step.missing);
    format!(
        "nothing has changed for {}: {later} executors are not replaced, {leaving} leave, {missing} are missing\n\
         `boatswain status` says what is waited for",
        format_duration(timeout)
    )
}

#[cfg(test)]
mod tests {
    use boatswain_client::{Profile, Session};

    use super::*;

    fn executor(id: u64, state: &str, session: Option<&str>) -> Executor {
        let session = session.map(|state| Session {
            state: state.to_owned(),
            ..Session::default()
        });
        Executor {
            executor: id,
            profile: "default".to_owned(),
            state: state.to_owned(),
            session,
            ..Executor::default()
        }
    }

    /// A restart of 1, 2 and 3, two at a time, of a profile that wants three.
    fn step(told: &[u64], living: Vec<Executor>) -> Step {
        let old = [1, 2, 3].map(|id| (id, "default".to_owned()));
        let mut restart = Restart::of(BTreeMap::from(old), NonZeroU32::new(2).unwrap());
        restart.told.extend(told);
        let default = Profile {
            target: 3,
            ..Profile::default()
        };
        let status = Status {
            profiles: BTreeMap::from([("default".to_owned(), default)]),
            ..Status::default()
        };
        restart.step(
            &status,
            &Executors {
                executors: living,
                ..Executors::default()
            },
        )
    }

    // spec: O-140
    #[test]
    fn no_more_leave_than_may_be_missing_and_the_next_when_their_replacements_work() {
        let runs = |id| executor(id, "running", None);
        let begin = step(&[], vec![runs(1), runs(2), runs(3)]);
        assert_eq!((&*begin.now, begin.later), (&[1, 2][..], 1));
        // The list is older than the order.
        let later = step(&[1, 2], vec![runs(1), runs(2), runs(3)]);
        assert_eq!((later.now.len(), later.leaving, later.missing), (0, 2, 2));
        let pending = executor(5, "pending", None);
        let one_is_back = step(
            &[1, 2],
            vec![executor(2, "leaving", None), runs(3), runs(4), pending],
        );
        assert_eq!((&*one_is_back.now, one_is_back.missing), (&[3][..], 1));
        let two_leave = step(
            &[1, 2, 3],
            vec![executor(3, "leaving", None), runs(4), runs(5), runs(6)],
        );
        assert_eq!((two_leave.now.len(), two_leave.leaving), (0, 1));
        let done = step(&[1, 2, 3], vec![runs(4), runs(5), runs(6)]);
        assert_eq!(done, Step::default());
    }

    // spec: O-140
    #[test]
    fn where_executors_register_one_without_a_session_is_missing() {
        let works = |id| executor(id, "running", Some("connected"));
        let (lost, new) = (
            executor(4, "running", Some("disabled")),
            executor(5, "running", None),
        );
        let waits = step(&[1, 2], vec![works(3), lost, new]);
        assert_eq!((waits.now.len(), waits.missing), (0, 2));
        let goes_on = step(&[1, 2], vec![works(3), works(4), works(5)]);
        assert_eq!(goes_on.now, [3]);
    }
}
