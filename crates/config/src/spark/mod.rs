//! Converts Spark's configuration, in the forms that people have it in, to a boatswain configuration
//! (spec C-7).

mod application;
mod command;
mod dynamic;
mod emr;
mod gathered;
mod keys;
mod memory;
mod properties;
mod source;
mod submission;
mod units;
mod volumes;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use toml::Value;

pub use application::Arguments;
pub use submission::{LocalFile, MOUNTED_AT, Master, Submission};

use gathered::Gathered;
use keys::{Form, KEYS, Use, use_of};

use super::Config;
use super::kinds::quoted;
use super::notes::{is_within, join};

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
    refused: Vec<String>,
    useless: Vec<String>,
    strange: Vec<String>,
}

/// Converts Spark's configuration to TOML: a properties file, a spark-submit command, EMR's JSON or a
/// SparkApplication. Keys without a counterpart are named in comments. The result is valid, except
/// that it lacks an image where the file has none.
///
/// # Errors
///
/// Why nothing can be converted, and what can be.
pub fn convert(text: &str) -> Result<String, String> {
    let source = source::read(text)?;
    let mut left = LeftOut {
        refused: source.refused,
        useless: source.useless,
        ..LeftOut::default()
    };
    let set = last_of_each(source.pairs, &mut left);
    let (written, missing) = assemble(&set, source.made, &mut left);
    Ok(render(source.kind, &written, &missing, &left))
}

/// Makes boatswain's keys of Spark's. Returns the keys that are written, and those that are missing.
fn assemble(
    set: &BTreeMap<String, String>,
    made: Vec<Gathered>,
    left: &mut LeftOut,
) -> (Vec<Written>, Vec<String>) {
    let mut written: Vec<Written> = Vec::new();
    let (mut of_memory, mut of_several) = (BTreeMap::new(), BTreeMap::new());
    for (key, value) in in_order(set, left) {
        let Some((at, Use::To(target, form), rest)) = use_of(key) else {
            continue;
        };
        if value.contains("${") || value.contains("{{") {
            let why = "refers to another value, which is not looked up";
            left.refused.push(format!("{key}: {why}"));
            continue;
        }
        let gathered = match form {
            Form::Memory => Some(&mut of_memory),
            Form::Gathered => Some(&mut of_several),
            _ => None,
        };
        if let Some(gathered) = gathered {
            gathered.insert(key, value);
            continue;
        }
        let Some(value) = toml_of(value, form) else {
            let why = format!("{value:?} is not {}", name_of(form));
            left.refused.push(format!("{key}: {why}"));
            continue;
        };
        let (section, target) = section_of(target);
        let new = Written {
            at,
            section,
            key: match target.strip_suffix(".*") {
                Some(table) => join(table, rest),
                None => target.to_owned(),
            },
            value,
            from: vec![key.to_owned()],
        };
        match written.iter_mut().find(|old| old.path() == new.path()) {
            Some(old) => {
                left.refused.push(said_twice(&old.from, &new.from));
                *old = new;
            }
            None => written.push(new),
        }
    }
    let (mut gathered, refused) = gathered::gather(&of_several);
    left.refused.extend(refused);
    let (of_memory, refused) = memory::gather(&of_memory);
    left.refused.extend(refused);
    gathered.extend(of_memory);
    gathered.extend(made);
    add_gathered(gathered, &mut written, left);
    written.sort_by(|a, b| (a.at, &a.key).cmp(&(b.at, &b.key)));
    let missing = drop_what_is_refused(&mut written, left);
    (written, missing)
}

/// The keys of the profile, as JSON.
fn profile_of(written: &[Written]) -> Map<String, Json> {
    let line = |one: &Written| format!("{} = {}\n", one.key, one.value);
    let of_profile = written
        .iter()
        .filter(|one| one.section == "profiles.default");
    let text: String = of_profile.map(line).collect();
    let made: toml::Table = text.parse().unwrap_or_default();
    match json!(made) {
        Json::Object(made) => made,
        _ => Map::new(),
    }
}

