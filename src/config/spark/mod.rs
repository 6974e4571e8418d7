//! Converts `spark-defaults.conf` to a boatswain configuration (spec C-7).

mod gathered;
mod keys;
mod memory;
mod properties;
mod units;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use keys::{Form, KEYS, Use, use_of};
use properties::properties;

use super::Config;
use super::notes::join;

/// A key in the output.
struct Written {
    /// The index in the table of keys, which determines the order in the file.
    at: usize,
    section: &'static str,
    key: String,
    value: String,
    /// The Spark keys that it is made from.
    from: Vec<String>,
}

impl Written {
    fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }
}

/// The lines about what is not converted.
#[derive(Default)]
struct LeftOut {
    planned: Vec<String>,
    refused: Vec<String>,
    useless: Vec<String>,
    strange: Vec<String>,
}

/// Converts the text of a Spark properties file to TOML. Keys without a counterpart are named in
/// comments. The result is valid, except that it lacks an image where the file has none.
pub fn convert(text: &str) -> String {
    // The later of two equal keys wins, as in Java.
    let set: BTreeMap<String, String> = properties(text)
        .into_iter()
        .map(|property| (property.key, property.value))
        .collect();
    let mut left = LeftOut::default();
    let mut written: Vec<Written> = Vec::new();
    let mut of_memory: BTreeMap<&str, &str> = BTreeMap::new();
    let mut of_several: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, value) in in_order(&set, &mut left) {
        let Some((at, Use::To(target, form), rest)) = use_of(key) else {
            continue;
        };
        if value.contains("${") {
            left.refused.push(format!(
                "{key}: refers to another value, which is not looked up"
            ));
            continue;
        }
        match form {
            Form::Memory => of_memory.insert(key, value),
            Form::Gathered => of_several.insert(key, value),
            _ => None,
        };
        if matches!(form, Form::Memory | Form::Gathered) {
            continue;
        }
        let Some(value) = toml_of(value, form) else {
            left.refused
                .push(format!("{key}: {value:?} is not {}", name_of(form)));
            continue;
        };
        let (section, target) = section_of(target);
        let key_there = match target.strip_suffix(".*") {
            Some(table) => join(table, rest),
            None => target.to_owned(),
        };
        let new = Written {
            at,
            section,
            key: key_there,
            value,
            from: vec![key.to_owned()],
        };
        match written.iter_mut().find(|old| old.path() == new.path()) {
            Some(old) => {
                left.refused.push(format!(
                    "{}: {key} says otherwise, and wins",
                    old.from.join(", ")
                ));
                *old = new;
            }
            None => written.push(new),
        }
    }
    add_memory(&of_memory, &mut written, &mut left);
    add_gathered(&of_several, &mut written, &mut left);
    written.sort_by(|a, b| (a.at, &a.key).cmp(&(b.at, &b.key)));
    let missing = drop_what_is_refused(&mut written, &mut left);
    render(&written, &missing, &left)
}

/// The keys that are set, in the order of the table. Unknown keys are noted as left out.
fn in_order<'s>(set: &'s BTreeMap<String, String>, left: &mut LeftOut) -> Vec<(&'s str, &'s str)> {
    let mut known = Vec::new();
    for (key, value) in set {
        match use_of(key) {
            Some((at, Use::To(..), _)) => known.push((at, (&**key, &**value))),
            Some((_, Use::Planned(there), _)) => left.planned.push(format!("{key} ({there})")),
            Some((_, Use::None(why), _)) => left.useless.push(format!("{key}: {why}")),
            None if key.starts_with("spark.kubernetes.") => left.strange.push(key.clone()),
            None => left.useless.push(key.clone()),
        }
    }
    known.sort_by_key(|(at, _)| *at);
    known.into_iter().map(|(_, pair)| pair).collect()
}

/// Splits a key of the table into its section and the key in the section.
fn section_of(target: &'static str) -> (&'static str, &'static str) {
    let profile = "profiles.default";
    match target
        .strip_prefix(profile)
        .and_then(|rest| rest.strip_prefix('.'))
    {
        Some(key) => (profile, key),
        None => target.split_once('.').unwrap_or(("", target)),
    }
}

fn toml_of(value: &str, form: Form) -> Option<String> {
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let span = |unit| {
        let span = units::duration(value, unit)?;
        Some(text(&humantime::format_duration(span).to_string()))
    };
    match form {
        Form::Text => Some(text(value)),
        Form::Flag => value
            .to_ascii_lowercase()
            .parse::<bool>()
            .ok()
            .map(|flag| flag.to_string()),
        Form::Count => value.parse::<u64>().ok().map(|count| count.to_string()),
        Form::Millis => span(Duration::from_millis(1)),
        Form::Seconds => span(Duration::from_secs(1)),
        Form::Number => value.parse::<f64>().ok().map(|_| value.to_owned()),
        Form::Share => {
            let share = value.parse::<f64>().ok()?;
            let percent = (share * 100.0).round();
            (0.0..=100.0)
                .contains(&percent)
                .then(|| text(&format!("{percent}%")))
        }
        Form::List => {
            let items = value
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            let items: Vec<String> = items.map(text).collect();
            Some(format!("[{}]", items.join(", ")))
        }
        Form::SecretKey => {
            let (name, key) = value.split_once(':')?;
            Some(format!(
                "{{ secret = {}, key = {} }}",
                text(name),
                text(key)
            ))
        }
        Form::RollPolicy => match value {
            "ID" => Some(text("id")),
            "ADD_TIME" => Some(text("oldest")),
            _ => None,
        },
        Form::Memory | Form::Gathered => None,
    }
}

