//! Sends executors' lives as traces, by OTLP over HTTP (spec O-141).

use std::path::PathBuf;

use boatswain_client::{Ca, Client, ClientError, Token};
use http::{Method, Uri};
use serde_json::{Value, json};

use super::Sink;
use super::spans::{Spans, attribute};
use crate::actors::event_history::reader::Told;

/// Where a collector takes traces.
const PATH: &str = "/v1/traces";

/// A collector of traces.
#[derive(Debug, Clone)]
pub(in crate::driver) struct Collector {
    pub server: Uri,
    pub token_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
}

impl Collector {
    fn client(&self) -> Result<Client, String> {
        let token = self.token_file.clone().map_or(Token::None, Token::File);
        let client = Client::new(
            self.server.clone(),
            token,
            self.ca_file.clone().map(Ca::File),
        );
        client.map_err(|error| error.to_string())
    }
}

pub(in crate::driver) struct Traces {
    collector: Collector,
    /// Opened anew after a failure, because the CA may be another one then.
    client: Option<Client>,
    spans: Spans,
    /// What all spans are of: this driver.
    resource: Value,
}

impl Traces {
    pub(in crate::driver) fn of(collector: Collector, app: &str, namespace: &str) -> Self {
        let attributes = [
            ("service.name", "boatswain"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("k8s.namespace.name", namespace),
        ];
        let attributes = attributes.map(|(name, value)| attribute(name, &json!(value)));
        Self {
            collector,
            client: None,
            spans: Spans::of(app.to_owned()),
            resource: json!({"attributes": attributes}),
        }
    }
}

impl Sink for Traces {
    type Batch = Value;

    const KEY: &'static str = "traces.collector";

    fn batch(&mut self, events: &[Told]) -> Option<Value> {
        let spans: Vec<Value> = (events.iter())
            .flat_map(|told| self.spans.take(&told.event))
            .collect();
        let scope = json!({"name": "boatswain", "version": env!("CARGO_PKG_VERSION")});
        (!spans.is_empty()).then(|| {
            json!({"resourceSpans": [{
                "resource": self.resource,
                "scopeSpans": [{"scope": scope, "spans": spans}],
            }]})
        })
    }

    async fn put(&mut self, batch: &Value) -> Result<(), String> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.collector.client()?,
        };
        let answer = client.call(Method::POST, PATH, Some(batch)).await;
        answer.map_err(explained)?;
        self.client = Some(client);
        Ok(())
    }
}

fn explained(error: ClientError) -> String {
    match error {
        ClientError::Unreachable { server, why } => format!("nothing answers at {server}: {why}"),
        ClientError::Refused {
            status, message, ..
        } => {
            format!("the collector answers {status}: {message}")
        }
        ClientError::Foreign { server, why } => format!("{server} is no collector: {why}"),
        ClientError::Token { .. } | ClientError::Untrusted { .. } => error.to_string(),
    }
}
