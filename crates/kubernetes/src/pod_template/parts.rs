//! A pod's JSON, rendered once and split where the executor's id and token belong.

use std::sync::Arc;

use serde_json::Value;

use boatswain_model::ExecutorId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts(Arc<[Part]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Id,
    Token,
}

impl Parts {
    /// Renders with placeholders for the id and the token, and splits there.
    pub(super) fn of(render: impl Fn(&str, &str) -> Value) -> Self {
        let without = render("", "").to_string();
        let mut count = 0u32;
        // A placeholder occurs nowhere else in the text. It cannot arise from adjoining text either, because it begins
        // and ends with a character that never stands beside the id or the token.
        let mut mark = || loop {
            let mark = format!("@{count}@");
            count += 1;
            if !without.contains(&mark) {
                break mark;
            }
        };
        let (id, token) = (mark(), mark());
        let marked = render(&id, &token).to_string();
        let mut parts = Vec::new();
        for (n, around_token) in marked.split(&token).enumerate() {
            parts.extend((n > 0).then_some(Part::Token));
            for (n, text) in around_token.split(&id).enumerate() {
                parts.extend((n > 0).then_some(Part::Id));
                parts.push(Part::Text(text.to_owned()));
            }
        }
        Self(parts.into())
    }

    pub(super) fn fill(&self, id: ExecutorId, token: impl Fn() -> String) -> String {
        let id = id.to_string();
        let mut json = String::new();
        for part in self.0.iter() {
            match part {
                Part::Text(text) => json.push_str(text),
                Part::Id => json.push_str(&id),
                Part::Token => json.push_str(&token()),
            }
        }
        json
    }
}
