//! A description as it was submitted, and what the node reads in it.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::validate::{Report, Strictness, parse};

/// The most capabilities that are read of one description; a longer list is cut.
pub const CAPABILITIES_MAX: usize = 256;

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
/// given back), and the value they hold. Cloning shares both.
#[derive(Clone, PartialEq)]
pub struct Description {
    bytes: Arc<[u8]>,
    value: Arc<Value>,
    warnings: Arc<Report>,
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Description").field("id", &self.id()).field("title", &self.title()).finish_non_exhaustive()
    }
}

/// Something that an agent or a thing can do: an entry of `lmos:capabilities`, or an action.
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
    /// Words to be found by.
    pub tags: Vec<String>,
    /// Sentences that it would answer.
    pub examples: Vec<String>,
}

impl Description {
    /// Reads and validates a description that anyone wrote (see [`crate::validate`]), and keeps its bytes.
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
        match parse(bytes, strictness) {
            (report, Some(value)) if report.is_valid() => {
                Ok(Description { bytes: bytes.into(), value: Arc::new(value), warnings: Arc::new(report) })
            }
            (report, _) => Err(DescriptionError::Invalid(report)),
        }
    }

    /// A description made by this crate, which is valid by construction (a property test says so).
    pub(crate) fn made(value: Value) -> Description {
        let bytes = value.to_string().into_bytes().into();
        Description { bytes, value: Arc::new(value), warnings: Arc::default() }
    }

    /// The bytes as submitted.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value that the bytes hold, members in their order; an unknown member is here too.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What validation found without refusing: warnings only.
    pub fn warnings(&self) -> &Report {
        &self.warnings
    }

    /// The identifier (`id`), a URI; a foreign description may have none.
    pub fn id(&self) -> Option<&str> {
        self.text("id")
    }

    /// The title for people.
    pub fn title(&self) -> &str {
        self.text("title").unwrap_or_default()
    }

    /// The description for people.
    pub fn description(&self) -> Option<&str> {
        self.text("description")
    }

    /// The version of this instance (`version.instance`).
    pub fn version(&self) -> Option<&str> {
        self.value.get("version")?.get("instance")?.as_str()
    }

    /// The media types that the agent reads (`althing:inputModes`); empty where unsaid.
    pub fn input_modes(&self) -> Vec<String> {
        strings(self.value.get("althing:inputModes"))
    }

    /// The media types that the agent writes (`althing:outputModes`); empty where unsaid.
    pub fn output_modes(&self) -> Vec<String> {
        strings(self.value.get("althing:outputModes"))
    }

    /// What it can do: `lmos:capabilities`, read leniently (a missing member is empty, a plain string is id and name);
    /// where there are none, one for each action. At most [`CAPABILITIES_MAX`].
    pub fn capabilities(&self) -> Vec<Capability> {
        let declared = self.value.get("lmos:capabilities").and_then(Value::as_array);
        let declared = declared.into_iter().flatten().filter_map(capability).take(CAPABILITIES_MAX);
        let declared: Vec<Capability> = declared.collect();
        if !declared.is_empty() {
            return declared;
        }
        let actions = self.value.get("actions").and_then(Value::as_object);
        actions.into_iter().flatten().map(|(name, action)| from_action(name, action)).take(CAPABILITIES_MAX).collect()
    }

    /// The text that a full-text index reads: title, description, and of each capability its name, description,
    /// action, target, tags and examples, one per line.
    pub fn search_text(&self) -> String {
        let mut lines = vec![self.title().to_owned()];
        lines.extend(self.description().map(str::to_owned));
        for capability in self.capabilities() {
            lines.extend([capability.name, capability.description]);
            lines.extend(capability.action.into_iter().chain(capability.target));
            lines.extend(capability.tags.into_iter().chain(capability.examples));
        }
        lines.retain(|line| !line.is_empty());
        lines.join("\n")
    }

    /// SHA-256 of the bytes as submitted.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.value.get(member)?.as_str()
    }
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
        examples: strings(first(object, &["examples", "lmos:examples"])),
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
