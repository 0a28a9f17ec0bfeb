//! What a program may read, write and reach beside what it needs to run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::json::excerpt;
use crate::reader::{is_secret_name, is_word};

/// The longest name of a host, in characters (RFC 1035 §2.3.4).
const HOST_CHARS_MAX: usize = 253;
/// The longest part of it between two dots, in characters.
const LABEL_CHARS_MAX: usize = 63;

/// How a host is written.
pub(super) const HOST_FIX: &str =
    "Write example.org, example.org:8443 or \"*.example.org\", in small letters, without scheme and path";

/// What a program may read, write and reach beside its folder and what it needs to run. Written as one of two words (`none`,
/// `required`) or as a map, in YAML and in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Sandbox {
    /// Whether it is contained; with [`Demand::None`] the lists are empty.
    pub demand: Demand,
    /// What it may do with the folder of its file.
    pub folder: OwnFolder,
    /// Files and folders that it may read: absolute, from the home (`~/…`), or from its folder.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may also write, in the same form.
    pub write: Vec<PathBuf>,
    /// The hosts that it may reach.
    pub egress: Vec<Egress>,
}

/// How much an agent file demands that a program is contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// `none`: it is not contained, and reaches whatever the account of the node does.
    None,
    /// As well as the machine can contain it.
    #[default]
    Best,
    /// `required`: it does not start where the machine cannot contain it.
    Required,
}

/// What a program may do with the folder of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnFolder {
    /// `read`: only read it.
    Read,
    /// `write`: read and write it.
    #[default]
    Write,
}

impl OwnFolder {
    pub(crate) const WORDS: [&'static str; 2] = ["read", "write"];

    pub(crate) fn from_word(word: &str) -> Option<OwnFolder> {
        match word {
            "read" => Some(OwnFolder::Read),
            "write" => Some(OwnFolder::Write),
            _ => None,
        }
    }

    fn is_write(&self) -> bool {
        *self == OwnFolder::Write
    }
}

impl Demand {
    pub(crate) const WORDS: [&'static str; 2] = ["none", "required"];

    pub(crate) fn from_word(word: &str) -> Option<Demand> {
        match word {
            "none" => Some(Demand::None),
            "required" => Some(Demand::Required),
            _ => None,
        }
    }
}

impl Sandbox {
    /// Whether it is what a file without the key has.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Sandbox::default()
    }

    /// The names of the node's secrets that its headers carry, each once.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<&str> {
        self.egress.iter().flat_map(Egress::secrets).collect()
    }

    /// Whether it says more than one word does: it names a path or a host, or what may be done with the folder.
    pub(super) fn has_rules(&self) -> bool {
        let names_any = !self.read.is_empty() || !self.write.is_empty() || !self.egress.is_empty();
        names_any || !self.folder.is_write()
    }
}

/// A host that a program may reach. Written as its name, or as a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenEgress", into = "WrittenEgress")]
pub struct Egress {
    /// The host, with a port if it is neither 443 nor 80: `api.example.org`, `api.example.org:8443`; `*.example.org` stands
    /// for all names below `example.org`.
    pub host: String,
    /// The variable in which the program is told the address at which it asks for this host, by plain HTTP; the node asks the
    /// host by TLS.
    pub variable: Option<String>,
    /// What follows the address in the variable: `/v1`.
    pub path: Option<String>,
    /// The headers that the node adds to each request, by their names; `{NAME}` in a value stands for the node's secret of that
    /// name.
    pub headers: BTreeMap<String, String>,
}

impl Egress {
    /// A host to which nothing is added.
    #[must_use]
    pub(super) fn to(host: &str) -> Egress {
        Egress { host: host.to_owned(), variable: None, path: None, headers: BTreeMap::new() }
    }

    /// The names of the node's secrets that its headers carry, each once.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<&str> {
        let secret = |piece| match piece {
            Piece::Secret(name) => Some(name),
            Piece::Text(_) => None,
        };
        self.headers.values().filter_map(|value| pieces(value)).flatten().filter_map(secret).collect()
    }

    /// The headers with the secrets in them, each looked up by `secret`.
    ///
    /// # Errors
    /// Those of `secret`.
    pub fn headers_with<E>(
        &self,
        mut secret: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<BTreeMap<String, String>, E> {
        let mut all = BTreeMap::new();
        for (name, value) in &self.headers {
            let mut whole = String::new();
            for piece in pieces(value).unwrap_or_else(|| vec![Piece::Text(value)]) {
                match piece {
                    Piece::Text(text) => whole.push_str(text),
                    Piece::Secret(name) => whole.push_str(&secret(name)?),
                }
            }
            all.insert(name.clone(), whole);
        }
        Ok(all)
    }
}

