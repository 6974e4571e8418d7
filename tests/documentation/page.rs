//! What a page of the documentation has its reader do: commands, files to write, Ctrl-C.
//!
//! A block of code that begins with ```` ```sh ```` is run. What follows the language is not shown, neither by GitHub
//! nor in the book:
//!
//! | after the language | the commands |
//! |---|---|
//! | nothing | are run and have to succeed |
//! | `background until="TEXT"` | go on in another terminal; the next block comes when they have printed TEXT |
//! | `real="REASON"` | are run where the cluster is a real one; the embedded one cannot serve them |
//! | `embedded="REASON"` | are run where it is the embedded one; the real one cannot serve them |
//! | `not-run="REASON"` | are not run |
//!
//! A block in any other language with `file="NAME"` is written to that file. `<!-- sh` begins commands that readers do
//! not see, up to `-->`: for what they have already. `<!-- Ctrl-C -->` interrupts what went on last, and
//! `<!-- wait -->` waits until that has ended by itself.

use std::path::Path;

/// Languages of blocks that would be commands, under names that are not looked for.
const OTHER_SHELLS: [&str; 5] = ["bash", "console", "shell", "shell-session", "zsh"];

#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Where its text begins, from 1.
    pub line: usize,
    pub text: String,
    pub what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub enum What {
    Run,
    /// Until it is interrupted; the next step comes when it has printed this.
    Background {
        until: String,
    },
    /// On one of the two kinds of cluster only.
    RunOn {
        real: bool,
        reason: String,
    },
    NotRun {
        reason: String,
    },
    File {
        name: String,
    },
    Interrupt,
    Wait,
}

/// The steps of a page in order, or the line with a mark that is not understood.
pub fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let block = line.trim_start();
        let ticks = block.len() - block.trim_start_matches('`').len();
        let hidden = block.strip_prefix("<!-- sh");
        let (info, end) = if let Some(info) =
            hidden.filter(|info| matches!(info.chars().next(), None | Some(' ')))
        {
            (format!("sh{info}"), "-->".to_owned())
        } else if ticks >= 3 {
            (block[ticks..].to_owned(), "`".repeat(ticks))
        } else {
            let what = match block {
                "<!-- Ctrl-C -->" => Some(What::Interrupt),
                "<!-- wait -->" => Some(What::Wait),
                _ => None,
            };
            steps.extend(what.map(|what| Step {
                line: number,
                text: String::new(),
                what,
            }));
            continue;
        };
        let indent = line.len() - block.len();
        let mut text = String::new();
        loop {
            let Some((line, _)) = lines.next() else {
                return Err(format!("line {number}: no {end} ends this block"));
            };
            if line.trim() == end {
                break;
            }
            text.push_str(line.get(indent..).unwrap_or_default());
            text.push('\n');
        }
        let what = what(&info).map_err(|problem| format!("line {number}: {problem}"))?;
        steps.extend(what.map(|what| Step {
            line: number + 1,
            text,
            what,
        }));
    }
    Ok(steps)
}

/// What the words after the opening of a block mean.
fn what(info: &str) -> Result<Option<What>, String> {
    let (language, marks) = info.split_once(' ').unwrap_or((info, ""));
    let marks = marks.trim();
    if OTHER_SHELLS.contains(&language) {
        return Err(format!(
            "write ```sh for ```{language}: such a block is not run"
        ));
    }
    if language != "sh" {
        return Ok(value(marks, "file").map(|name| What::File { name }));
    }
    if marks.is_empty() {
        return Ok(Some(What::Run));
    }
    if let Some(reason) = value(marks, "not-run").filter(|reason| !reason.is_empty()) {
        return Ok(Some(What::NotRun { reason }));
    }
    for (name, real) in [("real", true), ("embedded", false)] {
        if let Some(reason) = value(marks, name).filter(|reason| !reason.is_empty()) {
            return Ok(Some(What::RunOn { real, reason }));
        }
    }
    let until = marks
        .strip_prefix("background ")
        .and_then(|rest| value(rest, "until"));
    match until {
        Some(until) => Ok(Some(What::Background { until })),
        None => Err(format!("{marks:?} is not understood after ```sh")),
    }
}

