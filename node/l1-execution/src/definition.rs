//! The definition of a tool by its server, and the differences of two definitions. Pure.
//!
//! A definition is pinned when an agent is bound: from then on the tool is called only while every member of its definition
//! that a model or a person goes by is unchanged (threat model, row 7). Notes for programs and pictures may change: the pinned
//! ones are used.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{digest, hex};
use althing_td::{hidden_in, is_hidden};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::as_sets;

/// The members of a definition that are JSON Schemas.
const SCHEMAS: [&str; 2] = ["inputSchema", "outputSchema"];
/// The members that are told when they differ, and make no other tool.
const TOLD: [&str; 2] = ["_meta", "icons"];
/// What annotations say of a tool without them (MCP).
const HINTS: [(&str, bool); 4] =
    [("readOnlyHint", false), ("destructiveHint", true), ("idempotentHint", false), ("openWorldHint", true)];
/// The longest definition, bytes of canonical JSON: it is stored, and sent to models with every request.
pub const DEFINITION_BYTES_MAX: usize = 64 << 10;
/// All pinned definitions of one agent, bytes of canonical JSON; they are one row of the node's store.
pub const PINS_BYTES_MAX: usize = 1 << 20;
/// Characters of an excerpt, from a little before the first difference.
const EXCERPT_CHARS_MAX: usize = 160;
/// Characters of it that stand before the first difference.
const EXCERPT_CHARS_BEFORE: usize = 20;
/// Characters of a field's name that are shown.
const FIELD_CHARS_MAX: usize = 80;
/// Characters of a tool's name that are shown, and the digits of the digest by which one that is shortened is told from others.
const NAME_CHARS_MAX: usize = 80;
const NAME_DIGITS: usize = 12;

/// The definitions that an agent was bound to, by `server/tool`.
pub type Pins = BTreeMap<String, Definition>;

/// A tool, as its server describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its name on the server.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// All other members: title, output schema, annotations, icons, `_meta`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A changed member of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which: `description`.
    pub field: String,
    /// The bound value, from a little before the first difference, with invisible characters escaped; empty if there was
    /// none.
    pub old: String,
    /// The current value.
    pub new: String,
}

/// Why a tool is neither called nor shown to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It is not the tool that was bound.
    Changed(Vec<Difference>),
    /// It is not the tool that was bound, and another one with each listing.
    Unsteady(Vec<Difference>),
    /// It did not exist when the agent was bound.
    Unbound,
    /// It has hidden characters, or is too long.
    Refused(String),
}

impl Unfit {
    /// The typed reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Unfit::Changed(_) | Unfit::Unsteady(_) | Unfit::Unbound => "TOOL_CHANGED",
            Unfit::Refused(_) => "TOOL_REFUSED",
        }
    }

    /// The reason, quoting nothing of the tool's text, which may be an injection.
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Unfit::Changed(differences) => {
                format!("its definition is not the one that was bound ({})", fields(differences))
            }
            Unfit::Unsteady(differences) => format!(
                "its definition changes with each listing ({}); its author must leave out what changes, such as the time",
                fields(differences)
            ),
            Unfit::Unbound => "it was not there when the agent was bound".to_owned(),
            Unfit::Refused(why) => why.clone(),
        }
    }

    /// Field by field.
    #[must_use]
    pub fn differences(&self) -> &[Difference] {
        match self {
            Unfit::Changed(differences) | Unfit::Unsteady(differences) => differences,
            Unfit::Unbound | Unfit::Refused(_) => &[],
        }
    }
}

/// The names of the members that differ.
fn fields(differences: &[Difference]) -> String {
    differences.iter().map(|one| one.field.as_str()).collect::<Vec<_>>().join(", ")
}

impl Definition {
    /// A definition with the required members.
    #[must_use]
    pub fn new(name: &str, description: &str, input_schema: Value) -> Definition {
        Definition { name: name.to_owned(), description: description.to_owned(), input_schema, rest: Map::new() }
    }