/// A text that names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host. {fix}", fix = HOST_FIX)]
pub struct NoHost(
    /// The beginning of the text.
    pub String,
);

impl FromStr for Egress {
    type Err = NoHost;

    fn from_str(host: &str) -> Result<Egress, NoHost> {
        if is_host(host) { Ok(Egress::to(host)) } else { Err(NoHost(excerpt(host, 80))) }
    }
}

/// A piece of a header's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// As it stands there.
    Text(&'a str),
    /// The secret of that name.
    Secret(&'a str),
}

/// The pieces of a header's value; none if its braces hold something else than names of secrets.
pub(super) fn pieces(value: &str) -> Option<Vec<Piece<'_>>> {
    let (mut all, mut rest) = (Vec::new(), value);
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        if text.contains('}') || !is_secret_name(name) {
            return None;
        }
        all.extend([Piece::Text(text), Piece::Secret(name)]);
        rest = after;
    }
    if rest.contains('}') {
        return None;
    }
    all.push(Piece::Text(rest));
    Some(all)
}

/// Whether a text is a host, perhaps with a port, or `*.` and a name.
pub(super) fn is_host(text: &str) -> bool {
    let Some((name, _)) = parts(text) else { return false };
    if text.starts_with('[') {
        return name.parse::<Ipv6Addr>().is_ok();
    }
    match name.strip_prefix("*.") {
        Some(above) => is_domain(above),
        None => name.parse::<Ipv4Addr>().is_ok() || is_domain(name),
    }
}

/// A host and its port, if it names one; none if what stands for the port is no port.
fn parts(host: &str) -> Option<(&str, Option<u16>)> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    if port.is_empty() {
        return Some((name, None));
    }
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let port = digits.parse::<u16>().ok().filter(|port| *port > 0)?;
    Some((name, Some(port)))
}

fn is_domain(name: &str) -> bool {
    let is_label =
        |label: &str| is_word(label, LABEL_CHARS_MAX, "-_") && !label.starts_with('-') && !label.ends_with('-');
    // What ends in a number is read as an address by some, and as a name by others.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= HOST_CHARS_MAX && name.split('.').all(is_label) && !is_number
}

/// How it is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Word(Word),
    Rules(Rules),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    None,
    Required,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    #[serde(default, skip_serializing_if = "OwnFolder::is_write")]
    folder: OwnFolder,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    read: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    write: Vec<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    egress: Vec<Egress>,
}

impl From<Written> for Sandbox {
    fn from(written: Written) -> Sandbox {
        match written {
            Written::Word(Word::None) => Sandbox { demand: Demand::None, ..Sandbox::default() },
            Written::Word(Word::Required) => Sandbox { demand: Demand::Required, ..Sandbox::default() },
            Written::Rules(Rules { required, folder, read, write, egress }) => {
                let demand = if required { Demand::Required } else { Demand::Best };
                Sandbox { demand, folder, read, write, egress }
            }
        }
    }
}

impl From<Sandbox> for Written {
    fn from(sandbox: Sandbox) -> Written {
        let bare = !sandbox.has_rules();
        let Sandbox { demand, folder, read, write, egress } = sandbox;
        match demand {
            Demand::None if bare => Written::Word(Word::None),
            Demand::Required if bare => Written::Word(Word::Required),
            demand => Written::Rules(Rules { required: demand == Demand::Required, folder, read, write, egress }),
        }
    }
}

