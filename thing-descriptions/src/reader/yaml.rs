//! YAML as a tree with line numbers, so that every problem can name a line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use serde_saphyr::budget::BudgetBreach;

use crate::json::excerpt;

/// How deep a file may nest.
const DEPTH_MAX: usize = 32;
/// How many values a file may hold, aliases expanded.
const NODES_MAX: usize = 20_000;
/// Characters of a file's text that are quoted in a message.
const EXCERPT_CHARS: usize = 80;

/// What stands at a place of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<At>),
    Map(Vec<Entry>),
}

/// A value and its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At {
    pub node: Node,
    pub line: u64,
}

/// A member of a map; the line is that of its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub line: u64,
    pub value: At,
}

/// Why a text is not one YAML document within the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct YamlError {
    /// Line, from 1; 0 where unknown.
    pub line: u64,
    /// Column in characters, from 1; 0 where unknown.
    pub column: u64,
    /// What was found, and what to do.
    pub message: String,
}

/// Reads one document. Duplicate keys, unknown tags and expansions beyond the limits are refused.
pub(crate) fn parse(text: &str) -> Result<At, YamlError> {
    parse_within(text, NODES_MAX)
}

/// As [`parse`], of a stranger's document, in which anchors and aliases are refused too: with long texts, also a few aliases
/// make much of little.
pub(crate) fn parse_plain(text: &str) -> Result<At, YamlError> {
    parse_within(text, 0)
}

/// Reads one document with so many anchors and aliases at most.
fn parse_within(text: &str, names_max: usize) -> Result<At, YamlError> {
    let mut aliases = serde_saphyr::options::AliasLimits::default();
    aliases.max_total_replayed_events = NODES_MAX;
    aliases.max_replay_stack_depth = DEPTH_MAX;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: NODES_MAX * 3,
            max_anchors: names_max,
            max_aliases: names_max,
        },
        alias_limits: aliases,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| {
        let place = e.location();
        YamlError {
            line: place.map_or(0, |l| l.line()),
            column: place.map_or(0, |l| l.column()),
            message: in_our_words(&e),
        }
    })
}

/// JSON that was read before as such a tree, within the same limits. Where it stood in its text is not known.
pub(crate) fn of_json(value: &Value) -> Result<At, YamlError> {
    let mut values = NODES_MAX;
    json_at(value, DEPTH_MAX, &mut values).map_err(|message| YamlError { line: 0, column: 0, message })
}

/// A value within so many levels, and so many values, keys among them.
fn json_at(value: &Value, levels: usize, values: &mut usize) -> Result<At, String> {
    *values = values.checked_sub(1).ok_or_else(too_many)?;
    let below = || levels.checked_sub(1).ok_or_else(too_deep);
    let node = match value {
        Value::Null => Node::Null,
        Value::Bool(value) => Node::Bool(*value),
        Value::Number(number) => Node::Number(number.clone()),
        Value::String(text) => Node::Text(text.clone()),
        Value::Array(items) => {
            let levels = below()?;
            let items = items.iter().map(|item| json_at(item, levels, values));
            Node::List(items.collect::<Result<Vec<At>, String>>()?)
        }
        Value::Object(members) => {
            let levels = below()?;
            let entry = |(key, value): (&String, &Value)| -> Result<Entry, String> {
                *values = values.checked_sub(1).ok_or_else(too_many)?;
                Ok(Entry { key: key.clone(), line: 0, value: json_at(value, levels, values)? })
            };
            Node::Map(members.iter().map(entry).collect::<Result<Vec<Entry>, String>>()?)
        }
    };
    Ok(At { node, line: 0 })
}

fn too_deep() -> String {
    format!("it is nested deeper than {DEPTH_MAX} levels; flatten it")
}

fn too_many() -> String {
    format!("it holds more than {NODES_MAX} values, aliases counted as often as they are used; shorten it")
}

/// The problem and its remedy. The messages of the library are for programmers, and some repeat the whole input.
fn in_our_words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => in_our_words(error),
        Error::Eof { .. } => "the text ends before it is complete; close what is open, or write what is missing".into(),
        Error::MultipleDocuments { .. } => "a second document begins (`---`); keep one of them".into(),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {:?} stands here twice; keep one of them", excerpt(key, EXCERPT_CHARS))
        }
        Error::DuplicateMappingKey { key: None, .. } => "a key stands here twice; keep one of them".into(),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach: BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. }, .. } => {
            "names of values (`&name`, `*name`) are not allowed, or not so many; write out what they stand for".into()
        }
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } | Error::AliasExpansionLimitExceeded { .. } => {
            too_many()
        }
        Error::AliasReplayStackDepthExceeded { .. } => {
            format!("aliases (`*name`) lead through more than {DEPTH_MAX} others; write out what they stand for")
        }
        Error::UnknownAnchor { .. } => {
            "an alias (`*name`) stands for nothing; write `&name` where it is defined, before it is used".into()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias (`*name`) stands for what it is a part of; write out what it stands for".into()
        }
        Error::UnsupportedTag { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::BytesNotSupportedMissingBinaryTag { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::InvalidBinaryBase64 { .. } => "a tag (`!name`) is not known here; leave it out".into(),
        Error::NonFiniteFloat { .. }
        | Error::InvalidScalar { .. }
        | Error::SerdeInvalidType { .. }
        | Error::SerdeInvalidValue { .. }
        | Error::NullIntoString { .. }
        | Error::Unexpected { .. }
        | Error::Message { .. } => {
            "this cannot stand here: keys are text, and numbers are finite and not too long; put it in quotes".into()
        }
        _ => "this is not YAML; look for a bracket or a quote that is not closed, a tab in the indentation, or a line \
              that is indented otherwise than those around it"
            .into(),
    }
}

impl At {
    /// The line of a field such as `skills[0].id`, or of the nearest existing part of that path.
    pub fn line_of(&self, field: &str) -> Option<u64> {
        let mut here = self;
        let mut line = None;
        for step in field.split(['.', '[']).map(|s| s.trim_end_matches(']')).filter(|s| !s.is_empty()) {
            let found = match &here.node {
                Node::Map(entries) => entries.iter().find(|e| e.key == step).map(|e| (e.line, &e.value)),
                Node::List(items) => step.parse().ok().and_then(|n: usize| items.get(n)).map(|at| (at.line, at)),
                _ => None,
            };
            let Some((at_line, next)) = found else { break };
            line = Some(at_line);
            here = next;
        }
        line
    }

    /// The same value as JSON.
    pub fn to_json(&self) -> Value {
        match &self.node {
            Node::Null => Value::Null,
            Node::Bool(b) => Value::Bool(*b),
            Node::Number(n) => Value::Number(n.clone()),
            Node::Text(text) => Value::String(text.clone()),
            Node::List(items) => Value::Array(items.iter().map(At::to_json).collect()),
            Node::Map(entries) => Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_json())).collect()),
        }
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.node {
            Node::Null => "nothing",
            Node::Bool(_) => "true or false",
            Node::Number(_) => "a number",
            Node::Text(_) => "text",
            Node::List(_) => "a list",
            Node::Map(_) => "a map",
        }
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(At { line: spanned.referenced.line(), node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Node, E> {
        Ok(Node::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Node, E> {
        Ok(Node::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Node, E> {
        Ok(Node::Number(v.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Node, E> {
        serde_json::Number::from_f64(v).map(Node::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Node, E> {
        Ok(Node::Text(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, At>()? {
            entries.push(Entry { line: key.referenced.line(), key: key.value, value });
        }
        Ok(Node::Map(entries))
    }
}
