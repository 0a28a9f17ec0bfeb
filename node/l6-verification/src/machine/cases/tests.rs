use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What is said of a file of that one line.
fn refusal(line: &str) -> String {
    Cases::read(line.as_bytes()).expect_err(line).to_string()
}

fn only(line: &str) -> Case {
    let cases = Cases::read(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(cases.len(), 1);
    cases.iter().next().expect("there is one").clone()
}

#[test]
fn a_case_is_read_with_all_that_it_says() {
    let line = r#"{"id": 7, "input": "hi", "target": ["a", 4], "metadata": {"source": "x", "althing": {"agent": "clerk",
        "tools": {"in_order": ["a/x"], "never": ["a/y"]}, "schema": {"type": "object"},
        "label": {"level": "restricted", "trusted": false}, "task": "01a2", "verdict": "fail"}}, "sandbox": "docker"}"#;
    let case = only(&line.replace('\n', " "));
    assert_eq!((case.id.as_str(), case.messages.as_slice()), ("7", ["hi".to_owned()].as_slice()));
    assert_eq!(case.targets, ["a", "4"]);
    let expectation = Expectation {
        agent: Some("clerk".to_owned()),
        tools: Some(ToolRule::InOrder(vec!["a/x".to_owned()])),
        never: vec!["a/y".to_owned()],
        schema: CaseSchema::new(&json!({ "type": "object" })).ok(),
        label: Some(Label { level: DataLabel::Restricted, trusted: false }),
        task: Some("01a2".to_owned()),
        verdict: Some(Grade::Fail),
    };
    assert_eq!(case.expectation, expectation);
}