/// The arguments with which spark-submit starts a SparkApplication at this master.
///
/// # Errors
///
/// Why the text is none.
pub fn arguments(text: &str, master: &str) -> Result<Arguments, String> {
    application::arguments(&source::documents(text)?, master)
}

/// The later of two equal keys wins, as in Spark.
fn last_of_each(pairs: Vec<(String, String)>, left: &mut LeftOut) -> BTreeMap<String, String> {
    let mut set = BTreeMap::new();
    for (key, value) in pairs {
        let new = value.clone();
        if let Some(old) = set.insert(key.clone(), value)
            && old != new
        {
            let why = "it is said more than once, and the last one wins";
            left.refused.push(format!("{key}: {why}"));
        }
    }
    set
}

const SPARK_S: &str = "Spark reads it itself; leave it in Spark's own configuration";

/// The keys that are set, in the order of the table. Unknown keys are noted as left out.
fn in_order<'s>(set: &'s BTreeMap<String, String>, left: &mut LeftOut) -> Vec<(&'s str, &'s str)> {
    let mut known = Vec::new();
    for (key, value) in set {
        match use_of(key) {
            Some((at, Use::To(..), _)) => known.push((at, (&**key, &**value))),
            Some((_, Use::Unused(why), _)) => left.useless.push(format!("{key}: {why}")),
            None if key.starts_with("spark.kubernetes.") => left.strange.push(key.clone()),
            None if key.starts_with("spark.") => left.useless.push(format!("{key}: {SPARK_S}")),
            None => left
                .useless
                .push(format!("{key}: Spark's keys begin with spark.")),
        }
    }
    known.sort_by_key(|(at, _)| *at);
    known.into_iter().map(|(_, pair)| pair).collect()
}

/// Splits a key of the table into its section and the key in the section.
fn section_of(target: &'static str) -> (&'static str, &'static str) {
    match target.strip_prefix("profiles.default.") {
        Some(key) => ("profiles.default", key),
        None => target.split_once('.').unwrap_or(("", target)),
    }
}

