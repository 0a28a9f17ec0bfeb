//! Thousands of malformed descriptions: each is refused with typed findings that name a place, a rule and a remedy.

use althing_td::{Description, DescriptionError, FINDINGS_MAX, Severity};
use serde_json::{Map, Value, json};

fn good() -> Value {
    json!({
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
        "id": "urn:example:lamp",
        "@type": "lmos:Agent",
        "title": "Lamp",
        "description": "A lamp.",
        "version": { "instance": "1.0.0" },
        "securityDefinitions": {
            "basic_sc": { "scheme": "basic", "in": "header" },
            "code_sc": { "scheme": "oauth2", "flow": "code", "authorization": "https://a.example/a", "token": "https://a.example/t" },
            "both_sc": { "scheme": "combo", "allOf": ["basic_sc", "code_sc"] },
        },
        "security": ["basic_sc"],
        "lmos:capabilities": [{ "id": "a", "name": "A", "version": "1.0.0", "description": "Does A." }],
        "properties": { "on": { "type": "boolean", "forms": [{ "href": "https://lamp.example/on", "op": ["readproperty"] }] } },
        "actions": {
            "dim": {
                "input": { "type": "integer", "minimum": 0, "maximum": 100 },
                "forms": [{ "href": "https://lamp.example/dim", "op": "invokeaction", "security": ["both_sc"] }],
            },
        },
        "events": { "hot": { "data": { "type": "number" }, "forms": [{ "href": "https://lamp.example/hot" }] } },
        "links": [{ "href": "https://lamp.example/", "rel": "about" }],
        "forms": [{ "href": "https://lamp.example/all", "op": "readallproperties" }],
    })
}

/// Every pointer into a value, the root excluded.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(n, v)| (n.replace('~', "~0").replace('/', "~1"), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect(),
        _ => return,
    };
    for (token, child) in children {
        let pointer = format!("{at}/{token}");
        pointers(child, &pointer, out);
        out.push(pointer);
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let (parent, token) = pointer.rsplit_once('/').expect("not the root");
    match value.pointer_mut(parent).expect("a pointer into this value") {
        Value::Object(members) => drop(members.shift_remove(token)),
        Value::Array(items) => drop(items.remove(token.parse().expect("an index"))),
        _ => unreachable!("a parent is a container"),
    }
}

/// One member replaced, one removed, the text cut, a byte changed: from one good description, thousands.
fn malformed() -> Vec<Vec<u8>> {
    let good = good();
    let mut places = Vec::new();
    pointers(&good, "", &mut places);
    let nested = (0..40).fold(json!(1), |inner, _| json!([inner]));
    let replacements = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(""),
        json!("\u{202e}"),
        json!([]),
        json!({}),
        json!([[]]),
        json!(["x", "x"]),
        json!({ "scheme": "x" }),
        json!([null]),
        json!("nosec"),
        nested,
    ];
    let mut out = Vec::new();
    for place in &places {
        for replacement in &replacements {
            let mut changed = good.clone();
            *changed.pointer_mut(place).expect("a place in it") = replacement.clone();
            out.push(changed.to_string().into_bytes());
        }
        let mut changed = good.clone();
        remove(&mut changed, place);
        out.push(changed.to_string().into_bytes());
    }
    let text = good.to_string().into_bytes();
    out.extend((0..text.len()).map(|end| text[..end].to_vec()));
    for (at, byte) in (0..text.len()).flat_map(|at| [(at, b'"'), (at, 0xff), (at, b'}')]) {
        let mut changed = text.clone();
        changed[at] = byte;
        out.push(changed);
    }
    out
}

#[test]
fn malformed_descriptions_give_only_typed_errors() {
    assert!(Description::parse(good().to_string().as_bytes()).is_ok());
    let (mut refused, mut accepted) = (0, 0);
    for bytes in malformed() {
        match Description::parse(&bytes) {
            Ok(description) => {
                accepted += 1;
                assert_eq!(description.bytes(), bytes);
                assert!(description.warnings().is_valid());
            }
            Err(DescriptionError::Invalid(report)) => {
                refused += 1;
                assert!(!report.is_valid() && report.findings.len() <= FINDINGS_MAX + 1);
                for finding in &report.findings {
                    assert!(!finding.rule.is_empty() && !finding.message.is_empty() && !finding.remedy.is_empty());
                    assert!(finding.pointer.is_empty() || finding.pointer.starts_with('/'), "{finding:?}");
                    assert!(finding.message.chars().count() < 1000, "{finding:?}");
                }
                assert!(report.findings.iter().any(|f| f.severity == Severity::Error));
            }
        }
    }
    println!("{refused} refused, {accepted} still valid after the change");
    assert!(refused >= 3000, "{refused}");
}

#[test]
fn a_description_with_thousands_of_mistakes_has_a_report_of_bounded_size() {
    let broken = json!({ "forms": 1 });
    let actions: Map<String, Value> = (0..5000).map(|n| (format!("a{n}"), broken.clone())).collect();
    let mut td = good();
    td["actions"] = Value::Object(actions);
    let Err(e) = Description::parse(td.to_string().as_bytes()) else { panic!("accepted") };
    assert_eq!(e.report().findings.len(), FINDINGS_MAX);
    assert!(e.to_string().len() < 40_000);
}
