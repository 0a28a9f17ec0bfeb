//! One part of an answer's content: it is lost only if what it says cannot be read, never for what decorates it.

use rmcp::model::ContentBlock;
use serde_json::{Map, Value, json};

/// Whether a value is of the right kind.
type Check = fn(&Value) -> bool;

/// Members that only decorate a part, and the kind of their values.
const DECORATIONS: [(&str, Check); 5] = [
    ("_meta", Value::is_object),
    ("mimeType", Value::is_string),
    ("title", Value::is_string),
    ("description", Value::is_string),
    ("size", Value::is_u64),
];
/// The same of annotations, beside whom they are for.
const HINTS: [(&str, Check); 2] = [("priority", Value::is_number), ("lastModified", Value::is_string)];
/// For whom a part can be.
const AUDIENCES: [&str; 2] = ["user", "assistant"];
/// The kind of bytes of which nobody says the kind.
const BYTES: &str = "application/octet-stream";

/// A part as it was written; if that is no part, without its bad decoration. None if nothing can be read of it.
pub fn read(part: &Value) -> Option<Value> {
    if is_readable(part) {
        return Some(part.clone());
    }
    let mut part = part.clone();
    let members = part.as_object_mut()?;
    plain(members);
    if let Some(resource) = members.get_mut("resource").and_then(Value::as_object_mut) {
        plain(resource);
    }
    // The only part of which MCP demands it.
    if matches!(members.get("type").and_then(Value::as_str), Some("image" | "audio")) {
        members.entry("mimeType").or_insert(json!(BYTES));
    }
    is_readable(&part).then_some(part)
}

fn is_readable(part: &Value) -> bool {
    part.is_object() && serde_json::from_value::<ContentBlock>(part.clone()).is_ok()
}

/// Takes out what is bad of the decoration.
fn plain(members: &mut Map<String, Value>) {
    for (name, is_right) in DECORATIONS {
        if members.get(name).is_some_and(|value| !is_right(value)) {
            members.remove(name);
        }
    }
    if let Some(annotations) = members.remove("annotations").and_then(annotations) {
        members.insert("annotations".to_owned(), annotations);
    }
    if let Some(Value::Array(mut icons)) = members.remove("icons") {
        icons.retain(is_icon);
        members.insert("icons".to_owned(), Value::Array(icons));
    }
}

/// What is good of annotations.
fn annotations(annotations: Value) -> Option<Value> {
    let Value::Object(mut members) = annotations else { return None };
    if let Some(audience) = members.remove("audience") {
        let all = audience.as_array().into_iter().flatten();
        let known: Vec<&Value> = all.filter(|one| one.as_str().is_some_and(|one| AUDIENCES.contains(&one))).collect();
        if !known.is_empty() {
            members.insert("audience".to_owned(), json!(known));
        }
    }
    for (name, is_right) in HINTS {
        if members.get(name).is_some_and(|value| !is_right(value)) {
            members.remove(name);
        }
    }
    (!members.is_empty()).then_some(Value::Object(members))
}

fn is_icon(icon: &Value) -> bool {
    serde_json::from_value::<rmcp::model::Icon>(icon.clone()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_lost_for_its_decoration() {
        let right = json!({ "type": "text", "text": "3" });
        for (name, bad) in [
            ("annotations", json!([])),
            ("annotations", json!("high")),
            ("annotations", json!({ "audience": "user" })),
            ("annotations", json!({ "audience": ["robot"] })),
            ("annotations", json!({ "priority": "high" })),
            ("annotations", json!({ "lastModified": 7 })),
            ("_meta", json!("x")),
            ("_meta", json!([1])),
        ] {
            let mut odd = right.clone();
            odd[name] = bad;
            assert_eq!(read(&odd), Some(right.clone()), "{odd}");
        }
        let mut some = right.clone();
        some["annotations"] = json!({ "audience": ["robot", "user"], "priority": 0.5, "lastModified": false });
        some["_meta"] = json!({ "x": 1 });
        let read_of_it = read(&some).expect("a part");
        assert_eq!(read_of_it["annotations"], json!({ "audience": ["user"], "priority": 0.5 }));
        assert_eq!(read_of_it["_meta"], json!({ "x": 1 }));
    }

    #[test]
    fn pictures_and_resources_are_kept_too() {
        for (odd, kept) in [
            (
                json!({ "type": "image", "data": "AAEC", "mimeType": 7 }),
                json!({ "type": "image", "data": "AAEC", "mimeType": BYTES }),
            ),
            (
                json!({ "type": "audio", "data": "AAEC", "mimeType": "audio/wav", "_meta": 7 }),
                json!({ "type": "audio", "data": "AAEC", "mimeType": "audio/wav" }),
            ),
            (
                json!({ "type": "resource", "resource": { "uri": "a:b", "text": "3", "mimeType": [], "_meta": 1 } }),
                json!({ "type": "resource", "resource": { "uri": "a:b", "text": "3" } }),
            ),
            (
                json!({ "type": "resource_link", "uri": "a:b", "name": "b", "size": "large", "icons": [7] }),
                json!({ "type": "resource_link", "uri": "a:b", "name": "b", "icons": [] }),
            ),
        ] {
            assert_eq!(read(&odd), Some(kept), "{odd}");
        }
    }

    #[test]
    fn what_says_nothing_is_no_part_and_a_good_one_stays_as_it_was_written() {
        for none in [
            json!("ok"),
            json!(["text", "ok"]),
            json!({ "text": "ok" }),
            json!({ "type": "text", "text": 42 }),
            json!({ "type": "text", "Text": "ok", "_meta": 7 }),
            json!({ "type": "image", "mimeType": "image/png" }),
            json!({ "type": "other", "text": "ok" }),
            json!(null),
        ] {
            assert_eq!(read(&none), None, "{none}");
        }
        let good = json!({ "type": "text", "text": "3", "annotations": { "priority": 1 }, "more": [1] });
        assert_eq!(read(&good), Some(good));
    }
}
