//! JSON Schemas that answers are judged by (draft 2020-12): without references to elsewhere, and such that judging ends soon
//! whatever is judged.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// The longest schema, bytes of JSON.
pub const ANSWER_SCHEMA_BYTES_MAX: usize = 32 << 10;
/// Levels of what is judged, each object and list counted.
pub const ANSWER_DEPTH_MAX: usize = 64;
/// Levels of a schema, each object and list counted.
const SCHEMA_DEPTH_MAX: usize = 32;
/// Schemas within one.
const SCHEMAS_MAX: usize = 512;
/// How many schemas one becomes where each reference is replaced by what it leads to.
const EXPANSION_MAX: u64 = 2_000;
/// How often one value is looked at where schemas go into it in several ways.
const LOOKS_MAX: u64 = 4_096;
/// Characters that are told of what is wrong with a schema.
const FAULT_CHARS_MAX: usize = 200;
/// A schema that contains itself and permits fewer levels than these is of no use.
const RECURSION_DEPTH_MIN: usize = 4;
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords with schemas under names that are about members of the value.
const MEMBERS: [&str; 2] = ["properties", "patternProperties"];
/// Keywords with schemas that are only referred to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords with lists of schemas about the same value.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with one schema about the same value.
const CONDITIONS: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with one schema about what is in the value.
const PARTS: [&str; 6] =
    ["items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames", "contains"];
/// Names of schemas beside JSON Pointers.
const NAMES: [&str; 6] = ["$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"];

/// Why a schema is none that answers can be judged by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", at(.place))]
pub struct SchemaFault {
    /// Where in the schema, as a JSON Pointer; empty for the whole.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(", at {place}") }
}

/// What of a value breaks a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Where in the value, as a JSON Pointer; its names are those of the value.
    pub place: String,
    /// Where in the schema the rule stands, as a JSON Pointer.
    pub rule: String,
    /// How the rule is broken, in words of the schema alone.
    pub what: String,
}

/// A JSON Schema that answers are judged by.
#[derive(Debug, Clone)]
pub struct AnswerSchema {
    validator: Validator,
    depth_max: usize,
}

impl AnswerSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn new(schema: &Value) -> Result<AnswerSchema, SchemaFault> {
        let fault = |place: &str, what: String| SchemaFault { place: place.to_owned(), what };
        let bytes = schema.to_string().len();
        if bytes > ANSWER_SCHEMA_BYTES_MAX {
            return Err(fault("", format!("it has {bytes} bytes, and {ANSWER_SCHEMA_BYTES_MAX} is the most")));
        }
        if levels(schema) > SCHEMA_DEPTH_MAX {
            return Err(fault("", format!("it has more than {SCHEMA_DEPTH_MAX} levels")));
        }
        let mut graph = Graph::default();
        graph.enter(schema, "")?;
        let depth_max = graph.depth_max()?;
        let options = jsonschema::draft202012::options().offline().should_validate_formats(true);
        // These match in linear time, whatever is matched.
        let compiled = options.with_pattern_options(PatternOptions::regex()).build(schema);
        let validator = compiled.map_err(|error| {
            let place = error.instance_path().as_str();
            fault(place, unfit(place, &error.to_string()))
        })?;
        Ok(AnswerSchema { validator, depth_max })
    }

    /// The first rule that a value breaks.
    #[must_use]
    pub fn breach(&self, value: &Value) -> Option<Breach> {
        if levels(value) > self.depth_max {
            let what = format!("it has more than {} levels", self.depth_max);
            return Some(Breach { place: String::new(), rule: String::new(), what });
        }
        // Most values break nothing, which takes less to see than what the first breach would be.
        if self.validator.is_valid(value) {
            return None;
        }
        let error = self.validator.validate(value).err()?;
        let what = match error.kind() {
            ValidationErrorKind::Required { property } => {
                format!("{:?} is missing", property.as_str().unwrap_or_default())
            }
            kind => format!("it breaks `{}`", kind.keyword()),
        };
        let [place, rule] = [error.instance_path(), error.schema_path()].map(|path| path.as_str().to_owned());
        Some(Breach { place, rule, what })
    }
}

/// What is wrong at a place of a schema, by what its reader says, which may quote as much as the schema has there.
fn unfit(place: &str, said: &str) -> String {
    let mut told: String = said.chars().take(FAULT_CHARS_MAX).collect();
    if told.len() < said.len() {
        told.push('…');
    }
    let is_pattern = place.ends_with("/pattern") || said.ends_with("is not a \"regex\"");
    let more = if is_pattern { "; patterns here have no look-around and no back-references" } else { "" };
    format!("it is no JSON Schema 2020-12 that answers can be judged by: {told}{more}")
}

