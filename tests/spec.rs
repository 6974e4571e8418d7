//! The specification and the sources agree: every rule that the sources name exists, and a test names every rule that is
//! built.
//!
//! A rule is a line of docs/spec that begins with its number. The comment `spec: E-1, S-3..S-5` above a test says which
//! rules the test proves. `(spec A-13)` in prose refers to a rule and proves nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files may name rules.
const SOURCES: [&str; 5] = ["src", "crates", "tests", "benches", "examples"];

/// Endings of files that may name rules.
const ENDINGS: [&str; 3] = ["rs", "py", "sh"];

/// Marks a rule that the code does not implement.
const NOT_BUILT: &str = "(not built yet)";

/// The most words of a rule: a longer one is several.
const LONGEST: usize = 100;

/// The number of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    section: char,
    number: u32,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.section, self.number)
    }
}

/// One rule, or all from the first to the last, as a comment names them.
#[derive(Debug, PartialEq, Eq)]
struct Mention {
    first: Rule,
    last: Rule,
    /// `spec:` with a colon, which claims that the code below keeps the rule.
    is_claim: bool,
    /// Where in the text, in bytes.
    at: usize,
}

#[test]
fn every_rule_that_is_named_exists_and_every_built_one_is_named_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut problems = Vec::new();
    let rules = rules(&root.join("docs/spec"), &mut problems);
    let mut proven = BTreeSet::new();
    for file in sources(root) {
        let text = String::from_utf8_lossy(&fs::read(root.join(&file)).unwrap()).into_owned();
        let tests_begin = tests_begin(&file, &text);
        for mention in mentions(&text) {
            let line = text[..mention.at].matches('\n').count() + 1;
            let place = format!("{}:{line}", file.display());
            for end in [mention.first, mention.last] {
                if !rules.contains_key(&end) {
                    problems.push(format!("{place}: there is no rule {end}"));
                }
            }
            if !mention.is_claim || mention.at < tests_begin {
                continue;
            }
            // A range may pass over numbers that no rule has.
            for (rule, is_built) in all_between(&rules, &mention) {
                proven.insert(rule);
                if !is_built {
                    problems.push(format!(
                        "{place}: a test names {rule}, which is {NOT_BUILT}"
                    ));
                }
            }
        }
    }
    let unproven = rules.iter().filter(|(_, is_built)| **is_built);
    let unproven = unproven.filter(|(rule, _)| !proven.contains(rule));
    problems.extend(unproven.map(|(rule, _)| format!("no test names {rule}")));
    problems.sort();
    problems.dedup();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// The rules of the specification, and whether each is built. A number that two rules have is a problem, and so is a long rule.
fn rules(folder: &Path, problems: &mut Vec<String>) -> BTreeMap<Rule, bool> {
    let mut rules = BTreeMap::new();
    let pages = entries(folder).into_iter();
    for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        for line in fs::read_to_string(&page).unwrap().lines() {
            let Some((rule, text)) = rule_at(line).filter(|(_, text)| text.starts_with(' ')) else {
                continue;
            };
            let is_built = !text.contains(NOT_BUILT);
            if rules.insert(rule, is_built).is_some() {
                problems.push(format!("docs/spec: two rules are {rule}"));
            }
            let words = text.split_whitespace().count();
            if words > LONGEST {
                problems.push(format!(
                    "docs/spec: {rule} has {words} words, more than {LONGEST}"
                ));
            }
        }
    }
    assert!(!rules.is_empty(), "{} has no rules", folder.display());
    rules
}

/// The files that may name rules, relative to the root; without this one, whose examples are no claims.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = SOURCES.map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                folders.push(path);
            } else if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                found.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    found.retain(|file| file != Path::new("tests/spec.rs"));
    found.sort();
    found
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// From which byte on a file is a test: from the start in a test's file, or in a benchmark, which measures the bounds that
/// a rule gives; else from the first inline module that only tests have.
fn tests_begin(file: &Path, text: &str) -> usize {
    let is_folder_of_tests =
        |folder: &Path| folder.ends_with("tests") || folder.ends_with("benches");
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if file.ancestors().skip(1).any(is_folder_of_tests) || name.ends_with("tests.rs") {
        return 0;
    }
    let inline = |at: &usize| {
        let item = text[*at..].find([';', '{']).map(|end| &text[at + end..]);
        item.is_some_and(|item| item.starts_with('{'))
    };
    let mut cfg = text.match_indices("#[cfg(test)]").map(|(at, _)| at);
    cfg.find(inline).unwrap_or(text.len())
}

