//! Compares the documentation's tables with what the program says of itself. Tables that the library knows more about
//! (reasons, exit codes, metrics, requests, events, keys, rights) are compared beside the code.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::{pages, root};

pub fn boatswain(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_boatswain"))
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What commands name that the program does not know: its commands and their options. For commands that are not run.
pub fn unknown(commands: &str) -> Vec<String> {
    let known = self::commands(&boatswain(&["--help"]));
    let mut unknown = Vec::new();
    for command in commands.split(['\n', '|', '&', ';']) {
        let mut words = command
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'));
        let Some(name) = words
            .next()
            .filter(|program| *program == "boatswain")
            .and_then(|_| words.next())
        else {
            continue;
        };
        if !known.contains(name) {
            unknown.push(format!("boatswain {name}"));
            continue;
        }
        let help = boatswain(&[name, "--help"]);
        let options = words.filter(|word| word.starts_with("--") && !help.contains(word));
        unknown.extend(options.map(|option| format!("boatswain {name} {option}")));
    }
    unknown
}

#[test]
fn commands_that_are_not_run_name_no_option_that_does_not_exist() {
    let commands = "true && boatswain status --open --opens # --not\nboatswain stat --open | boatswain scale a=1";
    assert_eq!(
        unknown(commands),
        ["boatswain status --opens", "boatswain stat"]
    );
}

/// The commands that this help lists, but for itself.
fn commands(help: &str) -> BTreeSet<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.map_while(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// What is written as code in the first cell of each row of the last table below a heading.
fn first_cells(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split(&format!("\n{heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let parts = section.split("\n\n").map(str::trim_start);
    let table = parts.filter(|part| part.starts_with('|')).last().unwrap();
    let cells = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split('|').nth(1));
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    code.map(str::to_owned).collect()
}

// spec: O-43
#[test]
fn every_command_is_on_a_page() {
    let mut found = Vec::new();
    pages(root(), &mut found);
    let text: Vec<String> = found
        .iter()
        .map(|page| fs::read_to_string(root().join(page)).unwrap())
        .collect();
    let text = text.join("\n");
    let named = |command: &String| {
        [" ", "`", "\n"]
            .iter()
            .any(|after| text.contains(&format!("boatswain {command}{after}")))
    };
    let commands = commands(&boatswain(&["--help"]));
    assert!(commands.len() > 15, "{commands:?}");
    let missing: Vec<&String> = commands.iter().filter(|command| !named(command)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

// spec: O-71
#[test]
fn the_page_of_the_embedded_cluster_lists_its_faults() {
    let documented = first_cells(&page("docs/embedded-cluster.md"), "## Fault injection");
    let documented = documented
        .iter()
        .map(|words| words.split(' ').next().unwrap().to_owned());
    let known = commands(&boatswain(&["dev-cluster", "ctl", "--help"]));
    assert_eq!(documented.collect::<BTreeSet<_>>(), known);
}

// spec: K-4
#[test]
fn the_page_of_the_protocol_lists_the_environment_of_executors() {
    let mut documented = first_cells(
        &page("docs/protocol.md").replace("\n### ", "\n## "),
        "## Environment",
    );
    // A secret, which a dry run does not show.
    assert!(documented.remove("BOATSWAIN_TOKEN"));
    let with_sessions = [
        "--set",
        "tls.generate=true",
        "--set",
        "backend.listen=0.0.0.0:7078",
        "--set",
        "backend.service_selector={ driver = \"etl\" }",
        "--set",
        "profiles.default.spares=1",
    ];
    let local = boatswain(&["run", "--dry-run", "--config", "config/local.toml"]);
    let args = ["run", "--dry-run", "--config", "config/kubernetes.toml"];
    let pods = local + &boatswain(&[&args[..], &with_sessions].concat());
    let words = pods.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let set = words
        .filter(|word| word.starts_with("BOATSWAIN_"))
        .map(str::to_owned);
    assert_eq!(set.collect::<BTreeSet<_>>(), documented);
}
