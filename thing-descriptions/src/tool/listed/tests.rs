use super::*;

/// What is listed of a schema whose property `a` is that.
fn of(a: Value) -> (Value, Vec<String>) {
    let listed = listed_schema(&json!({ "type": "object", "properties": { "a": a } })).expect("listed");
    (listed.schema["properties"]["a"].clone(), listed.notes)
}

#[test]
fn what_all_clients_read_is_listed_as_it_is() {
    let schema = json!({
        "type": "object", "title": "T", "description": "D", "required": ["a"], "additionalProperties": false,
        "properties": {
            "a": { "type": ["string", "null"], "format": "date-time", "default": null, "examples": ["x"] },
            "b": { "$ref": "#/$defs/b" },
            "c": { "oneOf": [{ "type": "integer", "exclusiveMinimum": 0 }, { "const": "none" }] },
            "d": { "type": "array", "items": { "$ref": "#/definitions/d%20e" }, "uniqueItems": true, "maxItems": 9 },
            "next": { "$ref": "#" },
            "$id": { "enum": [1, null, { "$id": "x" }] },
        },
        "patternProperties": { "^x-[a-z]+$": { "type": "integer", "multipleOf": 2 } },
        "if": { "required": ["b"] }, "then": { "maxProperties": 3 }, "not": { "required": ["e"] },
        "dependentRequired": { "b": ["a"] },
        "$defs": { "b": { "type": "string", "pattern": "^[a-z]{1,8}$", "minLength": 1 } },
        "definitions": { "d e": { "type": "number" } },
    });
    assert_eq!(listed_schema(&schema), Ok(ListedSchema { schema: schema.clone(), notes: Vec::new() }));
}

#[test]
fn what_says_nothing_to_clients_goes_without_a_word() {
    for (from, to) in [
        (json!(true), json!({})),
        (json!(false), json!({ "not": {} })),
        (json!({ "$anchor": "a", "$dynamicAnchor": "b", "$id": "https://example.org/a", "id": "a" }), json!({})),
        (json!({ "$schema": "http://json-schema.org/draft-04/schema#", "$async": true, "x-note": {} }), json!({})),
        (json!({ "type": "integer", "format": "uint128" }), json!({ "type": "integer" })),
        (json!({ "format": "constructor", "title": 7 }), json!({})),
        (json!({ "type": "string", "nullable": true }), json!({ "type": ["string", "null"] })),
        (json!({ "nullable": true }), json!({})),
        (json!({ "minimum": 1, "exclusiveMinimum": true }), json!({ "exclusiveMinimum": 1 })),
        (json!({ "maximum": 1, "exclusiveMaximum": false }), json!({ "maximum": 1 })),
        (json!({ "items": [true, { "type": "null" }] }), json!({ "prefixItems": [{}, { "type": "null" }] })),
        (json!({ "required": ["b", "b"] }), json!({ "required": ["b"] })),
    ] {
        assert_eq!(of(from.clone()), (to, Vec::new()), "{from}");
    }
}

#[test]
fn what_some_client_refuses_is_left_out_and_named() {
    for (from, to, name) in [
        (json!({ "type": "int" }), json!({}), "type"),
        (json!({ "type": [] }), json!({}), "type"),
        (json!({ "type": "string", "pattern": "(?i)a" }), json!({ "type": "string" }), "pattern"),
        (json!({ "pattern": r"\p{L}" }), json!({}), "pattern"),
        (json!({ "pattern": "(" }), json!({}), "pattern"),
        (json!({ "required": true, "type": "null" }), json!({ "type": "null" }), "required"),
        (json!({ "enum": [] }), json!({}), "enum"),
        (json!({ "minLength": -1 }), json!({}), "minLength"),
        (json!({ "multipleOf": 0 }), json!({}), "multipleOf"),
        (json!({ "anyOf": [] }), json!({}), "anyOf"),
        (json!({ "items": 7 }), json!({}), "items"),
        (json!({ "$ref": "https://example.org/a.json" }), json!({}), "$ref"),
        (json!({ "$ref": "#/$defs/nowhere" }), json!({}), "$ref"),
        (json!({ "$ref": "#/properties" }), json!({}), "$ref"),
        (json!({ "$ref": "#/properties/%zz" }), json!({}), "$ref"),
        (json!({ "$ref": "#/properties/a" }), json!({}), "$ref"),
        (json!({ "allOf": [{ "$ref": "#/properties/a" }] }), json!({ "allOf": [{}] }), "$ref"),
        (json!({ "$id": "https://example.org/", "items": { "$ref": "#" } }), json!({ "items": {} }), "$ref"),
        (json!({ "$dynamicRef": "#none" }), json!({}), "$dynamicRef"),
        (json!({ "prefixItems": [{}], "items": false }), json!({ "prefixItems": [{}] }), "items"),
        (json!({ "contains": {}, "minContains": 0 }), json!({}), "contains"),
        (json!("odd"), json!({}), "it"),
    ] {
        let (listed, notes) = of(from.clone());
        assert_eq!(listed, to, "{from}");
        assert!(notes.iter().all(|note| note.starts_with(&format!("without `{name}` at /properties/a"))), "{notes:?}");
        assert_eq!(notes.len(), 1, "{from}: {notes:?}");
    }
    let map = of(json!({ "properties": ["a"] }));
    assert_eq!((map.0, map.1.len()), (json!({}), 1));
}

