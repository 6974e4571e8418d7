//! `boatswain reset`: lets a profile that has failed begin anew (spec L-41), or an application that has ended because it
//! had failed too often (spec O-131).

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::{Driver, tables};
use crate::cli::{complain, fail, wait_for};
use crate::driver::clean::{Cleaner, NotOpened, Place, exit_of};
use crate::exit::{Exit, OVER_BUDGET};

#[derive(Debug, Args)]
pub(in crate::cli) struct ResetArgs {
    #[command(flatten)]
    driver: Driver,
    /// Profile that has failed; without it, the application that --app names, which has ended with code 11
    #[arg(required_unless_present = "app")]
    profile: Option<String>,
}

pub(in crate::cli) fn reset(args: &ResetArgs) -> Exit {
    let place = args.driver.connection.in_cluster.place();
    match (&args.profile, place) {
        (Some(profile), _) => args.driver.ask(async |client| {
            let answer = json!(client.reset(profile).await?);
            Ok(args.driver.show(&answer, tables::targets))
        }),
        (None, Some(place)) => wait_for(reopen(args, place)),
        (None, None) => fail(Exit::Usage, "name a profile, or an application by --app"),
    }
}

async fn reopen(args: &ResetArgs, place: Place) -> Exit {
    let mut cleaner = match Cleaner::connect(place).await {
        Ok(cleaner) => cleaner,
        Err(error) => {
            let fix = "look at --kubeconfig and --context";
            return fail(Exit::Configuration, format_args!("{error}\n{fix}"));
        }
    };
    match cleaner.named().await {
        Ok(None) => {}
        Ok(Some(why)) => return fail(Exit::Refused, why),
        Err(failure) => return fail(exit_of(&failure), failure.explained()),
    }
    let wait = |holder: &str, patience: Duration| {
        let seconds = patience.as_secs();
        complain(format_args!(
            "{holder} holds the lease; whether it renews it is seen within {seconds} s"
        ));
    };
    let closed = match cleaner.closed(wait).await {
        Ok(closed) => closed,
        Err(NotOpened::Call(failure)) => return fail(exit_of(&failure), failure.explained()),
        Err(why) => return fail(Exit::Refused, why),
    };
    if let Err(failure) = cleaner.reopen(&closed).await {
        return fail(exit_of(&failure), failure.explained());
    }
    let app = cleaner.app_id().as_str();
    let answer = json!({"app": app, "exit_code": OVER_BUDGET, "why": closed.why});
    args.driver.show(&answer, tables::reopened)
}