fn all_between<'a>(
    rules: &'a BTreeMap<Rule, bool>,
    mention: &Mention,
) -> impl Iterator<Item = (Rule, bool)> + 'a {
    let within = (mention.first <= mention.last).then_some(mention.first..=mention.last);
    let within = within.into_iter().flat_map(|range| rules.range(range));
    within.map(|(rule, is_built)| (*rule, *is_built))
}

/// What follows the word `spec` in a text, with or without a colon.
fn mentions(text: &str) -> Vec<Mention> {
    let mut mentions = Vec::new();
    for (at, word) in text.match_indices("spec") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let after = &text[at + word.len()..];
        let (mut rest, is_claim) = match after.strip_prefix(':') {
            Some(rest) => (rest, true),
            None => (after, false),
        };
        if !rest.starts_with(char::is_whitespace) {
            continue;
        }
        while let Some((first, after)) = rule_at(skip_gap(rest)) {
            let at = text.len() - skip_gap(rest).len();
            let (last, after) = range_end(first, after).unwrap_or((first, after));
            mentions.push(Mention {
                first,
                last,
                is_claim,
                at,
            });
            let Some(next) = after_separator(after) else {
                break;
            };
            rest = next;
        }
    }
    mentions
}

/// A rule's number at the start of a text, and what follows it.
fn rule_at(text: &str) -> Option<(Rule, &str)> {
    let section = text.chars().next().filter(char::is_ascii_uppercase)?;
    let (number, rest) = number_at(text[1..].strip_prefix('-')?)?;
    Some((Rule { section, number }, rest))
}

fn number_at(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// The last rule of a range that begins with `first`: `..S-5`, `..5` or `to S-5`.
fn range_end(first: Rule, text: &str) -> Option<(Rule, &str)> {
    if let Some(rest) = text.strip_prefix("..") {
        return rule_at(rest).or_else(|| {
            let (number, rest) = number_at(rest)?;
            Some((Rule { number, ..first }, rest))
        });
    }
    rule_at(skip_gap(skip_gap(text).strip_prefix("to")?))
}

fn after_separator(text: &str) -> Option<&str> {
    let text = skip_gap(text);
    let rest = text.strip_prefix(',').map(skip_gap);
    match (rest, rest.unwrap_or(text).strip_prefix("and ")) {
        (_, Some(rest)) => Some(rest),
        (rest, None) => rest,
    }
}

/// The text behind blanks and the marker of the comment's next line.
fn skip_gap(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t']);
    let Some(line) = text.strip_prefix('\n') else {
        return text;
    };
    let line = line.trim_start_matches([' ', '\t']);
    let markers = ["///", "//!", "//", "#"];
    let comment = markers.iter().find_map(|marker| line.strip_prefix(marker));
    comment.map_or(text, |comment| comment.trim_start_matches([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        let shown = |mention: Mention| {
            let Mention { first, last, .. } = mention;
            let claim = if mention.is_claim { ":" } else { "" };
            match first == last {
                true => format!("{claim}{first}"),
                false => format!("{claim}{first}..{last}"),
            }
        };
        mentions(text).into_iter().map(shown).collect()
    }

    #[test]
    fn rules_are_named_after_the_word_alone_in_lists_and_in_ranges() {
        let cases: [(&str, &[&str]); 9] = [
            ("// spec: E-1, S-3..S-5", &[":E-1", ":S-3..S-5"]),
            ("# spec: E-1..3", &[":E-1..E-3"]),
            ("(spec A-13)", &["A-13"]),
            (
                "(spec E-11 to E-13, A-1 and B-2)",
                &["E-11..E-13", "A-1", "B-2"],
            ),
            ("(spec A-1,\n    /// B-2)", &["A-1", "B-2"]),
            ("(spec O-10, hand-over)", &["O-10"]),
            ("// spec: O-10\nfn a() { \"B-2\" }", &[":O-10"]),
            ("a P-256 key, the pod_spec A-1, spec.x", &[]),
            ("specs: A-1", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_is_a_test_by_its_place_or_from_its_inline_module_on() {
        let begins = |file: &str, text: &str| tests_begin(Path::new(file), text);
        assert_eq!(begins("tests/cli.rs", "x"), 0);
        assert_eq!(begins("src/a/tests/b.rs", "x"), 0);
        assert_eq!(begins("src/a/tests.rs", "x"), 0);
        let both = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inline {}";
        assert_eq!(begins("src/a.rs", both), 24);
        assert_eq!(begins("src/a.rs", "#[cfg(test)]\nmod tests;"), 23);
    }
}
