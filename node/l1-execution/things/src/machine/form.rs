//! Which form of an affordance is used, and how.

use std::collections::BTreeSet;

use reqwest::Url;
use serde_json::{Map, Value};

use super::template::Template;

/// Headers that no description sets: those of the connection, and those that carry credentials.
const HEADERS_DENIED: [&str; 14] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "authorization",
    "proxy-authorization",
    "cookie",
    "accept",
    "accept-encoding",
];
/// Headers that one form sets.
const HEADERS_MAX: usize = 16;

/// What is done with an affordance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Reads a property.
    Read,
    /// Writes a property.
    Write,
    /// Invokes an action.
    Invoke,
    /// Waits for the next event.
    Await,
}

impl Op {
    /// The word of a form's `op`.
    fn word(self) -> &'static str {
        match self {
            Op::Read => "readproperty",
            Op::Write => "writeproperty",
            Op::Invoke => "invokeaction",
            Op::Await => "subscribeevent",
        }
    }

    /// The method where the form names none (TD 1.1 §8.3.1).
    fn method(self) -> &'static str {
        match self {
            Op::Read | Op::Await => "GET",
            Op::Write => "PUT",
            Op::Invoke => "POST",
        }
    }
}

/// How a body is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// As JSON.
    Json,
    /// A text as it is.
    Text,
    /// Members of an object, `application/x-www-form-urlencoded`.
    Fields,
}

/// How the node proves that it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Not at all.
    None,
    /// `Authorization: Basic`; the secret is `user:password`.
    Basic,
    /// `Authorization: Bearer`.
    Bearer,
    /// In this header.
    Header(String),
    /// In this variable of the query.
    Query(String),
    /// In this cookie.
    Cookie(String),
}

/// A form that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// What is done.
    pub op: Op,
    /// The method of HTTP.
    pub method: String,
    /// The whole address.
    pub address: Template,
    /// Where that leads, whatever the values of its variables are.
    pub origin: String,
    /// The media type of what is sent.
    pub content_type: String,
    /// How that is written.
    pub body: Body,
    /// How the node proves that it may.
    pub credential: Credential,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Whether events come as server-sent events; else the answer is the event.
    pub is_sse: bool,
}

/// What all forms of a description share.
pub struct Ground<'a> {
    /// The description.
    pub td: &'a Map<String, Value>,
    /// What relative addresses begin with.
    pub base: Url,
    /// The origins that may be asked.
    pub origins: BTreeSet<String>,
    /// Whether the node has a secret for it.
    pub has_secret: bool,
}

impl Ground<'_> {
    /// The first usable form of an affordance for that; or why there is none.
    pub fn form(&self, affordance: &Map<String, Value>, op: Op, defaults: &[Op]) -> Result<Form, String> {
        let forms = affordance.get("forms").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut why = None;
        for form in forms.iter().filter_map(Value::as_object).filter(|form| has(form, op, defaults)) {
            match self.read(form, op) {
                Ok(form) => return Ok(form),
                Err(reason) => why = why.or(Some(reason)),
            }
        }
        Err(why.unwrap_or_else(|| format!("it has no form for {}", op.word())))
    }

    fn read(&self, form: &Map<String, Value>, op: Op) -> Result<Form, String> {
        let text = |member: &str| form.get(member).and_then(Value::as_str);
        let is_sse = match (text("subprotocol"), op) {
            (None, _) | (Some("longpoll"), Op::Await) => false,
            (Some("sse"), Op::Await) => true,
            (Some(other), _) => return Err(format!("its forms want the sub-protocol {other:?}")),
        };
        if text("contentCoding").is_some_and(|coding| coding != "identity") {
            return Err("its content is encoded".to_owned());
        }
        let (address, origin) = self.address(text("href").unwrap_or_default())?;
        let content_type = text("contentType").unwrap_or("application/json").to_owned();
        let method = ["htv:methodName", "http://www.w3.org/2011/http#methodName"].into_iter().find_map(text);
        let method = method.unwrap_or(op.method()).to_ascii_uppercase();
        if !["GET", "PUT", "POST", "DELETE", "PATCH"].contains(&method.as_str()) {
            return Err(format!("its method is {method}"));
        }
        let sends = matches!(op, Op::Write | Op::Invoke);
        let body = body(&content_type).or((!sends).then_some(Body::Json));
        let body = body.ok_or_else(|| format!("it takes {content_type}, which is not written here"))?;
        let credential = self.credential(form.get("security").or_else(|| self.td.get("security")))?;
        if credential != Credential::None {
            if !self.has_secret {
                return Err(
                    "it wants credentials: keep them with `althing secret set NAME`, and name them (--secret NAME)"
                        .to_owned(),
                );
            }
            if !althing_td::keeps_bearer(&address.bare()) {
                return Err("its credentials would be sent in the clear".to_owned());
            }
        }
        Ok(Form { op, method, address, origin, content_type, body, credential, headers: headers(form)?, is_sse })
    }

    /// The whole address of a form, and its origin.
    fn address(&self, href: &str) -> Result<(Template, String), String> {
        // Variables are no part of an address until they have values.
        let (mut named, mut expressions, mut rest) = (String::new(), Vec::new(), href);
        while let Some((before, after)) = rest.split_once('{') {
            let (inner, after) = after.split_once('}').ok_or("a variable of its address has no end")?;
            named.push_str(before);
            named.push_str(&placeholder(expressions.len()));
            expressions.push(inner);
            rest = after;
        }
        named.push_str(rest);
        let joined = self.base.join(&named).map_err(|_| "its address is none".to_owned())?;
        if !matches!(joined.scheme(), "http" | "https") {
            return Err(format!("its forms are for {}, not for HTTP", joined.scheme()));
        }
        if !joined.username().is_empty() || joined.password().is_some() || joined.fragment().is_some() {
            return Err("its address has a name, a password or a fragment".to_owned());
        }
        let origin = joined.origin().ascii_serialization();
        let mut whole = joined.to_string();
        for (place, inner) in expressions.iter().enumerate() {
            let name = placeholder(place);
            if origin.contains(&name) {
                return Err("the host of its address has a variable".to_owned());
            }
            whole = whole.replacen(&name, &format!("{{{inner}}}"), 1);
        }
        if !self.origins.contains(&origin) {
            return Err(format!("its forms lead to {origin}, which you did not allow (--allow {origin})"));
        }
        Ok((Template::read(&whole)?, origin))
    }

    fn credential(&self, names: Option<&Value>) -> Result<Credential, String> {
        let names: Vec<&str> = match names {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let definitions = self.td.get("securityDefinitions");
        let mut all = Vec::new();
        for name in names {
            let scheme = definitions.and_then(|all| all.get(name)).and_then(Value::as_object);
            let scheme = scheme.ok_or_else(|| format!("its security {name:?} is not defined"))?;
            all.extend(Some(credential(scheme)?).filter(|one| *one != Credential::None));
        }
        match all.len() {
            0 => Ok(Credential::None),
            1 => Ok(all.remove(0)),
            _ => Err("it wants several credentials at once".to_owned()),
        }
    }
}

