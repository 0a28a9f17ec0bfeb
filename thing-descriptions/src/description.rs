//! A description as submitted, and its parsed content.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::containment::{CONTAINMENT, ContainmentClaim};
use crate::validate::{Report, Strictness, parse};

/// The capabilities that are read from one description; a longer list is cut.
pub const CAPABILITIES_MAX: usize = 256;
/// The member of a capability that says which tool it is.
pub(crate) const TOOL: &str = "althing:tool";

/// A description that is not valid; its text lists the findings, each with its remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// At least one finding is an error.
    #[error("not a valid Thing Description:\n{0}")]
    Invalid(Report),
}

impl DescriptionError {
    /// The findings.
    pub fn report(&self) -> &Report {
        let DescriptionError::Invalid(report) = self;
        report
    }
}

/// A valid Thing Description: the bytes as submitted (TD 1.1 has no canonical form, so nothing else can be signed or
/// given back), and its parsed content. The JSON value is not kept: in memory it is eight times as large. Clones share the
/// data.
#[derive(Clone, PartialEq)]
pub struct Description {
    bytes: Arc<[u8]>,
    read: Arc<Read>,
}

/// The member that says that a node only passes messages on.
pub(crate) const PASSES_ON: &str = "althing:passesOn";

/// The parsed content of a description.
#[derive(PartialEq)]
struct Read {
    id: Option<String>,
    title: String,
    description: Option<String>,
    version: Option<String>,
    input_modes: Vec<String>,
    output_modes: Vec<String>,
    contained: Option<ContainmentClaim>,
    passes_on: bool,
    affordances: Vec<String>,
    capabilities: Vec<Capability>,
    warnings: Report,
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description").field("id", &self.id()).field("title", &self.title()).finish_non_exhaustive()
    }
}

/// A capability of an agent or a thing: an entry of `lmos:capabilities`, or an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capability {
    /// Its identifier, for example `urn:vendor:capability:billing:view`; empty where the author gave none.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its version, semver where the author followed LMOS.
    pub version: Option<String>,
    /// The verb, for exact search: `althing:action`; for an action affordance its name.
    pub action: Option<String>,
    /// What the verb acts on: `althing:target`.
    pub target: Option<String>,
    /// Words for search.
    pub tags: Vec<String>,
    /// Example requests.
    pub examples: Vec<String>,
    /// Whether it is a tool with schemas of its own ([`Description::tools`]).
    pub is_tool: bool,
}

impl Capability {
    /// Whether `wanted` is its id or, where it ends with `*`, how its id begins.
    #[must_use]
    pub fn has_id(&self, wanted: &str) -> bool {
        match wanted.strip_suffix('*') {
            Some(prefix) => self.id.starts_with(prefix),
            None => self.id == wanted,
        }
    }

    /// Whether it does that action to that target, as far as they are given; in whatever case they are written.
    #[must_use]
    pub fn does(&self, action: Option<&str>, target: Option<&str>) -> bool {
        let fits = |wanted: Option<&str>, has: &Option<String>| {
            wanted.is_none_or(|wanted| has.as_ref().is_some_and(|has| has.to_lowercase() == wanted.to_lowercase()))
        };
        fits(action, &self.action) && fits(target, &self.target)
    }
}

impl Description {
    /// Reads and validates a description that anyone wrote (see [`crate::validate()`]), and keeps its bytes.
    ///
    /// # Errors
    /// [`DescriptionError::Invalid`] with every finding.
    pub fn parse(bytes: &[u8]) -> Result<Description, DescriptionError> {
        Description::parse_as(bytes, Strictness::Foreign)
    }

    /// As [`Description::parse`], with a choice of strictness; [`Strictness::Own`] before signing.
    ///
    /// # Errors
    /// [`DescriptionError::Invalid`] with every finding.
    pub fn parse_as(bytes: &[u8], strictness: Strictness) -> Result<Description, DescriptionError> {
        Description::parse_shared(bytes.into(), strictness)
    }

    /// As [`Description::parse_as`]; keeps these bytes, not a copy of them.
    ///
    /// # Errors
    /// [`DescriptionError::Invalid`] with every finding.
    pub fn parse_shared(bytes: Arc<[u8]>, strictness: Strictness) -> Result<Description, DescriptionError> {
        match parse(&bytes, strictness) {
            (report, Some(value)) if report.is_valid() => Ok(Description::of(bytes, &value, report)),
            (report, _) => Err(DescriptionError::Invalid(report)),
        }
    }

    /// A description made by this crate, which is valid by construction (a property test says so).
    pub(crate) fn made(value: Value) -> Description {
        Description::of(value.to_string().into_bytes().into(), &value, Report::default())
    }

