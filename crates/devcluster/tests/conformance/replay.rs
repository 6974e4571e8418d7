//! A conversation with this crate's API, compared with the recorded one.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use devcluster::{DevCluster, Options};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::names::Names;
use crate::paths::{fill, take};
use crate::recording::Scenario;
use crate::stream::Stream;

const NAMESPACE: &str = "conf-7f4d1c2a";
const TOKEN: &str = "a-token-of-the-recordings-client";

/// How long an event, or the end of a watch, is waited for where the recording says nothing else.
const PATIENCE: f64 = 10.0;

/// Something that is not as in the recording, in one step or, without one, in the whole.
pub struct Difference {
    pub step: Option<usize>,
    pub what: String,
}

/// An answer that was read to its end.
struct Answer {
    code: u16,
    headers: HeaderMap,
    text: String,
    document: Value,
}

/// One conversation, as far as it has come.
struct Conversation {
    cluster: DevCluster,
    saved: HashMap<String, String>,
    names: Names,
    watches: HashMap<String, Stream>,
}

/// Takes the steps of the scenario with a cluster of its own, and gives back what was not as recorded. A step after
/// which the conversation cannot go on is the last one taken.
pub async fn replay(scenario: &Scenario) -> Vec<Difference> {
    let mut conversation = Conversation::begin().await;
    let mut differences = Vec::new();
    for (step, recorded) in scenario.steps.iter().enumerate() {
        let difference = |what| Difference {
            step: Some(step),
            what,
        };
        match conversation.take_step(recorded).await {
            Ok(None) => {}
            Ok(Some(got)) => {
                let expected = recorded["expect"].as_object().cloned().unwrap_or_default();
                differences.extend(compare(&expected, &got).into_iter().map(difference));
            }
            Err(what) => {
                differences.push(difference(what));
                return differences;
            }
        }
    }
    let order = conversation.names.order();
    if differences.is_empty() && !scenario.rv_order.is_empty() && order != scenario.rv_order {
        differences.push(Difference {
            step: None,
            what: format!("the order of the resource versions is {order:?}"),
        });
    }
    differences
}

fn compare(expected: &Map<String, Value>, got: &Map<String, Value>) -> Vec<String> {
    let more = expected.keys().filter(|key| !got.contains_key(*key));
    let all = got.keys().chain(more);
    let unlike = all.filter(|key| value(expected, key) != value(got, key));
    unlike
        .map(|key| {
            format!(
                "{key}: expected {}, got {}",
                value(expected, key),
                value(got, key)
            )
        })
        .collect()
}

fn value<'a>(answer: &'a Map<String, Value>, key: &str) -> &'a Value {
    answer.get(key).unwrap_or(&Value::Null)
}

impl Conversation {
    async fn begin() -> Self {
        let cluster = devcluster::start(Options {
            token: Some(TOKEN.to_owned()),
            roles: Some(Vec::new()),
            collect_garbage: false,
            ..Options::default()
        });
        let conversation = Self {
            cluster,
            saved: HashMap::from([("ns".to_owned(), NAMESPACE.to_owned())]),
            names: Names::new(NAMESPACE),
            watches: HashMap::new(),
        };
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        for (path, kind, name) in [
            ("/api/v1/namespaces", "Namespace", NAMESPACE),
            (&accounts, "ServiceAccount", "default"),
        ] {
            let body = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            let step = json!({ "body": body });
            let answer = conversation.send(&step, "POST", path).await;
            assert_eq!(answer.unwrap().status(), 201);
        }
        conversation
    }

    /// Takes one step, and gives back what is compared of its answer; nothing where a step has none.
    async fn take_step(&mut self, recorded: &Value) -> Result<Option<Map<String, Value>>, String> {
        let mut recorded = recorded.clone();
        recorded.as_object_mut().unwrap().remove("expect");
        let step = fill(&recorded, &self.saved)?;
        let text = |key: &str| step.get(key).and_then(Value::as_str).map(str::to_owned);
        let seconds = |key: &str| step.get(key).and_then(Value::as_f64);
        let patience = Duration::from_secs_f64(seconds("timeout").unwrap_or(PATIENCE));
        let got = if let Some(request) = text("do") {
            self.request(&step, &request).await?
        } else if let Some(path) = text("watch") {
            let response = self.send(&step, "GET", &path).await?;
            let code = response.status().as_u16();
            let stream = Stream::new(response.into_body());
            self.watches.insert(text("as").unwrap(), stream);
            json!({ "#code": code })
        } else if let Some(watch) = text("collect") {
            let count = usize::try_from(step["count"].as_u64().unwrap()).unwrap();
            let bookmarks = step["bookmarks"] == true;
            let mut events = self.watch(&watch).collect(count, bookmarks, patience).await;
            if let Some(path) = text("sorted") {
                events.sort_by_key(|event| take(event, &path).map(|value| value.to_string()));
            }
            let check = paths(&step, "type");
            let names = &mut self.names;
            let events = events
                .iter()
                .map(|event| checked(&check, event, None, names));
            json!({ "events": events.collect::<Vec<_>>() })
        } else if let Some(watch) = text("quiet") {
            let time = Duration::from_secs_f64(seconds("for").unwrap());
            let (more, is_open) = self.watch(&watch).listen(time).await;
            json!({ "more": more, "open": is_open })
        } else if let Some(watch) = text("closed") {
            let (is_closed, fault) = self.watch(&watch).closed(patience).await;
            json!({ "closed": is_closed, "fault": fault })
        } else {
            sleep(Duration::from_secs_f64(seconds("sleep").unwrap())).await;
            return Ok(None);
        };
        Ok(got.as_object().cloned())
    }

