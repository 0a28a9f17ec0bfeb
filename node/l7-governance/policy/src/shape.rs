//! Types of arguments, from JSON Schema to Cedar.
//!
//! Written here, since the generator that Cedar's authors publish (cedar-policy-mcp-schema-generator 0.7) fails a whole set
//! on what servers do offer: a tool named `get-weather`, or a schema that it does not know. It also makes an entity of each
//! object, which every request would have to build. What is kept of it is the convention: an action of the tool's name,
//! arguments in `context.input`, integers as Long, strings as String, members that are not required as optional.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Levels of a schema that are looked at, references counted in.
const DEPTH_MAX: usize = 8;
/// Members of one schema that are looked at, over all levels.
const MEMBERS_MAX: usize = 256;

/// The type of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// What Cedar has no type for, or what nobody said the type of.
    Any,
    Text,
    /// A JSON integer.
    Whole,
    /// A JSON number, as a decimal.
    Number,
    Flag,
    Set(Box<Shape>),
    Record(BTreeMap<String, Member>),
}

/// A member of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) shape: Shape,
    /// Neither absent nor null.
    pub(crate) is_required: bool,
}

impl Shape {
    /// Of a tool's arguments. Whatever cannot be understood is [`Shape::Any`].
    pub(crate) fn of_schema(schema: &Value) -> Shape {
        Reader { root: schema, members: 0 }.shape(schema, 0)
    }

    /// Whether anything in it has no type.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Shape::Any => true,
            Shape::Text | Shape::Whole | Shape::Number | Shape::Flag => false,
            Shape::Set(element) => element.is_open(),
            Shape::Record(members) => members.values().any(|member| member.shape.is_open()),
        }
    }

    /// What holds of a value of either type.
    pub(crate) fn join(self, other: Shape) -> Shape {
        match (self, other) {
            (Shape::Set(one), Shape::Set(other)) => Shape::set(one.join(*other)),
            (Shape::Record(one), Shape::Record(other)) => Shape::Record(join_members(one, other)),
            (one, other) if one == other => one,
            _ => Shape::Any,
        }
    }

    fn set(element: Shape) -> Shape {
        if element == Shape::Any { Shape::Any } else { Shape::Set(Box::new(element)) }
    }

    /// As Cedar's schemas are written in JSON. `None` where it has no type.
    pub(crate) fn to_schema(&self) -> Option<Value> {
        Some(match self {
            Shape::Any => return None,
            Shape::Text => json!({ "type": "String" }),
            Shape::Whole => json!({ "type": "Long" }),
            Shape::Number => json!({ "type": "Extension", "name": "decimal" }),
            Shape::Flag => json!({ "type": "Boolean" }),
            Shape::Set(element) => json!({ "type": "Set", "element": element.to_schema()? }),
            Shape::Record(members) => {
                let mut attributes = Map::new();
                for (name, member) in members {
                    if let Some(Value::Object(mut attribute)) = member.shape.to_schema() {
                        attribute.insert("required".to_owned(), Value::Bool(member.is_required));
                        attributes.insert(name.clone(), Value::Object(attribute));
                    }
                }
                json!({ "type": "Record", "attributes": attributes })
            }
        })
    }
}

fn join_members(one: BTreeMap<String, Member>, mut other: BTreeMap<String, Member>) -> BTreeMap<String, Member> {
    let mut joint = BTreeMap::new();
    for (name, member) in one {
        let both = match other.remove(&name) {
            Some(second) => {
                let is_required = member.is_required && second.is_required;
                Member { shape: member.shape.join(second.shape), is_required }
            }
            None => Member { is_required: false, ..member },
        };
        joint.insert(name, both);
    }
    joint.extend(other.into_iter().map(|(name, member)| (name, Member { is_required: false, ..member })));
    joint
}

struct Reader<'a> {
    root: &'a Value,
    members: usize,
}

impl<'a> Reader<'a> {
    fn shape(&mut self, schema: &'a Value, depth: usize) -> Shape {
        let Some(schema) = schema.as_object().filter(|_| depth < DEPTH_MAX) else { return Shape::Any };
        if let Some(target) = schema.get("$ref") {
            let root = self.root;
            let target = target.as_str().and_then(|target| target.strip_prefix('#'));
            return match target.and_then(|pointer| root.pointer(pointer)) {
                Some(target) => self.shape(target, depth + 1),
                None => Shape::Any,
            };
        }
        for choice in ["anyOf", "oneOf", "allOf"] {
            if let Some(choices) = schema.get(choice) {
                return match only_choice(choices) {
                    Some(only) => self.shape(only, depth + 1),
                    None => Shape::Any,
                };
            }
        }
        match type_of(schema) {
            Some("string") => Shape::Text,
            Some("integer") => Shape::Whole,
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Flag,
            Some("array") => match schema.get("items") {
                Some(items) => Shape::set(self.shape(items, depth + 1)),
                None => Shape::Any,
            },
            Some("object") => self.record(schema, depth),
            _ => Shape::Any,
        }
    }

