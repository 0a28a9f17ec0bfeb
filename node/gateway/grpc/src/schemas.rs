//! The messages of the binding as JSON Schemas: what A2A's JSON bindings carry, by the rules of ProtoJSON.

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value as Annotation};
use serde_json::{Map, Value, json};

use crate::messages::{DESCRIPTORS, SERVICE};

/// Where references lead: the components of an OpenAPI document.
pub const BASE: &str = "#/components/schemas/";
/// The annotation of fields that must be there, and its value.
const BEHAVIOR: &str = "google.api.field_behavior";
const REQUIRED: i32 = 2;

/// A reference to a message or an enumeration by its name, such as `Task`.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{BASE}{name}") })
}

/// The schema of a message or an enumeration by its name. What it refers to has schemas of its own.
pub fn schema(name: &str) -> Option<Value> {
    let ours = |package: &str| package != "google.protobuf" && package != "google.api";
    let mut messages = DESCRIPTORS.all_messages().filter(|of| ours(of.package_name()) && !of.is_map_entry());
    if let Some(found) = messages.find(|message| message.name() == name) {
        return Some(message(&found));
    }
    let mut enums = DESCRIPTORS.all_enums().filter(|of| ours(of.package_name()));
    enums.find(|of| of.name() == name).map(|found| enumeration(&found))
}

/// The names of the operations.
pub fn operations() -> Vec<String> {
    let service = DESCRIPTORS.get_service_by_name(SERVICE);
    service.iter().flat_map(|service| service.methods()).map(|method| method.name().to_owned()).collect()
}

fn message(of: &MessageDescriptor) -> Value {
    let properties: Map<String, Value> =
        of.fields().map(|field| (field.json_name().to_owned(), value(&field))).collect();
    let required: Vec<String> = of.fields().filter(is_required).map(|field| field.json_name().to_owned()).collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    for one in of.oneofs().filter(|one| !one.is_synthetic()) {
        if one.fields().len() == of.fields().len() {
            (schema["minProperties"], schema["maxProperties"]) = (json!(1), json!(1));
        } else {
            let names: Vec<String> = one.fields().map(|field| field.json_name().to_owned()).collect();
            schema["description"] = json!(format!("Exactly one of {} is there", names.join(", ")));
        }
    }
    schema
}

fn enumeration(of: &EnumDescriptor) -> Value {
    json!({ "type": "string", "enum": of.values().map(|value| value.name().to_owned()).collect::<Vec<_>>() })
}

fn is_required(field: &FieldDescriptor) -> bool {
    let Some(behavior) = DESCRIPTORS.get_extension_by_name(BEHAVIOR) else { return false };
    let options = field.options();
    let values = options.get_extension(&behavior);
    values.as_list().is_some_and(|values| values.contains(&Annotation::EnumNumber(REQUIRED)))
}

fn value(field: &FieldDescriptor) -> Value {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return json!({}) };
        return json!({ "type": "object", "additionalProperties": single(&entry.map_entry_value_field().kind()) });
    }
    let one = single(&field.kind());
    if field.cardinality() == Cardinality::Repeated { json!({ "type": "array", "items": one }) } else { one }
}

/// The schema of one value (<https://protobuf.dev/programming-guides/json/>).
fn single(kind: &Kind) -> Value {
    match kind {
        Kind::Double | Kind::Float => json!({ "type": "number" }),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer" }),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 | Kind::String => {
            json!({ "type": "string" })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Enum(of) => reference(of.name()),
        Kind::Message(of) => match of.full_name() {
            "google.protobuf.Struct" => json!({ "type": "object" }),
            "google.protobuf.Value" => json!({}),
            "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
            "google.protobuf.Any" => {
                json!({ "type": "object", "properties": { "@type": { "type": "string" } }, "required": ["@type"] })
            }
            _ => reference(of.name()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_members_that_protojson_gives_them() {
        assert_eq!(
            schema("TaskStatus"),
            Some(json!({
                "type": "object",
                "properties": {
                    "state": reference("TaskState"),
                    "message": reference("Message"),
                    "timestamp": { "type": "string", "format": "date-time" },
                },
                "required": ["state"],
            }))
        );
        let part = schema("Part").expect("a message");
        assert_eq!(part["properties"]["raw"], json!({ "type": "string", "contentEncoding": "base64" }));
        assert_eq!((&part["properties"]["data"], part.get("required")), (&json!({}), None));
        assert_eq!(part["description"], "Exactly one of text, raw, url, data is there");
        let sent = schema("SendMessageResponse").expect("a message");
        assert_eq!((&sent["minProperties"], &sent["maxProperties"]), (&json!(1), &json!(1)));
        let card = schema("AgentCard").expect("a message");
        let schemes = json!({ "type": "object", "additionalProperties": reference("SecurityScheme") });
        assert_eq!(card["properties"]["securitySchemes"], schemes);
        assert_eq!(card["properties"]["skills"], json!({ "type": "array", "items": reference("AgentSkill") }));
        assert!(card["properties"]["iconUrl"]["type"] == "string" && card.get("minProperties").is_none(), "{card}");
        let states = schema("TaskState").expect("an enumeration");
        assert!(states["enum"].as_array().is_some_and(|states| states.contains(&json!("TASK_STATE_WORKING"))));
        assert!(schema("FieldViolation").is_some() && schema("Struct").is_none() && schema("Nothing").is_none());
        assert_eq!(operations().len(), 11);
    }
}