#[test]
fn messages_are_read_as_inspect_writes_them() {
    let parts = r#"{"input": [{"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]}"#;
    let case = only(&parts.replace('\n', " "));
    assert_eq!(case.messages, ["a", "b\nc"]);
    assert_eq!((case.id.as_str(), case.is_open()), ("1", true), "its line is its name");
    let text = only(r#"{"input": "a", "metadata": "{\"althing\": {\"agent\": \"clerk\"}}"}"#);
    assert_eq!(text.expectation.agent.as_deref(), Some("clerk"));
}

#[test]
fn what_is_wrong_is_told_by_line_and_place_with_what_to_do() {
    let table = [
        (r#"{"target": "x"}"#, "line 1, input: it is missing"),
        (r#"{"input": ""}"#, "line 1, input: it is neither"),
        (r#"{"input": [{"role": "system", "content": "x"}]}"#, "line 1, input[0]: it is a message of the role system"),
        (r#"{"input": [{"role": "user", "content": [{"type": "image"}]}]}"#, "line 1, input[0].content: "),
        (r#"{"input": "a", "target": 1.5}"#, "line 1, target: "),
        (r#"{"input": "a", "target": ["x", ""]}"#, "line 1, target: "),
        (r#"{"input": "a", "id": true}"#, "line 1, id: "),
        (r#"{"input": "a", "id": "a\u202eb"}"#, "line 1, id: "),
        (r#"{"input": "a", "metadata": 1}"#, "line 1, metadata: "),
        (r#"{"input": "a", "metadata": "no"}"#, "line 1, metadata: "),
        (r#"{"input": "a", "metadata": {"althing": 1}}"#, "line 1, metadata.althing: "),
        (
            r#"{"input": "a", "metadata": {"althing": {"tolls": {}}}}"#,
            "line 1, metadata.althing.tolls: this member is not known here; Did you mean \"tools\"?",
        ),
        (r#"{"input": "a", "metadata": {"althing": {"agent": 1}}}"#, "line 1, metadata.althing.agent: "),
        (r#"{"input": "a", "metadata": {"althing": {"verdict": "good"}}}"#, "line 1, metadata.althing.verdict: "),
        (
            r#"{"input": "a", "metadata": {"althing": {"tools": {"exact": "a"}}}}"#,
            "line 1, metadata.althing.tools.exact: ",
        ),
        (
            r#"{"input": "a", "metadata": {"althing": {"tools": {"exact": [], "in_order": []}}}}"#,
            "line 1, metadata.althing.tools: it has several",
        ),
        (
            r#"{"input": "a", "metadata": {"althing": {"tools": {"exact": ["a/x"], "never": ["a/x"]}}}}"#,
            "line 1, metadata.althing.tools: \"a/x\" should be called, and never",
        ),
        (r#"{"input": "a", "metadata": {"althing": {"schema": {"type": 1}}}}"#, "line 1, metadata.althing.schema"),
        (
            r#"{"input": "a", "metadata": {"althing": {"schema": {"$ref": "https://example.org/x.json"}}}}"#,
            "line 1, metadata.althing.schema: `$ref` leads out of the schema",
        ),
        (r#"{"input": "a", "metadata": {"althing": {"label": "secret"}}}"#, "line 1, metadata.althing.label: "),
        (r#"{"input": "a", "metadata": {"althing": {"task": 7}}}"#, "line 1, metadata.althing.task: it is no task"),
        (r#"{"input": "a""#, "line 1: it is not JSON"),
        (r#"{"input": "a", "target": "b", "target": "c"}"#, "line 1: a name stands twice"),
        (r#"{"input": "a", "metadata": {"althing": {"schema": {}, "schema": true}}}"#, "line 1: a name stands twice"),
        (r#"{"input": "a", "metadata": "{\"althing\": {}, \"althing\": {}}"}"#, "line 1, metadata: "),
        (r#"["a"]"#, "the file: it is one list"),
        ("7", "line 1: it is JSON, and no object"),
        ("{\"input\": \"a\"}\n\n{\"input\": \"b\"}", "line 2: it is empty"),
        (
            "{\"id\": 7, \"input\": \"a\"}\n{\"id\": \"007\", \"input\": \"b\"}",
            "line 2, id: line 1 has the id \"007\" too",
        ),
    ];
    for (line, told) in table {
        let refused = refusal(line);
        assert!(refused.contains(told), "{line}: {refused}");
        assert!(refused.contains("; "), "it says what to do: {refused}");
    }
}

#[test]
fn an_id_that_is_there_twice_is_told_with_all_else_that_is_wrong_with_both_lines() {
    let refused = refusal("{\"id\": \"a\", \"input\": 1}\n{\"input\": \"b\"}\n{\"id\": \"a\", \"input\": 1}");
    let told = ["line 1, input: ", "line 3, input: ", "line 3, id: line 1 has the id \"a\" too"];
    assert!(refused.lines().zip(told).all(|(line, told)| line.starts_with(told)), "{refused}");
    assert_eq!(refused.lines().count(), told.len(), "{refused}");
    // What is no id is not one that another line has too.
    let refused = refusal("{\"id\": true, \"input\": \"a\"}\n{\"id\": true, \"input\": \"b\"}");
    assert!(!refused.contains("has the id"), "{refused}");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_parsed() {
    let long = format!(r#"{{"input": "{}"}}"#, "x".repeat(CASE_BYTES_MAX));
    assert!(refusal(&long).contains("is the most"));
    let deep = format!(r#"{{"input": "a", "metadata": {}{}}}"#, r#"{"a":"#.repeat(200), "}".repeat(200));
    assert!(refusal(&deep).contains("nested too deeply"));
    let schema = format!("{}true{}", r#"{"not":"#.repeat(40), "}".repeat(40));
    let line = format!(r#"{{"input": "a", "metadata": {{"althing": {{"schema": {schema}}}}}}}"#);
    assert!(refusal(&line).contains("more than 32 levels"));
    let many = "{\"input\": 1}\n".repeat(50);
    assert!(refusal(&many).ends_with("and 30 more"));
    let many = "\n".repeat(CASES_MAX + 9);
    let refused = Cases::read(many.as_bytes()).expect_err("no line is a case");
    assert!(refused.more <= CASES_MAX);
    assert!(Cases::read(&vec![b' '; CASES_BYTES_MAX + 1]).is_err() && Cases::read(&[0xff, b'\n']).is_err());
}

#[test]
fn a_schema_that_would_never_end_or_leads_elsewhere_is_refused_by_its_place() {
    let of = |schema: serde_json::Value| {
        refusal(&json!({ "input": "a", "metadata": { "althing": { "schema": schema } } }).to_string())
    };
    let table = [
        (json!({ "$ref": "#" }), "metadata.althing.schema: it refers to itself"),
        (
            json!({ "properties": { "a": { "$ref": "file:///etc/hostname" } } }),
            "metadata.althing.schema/properties/a: `$ref` leads out",
        ),
        (json!({ "items": { "$dynamicRef": "#x" } }), "metadata.althing.schema/items: `$dynamicRef` is not known"),
        (json!({ "$ref": "#/$defs/none" }), "and no schema is here"),
        (json!({ "$schema": "http://json-schema.org/draft-04/schema#" }), "`$schema` is not"),
        (json!({ "pattern": "(a+)+(?=b)" }), "it is no JSON Schema 2020-12"),
        (json!(7), "no schema stands here"),
    ];
    for (schema, told) in table {
        let refused = of(schema.clone());
        assert!(refused.contains(told), "{schema}: {refused}");
    }
    let wide: serde_json::Map<String, serde_json::Value> = (0..600).map(|at| (format!("p{at}"), json!(true))).collect();
    assert!(of(json!({ "properties": wide })).contains("512 schemas"));
    // One that contains itself by what is in a value is good.
    let tree = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
    only(&json!({ "input": "a", "metadata": { "althing": { "schema": tree } } }).to_string());
}

#[test]
fn lines_are_written_back_as_they_were_and_new_ones_come_after_them() {
    let file = "\u{FEFF}{\"input\" : \"a\", \"later\": 1e400, \"x\":  {\"b\":1,\"a\":2.0}}\r\n{\"input\":\"b\"}\n";
    // A number that no program can hold.
    assert!(Cases::read(file.as_bytes()).is_err());
    let file = file.replace("1e400", "1.50");
    let mut cases = Cases::read(file.as_bytes()).expect("they are cases");
    assert_eq!(cases.text(), file);
    let expectation = Expectation { agent: Some("clerk".to_owned()), ..Expectation::default() };
    let new = Case::new("task-9", &["hi\nthere".to_owned()], &["x".to_owned()], &expectation).expect("it is a case");
    cases.add(new.clone()).expect("there is room");
    assert!(cases.add(new).is_err(), "its id is there");
    let again = Cases::read(cases.text().as_bytes()).expect("they are cases");
    assert_eq!((again.len(), &again), (3, &cases));
    assert!(again.text().starts_with(&file));
}

proptest! {
    /// Whatever a case says: it is read as it was made.
    #[test]
    fn a_new_case_is_read_as_it_was_made(
        messages in proptest::collection::vec("[^\u{0}]{1,20}", 1..4),
        targets in proptest::collection::vec(".{1,9}", 0..3),
        exact in proptest::option::of(proptest::collection::vec("[a-z]{1,4}/[a-z]{1,4}", 0..3)),
        trusted in any::<bool>(),
    ) {
        let label = Some(Label { level: DataLabel::Confidential, trusted });
        let task = trusted.then(|| "01a2".to_owned());
        let expectation = Expectation { tools: exact.map(ToolRule::Exact), label, task, ..Expectation::default() };
        let case = Case::new("one", &messages, &targets, &expectation).expect("it is a case");
        prop_assert_eq!(&case.messages, &messages);
        prop_assert_eq!(&case.targets, &targets);
        prop_assert_eq!(&case.expectation, &expectation);
    }

    /// Whatever a file is: it is read or refused, and what is read is written back.
    #[test]
    fn any_bytes_are_read_or_refused(file in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(cases) = Cases::read(&file) {
            let text = cases.text();
            prop_assert_eq!(text.trim_end().as_bytes(), file.trim_ascii_end());
        }
    }
}