    fn record(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Shape {
        let properties = match schema.get("properties") {
            None if depth == 0 => return Shape::Record(BTreeMap::new()),
            Some(Value::Object(properties)) => properties,
            _ => return Shape::Any,
        };
        let names = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let required: BTreeSet<&str> = names.iter().filter_map(Value::as_str).collect();
        let mut members = BTreeMap::new();
        for (name, property) in properties {
            self.members += 1;
            if self.members > MEMBERS_MAX {
                return Shape::Any;
            }
            let is_required = required.contains(name.as_str()) && !may_be_null(property);
            members.insert(name.clone(), Member { shape: self.shape(property, depth + 1), is_required });
        }
        Shape::Record(members)
    }
}

/// The type that the words of a schema say, without null.
fn type_of(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(word)) => Some(word.as_str()),
        Some(Value::Array(words)) => {
            let mut words = words.iter().filter_map(Value::as_str).filter(|word| *word != "null");
            words.next().filter(|_| words.next().is_none())
        }
        Some(_) => None,
        None if schema.contains_key("properties") => Some("object"),
        None => {
            let values = match (schema.get("enum"), schema.get("const")) {
                (Some(Value::Array(values)), _) => values.as_slice(),
                (None, Some(value)) => std::slice::from_ref(value),
                _ => &[],
            };
            (!values.is_empty() && values.iter().all(Value::is_string)).then_some("string")
        }
    }
}

/// The one that is not null, where there is one only.
fn only_choice(choices: &Value) -> Option<&Value> {
    let is_null = |choice: &&Value| choice.get("type").and_then(Value::as_str) == Some("null");
    let mut choices = choices.as_array()?.iter().filter(|choice| !is_null(choice));
    choices.next().filter(|_| choices.next().is_none())
}

fn may_be_null(schema: &Value) -> bool {
    let is_null = |word: &Value| word.as_str() == Some("null");
    let in_type = |schema: &Value| match schema.get("type") {
        Some(Value::Array(words)) => words.iter().any(is_null),
        Some(word) => is_null(word),
        None => false,
    };
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema.get(name)).filter_map(Value::as_array);
    in_type(schema) || choices.flatten().any(in_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: Value) -> Shape {
        Shape::of_schema(&schema)
    }

    fn member(shape: Shape, is_required: bool) -> Member {
        Member { shape, is_required }
    }

    #[test]
    fn a_plain_schema_is_a_record() {
        let shape = of(json!({
            "type": "object",
            "properties": {
                "to": { "type": "string" },
                "amount": { "type": "number" },
                "copies": { "type": ["integer", "null"] },
                "loud": { "type": "boolean" },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" } },
                "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                "unit": { "enum": ["m", "km"] },
            },
            "required": ["to", "copies", "note"],
            "$defs": { "tag": { "type": "string" } },
        }));
        let expected = [
            ("to", member(Shape::Text, true)),
            ("amount", member(Shape::Number, false)),
            ("copies", member(Shape::Whole, false)),
            ("loud", member(Shape::Flag, false)),
            ("tags", member(Shape::Set(Box::new(Shape::Text)), false)),
            ("note", member(Shape::Text, false)),
            ("unit", member(Shape::Text, false)),
        ];
        let expected = expected.map(|(name, member)| (name.to_owned(), member));
        assert_eq!(shape, Shape::Record(BTreeMap::from(expected)));
        assert!(!shape.is_open());
    }

    #[test]
    fn what_has_no_type_is_left_out_and_the_rest_is_kept() {
        let shape = of(json!({
            "properties": {
                "good": { "type": "string" },
                "either": { "oneOf": [{ "type": "string" }, { "type": "integer" }] },
                "list": { "type": "array" },
                "free": { "type": "object" },
                "no schema": 7,
            },
        }));
        assert!(shape.is_open());
        let schema = shape.to_schema().expect("it is a record");
        let attributes = schema["attributes"].as_object().expect("they are an object");
        assert_eq!(attributes.keys().collect::<Vec<_>>(), ["good"]);
    }

    #[test]
    fn odd_schemas_have_no_type() {
        let circle = json!({ "$ref": "#" });
        let far = json!({ "$ref": "https://example.com/schema.json" });
        let mut deep = json!({ "type": "string" });
        for _ in 0..100 {
            deep = json!({ "type": "array", "items": deep });
        }
        let wide: Map<String, Value> = (0..300).map(|at| (format!("p{at}"), json!({ "type": "string" }))).collect();
        let wide = json!({ "type": "object", "properties": wide });
        for odd in [circle, far, deep, wide, json!(true), json!(null), json!([]), json!({ "type": 3 }), json!({})] {
            assert_eq!(of(odd.clone()), Shape::Any, "{odd}");
        }
    }

    #[test]
    fn a_tool_without_arguments_has_an_empty_record() {
        assert_eq!(of(json!({ "type": "object" })), Shape::Record(BTreeMap::new()));
    }

    #[test]
    fn two_tools_of_one_name_have_what_both_say() {
        let one =
            of(json!({ "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "required": ["a"] }));
        let other =
            of(json!({ "properties": { "a": { "type": "string" }, "b": { "type": "integer" } }, "required": ["a"] }));
        let expected = [("a", member(Shape::Text, true)), ("b", member(Shape::Any, false))];
        let expected = Shape::Record(BTreeMap::from(expected.map(|(name, member)| (name.to_owned(), member))));
        assert_eq!(one.clone().join(other.clone()), expected);
        assert_eq!(other.join(one), expected);
    }
}
