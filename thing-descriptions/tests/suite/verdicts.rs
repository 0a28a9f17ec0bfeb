//! Which rules refuse an invalid description, and whether the schema of the W3C alone would have refused it: for
//! descriptions of our own, and for the public vectors where they lie beside the checkout.

use althing_td::{Description, validate};
use althing_testing::public_vectors;
use serde_json::{Value, json};

/// File, the rules of its errors, whether the JSON Schema alone refuses it.
const VERDICTS: [(&str, &[&str], bool); 12] = [
    ("camelCase.json", &["op-not-allowed"], true),
    ("duplicatePropertyAffordanceNames.json", &["duplicate-member"], false),
    ("emptyEnum.json", &["schema-too-few"], true),
    ("emptyOpArray.json", &["schema-too-few"], true),
    ("emptySecurity.json", &["schema-too-few"], true),
    ("invalidInteractionElement.json", &["schema-type"], true),
    ("invalidSecuMatch.json", &["security-undefined"], false),
    ("multipleRelType.json", &["link-type-twice"], false),
    ("noForm1.json", &["schema-required"], true),
    ("noForm3.json", &["schema-required"], true),
    ("noTitle.json", &["schema-required"], true),
    ("versionInstanceMissing.json", &["schema-required"], true),
];

/// A lamp with other members put in place of its own.
fn lamp(members: &Value) -> String {
    let form = json!([{ "href": "https://lamp.example/x" }]);
    let mut lamp = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "id": "urn:example:lamp",
        "title": "Lamp",
        "securityDefinitions": { "basic_sc": { "scheme": "basic", "in": "header" } },
        "security": ["basic_sc"],
        "properties": { "status": { "type": "string", "forms": form } },
        "actions": { "toggle": { "forms": form } },
        "events": { "hot": { "data": { "type": "number" }, "forms": form } },
    });
    for (name, value) in members.as_object().expect("members") {
        match value {
            Value::Null => drop(lamp.as_object_mut().expect("an object").shift_remove(name)),
            value => lamp[name] = value.clone(),
        }
    }
    lamp.to_string()
}