fn name_of(form: Form) -> &'static str {
    match form {
        Form::Text => "a text",
        Form::Flag => "true or false",
        Form::Count => "a whole number",
        Form::Millis | Form::Seconds => "a duration as Spark writes it",
        Form::Memory => "a size as Spark writes it",
        Form::Number => "a number",
        Form::Share => "a number from 0 to 1",
        Form::List | Form::Gathered => "a list",
        Form::SecretKey => "a Secret's name, a colon and a key",
        Form::RollPolicy => {
            "ID or ADD_TIME; roll.policy = \"outlier\" needs a metric that executors report"
        }
    }
}

/// Request and limit are the same in Spark.
fn add_memory(set: &BTreeMap<&str, &str>, written: &mut Vec<Written>, left: &mut LeftOut) {
    let from: Vec<String> = set.keys().map(|key| (*key).to_owned()).collect();
    if from.is_empty() {
        return;
    }
    let mebibytes = match memory::mebibytes(set) {
        Ok(mebibytes) => mebibytes,
        Err(key) => {
            let value = set.get(key).copied().unwrap_or_default();
            left.refused.push(format!(
                "{key}: {value:?} is not a size, a factor or a flag; no memory is set"
            ));
            return;
        }
    };
    let is_memory = |(_, becomes): &(&str, Use)| matches!(becomes, Use::To(_, Form::Memory));
    let at = KEYS.iter().position(is_memory).unwrap_or(KEYS.len());
    for key in ["memory", "memory_limit"] {
        written.push(Written {
            at,
            section: "profiles.default",
            key: key.to_owned(),
            value: format!("\"{mebibytes}Mi\""),
            from: from.clone(),
        });
    }
}

/// Adds the keys that are made from several Spark keys.
fn add_gathered(set: &BTreeMap<&str, &str>, written: &mut Vec<Written>, left: &mut LeftOut) {
    let (gathered, refused) = gathered::gather(set);
    left.refused.extend(refused);
    for made in gathered {
        let first = made
            .from
            .iter()
            .filter_map(|key| Some(use_of(key)?.0))
            .min();
        written.push(Written {
            at: first.unwrap_or(KEYS.len()),
            section: made.section,
            key: made.key.to_owned(),
            value: made.value.to_string(),
            from: made.from,
        });
    }
}

/// Removes what boatswain would refuse and names it in a comment instead, so that the result is
/// valid. Returns the keys that are missing.
fn drop_what_is_refused(written: &mut Vec<Written>, left: &mut LeftOut) -> Vec<String> {
    // Terminates: each iteration removes at least one key.
    loop {
        let text = render(written, &[], &LeftOut::default());
        let Err(error) = Config::from_toml(&text, "", [], &[]) else {
            return Vec::new();
        };
        let before = written.len();
        let mut missing = Vec::new();
        for mistake in error.mistakes {
            // The mistake may be about an entry of the value.
            let is_of = |written: &Written| {
                let rest = mistake.key.strip_prefix(&written.path());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            match written.iter().position(is_of) {
                Some(at) => {
                    let dropped = written.remove(at);
                    let from = dropped.from.join(", ");
                    let said = format!(
                        "{from}: {}: {}; {}",
                        mistake.key, mistake.found, mistake.fix
                    );
                    left.refused.push(said);
                }
                None => missing.push(format!(
                    "{}: {}; {}",
                    mistake.key, mistake.found, mistake.fix
                )),
            }
        }
        if written.len() == before {
            return missing;
        }
    }
}

fn render(written: &[Written], missing: &[String], left: &LeftOut) -> String {
    let mut out = String::from("# Made from a spark-defaults.conf by `boatswain convert`.\n");
    let list = |title: &str, lines: &[String]| {
        let mut said = String::new();
        if !lines.is_empty() {
            said = format!("\n# {title}\n");
        }
        for line in lines {
            // A line break in a value must not end the comment.
            let line: String = line
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            said.push_str(&format!("#   {line}\n"));
        }
        said
    };
    out.push_str(&list("Still to be written by hand:", missing));
    let mut sections: Vec<&str> = Vec::new();
    for line in written {
        if !sections.contains(&line.section) {
            sections.push(line.section);
        }
    }
    for section in sections {
        let _ = write!(out, "\n[{section}]\n");
        for line in written.iter().filter(|line| line.section == section) {
            let from: String = line.from.join(", ");
            let from: String = from.chars().filter(|c| !c.is_control()).collect();
            let _ = writeln!(out, "{} = {}  # {from}", line.key, line.value);
        }
    }
    out.push_str(&list("Not taken over:", &left.refused));
    out.push_str(&list(
        "Of use to boatswain once it has the key that is named beside it:",
        &left.planned,
    ));
    out.push_str(&list(
        "Keys of Spark's on Kubernetes that are not known here:",
        &left.strange,
    ));
    out.push_str(&list("Of no use to boatswain:", &left.useless));
    out
}