/// The levels of a value, whose parser bounds them.
fn levels(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(levels).max(),
        Value::Object(members) => members.values().map(levels).max(),
        _ => return 0,
    };
    1 + below.unwrap_or_default()
}

/// What one schema leads to, each by its JSON Pointer.
#[derive(Debug, Default)]
struct Node {
    /// Schemas about the same value.
    same: Vec<String>,
    /// Schemas about what is in the value.
    within: Vec<String>,
    /// How many schemas look at one and the same part of the value.
    looks: u64,
}

/// The schemas within one.
#[derive(Debug, Default)]
struct Graph {
    nodes: BTreeMap<String, Node>,
}

impl Graph {
    fn enter(&mut self, schema: &Value, place: &str) -> Result<(), SchemaFault> {
        let fault = |what: String| Err(SchemaFault { place: place.to_owned(), what });
        if self.nodes.len() >= SCHEMAS_MAX {
            return fault(format!("it has more than {SCHEMAS_MAX} schemas"));
        }
        let members = match schema {
            Value::Bool(_) => {
                self.nodes.insert(place.to_owned(), Node::default());
                return Ok(());
            }
            Value::Object(members) => members,
            _ => return fault("no schema stands here".to_owned()),
        };
        if let Some(name) = NAMES.iter().find(|name| members.contains_key(**name)) {
            return fault(format!("`{name}` is not known here: refer to schemas by `$ref`, as #/$defs/NAME"));
        }
        // The library judges by it in all drafts, and here nobody counts what it leads to.
        if members.contains_key("dependencies") {
            return fault(
                "`dependencies` is not known here: write `dependentSchemas` or `dependentRequired`".to_owned(),
            );
        }
        if members.get("$schema").is_some_and(|dialect| dialect != DIALECT) {
            return fault(format!("`$schema` is not {DIALECT}"));
        }
        let mut node = Node { looks: looks(members), ..Node::default() };
        if let Some(reference) = members.get("$ref") {
            match reference.as_str().and_then(target) {
                Some(target) => node.same.push(target),
                None => return fault("`$ref` leads out of the schema: write it as #/$defs/NAME".to_owned()),
            }
        }
        for (name, value) in members {
            for (inner, place) in schemas(name, value, place) {
                self.enter(inner, &place)?;
                if MEMBERS.contains(&name.as_str()) || name == "prefixItems" || PARTS.contains(&name.as_str()) {
                    node.within.push(place);
                } else if !DEFINITIONS.contains(&name.as_str()) {
                    node.same.push(place);
                }
            }
        }
        self.nodes.insert(place.to_owned(), node);
        Ok(())
    }

    /// The levels of a value that is judged by it.
    fn depth_max(&self) -> Result<usize, SchemaFault> {
        let mut known = BTreeMap::new();
        for place in self.nodes.keys() {
            self.closure(place, &mut known, &mut BTreeSet::new())?;
        }
        let fault = |what: String| SchemaFault { place: String::new(), what };
        let too_many = || fault(format!("with its references it becomes more than {EXPANSION_MAX} schemas"));
        if known.values().any(|(schemas, _)| *schemas > EXPANSION_MAX) {
            return Err(too_many());
        }
        match self.expansion("", &mut BTreeMap::new(), &mut BTreeSet::new()) {
            Some(schemas) if schemas > EXPANSION_MAX => Err(too_many()),
            Some(_) => Ok(ANSWER_DEPTH_MAX),
            None => {
                let looks = known.values().map(|(_, looks)| *looks).max().unwrap_or_default();
                let mut depth = 0;
                let mut reached = looks;
                while depth < ANSWER_DEPTH_MAX && reached <= LOOKS_MAX {
                    depth += 1;
                    reached = reached.saturating_mul(looks);
                }
                let useless = || fault("it contains itself in too many ways at once: name fewer of them".to_owned());
                if depth < RECURSION_DEPTH_MIN { Err(useless()) } else { Ok(depth) }
            }
        }
    }

