//! Kills the remaining container processes if this process itself is killed.
//!
//! A shell is informed of each process group that starts and ends. When its standard input closes, for whatever reason,
//! it kills the remaining groups. It is in a process group of its own, so that a signal to this process's group does
//! not end it.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

/// The queue of messages to the shell. They are written at once, so the queue only fills if processes start faster than
/// a pipe takes lines.
const QUEUE: usize = 1_024;

const SCRIPT: &str = r#"
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) case $groups in *" $group "*) groups="${groups%% "$group" *} ${groups#* "$group" }" ;; esac ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// Informs the shell of process groups.
#[derive(Clone, Debug)]
pub(super) struct Reaper(Option<mpsc::Sender<String>>);

impl Reaper {
    /// Starts the shell. If that fails, a warning is logged and process groups are not tracked.
    pub(super) fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "devcluster-reaper"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        match command.spawn() {
            Ok(mut child) => match child.stdin.take() {
                Some(input) => {
                    let (notes, inbox) = mpsc::channel(QUEUE);
                    tokio::spawn(write(child, input, inbox));
                    Self(Some(notes))
                }
                None => Self(None),
            },
            Err(error) => {
                tracing::warn!(target: "cluster.node", %error, "cannot start the reaper shell: container processes will outlive this process if it is killed");
                Self(None)
            }
        }
    }

    pub(super) async fn began(&self, group: u32) {
        self.note(format!("+ {group}\n")).await;
    }

    pub(super) async fn ended(&self, group: u32) {
        self.note(format!("- {group}\n")).await;
    }

    async fn note(&self, line: String) {
        if let Some(notes) = &self.0 {
            // If the shell was killed, nothing is left to inform.
            let _ = notes.send(line).await;
        }
    }
}

/// Writes messages until all senders are gone, which lets the shell end too.
async fn write(mut child: Child, mut input: ChildStdin, mut inbox: mpsc::Receiver<String>) {
    while let Some(line) = inbox.recv().await {
        if input.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    drop(input);
    let _ = child.wait().await;
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command
            .arg("600")
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .expect("a process")
    }

    #[tokio::test]
    async fn remaining_process_groups_are_killed_with_this_process() {
        let reaper = Reaper::start();
        let (mut kept, mut forgotten) = (sleeper(), sleeper());
        reaper.began(kept.id().expect("it runs")).await;
        reaper.began(forgotten.id().expect("it runs")).await;
        reaper.ended(kept.id().expect("it runs")).await;
        drop(reaper);
        let status = forgotten.wait().await.expect("it ends");
        assert_eq!(status.signal(), Some(9));
        assert!(
            kept.try_wait().expect("it is known").is_none(),
            "the other runs on"
        );
    }
}
