//! Runs the commands of every page of the documentation, as its reader does in a fresh clone.
//!
//! `page` says what of a page is run. Each page has a copy of this checkout, a home directory of its own, and a cluster
//! that the kubeconfig there names: the embedded one, or the real one in `BOATSWAIN_TEST_KUBECONFIG`. Commands that need a
//! program that is not installed are not run, which fails in CI. What is not run is listed.
//! `BOATSWAIN_TEST_PAGE=docs/api.md` runs one page.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod machine;
mod page;
mod reference;
mod terminal;
#[path = "../support/untested.rs"]
mod untested;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use machine::Machine;
use page::{Step, What, missing, steps};
use terminal::Terminal;

/// Programs that a reader may lack.
const OPTIONAL: [&str; 4] = ["curl", "helm", "kubectl", "python3"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages below a folder, by their paths in the repository.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if machine::is_made(&name) || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path.strip_prefix(root()).unwrap().to_owned());
        }
    }
}

/// The program that these commands need and this machine lacks.
fn lacking(commands: &str) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed =
        |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let named = |program: &str| commands.split(|c| !is_word(c)).any(|word| word == program);
    OPTIONAL
        .into_iter()
        .find(|program| named(program) && !installed(program))
}

/// The line of a page, and what is wrong there.
type Problem = (usize, String);

/// What a page's commands have come to.
#[derive(Default)]
struct Session {
    machine: Option<Machine>,
    /// Where the next block goes.
    terminal: Option<Terminal>,
    background: Vec<(usize, Terminal)>,
    /// What was not run, with the line and why.
    not_run: Vec<(usize, String)>,
}

impl Session {
    fn machine(&mut self) -> Result<&mut Machine, Problem> {
        if self.machine.is_none() {
            self.machine = Some(Machine::start().map_err(|problem| (1, problem))?);
        }
        Ok(self.machine.as_mut().unwrap())
    }

    fn terminal(&mut self) -> Result<Terminal, Problem> {
        match self.terminal.take() {
            Some(terminal) => Ok(terminal),
            None => Ok(self.machine()?.terminal()),
        }
    }

    /// For a block in the background: the last terminal where such a block has ended, or a new one.
    fn free_terminal(&mut self) -> Result<Terminal, Problem> {
        let free = self
            .background
            .iter_mut()
            .rposition(|(_, terminal)| terminal.is_free());
        match free {
            Some(free) => Ok(self.background.remove(free).1),
            None => Ok(self.machine()?.terminal()),
        }
    }

    fn follow(&mut self, step: &Step) -> Result<(), Problem> {
        let at = |problem: String| (step.line, problem);
        let is_run = match &step.what {
            What::Run | What::Background { .. } => true,
            What::RunOn { real, .. } => *real == machine::kubeconfig().is_some(),
            _ => false,
        };
        if is_run && let Some(program) = lacking(&step.text) {
            untested::for_lack_of(program);
            self.not_run
                .push((step.line, format!("{program} is not installed")));
            return Ok(());
        }
        match &step.what {
            What::RunOn { reason, .. } if !is_run => self.pass_over(step, reason)?,
            What::Run | What::RunOn { .. } => {
                let mut terminal = self.terminal()?;
                terminal.run(step.line, &step.text).map_err(at)?;
                self.terminal = Some(terminal);
            }
            What::Background { until } => {
                let mut terminal = self.free_terminal()?;
                terminal.start(step.line, &step.text, until).map_err(at)?;
                self.background.push((step.line, terminal));
            }
            What::NotRun { reason } => self.pass_over(step, reason)?,
            What::File { name } => {
                let path = self.machine()?.checkout().join(name);
                fs::write(path, &step.text).unwrap();
            }
            What::Interrupt => {
                self.interrupt()?;
            }
            What::Wait => {
                // There is none if the block was skipped.
                if let Some((line, terminal)) = self.background.last_mut() {
                    terminal.wait().map_err(|problem| (*line, problem))?;
                }
            }
        }
        Ok(())
    }

    /// Commands that are not run must at least name what there is.
    fn pass_over(&mut self, step: &Step, reason: &str) -> Result<(), Problem> {
        let mut missing = missing(&step.text, root());
        missing.extend(reference::unknown(&step.text));
        if !missing.is_empty() {
            let problem = format!("these do not exist: {}", missing.join(", "));
            return Err((step.line, problem));
        }
        self.not_run.push((step.line, reason.to_owned()));
        Ok(())
    }

    /// Presses Ctrl-C where a block was started last of those that still run, and says whether there was one.
    fn interrupt(&mut self) -> Result<bool, Problem> {
        for (line, terminal) in self.background.iter_mut().rev() {
            if terminal.is_running() {
                terminal.interrupt().map_err(|problem| (*line, problem))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn end(mut self) -> Result<Vec<(usize, String)>, Problem> {
        while self.interrupt()? {}
        drop(self.terminal.take());
        self.background.clear();
        if let Some(machine) = self.machine.take() {
            machine.end().map_err(|problem| (1, problem))?;
        }
        Ok(self.not_run)
    }
}

/// Runs a page's commands. Returns what was not run, or the line and the problem.
fn run(page: &Path) -> Result<Vec<(usize, String)>, Problem> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let steps = steps(&text).map_err(|problem| (1, problem))?;
    let mut session = Session::default();
    for step in &steps {
        session.follow(step)?;
    }
    session.end()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut found = Vec::new();
    pages(root(), &mut found);
    assert!(found.len() > 20, "{found:?}");
    let missing = found.iter().filter(|page| {
        let beside = page.strip_prefix("docs");
        let link = beside.map_or_else(
            |_| format!("../{}", page.display()),
            |page| page.display().to_string(),
        );
        !page.ends_with("SUMMARY.md") && !contents.contains(&format!("]({link})"))
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
}

// spec: O-85
#[test]
fn the_commands_of_every_page_work_in_a_fresh_clone() {
    // Pages name ports of this machine, so two runs take turns.
    let turn = File::create(std::env::temp_dir().join("boatswain-documentation.lock")).unwrap();
    turn.lock().unwrap();
    let mut found = Vec::new();
    match std::env::var_os("BOATSWAIN_TEST_PAGE") {
        Some(page) => found.push(PathBuf::from(page)),
        None => pages(root(), &mut found),
    }
    found.sort();
    let mut problems = Vec::new();
    for page in found {
        let name = page.display();
        match run(&page) {
            Ok(not_run) => {
                for (line, reason) in not_run {
                    // Written past the test harness, which shows only the output of failed tests.
                    let _ = writeln!(io::stderr(), "not run: {name}:{line}: {reason}");
                }
            }
            Err((line, problem)) => problems.push(format!("{name}:{line}: {problem}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
