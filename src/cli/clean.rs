//! `boatswain clean`: lists and deletes what an application left behind (spec O-33).

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use clap_complete::ArgValueCandidates;

use super::generate::applications;
use super::place::PlaceArgs;
use super::{complain, fail, say, wait_for};
use crate::driver::applications::NotNamed;
use crate::driver::clean::{Alive, Cleaner, Found, Outcome, exit_of, is_app_id};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct CleanArgs {
    /// Application, by its id, as in the label boatswain.dev/app-id or spark-app-selector, or by its name
    #[arg(long, value_name = "APP", value_parser = NonEmptyStringValueParser::new(),
          add = ArgValueCandidates::new(applications))]
    app: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Delete without asking; without it, and without a terminal to ask on, nothing is deleted
    #[arg(long, short)]
    yes: bool,
    /// Delete although a driver lives, or may live
    #[arg(long)]
    force: bool,
    /// How long the deletion may take
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

pub(super) fn clean(args: &CleanArgs) -> Exit {
    wait_for(look_and_delete(args))
}

async fn look_and_delete(args: &CleanArgs) -> Exit {
    let place = args.place.of(args.app.clone());
    let mut cleaner = match Cleaner::connect(place).await {
        Ok(cleaner) => cleaner,
        Err(error) => {
            let fix = "look at --kubeconfig and --context";
            return fail(Exit::Configuration, format_args!("{error}\n{fix}"));
        }
    };
    let not_named = match cleaner.named().await {
        Ok(not_named) => not_named,
        Err(failure) => return fail(exit_of(&failure), failure.explained()),
    };
    if let Some(why @ NotNamed::Several { .. }) = &not_named {
        return fail(Exit::Refused, why);
    }
    if !is_app_id(cleaner.app_id().as_str()) {
        let no_id = || "an application's id has letters, digits, -, _ and . only".to_owned();
        let why = not_named.map_or_else(no_id, |why| why.to_string());
        return fail(Exit::Refused, why);
    }
    let found = match cleaner.look().await {
        Ok(found) => found,
        Err(failure) => return fail(exit_of(&failure), failure.explained()),
    };
    if found.leftovers.is_empty() && found.unseen.is_empty() {
        let why = not_named.map_or_else(String::new, |why| format!("\n{why}"));
        let app = &args.app;
        return fail(
            Exit::Refused,
            format_args!("nothing of application {app} was found{why}"),
        );
    }
    let shown = show(cleaner.app_id().as_str(), cleaner.namespace(), &found);
    if shown != Exit::Clean || found.leftovers.iter().all(|one| one.deleting) {
        return match found.unseen.is_empty() {
            true => shown,
            false => Exit::Rights,
        };
    }
    if !args.yes && !io::stdin().is_terminal() {
        complain("nothing was deleted; to delete this, add --yes");
        return shown;
    }
    if let Err(exit) = is_orphaned(args, &cleaner, &found).await {
        return exit;
    }
    if !args.yes && !confirmed() {
        return fail(Exit::Refused, "nothing was deleted");
    }
    let outcome = cleaner.delete(found, args.timeout).await;
    report(&outcome);
    outcome.exit()
}

/// Prints what was found, and what could not be looked for.
fn show(app: &str, namespace: &str, found: &Found) -> Exit {
    for unseen in &found.unseen {
        complain(format_args!(
            "not looked for: {}: {}",
            unseen.resource, unseen.why
        ));
    }
    if found.leftovers.is_empty() {
        return say(format_args!(
            "nothing of application {app} was found in namespace {namespace}"
        ));
    }
    let line = |(state, one): (&str, String)| format!("\n  {one}{state}");
    let lines = found.leftovers.iter().map(|one| {
        let state = if one.deleting { "  (terminating)" } else { "" };
        (state, one.to_string())
    });
    let lines: String = lines.map(line).collect();
    let shown = say(format_args!(
        "of application {app} in namespace {namespace}:{lines}"
    ));
    if let Some((kind, name)) = found.owner() {
        complain(format_args!(
            "the record belongs to {kind} {name}, which may start a driver again: delete it first"
        ));
    }
    shown
}

/// Whether no driver is known to live, or it does not matter.
async fn is_orphaned(args: &CleanArgs, cleaner: &Cleaner, found: &Found) -> Result<(), Exit> {
    if args.force {
        return Ok(());
    }
    let wait = |holder: &str, patience: Duration| {
        complain(format_args!(
            "{holder} holds the lease; whether it renews it is seen within {} s",
            patience.as_secs()
        ));
    };
    match cleaner.driver(found, wait).await {
        Ok(Alive::No) => Ok(()),
        Ok(Alive::Unknown) => {
            complain(
                "whether a driver lives is unknown: it ran outside a pod, or the record is gone; \
                 a driver that lives makes everything anew",
            );
            Ok(())
        }
        Ok(Alive::Yes(holder)) => Err(fail(
            Exit::Refused,
            format_args!(
                "the application has a driver: {holder}\n\
                 end it with `boatswain stop`, or delete what runs it; --force deletes nevertheless"
            ),
        )),
        Err(failure) => Err(fail(
            exit_of(&failure),
            format_args!(
                "whether a driver lives cannot be seen: {}\n--force deletes nevertheless",
                failure.explained()
            ),
        )),
    }
}

fn confirmed() -> bool {
    // A closed stderr is not an error.
    let _ = write!(io::stderr(), "delete all of this? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && is_yes(&answer)
}

/// Whether this line means yes; an empty one means no.
fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn report(outcome: &Outcome) {
    for unseen in &outcome.unseen {
        complain(format_args!(
            "not looked for: {}: {}",
            unseen.resource, unseen.why
        ));
    }
    if let Some(why) = &outcome.blind {
        complain(format_args!("what is left could not be seen: {why}"));
    }
    for left in &outcome.left {
        let why = left.why.as_deref().unwrap_or("the time was up");
        complain(format_args!("left: {}: {why}", left.leftover));
    }
    say(format_args!("{} objects deleted", outcome.deleted));
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-33
    #[test]
    fn only_a_clear_yes_deletes() {
        for yes in ["y\n", "Y\n", "yes\n", " Yes \r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yep\n", "no\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
