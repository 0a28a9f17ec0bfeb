//! Each rule that speaks for the schema of the W3C, broken once, and the limit on how much a report says.

use althing_td::{FINDINGS_MAX, Severity, validate};
use serde_json::{Value, json};

/// A valid description with the given members in place of its own.
fn td(members: Value) -> Value {
    let mut td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "n": { "scheme": "nosec" } },
        "security": "n",
    });
    td.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    td
}

/// The members break exactly one rule, at one place.
#[track_caller]
fn refused(members: Value, rule: &str, pointer: &str) {
    let report = validate(td(members).to_string().as_bytes());
    let told: Vec<_> = report.findings.iter().map(|f| (f.rule, f.pointer.as_str(), f.severity)).collect();
    assert_eq!(told, [(rule, pointer, Severity::Error)], "{report}");
}

fn property(members: Value) -> Value {
    let mut property = json!({ "forms": [{ "href": "https://a.example/" }] });
    property.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    json!({ "properties": { "on": property } })
}

#[test]
fn schema_required() {
    let mut untitled = td(json!({}));
    untitled.as_object_mut().expect("an object").remove("title");
    let report = validate(untitled.to_string().as_bytes());
    assert_eq!((report.findings.len(), report.findings[0].rule), (1, "schema-required"));
    assert!(report.to_string().contains("title"), "{report}");
    refused(json!({ "version": { "model": "1.0.0" } }), "schema-required", "/version");
}

#[test]
fn schema_type() {
    refused(json!({ "title": 1 }), "schema-type", "/title");
    refused(json!({ "actions": { "a": "b" } }), "schema-type", "/actions/a");
}

#[test]
fn schema_enum() {
    refused(property(json!({ "type": "switch" })), "schema-enum", "/properties/on/type");
}

#[test]
fn schema_too_few() {
    refused(json!({ "security": [] }), "schema-too-few", "/security");
    refused(property(json!({ "forms": [] })), "schema-too-few", "/properties/on/forms");
}

#[test]
fn schema_format() {
    refused(json!({ "id": "not a uri" }), "schema-format", "/id");
    refused(json!({ "created": "yesterday" }), "schema-format", "/created");
}

#[test]
fn schema_pattern() {
    let link = json!({ "href": "https://a.example/", "rel": "icon", "sizes": "large" });
    refused(json!({ "links": [link] }), "schema-pattern", "/links/0/sizes");
}

#[test]
fn schema_unique() {
    refused(property(json!({ "enum": [1, 1] })), "schema-unique", "/properties/on/enum");
}

#[test]
fn more_findings() {
    let many: Vec<String> = (0..200).map(|n| format!("gone-{n}")).collect();
    let report = validate(td(json!({ "security": many })).to_string().as_bytes());
    assert_eq!(report.findings.len(), FINDINGS_MAX + 1);
    assert_eq!(report.findings[FINDINGS_MAX].rule, "more-findings");
    assert!(!report.is_valid());
}