    fn of(bytes: Arc<[u8]>, value: &Value, warnings: Report) -> Description {
        let text = |member: &str| value.get(member)?.as_str().map(str::to_owned);
        let named = |kind: &str| value.get(kind).and_then(Value::as_object);
        let affordances = ["properties", "actions", "events"].into_iter().filter_map(named);
        let read = Read {
            id: value.as_object().and_then(identifier).map(str::to_owned),
            title: text("title").unwrap_or_default(),
            description: text("description"),
            version: value.pointer("/version/instance").and_then(Value::as_str).map(str::to_owned),
            input_modes: strings(value.get("althing:inputModes")),
            output_modes: strings(value.get("althing:outputModes")),
            contained: value.get(CONTAINMENT).and_then(Value::as_str).and_then(ContainmentClaim::of),
            passes_on: value.get(PASSES_ON).and_then(Value::as_bool).unwrap_or(false),
            affordances: affordances.flat_map(Map::keys).cloned().collect(),
            capabilities: capabilities(value),
            warnings,
        };
        Description { bytes, read: Arc::new(read) }
    }

    /// The bytes as submitted.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The JSON value, parsed again: members in their order, including unknown ones.
    ///
    /// # Panics
    /// Never: the bytes were read before.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("it was read before")
    }

    /// The warnings of validation.
    pub fn warnings(&self) -> &Report {
        &self.read.warnings
    }

    /// The identifier, a URI: `id`, or `@id`, as JSON-LD writes it; a foreign description may have none.
    pub fn id(&self) -> Option<&str> {
        self.read.id.as_deref()
    }

    /// The title for people.
    pub fn title(&self) -> &str {
        &self.read.title
    }

    /// The description for people.
    pub fn description(&self) -> Option<&str> {
        self.read.description.as_deref()
    }

    /// The version of this instance (`version.instance`).
    pub fn version(&self) -> Option<&str> {
        self.read.version.as_deref()
    }

    /// The media types that the agent reads (`althing:inputModes`); empty where unsaid.
    pub fn input_modes(&self) -> &[String] {
        &self.read.input_modes
    }

    /// The media types that the agent writes (`althing:outputModes`); empty where unsaid.
    pub fn output_modes(&self) -> &[String] {
        &self.read.output_modes
    }

    /// How the programs of the agent are contained where it runs (`althing:containment`); none where that is unsaid, or said in
    /// other words.
    pub fn contained(&self) -> Option<ContainmentClaim> {
        self.read.contained
    }

    /// Whether the agent runs elsewhere, and its node only passes messages on (`althing:passesOn`): what becomes of one that is sent
    /// twice, that agent decides.
    pub fn passes_on(&self) -> bool {
        self.read.passes_on
    }

    /// The names of its properties, actions and events.
    pub fn affordances(&self) -> &[String] {
        &self.read.affordances
    }

    /// What it can do: `lmos:capabilities`, read leniently (a missing member is empty, a plain string is id and name);
    /// where there are none, one for each action. At most [`CAPABILITIES_MAX`].
    pub fn capabilities(&self) -> &[Capability] {
        &self.read.capabilities
    }

    /// The text that a full-text index reads: title, description, and of each capability its id, name, description,
    /// action, target, tags and examples, one per line.
    pub fn search_text(&self) -> String {
        let head = [self.title(), self.description().unwrap_or_default()];
        let capabilities = self.capabilities().iter().flat_map(|c| {
            let words = [c.id.as_str(), &c.name, &c.description].into_iter();
            let verb = c.action.iter().chain(&c.target).map(String::as_str);
            words.chain(verb).chain(c.tags.iter().chain(&c.examples).map(String::as_str))
        });
        let lines: Vec<&str> = head.into_iter().chain(capabilities).filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }

    /// SHA-256 of the bytes as submitted.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }
}

/// The identifier of a description: in the context of Thing Descriptions `id` is a name of JSON-LD's `@id`.
#[must_use]
pub fn identifier(td: &Map<String, Value>) -> Option<&str> {
    td.get("id").or_else(|| td.get("@id"))?.as_str()
}

fn capabilities(td: &Value) -> Vec<Capability> {
    let declared = td.get("lmos:capabilities").and_then(Value::as_array);
    let declared: Vec<Capability> =
        declared.into_iter().flatten().filter_map(capability).take(CAPABILITIES_MAX).collect();
    if !declared.is_empty() {
        return declared;
    }
    let actions = td.get("actions").and_then(Value::as_object);
    actions.into_iter().flatten().map(|(name, action)| from_action(name, action)).take(CAPABILITIES_MAX).collect()
}

fn capability(entry: &Value) -> Option<Capability> {
    let object = match entry {
        Value::Object(object) => object,
        Value::String(name) => {
            return Some(Capability { id: name.clone(), name: name.clone(), ..Capability::default() });
        }
        _ => return None,
    };
    let text = |names: &[&str]| first(object, names).and_then(Value::as_str).map(str::to_owned);
    Some(Capability {
        id: text(&["id", "lmos:id"]).unwrap_or_default(),
        name: text(&["name", "lmos:name"]).unwrap_or_default(),
        description: text(&["description", "lmos:description"]).unwrap_or_default(),
        version: text(&["version", "lmos:version"]),
        action: text(&["althing:action", "action"]),
        target: text(&["althing:target", "target"]),
        tags: strings(first(object, &["althing:tags", "tags"])),
        examples: examples(first(object, &["examples", "lmos:examples"])),
        is_tool: object.get(TOOL).is_some_and(|tool| tool["name"].is_string()),
    })
}

