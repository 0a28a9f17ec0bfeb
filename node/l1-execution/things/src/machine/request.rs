//! What is sent for a call.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde_json::{Map, Value};

use super::form::{Body, Credential, Op};
use super::plan::{Call, Shape, WAIT_S};
use super::template::escape;

/// A request, as it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The method of HTTP.
    pub method: String,
    /// Where to.
    pub url: Url,
    /// Names and values of its headers; those with a secret are told apart.
    pub headers: Vec<(String, String)>,
    /// Headers that hold the secret.
    pub secret: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Seconds to wait, for an event.
    pub wait_s: Option<u64>,
}

/// Makes the request of a call; `secret` is for what its security wants.
///
/// # Errors
/// What is wrong with the arguments, for whoever called.
pub(crate) fn request(call: &Call, arguments: &Value, secret: Option<&str>) -> Result<Request, String> {
    let empty = Map::new();
    let given = arguments.as_object().unwrap_or(&empty);
    let form = &call.form;
    let variables = form.address.variables();
    let mut values = BTreeMap::new();
    for (name, needed) in &variables {
        match given.get(*name) {
            Some(value) => drop(values.insert((*name).to_owned(), plain(name, value)?)),
            None if *needed => return Err(format!("{name:?} is missing: its address has it")),
            None => {}
        }
    }
    if call.shape != Shape::Whole {
        let known = |name: &&String| {
            variables.contains_key(name.as_str())
                || matches!(call.shape, Shape::Member(member, _) if member == name.as_str())
                || (form.op == Op::Await && *name == "seconds")
        };
        if let Some(other) = given.keys().find(|name| !known(name)) {
            return Err(format!("there is no argument {:?}", other.chars().take(64).collect::<String>()));
        }
    }
    let address = form.address.expand(&values).map_err(|why| format!("a value of its address is refused: {why}"))?;
    let mut url = Url::parse(&address).map_err(|error| format!("its address with these values is none: {error}"))?;
    // Whatever was put into it.
    if url.origin().ascii_serialization() != form.origin {
        return Err("its address with these values leads elsewhere".to_owned());
    }
    let input = match call.shape {
        Shape::Variables => None,
        Shape::Whole => Some(Value::Object(given.clone())),
        Shape::Member(name, needed) => match given.get(name) {
            None if needed => return Err(format!("{name:?} is missing")),
            input => input.cloned(),
        },
    };
    let body = input.as_ref().map(|input| written(&form.body, input)).transpose()?.unwrap_or_default();
    let mut headers = form.headers.clone();
    if input.is_some() {
        headers.push(("content-type".to_owned(), form.content_type.clone()));
    }
    let accept = if form.is_sse { "text/event-stream" } else { "application/json, */*;q=0.5" };
    headers.push(("accept".to_owned(), accept.to_owned()));
    let secret = credential(&form.credential, secret, &mut url)?;
    let wait_s = (form.op == Op::Await).then(|| {
        let asked = given.get("seconds").and_then(Value::as_u64).unwrap_or(WAIT_S.0);
        asked.clamp(1, WAIT_S.1)
    });
    Ok(Request { method: form.method.clone(), url, headers, secret, body, wait_s })
}

/// The value of a variable of an address.
fn plain(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(yes) => Ok(yes.to_string()),
        _ => Err(format!("{name:?} must be a text, a number, or true or false")),
    }
}

fn written(body: &Body, input: &Value) -> Result<Vec<u8>, String> {
    match (body, input) {
        (Body::Json, input) => Ok(input.to_string().into_bytes()),
        (Body::Text, Value::String(text)) => Ok(text.clone().into_bytes()),
        (Body::Text, input) => plain("value", input).map(String::into_bytes),
        (Body::Fields, Value::Object(members)) => {
            let mut out = String::new();
            for (name, value) in members {
                if !out.is_empty() {
                    out.push('&');
                }
                escape(name, &mut out);
                out.push('=');
                escape(&plain(name, value)?, &mut out);
            }
            Ok(out.into_bytes())
        }
        (Body::Fields, _) => Err("it takes an object".to_owned()),
    }
}

/// The headers that hold the secret; a secret of the query is put into the address.
fn credential(credential: &Credential, secret: Option<&str>, url: &mut Url) -> Result<Vec<(String, String)>, String> {
    let secret = match (credential, secret) {
        (Credential::None, _) => return Ok(Vec::new()),
        (_, None) => return Err("it wants credentials, and the node has none for it".to_owned()),
        (_, Some(secret)) => secret.trim(),
    };
    let named = |name: &str, value: String| Ok(vec![(name.to_owned(), value)]);
    match credential {
        Credential::None => Ok(Vec::new()),
        Credential::Basic => named("authorization", format!("Basic {}", STANDARD.encode(secret))),
        Credential::Bearer => named("authorization", format!("Bearer {secret}")),
        Credential::Header(name) => named(name, secret.to_owned()),
        Credential::Cookie(name) => {
            let mut value = format!("{name}=");
            escape(secret, &mut value);
            named("cookie", value)
        }
        Credential::Query(name) => {
            url.query_pairs_mut().append_pair(name, secret);
            Ok(Vec::new())
        }
    }
}
