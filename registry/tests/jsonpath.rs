//! The queries of the directory are those of RFC 9535: the public compliance suite decides.

mod support;

use serde_json::Value;
use serde_json_path::JsonPath;
use support::vectors;

#[test]
fn each_case_of_the_compliance_suite_holds() {
    let suite = vectors("jsonpath").into_iter().find(|(path, _)| path.ends_with("cts.json"));
    let Some((_, suite)) = suite else { return };
    let suite: Value = serde_json::from_slice(&suite).expect("JSON");
    let cases = suite["tests"].as_array().expect("a list");
    assert_eq!(cases.len(), 703);
    for case in cases {
        let (name, selector) = (&case["name"], case["selector"].as_str().expect("text"));
        let path = JsonPath::parse(selector);
        if case["invalid_selector"] == true {
            assert!(path.is_err(), "{name}: {selector} is no query");
            continue;
        }
        let path = path.unwrap_or_else(|error| panic!("{name}: {selector}: {error}"));
        let got: Vec<Value> = path.query(&case["document"]).all().into_iter().cloned().collect();
        let got = Value::Array(got);
        let is_right = match case.get("results") {
            Some(results) => results.as_array().expect("a list").contains(&got),
            None => case["result"] == got,
        };
        assert!(is_right, "{name}: {selector} gave {got}");
    }
}