    fn watch(&mut self, name: &str) -> &mut Stream {
        self.watches.get_mut(name).unwrap()
    }

    async fn request(&mut self, step: &Value, request: &str) -> Result<Value, String> {
        let (verb, path) = request.split_once(' ').unwrap();
        let response = self.send(step, verb, path).await?;
        let answer = Answer::read(response).await?;
        let check = paths(step, "#code");
        let got = checked(&check, &answer.document, Some(&answer), &mut self.names);
        for (variable, path) in step["save"].as_object().into_iter().flatten() {
            let path = path.as_str().unwrap();
            let value = match take(&answer.document, path) {
                Some(Value::String(text)) => text,
                Some(value) if !value.is_null() => value.to_string(),
                _ => return Err(format!("nothing at {path} to go on with: {}", answer.text)),
            };
            self.saved.insert(variable.clone(), value);
        }
        Ok(got)
    }

    async fn send(&self, step: &Value, verb: &str, path: &str) -> Result<Response, String> {
        let body = match step.get("body") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(value) => Some(value.to_string()),
        };
        let pad = usize::try_from(step["pad"].as_u64().unwrap_or(0)).unwrap();
        let body = body.map(|body| body + &" ".repeat(pad));
        let mut request = Request::builder()
            .method(verb)
            .uri(path.replace(' ', "%20"))
            .body(body.clone().map_or_else(Body::empty, Body::from))
            .map_err(|e| e.to_string())?;
        let headers = request.headers_mut();
        let bearer = format!("Bearer {TOKEN}");
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&bearer).unwrap());
        if body.is_some() {
            let media_type = step["type"].as_str().unwrap_or("application/json");
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
        }
        for (name, value) in step["headers"].as_object().into_iter().flatten() {
            let name = HeaderName::try_from(name).unwrap();
            match value.as_str() {
                Some(value) => headers.insert(name, HeaderValue::from_str(value).unwrap()),
                None => headers.remove(name),
            };
        }
        let answered = self.cluster.router().oneshot(request).await;
        answered.map_err(|e| e.to_string())
    }
}

impl Answer {
    async fn read(response: Response) -> Result<Self, String> {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
        Ok(Self {
            code: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8_lossy(&body).into_owned(),
            document: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }
}

/// What the step compares.
fn paths(step: &Value, otherwise: &str) -> Vec<String> {
    match step["check"].as_array() {
        Some(list) => list
            .iter()
            .map(|path| path.as_str().unwrap().to_owned())
            .collect(),
        None => vec![otherwise.to_owned()],
    }
}

/// What is compared of an answer, or of an event, which has neither code nor headers.
fn checked(
    check: &[String],
    document: &Value,
    answer: Option<&Answer>,
    names: &mut Names,
) -> Value {
    let mut found = Map::new();
    for path in check {
        let value = if path == "#code" {
            answer.map(|answer| answer.code.into())
        } else if path == "#text" {
            let text = answer.map_or("", |answer| &answer.text);
            Some(names.replace_text(path, text).into())
        } else if let Some(header) = path.strip_prefix("#header:") {
            answer
                .and_then(|answer| answer.header(header))
                .map(Into::into)
        } else if let Some(path) = path.strip_prefix("#count:") {
            take(document, path).map(|value| length(&value).into())
        } else if let Some(path) = path.strip_suffix('?') {
            Some(
                take(document, path)
                    .is_some_and(|value| !value.is_null())
                    .into(),
            )
        } else {
            take(document, path).map(|value| names.replace(path, &value))
        };
        found.insert(path.clone(), value.unwrap_or_default());
    }
    Value::Object(found)
}

impl Answer {
    /// A header up to its first parameter.
    fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?.to_str().ok()?;
        let value = value.split(';').next().filter(|value| !value.is_empty());
        value.map(str::to_owned)
    }
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Array(list) => Some(list.len()),
        Value::Object(fields) => Some(fields.len()),
        Value::String(text) => Some(text.chars().count()),
        _ => None,
    }
}
