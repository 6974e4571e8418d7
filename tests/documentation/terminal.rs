//! A terminal in which commands are entered, one block after the other.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The longest wait for a block: far longer than any takes, even with all cores busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Long enough for a driver to end its application: a second Ctrl-C would end it at once.
const PRESS_AGAIN: Duration = Duration::from_secs(20);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The last command that failed is written to a file, with its line of the page. Ctrl-C ends a loop as well, whichever
/// of its commands it meets.
const OPTIONS: &str = r#"
set -E -o pipefail
trap 'echo "line $LINENO: $BASH_COMMAND" >"$failed"' ERR
trap 'exit $?' INT
"#;

/// Waits until there is something; `None` if it does not come.
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() > PATIENCE {
            return found;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// A shell with a process group of its own; what runs in it is killed when this is dropped.
pub struct Terminal {
    shell: Child,
    input: ChildStdin,
    directory: PathBuf,
    blocks: usize,
}

impl Terminal {
    /// `directory` is for the blocks and what they print.
    pub fn open(mut command: Command, directory: PathBuf) -> Self {
        fs::create_dir_all(&directory).unwrap();
        let mut shell = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(directory.join("shell")).unwrap())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        writeln!(input, "{OPTIONS}").unwrap();
        Self {
            shell,
            input,
            directory,
            blocks: 0,
        }
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.directory.join(format!("{}.{ending}", self.blocks))
    }

    /// What the block has printed so far.
    fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("out")).unwrap_or_default()).into_owned()
    }

    /// Enters a block that begins in this line of its page. The first command that fails ends it and the shell; in the
    /// background the block goes on.
    fn enter(&mut self, line: usize, block: &str, in_background: bool) {
        self.blocks += 1;
        // So that the shell counts lines as the page does.
        fs::write(self.path("sh"), "\n".repeat(line - 1) + block).unwrap();
        let quoted = |ending| format!("'{}'", self.path(ending).display());
        let [source, out, done, failed] = ["sh", "out", "done", "failed"].map(quoted);
        let on_failure = if in_background { "set +e" } else { "set -e" };
        let entered = format!(
            "failed={failed}; {on_failure}; source {source} >{out} 2>&1 </dev/null; echo $? >{done}\n"
        );
        // The shell may have ended, which is seen below.
        let _ = self.input.write_all(entered.as_bytes());
    }

    /// Whether the block has ended, and with which exit code: as a shell has it, so more than 128 after a signal.
    fn ended(&mut self) -> Option<i32> {
        let done = fs::read_to_string(self.path("done")).ok();
        if let Some(code) = done.and_then(|code| code.strip_suffix('\n')?.parse().ok()) {
            return Some(code);
        }
        let status = self.shell.try_wait().unwrap()?;
        status.code().or(status.signal().map(|signal| 128 + signal))
    }

    /// Runs a block to its end.
    pub fn run(&mut self, line: usize, block: &str) -> Result<(), String> {
        self.enter(line, block, false);
        match until(|| self.ended()) {
            Some(0) => Ok(()),
            Some(code) => Err(self.problem(&format!("exit code {code}"))),
            None => Err(self.problem("it does not end")),
        }
    }

    /// What went wrong, with the line of the command that failed, and what the block has printed.
    fn problem(&self, what: &str) -> String {
        let failed = fs::read_to_string(self.path("failed")).unwrap_or_default();
        format!("{what}\n{failed}{}", self.output())
    }

    /// Starts a block and waits until it has printed a text.
    pub fn start(&mut self, line: usize, block: &str, text: &str) -> Result<(), String> {
        self.enter(line, block, true);
        let seen = until(|| {
            // In this order: what it printed before its end counts.
            let ended = self.ended();
            if self.path("failed").exists() {
                return Some(Err(self.problem("failed")));
            }
            if self.output().contains(text) {
                return Some(Ok(()));
            }
            let problem = |code| self.problem(&format!("exit code {code} and no {text:?}"));
            ended.map(|code| Err(problem(code)))
        });
        seen.unwrap_or_else(|| Err(self.problem(&format!("it does not print {text:?}"))))
    }

    /// Whether another block can be entered after one in the background.
    pub fn is_free(&mut self) -> bool {
        self.ended().is_some() && self.shell.try_wait().unwrap().is_none()
    }

    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// Waits for the end of a block in the background, whichever it is.
    pub fn wait(&mut self) -> Result<(), String> {
        let ended = until(|| self.ended());
        ended
            .map(drop)
            .ok_or_else(|| self.problem("it does not end"))
    }

    /// Presses Ctrl-C and waits for the block's end. A loop goes on if Ctrl-C meets it between two commands, so it is pressed
    /// again after a while, as people do.
    pub fn interrupt(&mut self) -> Result<(), String> {
        let mut pressed: Option<Instant> = None;
        let ended = until(|| {
            if pressed.is_none_or(|last| last.elapsed() > PRESS_AGAIN) {
                let _ = kill_process_group(self.group(), Signal::INT);
                pressed = Some(Instant::now());
            }
            self.ended()
        });
        match ended {
            // What does not handle SIGINT ends by it.
            Some(0 | 130) => Ok(()),
            Some(code) => Err(self.problem(&format!("exit code {code} after Ctrl-C"))),
            None => Err(self.problem("it does not end after Ctrl-C")),
        }
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.shell)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its last process may have ended already.
        let _ = kill_process_group(self.group(), Signal::KILL);
        let _ = self.shell.wait();
    }
}
