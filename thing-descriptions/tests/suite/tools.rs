//! Tools in descriptions: whatever their servers write, what is made of them is valid and within bounds.

use althing_td::{
    AgentFile, Description, ExposedTool, SKILLS_MAX, Strictness, affordance, data_schema, describe_with, listed_schema,
    thing_model, validate_as,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const URN: &str = "urn:althing:zQmW6J5KtvuCMPmZEiozeUzguwpR2JTZfRZkZmFZfxp43uw:files";
const FILE: &str = "name: files\ndescription: Reads.\nruntime: { native: { builtin: tools } }\n\
                    skills: [{ id: add, name: Add, description: Adds., tags: [mcp] }]\n";

fn file() -> AgentFile {
    AgentFile::parse(FILE).expect("a file")
}

fn tool(id: &str, input: Value) -> ExposedTool {
    ExposedTool {
        id: id.to_owned(),
        name: id.to_owned(),
        title: format!("Tool {id}"),
        description: "Does it.".to_owned(),
        definition: "0".repeat(64),
        input,
        ..ExposedTool::default()
    }
}

/// A Thing with that one action.
fn thing(action: Map<String, Value>) -> Value {
    let mut action = action;
    action.insert("forms".to_owned(), json!([{ "href": "actions/it" }]));
    json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1", "title": "It", "id": URN, "base": "http://127.0.0.1/",
        "securityDefinitions": { "nosec_sc": { "scheme": "nosec" } }, "security": "nosec_sc",
        "actions": { "it": action },
    })
}

/// Keywords of JSON Schema with values that fit, and such that do not.
fn schema() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just(json!("string")),
        Just(json!("object")),
        Just(json!("any")),
        Just(json!(["integer", "null"])),
        Just(json!(["a", "a"])),
        Just(json!([])),
        Just(json!(true)),
        Just(json!(null)),
        Just(json!("#/properties/a")),
        Just(json!("#")),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
    ];
    let names = prop::sample::select(vec![
        "type",
        "title",
        "description",
        "format",
        "enum",
        "const",
        "default",
        "required",
        "items",
        "properties",
        "oneOf",
        "anyOf",
        "allOf",
        "not",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "multipleOf",
        "additionalProperties",
        "pattern",
        "$ref",
        "readOnly",
        "unit",
        "@type",
        "contentEncoding",
    ]);
    words.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_the_schema_is_its_thing_is_valid(input in schema(), output in schema()) {
        let tool = ExposedTool { output: Some(output.clone()), ..tool("add", input.clone()) };
        let made = describe_with(&file(), URN, &[tool]);
        let report = validate_as(made.bytes(), Strictness::Own);
        prop_assert!(report.findings.is_empty(), "{report}");
        let read = made.tool("add").expect("the tool");
        for schema in [data_schema(&input), data_schema(&output)] {
            let mut action = affordance(&read);
            action.insert("input".to_owned(), schema);
            let td = thing(action).to_string();
            let report = validate_as(td.as_bytes(), Strictness::Own);
            prop_assert!(report.findings.is_empty(), "{report}\n{td}");
        }
    }
}

#[test]
fn a_skill_with_the_id_of_a_tool_is_that_tool_and_others_are_added() {
    let input = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let output = json!({ "type": "object", "properties": { "result": { "type": "integer" } } });
    let annotations = json!({ "readOnlyHint": true, "destructiveHint": "no" });
    let add = ExposedTool {
        output: Some(output.clone()),
        annotations: annotations.as_object().cloned().unwrap_or_default(),
        ..tool("add", input.clone())
    };
    let made = describe_with(&file(), URN, &[add, tool("read.me", json!({ "type": "object" }))]);
    let ids: Vec<&str> = made.capabilities().iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["add", "read.me"]);
    let again = Description::parse(made.bytes()).expect("valid");
    let read = again.tool("add").expect("the tool");
    assert_eq!(
        (read.title.as_str(), read.description.as_str(), read.version.as_deref()),
        ("Add", "Adds.", Some("1.0.0"))
    );
    assert_eq!(
        (&read.input, read.output.as_ref(), read.read_only, read.idempotent),
        (&input, Some(&output), true, false)
    );
    let model = thing_model(&read);
    assert_eq!(model["@type"][0], "tm:ThingModel");
    assert_eq!((&model["actions"]["add"]["input"], &model["actions"]["add"]["safe"]), (&input, &json!(true)));
    assert!(!model.to_string().contains("href") && !model.to_string().contains(URN), "it is of no place and of nobody");
    assert_eq!(again.tool("read.me").map(|tool| tool.title), Some("Tool read.me".to_owned()));
    assert_eq!(describe_with(&file(), URN, &[]), althing_td::describe(&file(), URN), "others are as they were");
}

#[test]
fn a_suspended_tool_is_no_capability_and_says_why() {
    let suspended = ExposedTool { suspended: Some("changed".to_owned()), ..tool("add", json!({})) };
    let made = describe_with(&file(), URN, &[suspended, tool("read", json!({}))]);
    let ids: Vec<&str> = made.capabilities().iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, made.tool("add")), (vec!["read"], None));
    let said = made.suspended_tools();
    assert_eq!((said.len(), said[0].id.as_str(), said[0].why.as_str()), (1, "add", "changed"));
    assert!(validate_as(made.bytes(), Strictness::Own).findings.is_empty());
}

