//! Requests to a driver, and their failures.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use boatswain_agent::file;
use boatswain_agent::foreign;
use boatswain_agent::trust::{self, Ca, TrustError};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

/// The timeout of an answer, except for streams, with the repetitions that the driver asks for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer, in bytes: 100,000 executors take about 20 MB.
const ANSWER: usize = 64 << 20;

/// What a segment of a path need not encode.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The body of an answer while it is read.
pub(crate) type Body = UnsyncBoxBody<Bytes, String>;

/// What proves to the driver who calls (`api.token_file`, `api.service_accounts`).
#[derive(Clone)]
pub enum Token {
    /// None is asked for.
    None,
    Text(String),
    /// A file whose first line that is neither empty nor a comment begins with the token. It is read for each request.
    File(PathBuf),
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file with the token cannot be read, or has none.
    #[error("the token's file {path} cannot be read", path = .path.display())]
    Token {
        path: PathBuf,
        #[source]
        why: io::Error,
    },
    /// The driver cannot be reached.
    #[error(
        "no driver answers at {server}: {why}\ncheck that it is running with api.listen set, and that this is its address, with https:// if it has [tls]"
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
        status: StatusCode,
        message: String,
        /// How to fix it.
        hint: Option<String>,
        /// The request was not carried out, and the driver asks to repeat it after this time.
        again: Option<Duration>,
    },
    /// The answer is not one of a driver of this version.
    #[error("the server at {server} is not a driver of this version: {why}")]
    Foreign { server: Uri, why: String },
}

/// A driver's API. Connections are opened when they are needed, and kept.
pub struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: Uri,
    token: Token,
    ca: Option<Ca>,
}