    /// Its name as people may be shown it, whatever its server wrote: 93 characters at most, none of which is invisible. One that
    /// is changed ends with what only this name has.
    #[must_use]
    pub fn shown_name(&self) -> String {
        let is_visible = |c: &char| !c.is_control() && !is_hidden(*c);
        let shown: String = self.name.chars().filter(is_visible).take(NAME_CHARS_MAX).collect();
        if shown == self.name {
            return shown;
        }
        format!("{shown}…{}", &hex(&digest(self.name.as_bytes()))[..NAME_DIGITS])
    }

    /// All of it, as a server lists it.
    #[must_use]
    pub fn whole(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The canonical JSON (RFC 8785) of all of it.
    fn canonical(&self) -> Vec<u8> {
        serde_json_canonicalizer::to_vec(self).unwrap_or_default()
    }

    /// SHA-256 of its canonical JSON.
    #[must_use]
    pub fn hash(&self) -> String {
        hash(self)
    }

    /// Bytes of its canonical JSON.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.canonical().len()
    }

    /// Checks that it may be shown to a model.
    ///
    /// # Errors
    /// [`Unfit::Refused`].
    pub fn check(&self) -> Result<(), Unfit> {
        let bytes = self.bytes();
        if bytes > DEFINITION_BYTES_MAX {
            let why = format!("its definition has {bytes} bytes, and {DEFINITION_BYTES_MAX} is the most");
            return Err(Unfit::Refused(why));
        }
        match hidden(&self.whole()) {
            None => Ok(()),
            Some((field, c)) => Err(Unfit::Refused(format!(
                "its {field} holds the invisible character U+{:04X}, which can hide instructions; its author must \
                 remove that",
                u32::from(c)
            ))),
        }
    }

    /// What makes it this tool, for comparison only: what is a set in a schema has one order, and what says nothing is not there.
    /// The order in which a server writes sets down means nothing, and may be another one with each of its starts.
    fn compared(&self) -> Value {
        let mut whole = self.whole();
        if let Some(hints) = whole.get_mut("annotations").and_then(Value::as_object_mut) {
            let is_unusual = |name: &str, hint: bool| !HINTS.contains(&(name, hint));
            hints.retain(|name, hint| !is_empty(hint) && hint.as_bool().is_none_or(|hint| is_unusual(name, hint)));
        }
        if let Some(members) = whole.as_object_mut() {
            members.retain(|name, value| {
                let is_told = TOLD.contains(&name.as_str());
                !is_told && (SCHEMAS.contains(&name.as_str()) || !is_empty(value))
            });
        }
        for member in SCHEMAS {
            if let Some(schema) = whole.get_mut(member) {
                as_sets(schema);
            }
        }
        whole
    }

    /// SHA-256 of what is compared.
    pub(crate) fn compared_hash(&self) -> String {
        hash(&self.compared())
    }

    /// Checks that it is the pinned one.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_pin(&self, pinned: Option<&Definition>) -> Result<(), Unfit> {
        match pinned {
            None => Err(Unfit::Unbound),
            Some(pinned) if pinned == self || pinned.compared_hash() == self.compared_hash() => Ok(()),
            Some(pinned) => Err(Unfit::Changed(pinned.differences(self))),
        }
    }

    /// What is compared, and what is only told.
    fn all_members(&self) -> Value {
        let mut told = self.compared();
        for name in TOLD {
            if let Some(value) = self.rest.get(name).filter(|value| !is_empty(value)) {
                told[name] = value.clone();
            }
        }
        told
    }

    /// The members that differ in `now`, also those that make no other tool; the order of what is a set is no difference, nor is
    /// what says nothing.
    #[must_use]
    pub fn differences(&self, now: &Definition) -> Vec<Difference> {
        let (old, new) = (self.all_members(), now.all_members());
        let keys = |value: &Value| value.as_object().map(|all| all.keys().cloned().collect::<BTreeSet<String>>());
        let fields: BTreeSet<String> = keys(&old).into_iter().chain(keys(&new)).flatten().collect();
        let differs = |field: &String| {
            let (old, new) = (text(old.get(field)), text(new.get(field)));
            if old == new {
                return None;
            }
            let (old, new) = excerpts(&old, &new);
            Some(Difference { field: escaped(field.chars().take(FIELD_CHARS_MAX)), old, new })
        };
        fields.iter().filter_map(differs).collect()
    }
}

