//! Shows on a terminal how many executors are running until all that are wanted run (spec O-43).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use boatswain_agent::logs::Logs;
use rustix::termios::tcgetwinsize;
use tokio::time::{Instant, sleep};

use crate::driver::Handle;
use crate::model::text::controls_display;
use crate::model::{Pod, ProfileName, Snapshot, State};
use crate::telemetry::ERASE_LINE;

/// The refresh interval.
const EVERY: Duration = Duration::from_millis(200);

/// The width if the terminal does not report one.
const USUAL_WIDTH: usize = 80;

/// How many reasons are shown for a profile, the most frequent first.
const REASONS: usize = 2;

/// Reasons are cut to this many characters.
const LONGEST_REASON: usize = 48;

/// Keeps one line at the bottom of the terminal up to date until all executors that are wanted run.
/// Each log line erases it, and it is drawn again below. It takes the way of the logs, which waits for no terminal.
pub(super) async fn show(driver: Handle, mut logs: Logs) {
    let began = Instant::now();
    loop {
        sleep(EVERY).await;
        // There is nothing to show before the application has been taken over.
        let Some(snapshot) = driver.look().await.filter(|snapshot| snapshot.adopted) else {
            continue;
        };
        let (line, complete) = status(&snapshot);
        let width = tcgetwinsize(io::stderr()).map_or(USUAL_WIDTH, |size| size.ws_col.into());
        if complete {
            let seconds = began.elapsed().as_secs_f32();
            draw(&mut logs, &format!("{line}, after {seconds:.1} s\n"));
            return;
        }
        // The last column stays empty because some terminals wrap there.
        draw(&mut logs, &cut(&line, width.saturating_sub(1)));
    }
}

fn draw(logs: &mut Logs, text: &str) {
    // In one piece, so that no log line comes in between.
    let _ = logs.write_all(format!("{ERASE_LINE}{text}").as_bytes());
}

/// The running executors of each profile, in one line, and whether all that are wanted run.
fn status(snapshot: &Snapshot) -> (String, bool) {
    let mut reasons: BTreeMap<&ProfileName, BTreeMap<String, u32>> = BTreeMap::new();
    for entry in snapshot.entries.values() {
        if let State::Bound(bound) = &entry.state
            && entry.leaving.is_none()
            && let Some(why) = why_pending(&bound.pod)
        {
            *reasons
                .entry(&entry.profile)
                .or_default()
                .entry(why)
                .or_default() += 1;
        }
    }
    let mut complete = true;
    let mut profiles = Vec::new();
    for (profile, target) in &snapshot.targets {
        let counts = snapshot.counts(profile);
        complete &= counts.running >= target.executors;
        let mut parts = vec![format!(
            "{profile} {}/{} running",
            counts.running, target.executors
        )];
        if counts.pending > 0 {
            let why = reasons.get(profile).map(told).unwrap_or_default();
            parts.push(format!("{} pending{why}", counts.pending));
        }
        for (number, what) in [
            (counts.sent, "requested"),
            (counts.unknown, "requested without an answer"),
            (counts.uncertain, "uncertain"),
        ] {
            if number > 0 {
                parts.push(format!("{number} {what}"));
            }
        }
        profiles.push(parts.join(", "));
    }
    (profiles.join("; "), complete)
}

/// The reason why a pod is pending, without control characters.
fn why_pending(pod: &Pod) -> Option<String> {
    // The text is from the cluster and must not control the terminal.
    let plain = pod.why_pending()?.replace(controls_display, " ");
    Some(cut(&plain, LONGEST_REASON))
}

/// The reasons in parentheses, the most frequent first.
fn told(reasons: &BTreeMap<String, u32>) -> String {
    let mut by_count: Vec<(&String, &u32)> = reasons.iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let more = by_count.len().saturating_sub(REASONS);
    let mut told: Vec<String> = (by_count.iter().take(REASONS))
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    if more > 0 {
        told.push(format!("{more} more reasons"));
    }
    format!(" ({})", told.join(", "))
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::pod::{ContainerState, Scheduling};
    use crate::testing::Scenario;

    fn line(scenario: &Scenario) -> String {
        status(scenario.current()).0
    }

    fn waits(scenario: &mut Scenario, n: u64, scheduling: Scheduling, reason: Option<&str>) {
        let executor = ContainerState::Waiting {
            reason: reason.map(Arc::from),
            message: None,
        };
        let pod = Pod {
            scheduling,
            executor,
            ..scenario.pod(n)
        };
        let pod = scenario.changed(pod);
        scenario.observe(pod);
    }

    #[test]
    fn it_says_how_many_run_of_how_many_and_what_the_others_wait_for() {
        let mut scenario = Scenario::new(&[("default", 6)]);
        assert_eq!(line(&scenario), "default 0/6 running");
        for n in 1..=6 {
            scenario.requested(
                n,
                crate::model::news::Outcome::Sent {
                    profile: "default".into(),
                },
            );
        }
        assert_eq!(line(&scenario), "default 0/6 running, 6 requested");
        for n in 1..=5 {
            scenario.created(n);
        }
        scenario.runs(1);
        waits(
            &mut scenario,
            2,
            Scheduling::Bound,
            Some("ImagePullBackOff"),
        );
        waits(
            &mut scenario,
            3,
            Scheduling::Bound,
            Some("ImagePullBackOff"),
        );
        waits(
            &mut scenario,
            4,
            Scheduling::Waiting(Some(Arc::from("0/3 nodes\u{1b}[2J are free"))),
            None,
        );
        waits(&mut scenario, 5, Scheduling::Gated("gang".into()), None);
        assert_eq!(
            line(&scenario),
            "default 1/6 running, 4 pending (2 ImagePullBackOff, 1 held by a scheduling gate: gang, 1 more reasons), 1 requested"
        );
        waits(
            &mut scenario,
            5,
            Scheduling::Bound,
            Some("ImagePullBackOff"),
        );
        assert_eq!(
            line(&scenario),
            "default 1/6 running, 4 pending (3 ImagePullBackOff, 1 unscheduled: 0/3 nodes [2J are free), 1 requested"
        );
        assert!(!status(scenario.current()).1);
    }

    #[test]
    fn it_is_over_when_every_profile_has_what_it_wants() {
        let mut scenario = Scenario::new(&[("default", 1), ("large", 1)]);
        for (n, profile) in [(1, "default"), (2, "large")] {
            assert!(!status(scenario.current()).1);
            scenario.requested(
                n,
                crate::model::news::Outcome::Sent {
                    profile: profile.into(),
                },
            );
            scenario.created(n);
            scenario.runs(n);
        }
        let (line, complete) = status(scenario.current());
        assert_eq!(
            (&*line, complete),
            ("default 1/1 running; large 1/1 running", true)
        );
    }

    #[test]
    fn what_is_wider_than_the_terminal_is_cut() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("äöüdef", 4), "äöü…");
        assert_eq!(cut("abc", 0), "…");
    }
}
