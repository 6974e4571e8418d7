//! A terminal in which commands are entered, one block after the other.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The longest wait for a block: far longer than any takes, even with all cores busy.
const PATIENCE: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command that fails is printed with its line of the page, leaves a file, and ends the shell unless `set +e` is on.
const STRICT: &str =
    r#"set -eE -o pipefail; trap 'echo "line $LINENO: $BASH_COMMAND" | tee "$failed" >&2' ERR"#;

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
        writeln!(input, "{STRICT}").unwrap();
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
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("out")).unwrap_or_default()).into_owned()
    }

    /// Enters a block that begins in this line of its page. A failure of one in the background does not end the shell.
    fn enter(&mut self, line: usize, block: &str, in_background: bool) {
        self.blocks += 1;
        let file = self.path("sh");
        // So that the shell counts lines as the page does.
        fs::write(&file, "\n".repeat(line - 1) + block).unwrap();
        let quoted = |path: &Path| format!("'{}'", path.display());
        let [source, out, done, failed] = [
            &file,
            &self.path("out"),
            &self.path("done"),
            &self.path("failed"),
        ]
        .map(|path| quoted(path));
        let (before, after) = if in_background {
            ("set +e", "set -e")
        } else {
            ("", "")
        };
        let entered = format!(
            "failed={failed}\n{before}\nsource {source} >{out} 2>&1 </dev/null\necho $? >{done}\n{after}\n"
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
            Some(code) => Err(format!("exit code {code}\n{}", self.output())),
            None => Err(format!("it does not end\n{}", self.output())),
        }
    }

    /// Starts a block and waits until it has printed a text.
    pub fn start(&mut self, line: usize, block: &str, text: &str) -> Result<(), String> {
        self.enter(line, block, true);
        let seen = until(|| {
            // In this order: what it printed before its end counts.
            let ended = self.ended();
            if self.path("failed").exists() {
                return Some(Err(self.output()));
            }
            if self.output().contains(text) {
                return Some(Ok(()));
            }
            ended.map(|code| {
                Err(format!(
                    "exit code {code} and no {text:?}\n{}",
                    self.output()
                ))
            })
        });
        seen.unwrap_or_else(|| Err(format!("it does not print {text:?}\n{}", self.output())))
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
            .ok_or_else(|| format!("it does not end\n{}", self.output()))
    }

    /// Presses Ctrl-C and waits for the block's end.
    pub fn interrupt(&mut self) -> Result<(), String> {
        let _ = kill_process_group(self.group(), Signal::INT);
        match until(|| self.ended()) {
            // What does not handle SIGINT ends by it.
            Some(0 | 130) => Ok(()),
            Some(code) => Err(format!("exit code {code} after Ctrl-C\n{}", self.output())),
            None => Err(format!("it does not end after Ctrl-C\n{}", self.output())),
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