    /// How many schemas are about the same value, with itself, and how many of them look at one part of it.
    fn closure<'a>(
        &'a self,
        place: &'a str,
        known: &mut BTreeMap<&'a str, (u64, u64)>,
        open: &mut BTreeSet<&'a str>,
    ) -> Result<(u64, u64), SchemaFault> {
        if let Some(found) = known.get(place) {
            return Ok(*found);
        }
        let fault = |what: &str| Err(SchemaFault { place: place.to_owned(), what: what.to_owned() });
        let Some(node) = self.nodes.get(place) else { return fault("a `$ref` leads here, and no schema is here") };
        if !open.insert(place) {
            return fault("it refers to itself without going into the value");
        }
        let (mut schemas, mut looks) = (1_u64, node.looks);
        for next in &node.same {
            let (more, more_looks) = self.closure(next, known, open)?;
            (schemas, looks) = (schemas.saturating_add(more), looks.saturating_add(more_looks));
        }
        open.remove(place);
        known.insert(place, (schemas, looks));
        Ok((schemas, looks))
    }

    /// How many schemas it becomes where each reference is replaced; none if it contains itself.
    fn expansion<'a>(
        &'a self,
        place: &'a str,
        known: &mut BTreeMap<&'a str, u64>,
        open: &mut BTreeSet<&'a str>,
    ) -> Option<u64> {
        if let Some(found) = known.get(place) {
            return Some(*found);
        }
        let node = self.nodes.get(place)?;
        if !open.insert(place) {
            return None;
        }
        let mut schemas = 1_u64;
        for next in node.same.iter().chain(&node.within) {
            schemas = schemas.saturating_add(self.expansion(next, known, open)?);
        }
        open.remove(place);
        known.insert(place, schemas);
        Some(schemas)
    }
}

/// The schemas that stand under a keyword, each with its JSON Pointer.
fn schemas<'a>(name: &str, value: &'a Value, place: &str) -> Vec<(&'a Value, String)> {
    let is_among = |keywords: &[&str]| keywords.contains(&name);
    let is_map = is_among(&MEMBERS) || is_among(&DEFINITIONS) || name == "dependentSchemas";
    let is_list = is_among(&ALTERNATIVES) || name == "prefixItems";
    match value {
        Value::Object(map) if is_map => {
            map.iter().map(|(key, one)| (one, format!("{place}/{name}/{}", escaped(key)))).collect()
        }
        Value::Array(list) if is_list => {
            list.iter().enumerate().map(|(number, one)| (one, format!("{place}/{name}/{number}"))).collect()
        }
        one if is_among(&CONDITIONS) || is_among(&PARTS) => vec![(one, format!("{place}/{name}"))],
        // What has another form is refused when the schema is compiled.
        _ => Vec::new(),
    }
}

/// How many schemas of one object look at the same part of a value.
fn looks(members: &Map<String, Value>) -> u64 {
    let has = |names: &[&str]| u64::from(names.iter().any(|name| members.contains_key(*name)));
    let patterns = members.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
    let patterns = u64::try_from(patterns).unwrap_or(u64::MAX);
    // What is additional is no property of the others, and a name has no parts.
    let in_object = has(&["properties", "additionalProperties"]);
    let in_list = has(&["items", "prefixItems"]) + has(&["contains"]);
    // What is unevaluated is found by evaluating all else once more.
    let object = in_object.saturating_add(patterns).saturating_mul(1 + has(&["unevaluatedProperties"]));
    let list = in_list.saturating_mul(1 + has(&["unevaluatedItems"]));
    object.saturating_add(has(&["unevaluatedProperties"])).max(list.saturating_add(has(&["unevaluatedItems"])))
}

/// Where a reference leads within its schema.
fn target(reference: &str) -> Option<String> {
    let pointer = reference.strip_prefix('#')?;
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    (is_pointer && !pointer.contains('%')).then(|| pointer.to_owned())
}