/// The text in `NAME="TEXT"` or `NAME='TEXT'`, if that is all there is.
fn value(marks: &str, name: &str) -> Option<String> {
    let rest = marks.strip_prefix(name)?.strip_prefix('=')?;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let text = rest.strip_prefix(quote)?.strip_suffix(quote)?;
    (!text.contains(quote)).then(|| text.to_owned())
}

/// What commands name that this checkout does not have: a program in one of its folders, a test. For commands that are
/// not run.
pub fn missing(commands: &str, root: &Path) -> Vec<String> {
    let words: Vec<&str> = commands.split_whitespace().collect();
    let folder = |word: &str| {
        let first = word.split_once('/').map(|(first, _)| root.join(first));
        first.is_some_and(|first| first.is_dir() && !first.ends_with("target"))
    };
    let programs = words
        .iter()
        .map(|word| word.trim_start_matches("./").trim_matches(['"', '\'', ')']));
    let programs = programs.map(|word| word.trim_start_matches("$("));
    let plain = |word: &&str| !word.starts_with('/') && !word.contains(['*', '$', '=', '[', ':']);
    let programs = programs
        .filter(plain)
        .filter(|word| folder(word) && !root.join(word).exists());
    let tests = words
        .windows(2)
        .filter(|pair| pair[0] == "--test")
        .map(|pair| pair[1]);
    let test = |name: &&str| {
        let file = root.join(format!("tests/{name}.rs"));
        file.exists() || root.join("tests").join(name).is_dir()
    };
    programs
        .chain(tests.filter(|name| !test(name)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_in_order_with_what_is_to_be_done_with_each_block() {
        let page = "\
Text.
```sh
true
```
<!-- sh
secret=1
-->
```toml file=\"a.toml\"
key = 1
```
```toml
key = 2
```
1. In a list:
   ```sh background until=\"it runs\"
   run
   ```
<!-- Ctrl-C -->
<!-- wait -->
````sh not-run='needs \"x\"'
```
````
```sh embedded=\"needs y\"
y
```
";
        let step = |line, text: &str, what| Step {
            line,
            text: text.to_owned(),
            what,
        };
        let expected = [
            step(3, "true\n", What::Run),
            step(6, "secret=1\n", What::Run),
            step(
                9,
                "key = 1\n",
                What::File {
                    name: "a.toml".to_owned(),
                },
            ),
            step(
                16,
                "run\n",
                What::Background {
                    until: "it runs".to_owned(),
                },
            ),
            step(18, "", What::Interrupt),
            step(19, "", What::Wait),
            step(
                21,
                "```\n",
                What::NotRun {
                    reason: "needs \"x\"".to_owned(),
                },
            ),
            step(
                24,
                "y\n",
                What::RunOn {
                    real: false,
                    reason: "needs y".to_owned(),
                },
            ),
        ];
        assert_eq!(steps(page).unwrap(), expected);
    }

    #[test]
    fn a_mark_that_is_not_understood_is_named_with_its_line() {
        for (block, expected) in [
            ("```sh later", "line 2: \"later\""),
            ("```sh not-run=\"\"", "line 2: \"not-run"),
            ("```sh background", "line 2: \"background\""),
            ("```bash", "line 2: write ```sh for ```bash"),
        ] {
            let problem = steps(&format!("\n{block}\n```\n")).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
        let problem = steps("<!-- shown to nobody -->\n```sh\ntrue\n").unwrap_err();
        assert_eq!(problem, "line 2: no ``` ends this block");
    }

    #[test]
    fn commands_that_are_not_run_name_nothing_that_does_not_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let commands = "scripts/measure && cargo test --test documentation x";
        assert_eq!(missing(commands, root), Vec::<String>::new());
        let commands = "cp \"$(scripts/gone)\" /scripts/gone && cargo test --test gone_too";
        assert_eq!(missing(commands, root), ["scripts/gone", "gone_too"]);
    }
}
