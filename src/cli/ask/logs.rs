//! `boatswain logs`: prints the log of an executor (spec O-138).

use std::io::{IsTerminal as _, stdout};

use boatswain_client::{Client, ClientError};
use clap::Args;
use http::Method;

use super::{Connection, pod_name};
use crate::cli::{fail, print_of_log, wait_for};
use crate::driver::clean;
use crate::exit::Exit;
use crate::kubernetes::calls::LogPart;

#[derive(Debug, Args)]
pub(in crate::cli) struct LogsArgs {
    #[command(flatten)]
    connection: Connection,
    /// Id of the executor, or the name of its pod
    executor: String,
    /// Also print what the executor writes from now on, until it ends
    #[arg(long, short)]
    follow: bool,
    /// Print the log of the container's previous run
    #[arg(long, short)]
    previous: bool,
    /// Print at most so many lines from the end
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
}

pub(in crate::cli) fn logs(args: &LogsArgs) -> Exit {
    match args.executor.parse::<u64>() {
        Ok(id) => (args.connection).ask_beside_a_cluster(async |client| {
            match pod_of(client, id).await? {
                Some(pod) => Ok(follow(args, &pod).await),
                None => Ok(fail(
                    Exit::Refused,
                    format_args!("executor {id} has no pod yet"),
                )),
            }
        }),
        Err(_) => wait_for(follow(args, pod_name(&args.executor))),
    }
}

/// The pod that an executor has or had.
async fn pod_of(client: &Client, id: u64) -> Result<Option<String>, ClientError> {
    let path = format!("/v1/executors/{id}");
    let history = client.call(Method::GET, &path, None).await?;
    let events = history["events"].as_array();
    let of_events = (events.into_iter().flatten().rev()).find_map(|event| event["pod"].as_str());
    let pod = history["now"]["pod"].as_str().or(of_events);
    Ok(pod.map(str::to_owned))
}

async fn follow(args: &LogsArgs, pod: &str) -> Exit {
    let place = args.connection.in_cluster.of_pods();
    let part = LogPart {
        follow: args.follow,
        previous: args.previous,
        tail: args.tail,
        ..LogPart::default()
    };
    let mut lines = match clean::log(place, pod, part).await {
        Ok(lines) => lines,
        Err(why) => return fail(why.exit(), why),
    };
    let is_terminal = stdout().is_terminal();
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return Exit::Clean,
            Err(failure) => return fail(clean::exit_of(&failure), failure.explained()),
        };
        let printed = print_of_log(&String::from_utf8_lossy(&line), is_terminal);
        if let Err(exit) = printed {
            return exit;
        }
    }
}
