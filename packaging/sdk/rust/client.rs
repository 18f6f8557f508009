//! What all calls share: the request, its time limit and errors.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};

/// Where a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An error of a JSON-RPC call.
    Rpc,
    /// A refusal of a route.
    Http,
    /// The daemon did not answer in time.
    Timeout,
    /// No answer came.
    Connection,
    /// What came is no answer of the daemon.
    Answer,
}

/// A call that failed.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    /// HTTP status; none where no answer came.
    pub status: Option<u16>,
    /// Code of a JSON-RPC error.
    pub code: Option<i64>,
    pub message: String,
    /// The reason, as one sentence.
    pub details: Option<String>,
    /// `data` of a JSON-RPC error.
    pub data: Option<Value>,
    /// Seconds after which a retry may help.
    pub retry_after: Option<u64>,
    /// The request in the log of the daemon.
    pub request_id: Option<String>,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, status: None, code: None, message: message.into(), details: None, data: None, retry_after: None, request_id: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.details {
            Some(details) => write!(formatter, "{}: {}", self.message, details),
            None => write!(formatter, "{}", self.message),
        }
    }
}

impl std::error::Error for Error {}

/// Calls one daemon. It waits for the answer: use a thread of its own in an asynchronous program.
#[derive(Clone, Debug)]
pub struct Client {
    base_url: String,
    api_key: Option<String>,
    agent: ureq::Agent,
    /// How often a read or a call is sent again when the daemon says when (`Retry-After` of 429 and 503).
    pub retries: u32,
}

pub(crate) struct Request {
    pub method: &'static str,
    pub path: String,
    pub query: Value,
    pub body: Value,
    pub needs_key: bool,
}

impl Client {
    /// With a time limit of 30 seconds and two retries.
    pub fn new(base_url: &str, api_key: Option<&str>) -> Self {
        Self::with_timeout(base_url, api_key, Duration::from_secs(30))
    }

    /// `timeout` limits one attempt.
    pub fn with_timeout(base_url: &str, api_key: Option<&str>, timeout: Duration) -> Self {
        // Redirects are not followed: another host must not get the key.
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .build();
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key: api_key.map(str::to_owned),
            agent: config.into(),
            retries: 2,
        }
    }

    /// Calls any method of JSON-RPC, also one that this crate does not know.
    pub fn call<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, Error> {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        if !params.is_null() {
            body["params"] = params;
        }
        let request = Request { method: "POST", path: "/".to_owned(), query: Value::Null, body, needs_key: true };
        let mut answer = parse(&self.send(&request, self.retries)?)?;
        match answer.get_mut("result") {
            Some(result) => typed(result.take()),
            None => Err(Error::new(Kind::Answer, "the answer has no result")),
        }
    }

    pub(crate) fn fetch<T: DeserializeOwned>(&self, request: Request) -> Result<T, Error> {
        let text = self.fetch_text(request)?;
        typed(if text.is_empty() { Value::Null } else { parse(&text)? })
    }

    pub(crate) fn fetch_text(&self, request: Request) -> Result<String, Error> {
        self.send(&request, if request.method == "GET" { self.retries } else { 0 })
    }

    fn send(&self, request: &Request, retries: u32) -> Result<String, Error> {
        let mut attempt = 0;
        loop {
            match self.attempt(request) {
                Err(Error { retry_after: Some(seconds), .. }) if attempt < retries => sleep(Duration::from_secs(seconds)),
                outcome => return outcome,
            }
            attempt += 1;
        }
    }

    fn attempt(&self, request: &Request) -> Result<String, Error> {
        let uri = format!("{}{}{}", self.base_url, request.path, query_text(&request.query));
        let mut builder = ureq::http::Request::builder().method(request.method).uri(uri).header("accept", "application/json");
        if let (true, Some(key)) = (request.needs_key, &self.api_key) {
            builder = builder.header(crate::api::KEY_HEADER, key);
        }
        let outcome = if request.body.is_null() {
            self.agent.run(builder.body(()).map_err(unsendable)?)
        } else {
            builder = builder.header("content-type", "application/json");
            self.agent.run(builder.body(request.body.to_string()).map_err(unsendable)?)
        };
        let mut response = outcome.map_err(connection_error)?;
        let text = response.body_mut().with_config().limit(u64::MAX).read_to_string().map_err(connection_error)?;
        let is_failure = !response.status().is_success();
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if !is_failure && !(value["jsonrpc"] == "2.0" && value["error"].is_object()) {
            return Ok(text);
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let mut error = failure_of(&value, &text, response.status().as_u16());
        error.retry_after = header("retry-after").and_then(|seconds| seconds.parse().ok());
        error.request_id = header("x-request-id").map(str::to_owned);
        Err(error)
    }
}

fn unsendable(error: ureq::http::Error) -> Error {
    Error::new(Kind::Connection, error.to_string())
}

fn connection_error(error: ureq::Error) -> Error {
    match error {
        ureq::Error::Timeout(_) => Error::new(Kind::Timeout, "the daemon did not answer in time"),
        other => Error::new(Kind::Connection, format!("the daemon cannot be reached: {other}")),
    }
}

fn parse(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| Error::new(Kind::Answer, format!("the answer is not JSON: {error}")))
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| Error::new(Kind::Answer, format!("the answer is not of the expected form: {error}")))
}

/// The shapes of errors: `{jsonrpc, error: {code, message, data}}`, `{error, details}`, `{message, error}`, or a text.
fn failure_of(value: &Value, text: &str, status: u16) -> Error {
    let words = |value: &Value| value.as_str().map(str::to_owned);
    let inner = &value["error"];
    let mut error = if inner.is_object() {
        let mut error = Error::new(Kind::Rpc, words(&inner["message"]).unwrap_or_default());
        error.code = inner["code"].as_i64();
        error.details = words(&inner["data"]["details"]);
        error.data = inner.get("data").cloned();
        error
    } else {
        let said = words(&value["message"]).or_else(|| words(inner));
        let mut error = Error::new(Kind::Http, said.unwrap_or_else(|| text.chars().take(200).collect()));
        error.details = words(&value["details"]);
        error
    };
    if error.message.is_empty() {
        error.message = format!("HTTP {status}");
    }
    error.status = Some(status);
    error
}

/// Any value as JSON.
pub(crate) fn value_of<T: Serialize>(value: T) -> Value {
    serde_json::to_value(value).expect("types of this crate are JSON")
}

/// Params by position: what is absent at the end is left out, what is absent before it is null.
pub(crate) fn given(mut values: Vec<Value>) -> Value {
    while values.last().is_some_and(Value::is_null) {
        values.pop();
    }
    if values.is_empty() { Value::Null } else { Value::Array(values) }
}

/// Percent-encodes a parameter of a path or a query.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn query_text(query: &Value) -> String {
    let mut parts = Vec::new();
    for (name, value) in query.as_object().into_iter().flatten() {
        let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for one in list.iter().filter(|one| !one.is_null()) {
            let text = one.as_str().map_or_else(|| one.to_string(), str::to_owned);
            parts.push(format!("{}={}", segment(name), segment(&text)));
        }
    }
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}