fn toml_of(value: &str, form: Form) -> Option<String> {
    let span = |unit| {
        let span = units::duration(value, unit)?;
        Some(quoted(&humantime::format_duration(span).to_string()))
    };
    Some(match form {
        Form::Text => quoted(value),
        Form::File => quoted(local_path(value)?),
        Form::Flag => {
            let flag: bool = value.to_ascii_lowercase().parse().ok()?;
            flag.to_string()
        }
        Form::Deleted => match value.to_ascii_lowercase().parse().ok()? {
            true => quoted("none"),
            false => quoted("all"),
        },
        Form::Count => value.parse::<u64>().ok()?.to_string(),
        Form::Millis => span(Duration::from_millis(1))?,
        Form::Seconds => span(Duration::from_secs(1))?,
        Form::Number => value.parse::<f64>().ok().map(|_| value.to_owned())?,
        Form::Share => {
            let percent = (value.parse::<f64>().ok()? * 100.0).round();
            let fits = (0.0..=100.0).contains(&percent);
            fits.then(|| quoted(&format!("{percent}%")))?
        }
        Form::List => {
            let items = value.split(',').map(str::trim);
            let items: Vec<String> = items.filter(|item| !item.is_empty()).map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
        Form::SecretKey => {
            let (name, key) = value.split_once(':')?;
            format!("{{ secret = {}, key = {} }}", quoted(name), quoted(key))
        }
        Form::Memory | Form::Gathered => return None,
    })
}

/// The path of a file that Spark names by a path or a URL. `None`: it is on no file system.
fn local_path(value: &str) -> Option<&str> {
    let Some((scheme, path)) = value.split_once(':') else {
        return Some(value);
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    (["file", "local"].contains(&scheme) && path.starts_with('/')).then_some(path)
}

fn name_of(form: Form) -> &'static str {
    match form {
        Form::Text => "a text",
        Form::File => {
            "on this machine; copy it beside the configuration and name the copy: profiles.default.template"
        }
        Form::Flag | Form::Deleted => "true or false",
        Form::Count => "a whole number",
        Form::Millis | Form::Seconds => "a duration as Spark writes it",
        Form::Memory => "a size as Spark writes it",
        Form::Number => "a number",
        Form::Share => "a number from 0 to 1",
        Form::List | Form::Gathered => "a list",
        Form::SecretKey => "a Secret's name, a colon and a key",
    }
}

/// Adds the keys that are not made from one Spark key alone. Lists that are described in several
/// places add up.
fn add_gathered(gathered: Vec<Gathered>, written: &mut Vec<Written>, left: &mut LeftOut) {
    let mut whole: Vec<Gathered> = Vec::new();
    for made in gathered {
        let same = |old: &&mut Gathered| (old.section, &old.key) == (made.section, &made.key);
        match whole.iter_mut().find(same) {
            None => whole.push(made),
            Some(old) => match (&mut old.value, made.value) {
                (Value::Array(old_items), Value::Array(items)) => {
                    old_items.extend(items);
                    old.from.extend(made.from);
                }
                (Value::Table(fields), Value::Table(more)) => {
                    fields.extend(more);
                    old.from.extend(made.from);
                }
                _ => left.refused.push(said_twice(&made.from, &old.from)),
            },
        }
    }
    for made in whole {
        let path = format!("{}.{}", made.section, made.key);
        if let Some(old) = written.iter().find(|written| written.path() == path) {
            left.refused.push(said_twice(&made.from, &old.from));
            continue;
        }
        let places = made.from.iter().filter_map(|key| Some(use_of(key)?.0));
        written.push(Written {
            at: places.min().unwrap_or(KEYS.len()),
            section: made.section,
            key: made.key,
            value: made.value.to_string(),
            from: made.from,
        });
    }
}

fn said_twice(from: &[String], by: &[String]) -> String {
    let (from, by) = (from.join(", "), by.join(", "));
    format!("{from}: {by} says otherwise, and wins")
}

/// Removes what boatswain would refuse and names it in a comment instead, so that the result is
/// valid. Returns the keys that are missing.
fn drop_what_is_refused(written: &mut Vec<Written>, left: &mut LeftOut) -> Vec<String> {
    // Terminates: each iteration removes at least one key.
    loop {
        let text = render("", written, &[], &LeftOut::default());
        let Err(error) = Config::from_toml(&text, "", [], &[]) else {
            return Vec::new();
        };
        let before = written.len();
        let mut missing = Vec::new();
        for mistake in error.mistakes {
            // The mistake may be about an entry of the value.
            let is_of = |written: &Written| is_within(&mistake.key, &written.path());
            let why = format!("{}: {}; {}", mistake.key, mistake.found, mistake.fix);
            match written.iter().position(is_of) {
                Some(at) => {
                    let from = written.remove(at).from.join(", ");
                    left.refused.push(format!("{from}: {why}"));
                }
                None => missing.push(why),
            }
        }
        if written.len() == before {
            return missing;
        }
    }
}

fn render(kind: &str, written: &[Written], missing: &[String], left: &LeftOut) -> String {
    let mut out = format!("# Made from {kind} by `boatswain convert`.\n");
    let list = |title: &str, lines: &[String]| {
        let mut said = String::new();
        if !lines.is_empty() {
            said = format!("\n# {title}\n");
        }
        for line in lines {
            // A line break in a value must not end the comment.
            let line = line.replace(char::is_control, " ");
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
            let from = line.from.join(", ").replace(char::is_control, "");
            let _ = writeln!(out, "{} = {}  # {from}", line.key, line.value);
        }
    }
    out.push_str(&list("Not taken over:", &left.refused));
    let strange = "Keys of Spark's on Kubernetes that are not known here:";
    out.push_str(&list(strange, &left.strange));
    out.push_str(&list("Of no use to boatswain:", &left.useless));
    out
}