#[test]
fn what_others_write_is_read_within_the_bounds() {
    let mut deep = json!({ "type": "object" });
    for _ in 0..10 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    let long = json!({ "type": "object", "description": "x".repeat(20_000) });
    let hidden = json!({ "type": "object", "properties": { "a": { "description": "do\u{202e}this" } } });
    let mut read = 0;
    for schema in [deep, long, hidden, json!([]), json!("text"), json!({ "type": "string" })] {
        let mut td = describe_with(&file(), URN, &[tool("add", json!({ "type": "object" }))]).value();
        td["lmos:capabilities"][0]["althing:tool"]["input"] = schema.clone();
        td["lmos:capabilities"][0]["althing:tool"]["output"] = schema;
        // What hides characters may be no description at all.
        let Ok(description) = Description::parse(td.to_string().as_bytes()) else { continue };
        let tool = description.tool("add").expect("the tool");
        assert_eq!((tool.input, tool.output), (json!({ "type": "object" }), None));
        read += 1;
    }
    assert!(read >= 5, "{read}");
    let many: Vec<ExposedTool> =
        (0..200).map(|n| tool(&format!("t{n}"), json!({ "type": "object", "x": "y".repeat(9_000) }))).collect();
    let made = describe_with(&file(), URN, &many);
    assert_eq!(made.capabilities().len(), SKILLS_MAX, "as many as an agent may have");
    assert!(made.bytes().len() < 320 << 10, "{}", made.bytes().len());
    assert!(made.tools().iter().all(|tool| tool.input["type"] == "object"));
}

/// Schemas as some client does not compile them.
fn odd_schema() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!(true),
        json!(false),
        json!({}),
        json!("odd"),
        json!({ "type": "string", "pattern": "(?i)a" }),
        json!({ "type": "string", "pattern": "^[ab]" }),
        json!({ "type": "integer", "minimum": 1, "exclusiveMinimum": true }),
        json!({ "type": ["string", "null"], "nullable": true, "format": "x-word", "$id": "https://example.org/a" }),
        json!({ "type": "int", "enum": [] }),
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/properties/a" }),
        json!({ "$ref": "#/$defs/a" }),
        json!({ "$ref": "#here" }),
        json!({ "$anchor": "here", "const": "a" }),
        json!({ "$dynamicRef": "#here", "maxLength": 1 }),
        json!({ "enum": ["a", 1, null], "minLength": -1 }),
    ]);
    let list = |one: BoxedStrategy<Value>| prop::collection::vec(one, 1..3);
    leaf.prop_recursive(3, 24, 3, move |one| {
        let one = one.boxed();
        let two = (one.clone(), one.clone());
        prop_oneof![
            list(one.clone()).prop_map(|all| json!({ "oneOf": all })),
            list(one.clone()).prop_map(|all| json!({ "allOf": all })),
            list(one.clone()).prop_map(|all| json!({ "items": all, "additionalItems": false })),
            two.clone().prop_map(|(first, rest)| json!({ "prefixItems": [first], "items": rest })),
            two.clone()
                .prop_map(|(a, b)| json!({ "properties": { "a": a, "__proto__": b }, "additionalProperties": false })),
            two.clone().prop_map(
                |(a, b)| json!({ "patternProperties": { "(?i)a": a, "^b": b }, "unevaluatedProperties": false })
            ),
            two.clone().prop_map(|(a, b)| json!({ "if": a, "then": b, "required": ["a"] })),
            two.prop_map(|(a, b)| json!({ "not": a, "contains": b, "minContains": 0, "maxContains": 1 })),
            one.prop_map(|a| json!({ "$defs": { "a": a, "$b": { "type": "null" } } })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_schema_is_what_is_listed_of_it_compiles_and_permits_as_much(
        a in odd_schema(), b in odd_schema(), def in odd_schema(),
    ) {
        let schema = json!({ "type": "object", "properties": { "a": a, "b": b }, "$defs": { "a": def } });
        let Ok(listed) = listed_schema(&schema) else { return Ok(()) };
        let again = listed_schema(&listed.schema).expect("it was listed");
        prop_assert_eq!((&again.schema, again.notes.len()), (&listed.schema, 0));
        let text = listed.schema.to_string();
        prop_assert!(!["(?i)", "Anchor", "$anchor", "dynamic", "$id", "nullable", "x-word"].iter().any(|odd| text.contains(odd)));
        // A validator may follow a circle for ever.
        let may_be_circular = listed.notes.len() > 7 || listed.notes.iter().any(|note| note.contains("`$ref`"));
        let listed = jsonschema::draft202012::new(&listed.schema).expect("it compiles");
        if may_be_circular {
            return Ok(());
        }
        let Ok(written) = jsonschema::draft202012::new(&schema) else { return Ok(()) };
        for value in [
            json!({}),
            json!({ "a": "a", "b": "b" }),
            json!({ "a": ["a", 1], "b": null }),
            json!({ "a": { "a": "a", "A": 2, "b": [] }, "b": {} }),
            json!({ "a": 1, "b": [[], ["a"]] }),
        ] {
            prop_assert!(!written.is_valid(&value) || listed.is_valid(&value), "{text} for {value}");
        }
    }
}
