//! Values at dotted paths, and saved values in the place of variables.

use std::collections::HashMap;

use serde_json::Value;

/// One element of a path.
enum Element {
    Key(String),
    /// From the end where it is negative.
    Index(i64),
    /// `[*]`.
    All,
    /// An index that is no number: it finds nothing.
    None,
}

fn elements(path: &str) -> Vec<Element> {
    let mut found = Vec::new();
    let mut key = String::new();
    let mut rest = path.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => key.extend(rest.next()),
            '.' => end_key(&mut key, &mut found),
            '[' => {
                end_key(&mut key, &mut found);
                let index: String = rest.by_ref().take_while(|c| *c != ']').collect();
                found.push(match index.as_str() {
                    "*" => Element::All,
                    index => index.parse().map_or(Element::None, Element::Index),
                });
            }
            c => key.push(c),
        }
    }
    end_key(&mut key, &mut found);
    found
}

fn end_key(key: &mut String, found: &mut Vec<Element>) {
    if !key.is_empty() {
        found.push(Element::Key(std::mem::take(key)));
    }
}

/// The value at the path, if there is one. A path with `[*]` gives a list, in which a missing key is `null`.
pub fn take(document: &Value, path: &str) -> Option<Value> {
    let mut many = false;
    let mut current = vec![document];
    for element in elements(path) {
        current = match &element {
            Element::All => {
                many = true;
                let lists = current.iter().filter_map(|value| value.as_array());
                lists.flatten().collect()
            }
            Element::Index(index) => {
                let lists = current.iter().filter_map(|value| value.as_array());
                lists.filter_map(|list| at(list, *index)).collect()
            }
            Element::Key(key) => {
                let values = current.iter().map(|value| value.get(key));
                let absent = many.then_some(&Value::Null);
                values.filter_map(|value| value.or(absent)).collect()
            }
            Element::None => Vec::new(),
        };
    }
    match many {
        true => Some(current.into_iter().cloned().collect()),
        false => current.first().copied().cloned(),
    }
}

fn at(list: &[Value], index: i64) -> Option<&Value> {
    let back = usize::try_from(index.unsigned_abs()).ok()?;
    match index < 0 {
        true => list.get(list.len().checked_sub(back)?),
        false => list.get(back),
    }
}

/// Puts saved values in the place of `{VAR}`, `{VAR+N}` and `{VAR-N}`.
///
/// # Errors
///
/// Where something is to be added to a value that is no number.
pub fn fill(value: &Value, saved: &HashMap<String, String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(fill_text(text, saved)?),
        Value::Array(list) => {
            let list = list.iter().map(|value| fill(value, saved));
            Value::Array(list.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| Ok((key.clone(), fill(value, saved)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn fill_text(text: &str, saved: &HashMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        let variable = rest.find('}').map(|end| &rest[1..end]);
        let value = match variable {
            Some(variable) => value_of(variable, saved)?,
            None => None,
        };
        match (variable, value) {
            (Some(variable), Some(value)) => {
                filled.push_str(&value);
                rest = &rest[variable.len() + 2..];
            }
            _ => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// What a variable stands for; nothing where none of that name was saved.
fn value_of(variable: &str, saved: &HashMap<String, String>) -> Result<Option<String>, String> {
    let (name, difference) = match variable.find(['+', '-']) {
        Some(sign) => variable.split_at(sign),
        None => (variable, ""),
    };
    let Some(value) = saved.get(name) else {
        return Ok(None);
    };
    if difference.is_empty() {
        return Ok(Some(value.clone()));
    }
    match (value.parse::<i64>(), difference.parse::<i64>()) {
        (Ok(number), Ok(difference)) => Ok(Some((number + difference).to_string())),
        _ => Err(format!("{value:?} is no number, for {{{variable}}}")),
    }
}