/// What breaks one rule each: as the public vectors do, and their neighbours. Description, rules, whether the JSON Schema
/// alone refuses it.
fn broken() -> Vec<(String, &'static [&'static str], bool)> {
    let form = |more: Value| {
        let mut form = json!({ "href": "https://lamp.example/x" });
        form.as_object_mut().expect("an object").extend(more.as_object().expect("members").clone());
        json!([form])
    };
    let twice = lamp(&json!({}));
    let once = r#""status":{"type":"string","#;
    assert!(twice.contains(once));
    let twice =
        twice.replacen(once, r#""status":{"type":"null","forms":[{"href":"x:y"}]},"status":{"type":"string","#, 1);
    let type_link = json!({ "rel": "type", "href": "https://models.example/lamp", "type": "application/td+json" });
    vec![
        (
            lamp(&json!({ "actions": { "t": { "forms": form(json!({ "op": ["invokeAction"] })) } } })),
            &["op-not-allowed"],
            true,
        ),
        (
            lamp(&json!({ "actions": { "t": { "forms": form(json!({ "op": "readproperty" })) } } })),
            &["op-not-allowed"],
            true,
        ),
        (twice, &["duplicate-member"], false),
        (lamp(&json!({ "properties": { "s": { "enum": [], "forms": form(json!({})) } } })), &["schema-too-few"], true),
        (lamp(&json!({ "properties": { "s": { "forms": form(json!({ "op": [] })) } } })), &["schema-too-few"], true),
        (lamp(&json!({ "security": [] })), &["schema-too-few"], true),
        (lamp(&json!({ "actions": { "wrong": "text" } })), &["schema-type"], true),
        (lamp(&json!({ "title": 7 })), &["schema-type"], true),
        (
            lamp(&json!({ "actions": { "t": { "forms": form(json!({ "security": ["other_sc"] })) } } })),
            &["security-undefined"],
            false,
        ),
        (lamp(&json!({ "security": "other_sc" })), &["security-undefined"], false),
        (lamp(&json!({ "links": [type_link, type_link] })), &["link-type-twice"], false),
        (lamp(&json!({ "properties": { "s": { "type": "string" } } })), &["schema-required"], true),
        (lamp(&json!({ "actions": { "t": {} } })), &["schema-required"], true),
        (lamp(&json!({ "events": { "e": { "data": {} } } })), &["schema-required"], true),
        (lamp(&json!({ "title": null })), &["schema-required"], true),
        (lamp(&json!({ "security": null })), &["schema-required"], true),
        (lamp(&json!({ "version": { "xyz:firmware": "0.9.1" } })), &["schema-required"], true),
    ]
}

/// What much of TD 1.1 looks like, with the rules that only warn of it.
fn sound() -> Vec<(String, &'static [&'static str])> {
    let form = json!([{ "href": "https://lamp.example/x" }]);
    let repeated = lamp(&json!({})).replacen("{", r#"{"title":"Lamp","#, 1);
    vec![
        (lamp(&json!({})), &[]),
        (lamp(&json!({ "@context": "https://www.w3.org/2019/wot/td/v1" })), &[]),
        (lamp(&json!({ "id": null, "properties": null, "actions": null, "events": null })), &[]),
        (
            lamp(
                &json!({ "@type": ["Thing", "lmos:Agent"], "titles": { "de": "Lampe" }, "titl": { "x:y": [null, 1.5] } }),
            ),
            &[],
        ),
        (
            lamp(&json!({ "version": { "instance": "1.0.0", "model": "1.0.0" }, "support": "mailto:a@lamp.example" })),
            &[],
        ),
        (
            lamp(&json!({ "properties": { "p": {
                "oneOf": [{ "type": "object", "properties": { "x": { "type": "integer", "minimum": 0, "maximum": 9 } } },
                          { "type": "array", "items": [{ "const": 1 }, { "enum": ["a"] }] }],
                "observable": true,
                "forms": [{ "href": "p", "op": ["readproperty", "observeproperty"], "subprotocol": "longpoll",
                            "contentType": "application/cbor" }],
            } } })),
            &[],
        ),
        (
            lamp(&json!({ "base": "https://lamp.example/{?key}", "uriVariables": { "n": { "type": "integer" } },
                          "actions": { "dim": { "input": { "type": "integer" }, "output": {}, "safe": false,
                                                "idempotent": true, "synchronous": true, "forms": [{ "href": "dim{?n}" }] } } })),
            &[],
        ),
        (
            lamp(
                &json!({ "events": { "e": { "subscription": { "type": "object" }, "cancellation": {}, "dataResponse": {},
                                             "forms": [{ "href": "e", "op": ["subscribeevent", "unsubscribeevent"] }] } } }),
            ),
            &[],
        ),
        (
            lamp(&json!({ "securityDefinitions": { "a": { "scheme": "apikey", "in": "query", "name": "k" },
                                                   "b": { "scheme": "bearer", "format": "jwt", "alg": "ES256" },
                                                   "c": { "scheme": "combo", "oneOf": ["a", "b"] } },
                          "security": "c", "links": [{ "rel": "item", "href": "/others" }] })),
            &[],
        ),
        (repeated, &["duplicate-member"]),
        (lamp(&json!({ "title": "La\u{200d}mp" })), &["hidden-character"]),
        (
            lamp(&json!({ "properties": { "p": { "readOnly": true, "forms": [{ "href": "https://lamp.example/p",
                                                                               "op": "writeproperty" }] } } })),
            &["op-contradicts-access"],
        ),
        (lamp(&json!({ "actions": { "a/b~": { "forms": form } } })), &[]),
    ]
}

#[test]
fn each_broken_description_of_our_own_is_refused_by_the_rules_it_breaks() {
    let schema: Value = serde_json::from_str(include_str!("../../schema/td-1.1.json")).expect("the schema is JSON");
    let schema = jsonschema::draft7::new(&schema).expect("the schema compiles");
    let mut rules: Vec<&str> = Vec::new();
    for (text, broken, by_schema) in broken() {
        let report = validate(text.as_bytes());
        let found: Vec<&str> = report.errors().map(|f| f.rule).collect();
        assert_eq!(found, broken, "{text}\n{report}");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(!schema.is_valid(&value), by_schema, "{text}");
        assert!(Description::parse(text.as_bytes()).is_err(), "{text}");
        for finding in &report.findings {
            assert!(!finding.message.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
        }
        rules.extend(broken);
    }
    let missed = VERDICTS.iter().flat_map(|(_, wanted, _)| *wanted).find(|rule| !rules.contains(rule));
    assert_eq!(missed, None, "what the public vectors break is broken by our own");
}

#[test]
fn each_sound_description_of_our_own_comes_back_byte_for_byte_with_its_warnings() {
    for (text, warned) in sound() {
        let description = Description::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(description.bytes(), text.as_bytes());
        let found: Vec<&str> = validate(text.as_bytes()).findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(found, warned, "{text}");
    }
}

#[test]
fn each_invalid_vector_is_refused_by_the_rules_it_breaks() {
    let Some(folder) = public_vectors("td/invalid") else { return };
    let entries = std::fs::read_dir(&folder).expect("a readable folder");
    assert_eq!(entries.count(), VERDICTS.len(), "a vector without a verdict");
    let schema: Value = serde_json::from_str(include_str!("../../schema/td-1.1.json")).expect("the schema is JSON");
    let schema = jsonschema::draft7::new(&schema).expect("the schema compiles");
    for (file, rules, by_schema) in VERDICTS {
        let bytes = std::fs::read(folder.join(file)).expect("a vector of the table");
        let report = validate(&bytes);
        let found: Vec<&str> = report.errors().map(|f| f.rule).collect();
        assert_eq!(found, rules, "{file}\n{report}");
        let value: Value = serde_json::from_slice(&bytes).expect("the vectors are JSON");
        assert_eq!(!schema.is_valid(&value), by_schema, "{file}");
    }
}

#[test]
fn each_valid_vector_has_no_error_and_only_known_warnings() {
    let Some(folder) = public_vectors("td/valid") else { return };
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        let report = validate(&std::fs::read(&path).expect("a readable file"));
        for finding in &report.findings {
            let known = ["duplicate-member", "op-contradicts-access", "hidden-character", "id-twice"];
            assert!(known.contains(&finding.rule), "{}: {finding}", path.display());
        }
    }
}
