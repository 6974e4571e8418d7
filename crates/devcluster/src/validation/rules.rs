//! Checks single fields of a pod's spec by the rules of [`pod_fields`].
//!
//! A path leads to all values at it: `a|b` is one of several fields, `[*]` an element of a list, `[]` one whose place is
//! not named in errors, and `!` a step that is not named in them, as it happens on real servers.

mod pod_fields;

use serde_json::Value;

use super::names;
use crate::api::status::Causes;

/// What is checked of a value. Only `Required` minds one that is missing.
enum Check {
    Required,
    /// One of these texts, also where none is given.
    Named(&'static [&'static str]),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    Between(i64, i64),
    /// A text of this form, if it is not empty.
    Form(fn(&str) -> Result<(), &'static str>),
    /// A name with an optional domain.
    Qualified,
    /// A path that does not lead upwards.
    Down,
    /// One that is relative as well.
    Relative,
    Absolute,
    /// A port's number or name.
    Port,
    Address,
    /// A list of at most so many.
    AtMost(usize),
    /// Exactly one of these fields, or else it is required, and a further one forbidden.
    Handler(&'static [&'static str]),
    /// Exactly one of these fields.
    One(&'static [&'static str]),
}

use Check::{
    Absolute, Address, AtMost, Between, Down, Form, Handler, Named, One, OneOf, Port, Qualified,
    Relative, Required,
};

/// Checks all rules.
pub(super) fn check(pod: &Value, causes: &mut Causes) {
    for (path, check) in pod_fields::RULES {
        let steps: Vec<&str> = path.split('.').collect();
        walk(pod, &mut String::new(), &steps, &mut |field, value| {
            check.of(field, value, causes);
        });
    }
}

/// Visits every value at a path, with its name in errors; the last step's also if they are missing.
pub(super) fn each(pod: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    let steps: Vec<&str> = path.split('.').collect();
    walk(pod, &mut String::new(), &steps, &mut |field, value| {
        if let Some(value) = value {
            visit(field, value);
        }
    });
}

fn walk(
    value: &Value,
    at: &mut String,
    steps: &[&str],
    visit: &mut dyn FnMut(&str, Option<&Value>),
) {
    let Some((step, rest)) = steps.split_first() else {
        return visit(at, Some(value));
    };
    let before = at.len();
    let (is_shown, step) = match step.strip_prefix('!') {
        Some(step) => (false, step),
        None => (true, *step),
    };
    let (names, brackets) = step.split_at(step.find('[').unwrap_or(step.len()));
    if names.is_empty() {
        return walk(value, at, rest, visit);
    }
    for name in names.split('|') {
        if is_shown {
            at.push_str(if at.is_empty() { "" } else { "." });
            at.push_str(name);
        }
        match value.get(name) {
            None | Some(Value::Null) if rest.is_empty() && brackets.is_empty() => visit(at, None),
            Some(items) if !brackets.is_empty() => {
                let named = at.len();
                for (i, item) in items.as_array().into_iter().flatten().enumerate() {
                    if brackets == "[*]" {
                        at.push_str(&format!("[{i}]"));
                    }
                    walk(item, at, rest, visit);
                    at.truncate(named);
                }
            }
            Some(found) => walk(found, at, rest, visit),
            None => {}
        }
        at.truncate(before);
    }
}

impl Check {
    fn of(&self, field: &str, value: Option<&Value>, causes: &mut Causes) {
        let is_empty = |value: &Value| match value {
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        if matches!(self, Required) {
            if value.is_none_or(is_empty) {
                causes.required(field, "");
            }
            return;
        }
        let text = value.and_then(Value::as_str).unwrap_or_default();
        if let Named(allowed) = self
            && !allowed.contains(&text)
        {
            return causes.not_supported(field, text, allowed);
        }
        let Some(value) = value else {
            // As Go has it, a missing text is an empty one.
            if matches!(self, Qualified) {
                qualified(field, text, causes);
            }
            return;
        };
        let count = value.as_array().map_or(0, Vec::len);
        match self {
            OneOf([]) => {
                causes.invalid(field, value, "must not be set here");
            }
            OneOf(allowed) if !allowed.contains(&text) => {
                causes.not_supported(field, value, allowed);
            }
            Between(least, most)
                if !value
                    .as_i64()
                    .is_some_and(|n| (*least..=*most).contains(&n)) =>
            {
                let detail = format!("must be between {least} and {most}, inclusive");
                causes.invalid(field, value, &detail);
            }
            Form(form) if !text.is_empty() => {
                if let Err(why) = form(text) {
                    causes.invalid(field, value, why);
                }
            }
            Qualified => qualified(field, text, causes),
            Relative if text.starts_with('/') => {
                causes.invalid(field, value, "must be a relative path");
            }
            Relative | Down if text.split('/').any(|step| step == "..") => {
                causes.invalid(field, value, "must not contain '..'");
            }
            Absolute if !text.is_empty() && !text.starts_with('/') => {
                causes.invalid(field, value, "must be an absolute path");
            }
            Port => port(field, value, causes),
            Address if text.parse::<std::net::IpAddr>().is_err() => {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                causes.invalid(field, value, detail);
            }
            AtMost(most) if count > *most => causes.too_many(field, count, *most),
            Handler(kinds) => handler(field, value, kinds, causes),
            One(kinds)
                if kinds
                    .iter()
                    .filter(|kind| value.get(**kind).is_some())
                    .count()
                    != 1 =>
            {
                let detail = format!("must specify one of: {}", kinds.join(", "));
                causes.invalid(field, "", &detail);
            }
            _ => {}
        }
    }
}

fn qualified(field: &str, name: &str, causes: &mut Causes) {
    for why in names::all_of_qualified(name) {
        causes.invalid(field, name, why);
    }
}

/// A field that may be a port's number or its name.
pub(super) fn port(field: &str, value: &Value, causes: &mut Causes) {
    match value.as_str() {
        Some(name) => {
            for why in names::port(name) {
                causes.invalid(field, value, why);
            }
        }
        None if !value
            .as_i64()
            .is_some_and(|port| (1..=65_535).contains(&port)) =>
        {
            causes.invalid(field, value, "must be between 1 and 65535, inclusive");
        }
        None => {}
    }
}

fn handler(field: &str, value: &Value, kinds: &[&str], causes: &mut Causes) {
    let mut given = kinds.iter().filter(|kind| value.get(**kind).is_some());
    if given.next().is_none() {
        causes.required(field, "must specify a handler type");
    }
    for further in given {
        let detail = "may not specify more than 1 handler type";
        causes.forbidden(format!("{field}.{further}"), detail);
    }
}