fn first<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name))
}

fn from_action(name: &str, action: &Value) -> Capability {
    let text = |member: &str| action.get(member).and_then(Value::as_str).map(str::to_owned);
    Capability {
        id: name.to_owned(),
        name: text("title").unwrap_or_else(|| name.to_owned()),
        description: text("description").unwrap_or_default(),
        action: Some(name.to_owned()),
        tags: strings(action.get("@type")),
        ..Capability::default()
    }
}

/// One string or the strings of a list.
fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(items)) => items.iter().filter_map(|i| i.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// Examples as text: of an object, its strings.
fn examples(value: Option<&Value>) -> Vec<String> {
    let items = match value {
        Some(Value::Array(items)) => items.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let text = |item: &Value| {
        let mut words = Vec::new();
        leaves(item, &mut words);
        words.join(" ")
    };
    items.iter().map(text).filter(|text| !text.is_empty()).collect()
}

/// The strings of a value. It goes no deeper than the text, which [`crate::DEPTH_MAX`] bounds.
fn leaves<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, out)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn td(members: Value) -> Description {
        let mut td = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1#" }],
            "title": "Bills",
            "securityDefinitions": { "nosec_sc": { "scheme": "nosec" } },
            "security": "nosec_sc",
        });
        if let (Some(td), Value::Object(members)) = (td.as_object_mut(), members) {
            td.extend(members);
        }
        Description::parse(td.to_string().as_bytes()).expect("is valid")
    }

    #[test]
    fn capabilities_are_read_whole() {
        let read = td(json!({ "lmos:capabilities": [{
            "id": "urn:x:billing:view", "name": "View a bill", "description": "Shows a bill.", "version": "1.2.0",
            "examples": ["Show my bill", { "input": "Last month?", "output": { "text": "12 euros" } }],
            "althing:action": "view", "althing:target": "bill", "althing:tags": ["money"],
        }] }));
        let wanted = Capability {
            id: "urn:x:billing:view".to_owned(),
            name: "View a bill".to_owned(),
            description: "Shows a bill.".to_owned(),
            version: Some("1.2.0".to_owned()),
            action: Some("view".to_owned()),
            target: Some("bill".to_owned()),
            tags: vec!["money".to_owned()],
            examples: vec!["Show my bill".to_owned(), "Last month? 12 euros".to_owned()],
            is_tool: false,
        };
        assert_eq!(read.capabilities(), [wanted]);
        let text = "Bills\nurn:x:billing:view\nView a bill\nShows a bill.\nview\nbill\nmoney\nShow my bill\nLast month? 12 euros";
        assert_eq!(read.search_text(), text);
    }

    #[test]
    fn what_a_capability_lacks_is_empty() {
        let read = td(json!({ "lmos:capabilities": [{ "id": 1 }, "plain", 7, { "examples": "one" }] }));
        let [first, plain, third] = read.capabilities() else { panic!("{:?}", read.capabilities()) };
        assert_eq!(*first, Capability::default());
        assert_eq!((plain.id.as_str(), plain.name.as_str()), ("plain", "plain"));
        assert_eq!(third.examples, ["one"]);
    }

    #[test]
    fn without_capabilities_each_action_is_one() {
        let forms = json!([{ "href": "https://a.example/" }]);
        let actions =
            json!({ "dim": { "title": "Dim", "description": "Dims it.", "forms": forms }, "off": { "forms": forms } });
        let read = td(json!({ "lmos:capabilities": [], "actions": actions }));
        let ids: Vec<&str> = read.capabilities().iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["dim", "off"]);
        assert_eq!(read.capabilities()[0].name, "Dim");
        assert_eq!(read.capabilities()[1].action.as_deref(), Some("off"));
    }

    #[test]
    fn a_list_of_capabilities_is_cut_at_the_limit() {
        let many: Vec<Value> = (0..CAPABILITIES_MAX + 1).map(|n| json!({ "id": n.to_string() })).collect();
        assert_eq!(td(json!({ "lmos:capabilities": many })).capabilities().len(), CAPABILITIES_MAX);
    }

    #[test]
    fn the_members_that_the_node_reads_are_those_of_the_text() {
        let read = td(json!({ "id": "urn:x:1", "description": "Shows.", "version": { "instance": "2.0.0" } }));
        assert_eq!((read.id(), read.title()), (Some("urn:x:1"), "Bills"));
        assert_eq!((read.description(), read.version()), (Some("Shows."), Some("2.0.0")));
        assert_eq!(td(json!({ "@id": "urn:x:1" })).id(), Some("urn:x:1"), "as JSON-LD writes it");
        let nothing = td(json!({}));
        assert_eq!((nothing.id(), nothing.description(), nothing.version()), (None, None, None));
        let wanted: [u8; 32] = Sha256::digest(nothing.bytes()).into();
        assert_eq!(nothing.digest(), wanted);
    }

    #[test]
    fn the_report_travels_with_the_error() {
        let error = Description::parse(b"{}").expect_err("lacks everything");
        assert!(!error.report().is_valid());
        assert!(error.to_string().contains("title"));
    }
}
