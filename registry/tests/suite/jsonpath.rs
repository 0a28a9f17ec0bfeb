//! The queries of the directory are those of RFC 9535: the public compliance suite decides.

use crate::support::{Served, escaped, open, thing, vectors};
use serde_json::Value;
use serde_json_path::JsonPath;

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

/// The member of a description that holds a document.
const MEMBER: &str = "x:document";
/// Cases that no search can ask.
const LEFT_MAX: usize = 20;

/// The query of the documents that lie in descriptions; none if it looks at a whole document from inside, which is no search.
fn within(selector: &str) -> Option<String> {
    let rest = selector.strip_prefix('$')?;
    let (mut quoted, mut escaped) = (None, false);
    for c in rest.chars() {
        match quoted {
            None if c == '$' => return None,
            None if c == '\'' || c == '"' => quoted = Some(c),
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(quote) if c == quote => quoted = None,
            _ => {}
        }
    }
    Some(format!("$[*]['{MEMBER}']{rest}"))
}

/// The same through `/search/jsonpath`: what narrows and reads the descriptions changes no answer.
#[tokio::test]
async fn each_case_of_the_compliance_suite_holds_in_the_directory() {
    let suite = vectors("jsonpath").into_iter().find(|(path, _)| path.ends_with("cts.json"));
    let Some((_, suite)) = suite else { return };
    let suite: Value = serde_json::from_slice(&suite).expect("JSON");
    let served = Served::start(open()).await;
    let (mut asked, mut refused, mut left, mut stored) = (0, 0, Vec::new(), Value::Null);
    for case in suite["tests"].as_array().expect("a list") {
        let (name, selector) = (&case["name"], case["selector"].as_str().expect("text"));
        if case["invalid_selector"] == true {
            let path = format!("/search/jsonpath?query={}", escaped(selector));
            assert_eq!(served.get(&path).await.status(), 400, "{name}: {selector} is no query");
            refused += 1;
            continue;
        }
        let Some(query) = within(selector) else {
            left.push(name.to_string());
            continue;
        };
        if stored != case["document"] {
            let mut td = thing("urn:example:one", "Lamp");
            td[MEMBER] = case["document"].clone();
            let put = served.put("urn:example:one", td.to_string()).await.status();
            assert!(put.is_success(), "{name}: {put}");
            stored = case["document"].clone();
        }
        let answer = served.get(&format!("/search/jsonpath?query={}", escaped(&query))).await;
        let (status, said) = (answer.status(), answer.text().await.expect("text"));
        // What a directory does not ask of its regular expressions, as it says.
        let advice = ["write a repetition such as", "is a text in the query itself"];
        if status == 400 && advice.iter().any(|advice| said.contains(advice)) {
            left.push(name.to_string());
            continue;
        }
        assert_eq!(status, 200, "{name}: {selector}: {said}");
        let got: Value = serde_json::from_str(&said).expect("JSON");
        let is_right = match case.get("results") {
            Some(results) => results.as_array().expect("a list").contains(&got),
            None => case["result"] == got,
        };
        assert!(is_right, "{name}: {selector} gave {got}");
        asked += 1;
    }
    println!("{asked} queries were answered, {refused} refused; left out: {left:?}");
    assert_eq!(asked + refused + left.len(), 703);
    assert!(left.len() <= LEFT_MAX, "{} are left out", left.len());
}