/// How a host is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenEgress {
    Host(String),
    Rule(EgressRule),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EgressRule {
    host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

impl From<WrittenEgress> for Egress {
    fn from(written: WrittenEgress) -> Egress {
        match written {
            WrittenEgress::Host(host) => Egress::to(&host),
            WrittenEgress::Rule(EgressRule { host, variable, path, headers }) => {
                Egress { host, variable, path, headers }
            }
        }
    }
}

impl From<Egress> for WrittenEgress {
    fn from(egress: Egress) -> WrittenEgress {
        let Egress { host, variable, path, headers } = egress;
        if variable.is_none() && path.is_none() && headers.is_empty() {
            return WrittenEgress::Host(host);
        }
        WrittenEgress::Rule(EgressRule { host, variable, path, headers })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Sandbox {
        serde_json::from_value(value).expect("a sandbox")
    }

    #[test]
    fn it_is_stored_as_it_is_written() {
        let rule = json!({
            "host": "api.openai.com", "variable": "OPENAI_BASE_URL", "path": "/v1",
            "headers": { "Authorization": "Bearer {OPENAI_KEY}" },
        });
        for written in [
            json!("none"),
            json!("required"),
            json!({}),
            json!({ "folder": "read" }),
            json!({ "required": true, "folder": "read" }),
            json!({ "read": ["~/models", "/srv/maps"] }),
            json!({ "required": true, "write": ["~/.cache/uv"] }),
            json!({ "egress": ["api.example.org", "*.example.org", rule] }),
        ] {
            let sandbox = read(written.clone());
            assert_eq!(serde_json::to_value(&sandbox).expect("is JSON"), written);
            assert_eq!(sandbox.is_default(), written == json!({}), "{written}");
        }
        assert_eq!(read(json!({ "required": true })), read(json!("required")));
        assert_eq!(read(json!({ "folder": "write" })), Sandbox::default());
        assert_eq!(read(json!({ "egress": [{ "host": "a.b" }] })), read(json!({ "egress": ["a.b"] })));
    }

    #[test]
    fn what_is_no_sandbox_is_not_read_as_one() {
        for wrong in [
            json!("best"),
            json!(true),
            json!(["none"]),
            json!({ "none": true }),
            json!({ "reed": [] }),
            json!({ "folder": "none" }),
            json!({ "egress": [{ "hosts": "a.b" }] }),
            json!({ "egress": [{ "host": "a.b", "header": {} }] }),
        ] {
            assert!(serde_json::from_value::<Sandbox>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_names_secrets_and_is_filled_with_them() {
        let headers = [("A", "Bearer {KEY}"), ("B", "{USER.x}:{KEY}"), ("C", "plain")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let egress = Egress { headers, ..Egress::to("a.b") };
        assert_eq!(egress.secrets().into_iter().collect::<Vec<_>>(), ["KEY", "USER.x"]);
        let filled = egress.headers_with(|name| Ok::<_, ()>(format!("<{name}>"))).expect("all are there");
        assert_eq!(filled.into_values().collect::<Vec<_>>(), ["Bearer <KEY>", "<USER.x>:<KEY>", "plain"]);
        assert_eq!(egress.headers_with(|name| Err::<String, _>(name.to_owned())), Err("KEY".to_owned()));
        for wrong in ["{", "}", "a}b", "{}", "{a b}", "{{KEY}}", "{KEY", "KEY}", "{KEY}}", "{\"a\": 1}"] {
            assert_eq!(pieces(wrong), None, "{wrong}");
        }
        assert_eq!(pieces(""), Some(vec![Piece::Text("")]));
    }

    #[test]
    fn hosts_have_a_name_and_perhaps_a_port() {
        for (host, name, port) in [
            ("example.org", "example.org", None),
            ("api_2.example.org:8443", "api_2.example.org", Some(8443)),
            ("*.xn--bcher-kva.example", "*.xn--bcher-kva.example", None),
            ("localhost", "localhost", None),
            ("192.0.2.7:80", "192.0.2.7", Some(80)),
            ("[2001:db8::1]:8443", "2001:db8::1", Some(8443)),
            ("[::1]", "::1", None),
        ] {
            assert!(host.parse::<Egress>().is_ok(), "{host}");
            assert_eq!(parts(host), Some((name, port)), "{host}");
        }
        let long = format!("{}org", "a.".repeat(130));
        for wrong in [
            "",
            "*",
            "*.",
            "*.*.example.org",
            "a.*.org",
            "*example.org",
            "https://example.org",
            "example.org/v1",
            "example.org:",
            "example.org:0",
            "example.org:+80",
            "example.org:65536",
            "example.org:80:80",
            "Example.org",
            "example.org.",
            "-a.org",
            "a-.org",
            "a..org",
            "a b.org",
            "bücher.example",
            "user@example.org",
            "192.0.2",
            "*.0.2.7",
            "0x7f000001",
            "[192.0.2.7]",
            "[::1",
            "[::1]80",
            "::1",
            long.as_str(),
        ] {
            assert!(wrong.parse::<Egress>().is_err(), "{wrong}");
        }
    }
}
