//! Parses the configuration file and the overrides into one tree in which every value knows its
//! origin.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Mistake, Origin};

/// The prefix of environment variables that override a key (spec C-3).
pub const ENV_PREFIX: &str = "BOATSWAIN__";

/// The deepest nesting that is accepted. No section needs more, and every level costs a recursive
/// call.
const DEEPEST: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub value: Value,
    /// The position of the value.
    pub origin: Origin,
    /// The position of the key; the same as `origin` in an override.
    pub key_origin: Origin,
}

impl Node {
    pub fn at(origin: Origin, value: Value) -> Self {
        Self {
            value,
            key_origin: origin.clone(),
            origin,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Whole(i128),
    /// A number with a fraction, or an integer that does not fit, as it was written.
    Number(String),
    Flag(bool),
    Date(String),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

impl Value {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Describes the value for an error message.
    pub fn describe(&self) -> String {
        match self {
            Self::Text(text) => {
                let cut: String = text.chars().take(60).collect();
                let more = if cut.len() < text.len() { "…" } else { "" };
                format!("{cut:?}{more}")
            }
            Self::Whole(number) => number.to_string(),
            Self::Number(text) | Self::Date(text) => text.clone(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a section".to_owned(),
        }
    }
}

/// Parses a file, and reports every syntax error in it.
pub(super) fn parse(text: &str) -> (Node, Vec<Mistake>) {
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let mistakes = errors.iter().map(|error| {
        let origin = lines.place(error.span().map_or(0, |span| span.start));
        let fix = "write the file as TOML: https://toml.io";
        Mistake::of_file(origin, error.message(), fix)
    });
    let mistakes = mistakes.collect();
    let value = table_of(table.get_ref(), &|at| lines.place(at));
    (Node::at(Origin::Default, value), mistakes)
}

/// The lines that cannot be read because of syntax errors: the line of a bad value, or everything
/// up to the next header after an unclosed delimiter or a bad header.
pub(super) fn unread(text: &str, errors: &[Mistake]) -> Vec<RangeInclusive<usize>> {
    let lines: Vec<&str> = text.lines().collect();
    let of = |error: &Mistake| {
        let Origin::File { line, .. } = error.origin else {
            return None;
        };
        let own = lines.get(line - 1).copied().unwrap_or("");
        let opens = ["[", "{", "\"\"\"", "'''"];
        if !opens.iter().any(|open| own.contains(open)) {
            return Some(line..=line);
        }
        let rest = lines.iter().skip(line);
        let clean = rest.take_while(|line| !line.starts_with('[')).count();
        Some(line..=line + clean)
    };
    errors.iter().filter_map(of).collect()
}

fn table_of(table: &DeTable<'_>, place: &dyn Fn(usize) -> Origin) -> Value {
    let entries = table.iter().map(|(key, value)| {
        let node = Node {
            value: value_of(value.get_ref(), place),
            origin: place(value.span().start),
            key_origin: place(key.span().start),
        };
        (key.get_ref().to_string(), node)
    });
    Value::Table(entries.collect())
}

fn value_of(value: &DeValue<'_>, place: &dyn Fn(usize) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(whole) => Value::Whole(whole),
            Err(_) => Value::Number(number.to_string()),
        },
        DeValue::Float(number) => Value::Number(number.to_string()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter();
            let node = |item: &Spanned<DeValue<'_>>| {
                Node::at(place(item.span().start), value_of(item.get_ref(), place))
            };
            Value::List(items.map(node).collect())
        }
        DeValue::Table(table) => table_of(table, place),
    }
}

pub(super) struct Override {
    origin: Origin,
    path: Vec<String>,
    raw: String,
}

impl Override {
    /// Parses an environment variable if it has the prefix: `BOATSWAIN__POLL__INTERVAL` sets
    /// `poll.interval` (spec C-3).
    pub fn from_env(name: &str, raw: &str) -> Option<Result<Self, Mistake>> {
        let path = name.strip_prefix(ENV_PREFIX)?;
        let path: Vec<String> = path.split("__").map(str::to_lowercase).collect();
        let origin = override_origin(name.to_owned(), raw);
        if path.iter().any(String::is_empty) || path.len() > DEEPEST {
            let fix = "write BOATSWAIN__SECTION__KEY, such as BOATSWAIN__POLL__INTERVAL";
            let found = "the override names no key";
            return Some(Err(Mistake::of_file(origin, found, fix)));
        }
        let raw = raw.to_owned();
        Some(Ok(Self { origin, path, raw }))
    }

    /// Parses `section.key=value` from the command line. A part of the key that is not a bare key
    /// is quoted, as in TOML.
    pub fn from_set(argument: &str) -> Result<Self, Mistake> {
        let refuse = |found| {
            let origin = override_origin(format!("--set {argument}"), argument);
            let fix = "write --set section.key=value, as --set poll.interval=10s";
            Mistake::of_file(origin, found, fix)
        };
        let (key, raw) = split_outside_quotes(argument).ok_or_else(|| refuse("no `=` in it"))?;
        Ok(Self {
            origin: override_origin(format!("--set {key}"), raw),
            path: dotted(key).ok_or_else(|| refuse("the override names no key"))?,
            raw: raw.to_owned(),
        })
    }

    /// Sets the value in the tree, and replaces what was there.
    pub fn apply(self, root: &mut Node) {
        let origin = self.origin;
        let parsed = DeValue::parse(&self.raw);
        let value = match &parsed {
            Ok(value) => value_of(value.get_ref(), &|_| origin.clone()),
            Err(_) => Value::Text(self.raw.clone()),
        };
        let mut place = root;
        for part in self.path {
            if !matches!(place.value, Value::Table(_)) {
                place.value = Value::Table(BTreeMap::new());
                place.origin = origin.clone();
            }
            let Value::Table(table) = &mut place.value else {
                return;
            };
            let absent = || Node::at(origin.clone(), Value::Table(BTreeMap::new()));
            place = table.entry(part).or_insert_with(absent);
        }
        *place = Node::at(origin, value);
    }
}

fn override_origin(name: String, raw: &str) -> Origin {
    let raw = raw.to_owned();
    Origin::Override { name, raw }
}

/// Splits at the first `=` outside a quoted part of the key.
fn split_outside_quotes(argument: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in argument.char_indices() {
        match (quote, c) {
            (None, '=') => return Some((argument[..at].trim(), &argument[at + 1..])),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// The parts of a dotted key, parsed by the TOML parser.
fn dotted(key: &str) -> Option<Vec<String>> {
    let text = format!("{key} = 0");
    let document = DeTable::parse(&text).ok()?;
    let mut path = Vec::new();
    let mut table = document.get_ref();
    loop {
        let mut entries = table.iter();
        let (part, value) = entries.next()?;
        if entries.next().is_some() || path.len() == DEEPEST {
            return None;
        }
        path.push(part.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            DeValue::Integer(_) => return Some(path),
            _ => return None,
        }
    }
}

/// Converts byte offsets to lines and columns.
struct Lines<'t> {
    text: &'t str,
    /// The byte offset at which each line begins.
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let after_each_break = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after_each_break).collect(),
        }
    }

    fn place(&self, at: usize) -> Origin {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..at).unwrap_or("");
        Origin::File {
            line,
            column: before.chars().count() + 1,
        }
    }
}
