//! `boatswain spark-submit`: spark-submit's cluster mode (spec O-139).

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{sleep, timeout};

use super::signals::Signals;
use super::{complain, fail, print_of_log, wait_for};
use crate::config::spark::Submission;
use crate::driver::clean::exit_of;
use crate::driver::submission::{CONTAINER, Seen, Submitted, submit};
use crate::exit::Exit;
use crate::kubernetes::Failure;
use crate::kubernetes::calls::LogPart;

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The largest file that is copied, in bytes: a Secret has to hold it.
const LARGEST: u64 = 1_000_000;

/// How long a log may be silent before it is looked whether the pod still runs, and the log is opened again.
const SILENCE: Duration = Duration::from_secs(60);

/// How often the log of a pod that has ended is tried.
const TRIES: u32 = 10;

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "boatswain spark-submit [OPTIONS OF SPARK-SUBMIT] <jar or Python file> [ITS ARGUMENTS]"
)]
pub(super) struct SparkSubmitArgs {
    /// The arguments of spark-submit. --master is a boatswain's Service, `spark+boatswain+https://NAME-driver.NAMESPACE.svc:PORT`.
    /// Of the keys of Spark on Kubernetes those of pods are used, for the driver and for executors: images, cores,
    /// labels, volumes, secrets and so on. Files of this machine are copied into the pod
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    arguments: Vec<String>,
}

pub(super) fn spark_submit(args: &SparkSubmitArgs) -> Exit {
    let submission = match Submission::read(&args.arguments, &read_file) {
        Ok(submission) => submission,
        Err(mistakes) => return fail(Exit::Usage, mistakes.join("\n")),
    };
    for note in &submission.notes {
        complain(format_args!("of no effect: {note}"));
    }
    wait_for(run(&submission))
}

/// Reads a file that a Secret can hold.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: a pipe would be waited for.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if metadata.len() > LARGEST {
        let bytes = metadata.len();
        let why = format!("it has {bytes} bytes, and at most {LARGEST} can be copied");
        return Err(io::Error::other(why));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

async fn run(submission: &Submission) -> Exit {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            return fail(
                Exit::Bug,
                format_args!("signals cannot be received: {error}"),
            );
        }
    };
    // A signal meanwhile is looked at afterwards, so that nothing is left.
    let submitted = match submit(submission).await {
        Ok(submitted) => submitted,
        Err(error) => return fail(error.exit(), error),
    };
    let (name, namespace) = (submitted.name(), submitted.namespace());
    complain(format_args!("{name} in namespace {namespace} is submitted"));
    if !submission.waits {
        complain(format_args!(
            "its log:    kubectl -n {namespace} logs job/{name} --follow\nto end it:  kubectl -n {namespace} delete job {name}"
        ));
        return Exit::Clean;
    }
    let exit = tokio::select! {
        followed = follow(&submitted) => match followed {
            Ok(exit) => exit,
            Err(failure) => {
                return fail(exit_of(&failure), format_args!("{name} goes on unwatched: {}", failure.explained()));
            }
        },
        signal = signals.next() => {
            complain(format_args!("{signal}: {name} is ended; a second signal leaves at once"));
            Exit::Interrupted
        }
    };
    let deleted = tokio::select! {
        deleted = submitted.delete() => deleted,
        signal = signals.next() => Err(signal.to_owned()),
    };
    if let Err(why) = deleted {
        complain(format_args!(
            "{name} is left: {why}\n  kubectl -n {namespace} delete job {name}"
        ));
    }
    exit
}

/// What is told while an application is waited for, unless it is what was told last.
#[derive(Default)]
struct Told(String);

impl Told {
    fn tell(&mut self, what: String) {
        if self.0 != what {
            complain(&what);
            self.0 = what;
        }
    }
}

/// Prints the Spark driver's log until its end, and returns its exit code.
///
/// # Errors
/// If the application cannot be looked at any more.
async fn follow(submitted: &Submitted) -> Result<Exit, Failure> {
    let (mut state, mut trouble) = (Told::default(), Told::default());
    let mut printed_until = None;
    let mut tries = 0;
    // An application does not end because nobody reads its log any more.
    let mut prints = true;
    loop {
        let seen = match submitted.look().await {
            Ok(seen) => seen,
            Err(failure) if failure.kind.is_outage() => {
                trouble.tell(format!(
                    "waiting for the API server: {}",
                    failure.explained()
                ));
                sleep(BETWEEN_LOOKS).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let pod = match &seen {
            Seen::Waits(why) => {
                state.tell(format!("waiting: {why}"));
                None
            }
            Seen::Runs { pod } => {
                state.tell(format!("pod {pod} runs"));
                Some(pod)
            }
            Seen::Ended { pod, .. } => pod.as_ref(),
        };
        let copied = match pod {
            Some(pod) if prints => copy_log(submitted, pod, &mut printed_until).await,
            _ => Ok(()),
        };
        let unread = match copied {
            Ok(()) => None,
            Err(Stopped::Printing) => {
                prints = false;
                None
            }
            Err(Stopped::Reading(failure)) => Some(failure.explained().to_string()),
        };
        if let Some(unread) = unread {
            tries += u32::from(matches!(seen, Seen::Ended { .. }));
            if tries < TRIES {
                trouble.tell(format!("waiting for the log: {unread}"));
                sleep(BETWEEN_LOOKS).await;
                continue;
            }
            complain(format_args!("the end of the log is lost: {unread}"));
        }
        let Seen::Ended { code, why, .. } = seen else {
            sleep(BETWEEN_LOOKS).await;
            continue;
        };
        if let Some(why) = why {
            complain(format_args!("{}: {why}", submitted.name()));
        }
        complain(format_args!(
            "{} has ended with exit code {code}",
            submitted.name()
        ));
        return Ok(Exit::Child(code));
    }
}

/// Why no more of a log is copied.
enum Stopped {
    Printing,
    Reading(Failure),
}

/// Prints what the pod has written since then, until the container ends, the connection, or it is silent.
async fn copy_log(
    submitted: &Submitted,
    pod: &str,
    printed_until: &mut Option<Timestamp>,
) -> Result<(), Stopped> {
    let part = LogPart {
        container: CONTAINER,
        follow: true,
        timestamps: true,
        since: *printed_until,
        ..LogPart::default()
    };
    let is_terminal = io::stdout().is_terminal();
    let mut lines = submitted.log(pod, part).await.map_err(Stopped::Reading)?;
    while let Ok(line) = timeout(SILENCE, lines.next()).await {
        let Some(line) = line.map_err(Stopped::Reading)? else {
            break;
        };
        let line = String::from_utf8_lossy(&line);
        let (at, text) = line.split_once(' ').unwrap_or((&line, ""));
        let Ok(at) = at.parse::<Timestamp>() else {
            // Not a line of the program's: what the kubelet says instead of a log.
            complain(&line);
            continue;
        };
        // Again after a broken connection.
        if printed_until.is_some_and(|until| at <= until) {
            continue;
        }
        *printed_until = Some(at);
        print_of_log(text, is_terminal).map_err(|_| Stopped::Printing)?;
    }
    Ok(())
}