/// A name as a part of a JSON Pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(schema: &Value) -> AnswerSchema {
        AnswerSchema::new(schema).unwrap_or_else(|fault| panic!("{schema}: {fault}"))
    }

    fn fault(schema: &Value) -> SchemaFault {
        AnswerSchema::new(schema).expect_err("it is none to judge by")
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn a_value_that_breaks_a_rule_is_told_where_and_which() {
        let order = schema(&json!({
            "type": "object",
            "properties": { "total": { "type": "number", "minimum": 0 }, "when": { "type": "string", "format": "date" } },
            "required": ["total"],
        }));
        assert_eq!(order.breach(&json!({ "total": 3, "when": "2026-02-03" })), None);
        let breach = |value: Value| order.breach(&value).expect("it breaks a rule");
        let below = breach(json!({ "total": -1 }));
        assert_eq!((below.place.as_str(), below.rule.as_str()), ("/total", "/properties/total/minimum"));
        assert_eq!(below.what, "it breaks `minimum`");
        assert_eq!(breach(json!({})).what, "\"total\" is missing");
        assert_eq!(breach(json!({ "total": 1, "when": "soon" })).what, "it breaks `format`");
    }

    #[test]
    fn references_stay_within_the_schema() {
        let cases = [
            (json!({ "$ref": "https://schemas.example/order.json" }), "leads out"),
            (json!({ "$ref": "file:///etc/passwd" }), "leads out"),
            (json!({ "$ref": "other.json#/a" }), "leads out"),
            (json!({ "$ref": 5 }), "leads out"),
            (json!({ "$ref": "#/$defs/none" }), "no schema is here"),
            (json!({ "$id": "https://schemas.example/", "type": "object" }), "`$id`"),
            (json!({ "properties": { "a": { "$dynamicRef": "#a" } } }), "`$dynamicRef`"),
            (json!({ "$schema": "https://schemas.example/mine" }), "`$schema`"),
            (json!({ "dependencies": { "a": { "$ref": "#" } } }), "`dependencies`"),
            (json!({ "properties": { "b": { "dependencies": { "a": ["b"] } } } }), "`dependencies`"),
        ];
        for (schema, what) in cases {
            let fault = fault(&schema);
            assert!(fault.what.contains(what), "{schema}: {fault}");
        }
        let local = schema(&json!({ "$ref": "#/$defs/a~1b", "$defs": { "a/b": { "type": "string" } } }));
        assert!(local.breach(&json!(1)).is_some() && local.breach(&json!("x")).is_none());
    }

    #[test]
    fn a_schema_that_would_never_end_is_refused() {
        for circle in [
            json!({ "$ref": "#" }),
            json!({ "anyOf": [{ "type": "string" }, { "$ref": "#" }] }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } } }),
            json!({ "type": "string", "$defs": { "unused": { "$ref": "#/$defs/unused" } } }),
        ] {
            let fault = fault(&circle);
            assert!(fault.what.contains("refers to itself"), "{circle}: {fault}");
        }
        // Each doubles the next: 2^30 schemas.
        let mut doubling = json!({ "$ref": "#/$defs/d0", "$defs": { "d30": { "type": "string" } } });
        for number in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/d{}", number + 1) });
            doubling["$defs"][format!("d{number}")] = json!({ "allOf": [next, next] });
        }
        assert!(fault(&doubling).what.contains("becomes more than"), "{}", fault(&doubling));
        for number in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/d{}", number + 1) });
            doubling["$defs"][format!("d{number}")] = json!({ "properties": { "a": next, "b": next } });
        }
        assert!(fault(&doubling).what.contains("becomes more than"), "{}", fault(&doubling));
    }

    #[test]
    fn what_contains_itself_has_as_many_levels_as_can_be_looked_at() {
        let tree = schema(&json!({
            "type": "array", "items": { "anyOf": [{ "type": "number" }, { "$ref": "#" }] },
        }));
        assert_eq!(tree.breach(&nested(ANSWER_DEPTH_MAX)), None);
        let deep = tree.breach(&nested(ANSWER_DEPTH_MAX + 1)).expect("it is too deep");
        assert!(deep.what.contains("64 levels"), "{deep:?}");
        // Two schemas look at each entry, and each of them twice at each entry of that.
        let item = json!({ "items": { "$ref": "#" } });
        let twice = schema(&json!({ "type": ["array", "number"], "anyOf": [item, item] }));
        assert_eq!(twice.breach(&nested(12)), None);
        assert!(twice.breach(&nested(13)).is_some(), "13 levels are 8,192 looks");
        let many = json!({ "anyOf": vec![item; 20] });
        assert!(fault(&many).what.contains("too many ways"), "{}", fault(&many));
    }

    #[test]
    fn a_schema_is_bounded_and_is_one() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..40 {
            deep = json!({ "not": deep });
        }
        assert!(fault(&deep).what.contains("32 levels"));
        let long = json!({ "description": "x".repeat(ANSWER_SCHEMA_BYTES_MAX) });
        assert!(fault(&long).what.contains("32768 is the most"));
        let wide: Map<String, Value> = (0..600).map(|number| (format!("p{number}"), json!(true))).collect();
        assert!(fault(&json!({ "properties": wide })).what.contains("512 schemas"));
        for none in [json!({ "type": "text" }), json!({ "minimum": "0" }), json!({ "pattern": "(?=a)b" }), json!(5)] {
            let fault = fault(&none);
            assert!(fault.what.contains("no JSON Schema") || fault.what.contains("no schema"), "{none}: {fault}");
        }
    }

    #[test]
    fn a_schema_that_is_refused_is_told_what_is_wrong_with_it() {
        let behind = fault(&json!({ "type": "string", "pattern": "(?<=a)b" }));
        assert!(behind.place == "/pattern" && behind.what.contains("(?<=a)b"), "{behind}");
        assert!(behind.what.ends_with("patterns here have no look-around and no back-references"), "{behind}");
        let text = fault(&json!({ "type": "objet" }));
        assert!(text.what.contains("objet") && !text.what.contains("look-around"), "{text}");
        let long = fault(&json!({ "type": "é".repeat(4_000) }));
        assert!(long.what.ends_with('…') && long.what.chars().count() < 300, "{long}");
    }
}
