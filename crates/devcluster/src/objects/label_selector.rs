//! Parses and evaluates label selectors: `app=demo,tier in (a,b),!old`.

use serde_json::{Map, Value};

use super::object::{entries, list, strings, text};
use crate::api::status::Causes;
use crate::validation::names;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl LabelRequirement {
    pub(crate) fn holds(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels
            .and_then(|l| l.get(&self.key))
            .and_then(Value::as_str);
        match &self.test {
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::In(values) => value.is_some_and(|v| values.iter().any(|x| x == v)),
            LabelTest::NotIn(values) => value.is_none_or(|v| values.iter().all(|x| x != v)),
        }
    }
}

/// Whether a selector in an object, with `matchLabels` and `matchExpressions`, selects these labels. One that is not
/// valid selects nothing.
pub(crate) fn selects(selector: &Value, labels: Option<&Map<String, Value>>) -> bool {
    let found = |key: &str| labels.and_then(|labels| labels.get(key));
    let expressions = list(selector, &["matchExpressions"]);
    entries(selector, &["matchLabels"]).all(|(key, value)| found(key) == Some(value))
        && expressions.iter().all(|expression| {
            let found = found(text(expression, &["key"]));
            let mut values = strings(expression, &["values"]);
            match (text(expression, &["operator"]), found) {
                ("In", Some(value)) => values.any(|v| value == v),
                ("NotIn", Some(value)) => values.all(|v| value != v),
                ("NotIn" | "DoesNotExist", None) | ("Exists", Some(_)) => true,
                _ => false,
            }
        })
}

/// Validates a selector in an object.
pub(crate) fn validate(selector: &Value, path: &str, causes: &mut Causes) {
    for (key, value) in entries(selector, &["matchLabels"]) {
        let field = format!("{path}.matchLabels");
        if let Err(why) = names::qualified(key) {
            causes.invalid(field.as_str(), key.as_str(), why);
        }
        if let Err(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.invalid(field, value, why);
        }
    }
    let expressions = list(selector, &["matchExpressions"]);
    for (i, expression) in expressions.iter().enumerate() {
        let path = format!("{path}.matchExpressions[{i}]");
        let key = text(expression, &["key"]);
        if let Err(why) = names::qualified(key) {
            causes.invalid(format!("{path}.key"), key, why);
        }
        let has_values = !list(expression, &["values"]).is_empty();
        let field = format!("{path}.values");
        match text(expression, &["operator"]) {
            "In" | "NotIn" if !has_values => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.required(field, detail);
            }
            "Exists" | "DoesNotExist" if has_values => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.forbidden(field, detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                causes.invalid(format!("{path}.operator"), other, detail);
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

fn tokens(selector: &str) -> Vec<Token> {
    const SIGNS: [&str; 7] = ["==", "!=", "=", "!", "(", ")", ","];
    let mut found = Vec::new();
    let mut rest = selector.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.into_iter().find(|s| rest.starts_with(s)) {
            found.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest
                .find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '(' | ')' | ','))
                .unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            found.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    found
}

pub(crate) fn parse(selector: &str) -> Result<Vec<LabelRequirement>, String> {
    let tokens = tokens(selector);
    let mut parser = Parser {
        tokens: tokens.iter().peekable(),
    };
    let mut requirements = Vec::new();
    if parser.tokens.peek().is_none() {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        match parser.tokens.next() {
            None => return Ok(requirements),
            Some(Token::Sign(",")) => {}
            Some(other) => return Err(unexpected(Some(other), "',' or 'end of string'")),
        }
    }
}

struct Parser<'a> {
    tokens: std::iter::Peekable<std::slice::Iter<'a, Token>>,
}

fn unexpected(found: Option<&Token>, expected: &str) -> String {
    let found = match found {
        Some(Token::Word(word)) => word.as_str(),
        Some(Token::Sign(sign)) => sign,
        None => "",
    };
    format!("unable to parse requirement: found '{found}', expected: {expected}")
}

impl Parser<'_> {
    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        if self.tokens.next_if_eq(&&Token::Sign("!")).is_some() {
            return Ok(LabelRequirement {
                key: self.key()?,
                test: LabelTest::Absent,
            });
        }
        let key = self.key()?;
        let test = match self.tokens.peek() {
            None | Some(Token::Sign(",")) => LabelTest::Exists,
            Some(Token::Sign("=" | "==")) => {
                self.tokens.next();
                LabelTest::In(vec![self.value()?])
            }
            Some(Token::Sign("!=")) => {
                self.tokens.next();
                LabelTest::NotIn(vec![self.value()?])
            }
            Some(Token::Word(word)) if word == "in" => {
                self.tokens.next();
                LabelTest::In(self.values()?)
            }
            Some(Token::Word(word)) if word == "notin" => {
                self.tokens.next();
                LabelTest::NotIn(self.values()?)
            }
            other => {
                return Err(unexpected(other.copied(), "in, notin, =, ==, !="));
            }
        };
        Ok(LabelRequirement { key, test })
    }

    fn key(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => match names::qualified(word) {
                Ok(()) => Ok(word.clone()),
                Err(why) => Err(format!(
                    "unable to parse requirement: <nil>: Invalid value: \"{word}\": {why}"
                )),
            },
            other => Err(unexpected(other, "identifier")),
        }
    }

    /// The value may be empty.
    fn value(&mut self) -> Result<String, String> {
        let Some(Token::Word(word)) = self.tokens.next_if(|t| matches!(t, Token::Word(_))) else {
            return match self.tokens.peek() {
                None | Some(Token::Sign("," | ")")) => Ok(String::new()),
                other => Err(unexpected(other.copied(), "identifier")),
            };
        };
        match names::label_value(word) {
            Ok(()) => Ok(word.clone()),
            Err(why) => Err(format!(
                "unable to parse requirement: values[0]: Invalid value: \"{word}\": {why}"
            )),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.tokens.next() {
            Some(Token::Sign("(")) => {}
            other => return Err(unexpected(other, "'('")),
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match self.tokens.next() {
                Some(Token::Sign(",")) => {}
                Some(Token::Sign(")")) => return Ok(values),
                other => return Err(unexpected(other, "',', or ')'")),
            }
        }
    }
}