/// What stands for the variables of an address while it is resolved.
fn placeholder(place: usize) -> String {
    format!("althing-variable-{place}-")
}

fn credential(scheme: &Map<String, Value>) -> Result<Credential, String> {
    let text = |member: &str| scheme.get(member).and_then(Value::as_str);
    let kind = text("scheme").unwrap_or_default();
    match (kind, text("in")) {
        ("nosec", _) => Ok(Credential::None),
        ("basic", None | Some("header")) => Ok(Credential::Basic),
        ("bearer", None | Some("header")) => Ok(Credential::Bearer),
        // TD 1.1 §5.3.3.8: in the query where it is not said.
        ("apikey", place) => {
            let name = text("name").unwrap_or_default();
            let letter = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
            let word = (1..=64).contains(&name.len()) && name.bytes().all(letter);
            match (place.unwrap_or("query"), word) {
                ("header", true) if name.eq_ignore_ascii_case("authorization") || allowed(name) => {
                    Ok(Credential::Header(name.to_owned()))
                }
                ("query", true) => Ok(Credential::Query(name.to_owned())),
                ("cookie", true) => Ok(Credential::Cookie(name.to_owned())),
                (place, _) => Err(format!("its key would be sent in {place} {name:?}, which is not done here")),
            }
        }
        (kind, _) => Err(format!("its security scheme is {kind:?}; known are nosec, basic, bearer and apikey")),
    }
}

/// Whether a form is for that.
fn has(form: &Map<String, Value>, op: Op, defaults: &[Op]) -> bool {
    match form.get("op") {
        Some(Value::String(word)) => word == op.word(),
        Some(Value::Array(words)) => words.iter().any(|word| word == op.word()),
        _ => defaults.contains(&op),
    }
}

fn body(content_type: &str) -> Option<Body> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/x-www-form-urlencoded" => Some(Body::Fields),
        json if json == "application/json" || json.ends_with("+json") => Some(Body::Json),
        text if text.starts_with("text/") => Some(Body::Text),
        _ => None,
    }
}

fn headers(form: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let given = form.get("htv:headers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut all = Vec::new();
    for header in given {
        let text = |member: &str| header.get(member).and_then(Value::as_str);
        let (Some(name), Some(value)) = (text("htv:fieldName"), text("htv:fieldValue")) else { continue };
        if !allowed(name) || all.len() == HEADERS_MAX {
            return Err(format!("it sets the header {:?}", name.chars().take(64).collect::<String>()));
        }
        all.push((name.to_owned(), value.to_owned()));
    }
    Ok(all)
}

fn allowed(name: &str) -> bool {
    !HEADERS_DENIED.contains(&name.to_ascii_lowercase().as_str())
}
