//! The HTTP client for the API of a running driver.

use std::path::PathBuf;
use std::time::Duration;

use boatswain_agent::trust::{self, TrustError};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

/// The timeout of an answer, except for streams.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer, in bytes: 100,000 executors take about 20 MB.
const ANSWER: usize = 64 << 20;

/// The body of an answer while it is read.
pub type Body = UnsyncBoxBody<Bytes, String>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The driver cannot be reached.
    #[error(
        "no driver answers at {server}: {why}\ncheck that it is running with api.listen set, and that --server is its address, with https:// if it has [tls]"
    )]
    Unreachable { server: Uri, why: String },
    /// The server does not prove that it is the driver.
    #[error(
        "the connection to {server} is not safe, and was closed before the token was sent: {why}"
    )]
    Untrusted { server: Uri, why: Box<TrustError> },
    /// The driver refused the request.
    #[error("{message}{}", hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default())]
    Refused {
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
    /// The answer is not one of a driver of this version.
    #[error("the server at {server} is not a driver of this version: {why}")]
    Foreign { server: Uri, why: String },
}

/// A connection to a driver, with its token.
pub struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: Uri,
    token: String,
    ca_file: Option<PathBuf>,
}

impl Client {
    /// # Errors
    ///
    /// The CA cannot be read.
    pub fn new(server: Uri, token: String, ca_file: Option<PathBuf>) -> Result<Self, TrustError> {
        let tls = match server.scheme_str() {
            Some("https") => trust::client_config(ca_file.as_deref())?,
            _ => trust::no_trust()?,
        };
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(PATIENCE));
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self {
            http: legacy::Client::builder(TokioExecutor::new()).build(connector),
            server,
            token,
            ca_file,
        })
    }

    pub async fn get(&self, path: &str) -> Result<Value, AskError> {
        self.ask(Method::GET, path, None).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        self.ask(Method::POST, path, Some(body)).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, AskError> {
        self.soon(async {
            let response = self.send(method, path, body, None).await?;
            self.read(response).await
        })
        .await
    }

    /// Opens a stream of events, resumed after the event with the id `last`.
    pub async fn stream(&self, path: &str, last: Option<&str>) -> Result<Body, AskError> {
        let response = self.soon(self.send(Method::GET, path, None, last)).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        match self.read(response).await {
            Err(error) => Err(error),
            Ok(_) => Err(self.foreign("it refused the request without a reason")),
        }
    }

    async fn soon<T>(
        &self,
        answer: impl Future<Output = Result<T, AskError>>,
    ) -> Result<T, AskError> {
        let answer = timeout(PATIENCE, answer).await;
        answer.unwrap_or_else(|_| Err(self.unreachable("it takes too long")))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        last: Option<&str>,
    ) -> Result<Response<Body>, AskError> {
        let uri = format!("{}{path}", self.server.to_string().trim_end_matches('/'));
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let bytes = body.map(|body| Bytes::from(body.to_string()));
        if bytes.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(bytes.unwrap_or_default()))
            .map_err(|error| self.unreachable(error))?;
        let sent = self.http.request(request).await;
        let response =
            sent.map_err(
                |error| match trust::refusal(&error, self.ca_file.as_deref()) {
                    Some(why) => AskError::Untrusted {
                        server: self.server.clone(),
                        why: Box::new(why),
                    },
                    None => self.unreachable(innermost(&error)),
                },
            )?;
        Ok(response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }

    async fn read(&self, response: Response<Body>) -> Result<Value, AskError> {
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER).collect().await;
        let body = body.map_err(|error| self.foreign(error))?.to_bytes();
        let value: Result<Value, _> = serde_json::from_slice(&body);
        match value {
            Ok(value) if status.is_success() => Ok(value),
            Ok(value) if value["message"].is_string() => {
                let text = |field: &str| value[field].as_str().map(str::to_owned);
                let message = text("message").unwrap_or_default();
                Err(AskError::Refused {
                    message: match text("field") {
                        Some(field) => format!("{field}: {message}"),
                        None => message,
                    },
                    hint: text("hint"),
                })
            }
            _ => Err(self.foreign(format!("it answers {status}"))),
        }
    }

    fn unreachable(&self, why: impl ToString) -> AskError {
        AskError::Unreachable {
            server: self.server.clone(),
            why: why.to_string(),
        }
    }

    fn foreign(&self, why: impl ToString) -> AskError {
        AskError::Foreign {
            server: self.server.clone(),
            why: why.to_string(),
        }
    }
}

/// The message of the root cause, which is the most specific.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