impl Client {
    /// `ca`: what the driver's certificate has to lead to; without it, this machine's CAs.
    ///
    /// # Errors
    ///
    /// The CA cannot be read.
    pub fn new(server: Uri, token: Token, ca: Option<Ca>) -> Result<Self, TrustError> {
        let tls = match server.scheme_str() {
            Some("https") => trust::client_config(ca.as_ref())?,
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
            ca,
        })
    }

    /// The address of the driver.
    pub fn server(&self) -> &Uri {
        &self.server
    }

    /// Makes a request of any kind, and reads its answer. A driver that starts is asked again.
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        self.soon(async || {
            let response = self.send(method.clone(), path, body, None).await?;
            self.read(response).await
        })
        .await
    }

    /// The same with an answer of a known type.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, ClientError> {
        let answer = self.call(method, path, body.as_ref()).await?;
        serde_json::from_value(answer).map_err(|error| self.foreign(error))
    }

    /// Opens a stream of events, resumed after the event with the id `last`.
    pub(crate) async fn stream(&self, last: Option<&str>) -> Result<Body, ClientError> {
        self.soon(async || {
            let response = self.send(Method::GET, "/v1/events", None, last).await?;
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            match self.read(response).await {
                Err(error) => Err(error),
                Ok(_) => Err(self.foreign("it refused the request without a reason")),
            }
        })
        .await
    }

    /// Repeats a request while the driver asks for that. A driver that does not come to an end with its start is a refusal.
    async fn soon<T>(
        &self,
        request: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let until = Instant::now() + PATIENCE;
        let mut refused = None;
        loop {
            let Ok(answer) = timeout_at(until, request()).await else {
                return Err(refused.unwrap_or_else(|| self.unreachable("it takes too long")));
            };
            let pause = match &answer {
                Err(ClientError::Refused { again, .. }) => *again,
                _ => None,
            };
            match pause {
                Some(pause) if Instant::now() + pause < until => {
                    refused = answer.err();
                    sleep(pause).await;
                }
                _ => return answer,
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        last: Option<&str>,
    ) -> Result<Response<Body>, ClientError> {
        let uri = format!("{}{path}", self.server.to_string().trim_end_matches('/'));
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(token) = self.bearer().await? {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
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
        let response = sent.map_err(|error| match trust::refusal(&error, self.ca.as_ref()) {
            Some(why) => ClientError::Untrusted {
                server: self.server.clone(),
                why: Box::new(why),
            },
            None => self.unreachable(innermost(&error)),
        })?;
        Ok(response.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }

    async fn read(&self, response: Response<Body>) -> Result<Value, ClientError> {
        let status = response.status();
        let again = again(&response);
        let body = Limited::new(response.into_body(), ANSWER).collect().await;
        let body = body.map_err(|error| self.foreign(error))?.to_bytes();
        let value: Result<Value, _> = serde_json::from_slice(&body);
        match value {
            Ok(value) if status.is_success() => Ok(value),
            Ok(value) if value["message"].is_string() => {
                let text = |field: &str| value[field].as_str().map(str::to_owned);
                let message = text("message").unwrap_or_default();
                Err(ClientError::Refused {
                    status,
                    message: match text("field") {
                        Some(field) => format!("{field}: {message}"),
                        None => message,
                    },
                    hint: text("hint"),
                    again,
                })
            }
            _ => Err(self.foreign(match foreign::page(&body) {
                Some(page) => format!("{page} (status {status})"),
                None => format!("it answers {status}"),
            })),
        }
    }

    async fn bearer(&self) -> Result<Option<String>, ClientError> {
        let path = match &self.token {
            Token::None => return Ok(None),
            Token::Text(token) => return Ok(Some(token.clone())),
            Token::File(path) => path,
        };
        let reading = path.clone();
        let text = file::aside(move || file::read_text(&reading)).await;
        let token = text.flatten().and_then(|text| {
            let words = text
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            let token = words
                .filter(|word| !word.starts_with('#'))
                .map(str::to_owned)
                .next();
            token.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it has no token"))
        });
        token.map(Some).map_err(|why| ClientError::Token {
            path: path.clone(),
            why,
        })
    }

    fn unreachable(&self, why: impl ToString) -> ClientError {
        ClientError::Unreachable {
            server: self.server.clone(),
            why: why.to_string(),
        }
    }

    fn foreign(&self, why: impl ToString) -> ClientError {
        ClientError::Foreign {
            server: self.server.clone(),
            why: why.to_string(),
        }
    }
}

/// After how long the server asks to repeat the request.
fn again(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// A path with the values that are given; it has no variable parts.
pub(crate) fn with_query(path: &str, values: &[(&str, Option<&str>)]) -> String {
    let given = values
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", segment((*value)?))));
    match given.collect::<Vec<_>>().join("&") {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// A value as one segment of a path.
pub(crate) fn segment(value: impl ToString) -> String {
    utf8_percent_encode(&value.to_string(), UNRESERVED).to_string()
}

/// The message of the root cause, which is the most specific.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A server that gives these answers, one to each connection, and its address.
    fn server(answers: &'static [(&'static str, &'static str)]) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (head, body) in answers {
                let (mut connection, _) = listener.accept().unwrap();
                let _ = connection.read(&mut [0; 4_096]).unwrap();
                let length = body.len();
                write!(
                    connection,
                    "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        format!("http://{address}").parse().unwrap()
    }

    fn client(answers: &'static [(&'static str, &'static str)]) -> Client {
        Client::new(server(answers), Token::Text("t".to_owned()), None).unwrap()
    }

    const STARTING: (&str, &str) = (
        "503 Service Unavailable\r\nretry-after: 0",
        r#"{"code": "not-adopted", "message": "not adopted yet", "hint": "ask again"}"#,
    );

    // spec: B-62
    #[tokio::test]
    async fn a_request_is_repeated_as_long_as_the_driver_asks_for_that() {
        let repeated = client(&[STARTING, STARTING, ("200 OK", r#"{"executors": []}"#)]);
        let answer = repeated.call(Method::GET, "/v1/executors", None).await;
        assert!(answer.is_ok(), "{answer:?}");
        let refused = client(&[("503 Service Unavailable", r#"{"message": "standby"}"#)]);
        let answer = refused.call(Method::GET, "/v1/executors", None).await;
        assert!(matches!(
            answer,
            Err(ClientError::Refused { again: None, message, .. }) if message == "standby"
        ));
    }

    // spec: O-43
    #[tokio::test]
    async fn a_page_of_a_proxy_is_quoted() {
        for head in ["200 OK", "502 Bad Gateway"] {
            let page: &[(&str, &str)] = &[(head, "<html><title>Sign in</title></html>")];
            let answer = client(page.to_vec().leak())
                .call(Method::GET, "/v1/status", None)
                .await;
            let said = answer.unwrap_err().to_string();
            assert!(
                said.contains("an HTML page answers (\"Sign in\")"),
                "{said}"
            );
            assert!(said.contains(head), "{said}");
        }
    }

    // spec: B-62
    #[tokio::test]
    async fn a_driver_that_asks_for_too_much_patience_is_a_refusal_that_says_why() {
        const LONG: (&str, &str) = (
            "503 Service Unavailable\r\nretry-after: 60",
            r#"{"message": "not adopted yet", "hint": "ask again"}"#,
        );
        let answer = client(&[LONG]).stream(None).await;
        let said = answer.err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), Some("not adopted yet\nask again"));
    }

    // spec: O-43
    #[tokio::test]
    async fn a_tokens_file_is_read_for_each_request_and_one_without_a_token_is_named() {
        let path = std::env::temp_dir().join(format!("boatswain-client-{}", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let server = Uri::from_static("http://127.0.0.1:9");
        let client = Client::new(server, Token::File(path.clone()), None).unwrap();
        write("# people\n\nabc full\ndef read\n");
        assert_eq!(client.bearer().await.unwrap().as_deref(), Some("abc"));
        write("ghi\n");
        assert_eq!(client.bearer().await.unwrap().as_deref(), Some("ghi"));
        write("# nobody\n");
        let error = client.call(Method::GET, "/v1/status", None).await;
        assert!(matches!(error, Err(ClientError::Token { path: named, .. }) if named == path));
        std::fs::remove_file(&path).unwrap();
    }
}