#[test]
fn names_for_references_become_places() {
    let schema = json!({
        "$id": "https://example.org/tool", "type": "object",
        "properties": {
            "a": { "$ref": "#item" }, "b": { "$dynamicRef": "#item" }, "c": { "$ref": "https://example.org/tool#/$defs/x" },
            "d": { "$ref": "#twice" },
        },
        "$defs": {
            "x": { "$anchor": "item", "type": "string" },
            "y": { "$anchor": "twice" }, "z": { "$dynamicAnchor": "twice" },
        },
    });
    let listed = listed_schema(&schema).expect("listed");
    let to = json!({ "$ref": "#/$defs/x" });
    let properties = json!({ "a": to, "b": to, "c": to, "d": {} });
    let defs = json!({ "x": { "type": "string" }, "y": {}, "z": {} });
    assert_eq!(listed.schema, json!({ "type": "object", "properties": properties, "$defs": defs }));
    assert_eq!(listed.notes, ["without `$ref` at /properties/d"]);
}

#[test]
fn what_permits_more_below_does_not_permit_less_above() {
    let odd = json!({ "pattern": "(?i)x" });
    let schema = json!({
        "type": "object",
        "properties": { "a": { "oneOf": [odd, { "type": "string" }] }, "b": { "not": odd }, "c": false },
        "patternProperties": { "(?i)^y": {} }, "additionalProperties": false, "unevaluatedProperties": false,
        "if": { "properties": { "a": odd } }, "then": { "required": ["b"] },
    });
    let listed = listed_schema(&schema).expect("listed");
    let properties = json!({ "a": { "anyOf": [{}, { "type": "string" }] }, "b": {}, "c": { "not": {} } });
    assert_eq!(listed.schema, json!({ "type": "object", "properties": properties, "patternProperties": {} }));
}

/// A client would follow these for ever, or deeper than its stack.
#[test]
fn references_in_circles_and_too_many_are_left_out() {
    let to = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let circle = json!({
        "a": { "anyOf": [to("b")] }, "b": { "allOf": [to("c")] }, "c": to("a"), "d": { "items": to("d") },
    });
    let schema = json!({ "type": "object", "properties": { "x": to("a"), "y": to("d") }, "$defs": circle });
    let listed = listed_schema(&schema).expect("listed");
    assert_eq!(listed.notes.len(), 1, "{listed:?}");
    assert_eq!(listed.schema["$defs"]["d"], json!({ "items": to("d") }));
    let itself = listed_schema(&json!({ "type": "object", "$ref": "#" })).expect("listed");
    assert_eq!((itself.schema, itself.notes.len()), (json!({ "type": "object" }), 1));

    let link = |n: u32| (format!("l{n}"), json!({ "items": to(&format!("l{}", n + 1)) }));
    let many: Map<String, Value> = (0..400).map(link).collect();
    let listed = listed_schema(&json!({ "type": "object", "$defs": many })).expect("listed");
    assert!(!listed.schema.to_string().contains("$ref"), "{listed:?}");
    assert_eq!(listed.notes.len(), NOTES_MAX);
}

#[test]
fn what_is_no_objects_schema_is_not_listed() {
    for schema in [json!({}), json!([]), json!(true), json!({ "type": "array" }), json!({ "type": ["object"] })] {
        assert!(listed_schema(&schema).expect_err("not listed").contains("`type`"), "{schema}");
    }
}