/// Whether a member says as much as none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The first invisible character, and the member that holds it.
fn hidden(whole: &Value) -> Option<(String, char)> {
    let members = whole.as_object()?;
    members.iter().find_map(|(name, value)| {
        let c = hidden_in(name).or_else(|| hidden_within(value))?;
        Some((escaped(name.chars().take(FIELD_CHARS_MAX)), c))
    })
}

/// The depth of values is bounded by their parser.
fn hidden_within(value: &Value) -> Option<char> {
    match value {
        Value::String(text) => hidden_in(text),
        Value::Array(items) => items.iter().find_map(hidden_within),
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| hidden_in(name).or_else(|| hidden_within(value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// SHA-256 of canonical JSON, hexadecimal.
pub(crate) fn hash<T: Serialize>(value: &T) -> String {
    hex(&digest(&serde_json_canonicalizer::to_vec(value).unwrap_or_default()))
}

/// A member as canonical JSON, for comparison; empty if there is none.
fn text(value: Option<&Value>) -> String {
    let canonical = value.map(|value| serde_json_canonicalizer::to_vec(value).unwrap_or_default());
    canonical.map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Excerpts of both texts, from a little before the first difference.
fn excerpts(old: &str, new: &str) -> (String, String) {
    let same = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let skipped = same.saturating_sub(EXCERPT_CHARS_BEFORE);
    let excerpt = |text: &str| {
        let mut shown = if skipped > 0 && !text.is_empty() { "…".to_owned() } else { String::new() };
        shown += &escaped(text.chars().skip(skipped).take(EXCERPT_CHARS_MAX));
        if text.chars().nth(skipped + EXCERPT_CHARS_MAX).is_some() {
            shown.push('…');
        }
        shown
    };
    (excerpt(old), excerpt(new))
}

/// Escapes invisible characters.
fn escaped(text: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for c in text {
        if is_hidden(c) || c.is_control() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn full() -> Value {
        json!({
            "name": "read",
            "title": "Read a file",
            "description": "Reads the file at a path.",
            "inputSchema": { "type": "object", "properties": { "path": { "type": "string" } } },
            "outputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true },
            "icons": [{ "src": "https://example.com/i.png" }],
            "_meta": { "example.com/x": 1 },
            "somethingNew": [true],
        })
    }

    fn read(value: &Value) -> Definition {
        serde_json::from_value(value.clone()).expect("a definition")
    }

    #[test]
    fn a_definition_keeps_every_member_that_its_server_wrote() {
        assert_eq!(read(&full()).whole(), full());
    }

    #[test]
    fn another_value_of_any_member_is_another_tool_and_is_shown() {
        let bound = read(&full());
        assert_eq!(bound.check_pin(Some(&read(&full()))), Ok(()));
        for field in full().as_object().expect("an object").keys().filter(|field| !TOLD.contains(&field.as_str())) {
            for other in [json!("changed \u{202e}now"), json!({ "changed": 1 }), Value::Null] {
                let mut changed = full();
                changed[field] = other.clone();
                // Name and description are texts.
                let Ok(now) = serde_json::from_value::<Definition>(changed) else { continue };
                let Err(Unfit::Changed(differences)) = now.check_pin(Some(&bound)) else { panic!("{field} {other}") };
                assert_eq!(differences.len(), 1, "{differences:?}");
                assert_eq!(&differences[0].field, field);
                assert!(!differences[0].new.contains('\u{202e}'), "{differences:?}");
                assert_ne!(differences[0].old, differences[0].new);
            }
        }
        let mut more = full();
        more["added"] = json!(1);
        let differences = bound.differences(&read(&more));
        assert_eq!((differences[0].old.as_str(), differences[0].new.as_str()), ("", "1"));
        assert_eq!(read(&full()).check_pin(None), Err(Unfit::Unbound));
    }

    #[test]
    fn notes_for_programs_and_pictures_are_told_and_make_no_other_tool() {
        let bound = read(&full());
        for (field, other) in [
            ("_meta", json!({ "example.com/x": 2 })),
            ("_meta", Value::Null),
            ("icons", json!([{ "src": "https://example.com/i.png?v=2" }])),
            ("icons", json!([])),
        ] {
            let mut changed = full();
            changed[field] = other;
            let now = read(&changed);
            assert_eq!(now.check_pin(Some(&bound)), Ok(()), "{changed}");
            let differences = bound.differences(&now);
            assert_eq!((differences.len(), differences[0].field.as_str()), (1, field), "{differences:?}");
        }
    }

    #[test]
    fn what_says_nothing_is_no_difference() {
        let plain = Definition::new("a", "b", json!({ "type": "object" }));
        for more in [
            json!({ "annotations": {} }),
            json!({ "annotations": { "title": null, "openWorldHint": true, "readOnlyHint": false } }),
            json!({ "annotations": null, "title": "", "icons": [], "_meta": {} }),
            json!({ "inputSchema": { "type": ["object"], "required": [], "properties": {} } }),
        ] {
            let mut whole = plain.whole();
            for (name, value) in more.as_object().expect("an object") {
                whole[name] = value.clone();
            }
            let same = read(&whole);
            assert_eq!((same.check_pin(Some(&plain)), plain.differences(&same)), (Ok(()), Vec::new()), "{more}");
        }
        for more in [json!({ "annotations": { "readOnlyHint": true } }), json!({ "outputSchema": {} })] {
            let mut whole = plain.whole();
            for (name, value) in more.as_object().expect("an object") {
                whole[name] = value.clone();
            }
            assert!(matches!(read(&whole).check_pin(Some(&plain)), Err(Unfit::Changed(_))), "{more}");
        }
    }

    #[test]
    fn every_byte_that_makes_a_definition_counts() {
        let mut full = full();
        for told in TOLD {
            full.as_object_mut().expect("an object").remove(told);
        }
        let whole = serde_json::to_string(&full).expect("JSON");
        let bound = read(&full);
        let mut tried = 0;
        for (at, _) in whole.char_indices() {
            let mut mutated = whole.clone().into_bytes();
            mutated[at] ^= 1;
            // What is no definition any more, or the same one (1 and 0x31 in a number's notation), is none to test.
            let Ok(now) = serde_json::from_slice::<Definition>(&mutated) else { continue };
            tried += 1;
            assert!(matches!(now.check_pin(Some(&bound)), Err(Unfit::Changed(_))), "{at}");
        }
        assert!(tried > whole.len() / 2, "{tried} of {}", whole.len());
    }

    #[test]
    fn the_order_of_members_does_not_count() {
        let one = Definition::new("a", "b", json!({ "x": 1, "y": 2 }));
        let same = Definition::new("a", "b", json!({ "y": 2, "x": 1 }));
        assert_eq!(one.hash(), same.hash());
    }

    #[test]
    fn the_order_of_a_set_in_a_schema_does_not_count_and_that_of_a_list_does() {
        let tool = |required: Value, values: Value, first: Value| {
            let properties = json!({ "mode": { "type": ["string", "null"], "enum": values, "default": ["x", "y"] } });
            let prefix = json!({ "type": "array", "prefixItems": first });
            let mut tool = full();
            tool["inputSchema"] = json!({ "type": "object", "required": required, "properties": properties });
            tool["outputSchema"] = json!({ "type": "object", "properties": { "rows": prefix } });
            read(&tool)
        };
        let columns = json!([{ "type": "string" }, { "type": "number" }]);
        let bound = tool(json!(["mode", "other"]), json!(["fast", "slow"]), columns.clone());
        let same = tool(json!(["other", "mode"]), json!(["slow", "fast"]), columns.clone());
        assert_ne!(bound.hash(), same.hash(), "it is written otherwise");
        assert_eq!((same.check_pin(Some(&bound)), bound.differences(&same)), (Ok(()), Vec::new()));
        let turned = json!([{ "type": "number" }, { "type": "string" }]);
        for other in [
            tool(json!(["mode"]), json!(["fast", "slow"]), columns.clone()),
            tool(json!(["mode", "other"]), json!(["fast", "slower"]), columns),
            tool(json!(["mode", "other"]), json!(["fast", "slow"]), turned),
        ] {
            assert!(matches!(other.check_pin(Some(&bound)), Err(Unfit::Changed(_))), "{other:?}");
        }
    }

    #[test]
    fn what_hides_a_character_anywhere_is_refused() {
        assert_eq!(read(&full()).check(), Ok(()));
        for written in ["\u{1f469}\u{200d}\u{1f52c}", "\u{6cc}\u{200c}\u{62e}", "\u{915}\u{94d}\u{200d}\u{937}"] {
            let mut tool = full();
            tool["description"] = json!(format!("Looks {written}."));
            assert_eq!(read(&tool).check(), Ok(()), "{written}");
        }
        let places: [fn(&mut Value, String); 5] = [
            |tool, text| tool["description"] = json!(text),
            |tool, text| tool["title"] = json!(text),
            |tool, text| tool["inputSchema"]["properties"]["path"]["description"] = json!(text),
            |tool, text| tool["inputSchema"]["properties"][text] = json!({}),
            |tool, text| tool["annotations"]["title"] = json!(text),
        ];
        for place in places {
            for c in ['\u{200b}', '\u{202e}', '\u{e0041}', '\u{1b}', '\u{feff}'] {
                let mut tool = full();
                place(&mut tool, format!("do{c}this"));
                let Err(Unfit::Refused(why)) = read(&tool).check() else { panic!("{tool}") };
                assert!(why.contains(&format!("U+{:04X}", u32::from(c))) && !why.contains(c), "{why}");
            }
        }
        let lines = Definition::new("a", "two\nlines\tand a tab", json!({}));
        assert_eq!(lines.check(), Ok(()));
        let long = Definition::new("a", &"x".repeat(DEFINITION_BYTES_MAX), json!({}));
        assert!(matches!(long.check(), Err(Unfit::Refused(_))));
    }

    #[test]
    fn a_name_is_shown_short_and_visible_and_as_no_other() {
        let shown = |name: &str| Definition::new(name, "", json!({})).shown_name();
        for name in ["read", "read it", "zw\u{f6}lf", &"x".repeat(NAME_CHARS_MAX)] {
            assert_eq!(shown(name), name);
        }
        let long = "x".repeat(4 << 20);
        let names = ["read\n".to_owned(), "read\u{200b}".to_owned(), format!("{long}a"), format!("{long}b")];
        let all: BTreeSet<String> = names.iter().map(|name| shown(name)).collect();
        assert_eq!(all.len(), names.len(), "no two are one: {all:?}");
        for name in &all {
            assert!(name.chars().count() <= 93 && !name.chars().any(|c| c.is_control() || is_hidden(c)), "{name:?}");
        }
    }

    #[test]
    fn excerpts_begin_where_the_difference_is() {
        let (old, new) = excerpts(&format!("{}b", "a".repeat(1_000)), &format!("{}c", "a".repeat(1_000)));
        assert!(old.starts_with('…') && old.ends_with("aab") && new.ends_with("aac"), "{old} {new}");
        assert!(excerpts("", &"x".repeat(1_000)).1.chars().count() <= EXCERPT_CHARS_MAX + 1);
    }
}
