//! The queries of the directory are those of RFC 9535: the public compliance suite decides where it lies beside the
//! checkout, and cases of our own everywhere.

use crate::support::{Served, escaped, open, problem, thing};
use althing_testing::public_vectors;
use serde_json::Value;
use serde_json_path::JsonPath;

const OWN: &str = include_str!("jsonpath.json");

/// A query of a document.
struct Case {
    name: String,
    query: String,
    document: Value,
    /// What it selects: one of these. None if it is no query.
    answers: Option<Vec<Value>>,
    /// Whether the nodes may come in any order.
    is_unordered: bool,
    /// Whether a directory refuses it.
    is_left: bool,
}

impl Case {
    fn is_answered_by(&self, got: &[Value]) -> bool {
        let in_order = |nodes: &[Value]| {
            let mut nodes = nodes.to_vec();
            if self.is_unordered {
                nodes.sort_by_key(Value::to_string);
            }
            nodes
        };
        let answers = self.answers.as_ref().expect("a query");
        answers.iter().any(|answer| in_order(answer.as_array().expect("a list")) == in_order(got))
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

/// The public suite. `None`, with the reason printed, where it is absent.
fn suite() -> Option<Vec<Case>> {
    let suite = std::fs::read(public_vectors("jsonpath")?.join("cts.json")).expect("a readable file");
    let suite: Value = serde_json::from_slice(&suite).expect("JSON");
    let case = |case: &Value| Case {
        name: text(&case["name"]),
        query: text(&case["selector"]),
        document: case["document"].clone(),
        answers: (case["invalid_selector"] != true).then(|| match case.get("results") {
            Some(results) => results.as_array().expect("a list").clone(),
            None => vec![case["result"].clone()],
        }),
        is_unordered: false,
        is_left: false,
    };
    let cases: Vec<Case> = suite["tests"].as_array().expect("a list").iter().map(case).collect();
    assert_eq!(cases.len(), 703);
    Some(cases)
}

/// Our own.
fn own() -> Vec<Case> {
    let own: Value = serde_json::from_str(OWN).expect("JSON");
    let query = |case: &Value| {
        let document = &own["documents"][text(&case["document"])];
        Case {
            name: text(&case["name"]),
            query: text(&case["query"]),
            document: document.clone(),
            answers: Some(vec![places(case).map(|place| node(document, place).clone()).collect()]),
            is_unordered: case["any_order"] == true,
            is_left: case["refused_by_directory"] == true,
        }
    };
    let refused = |case: &Value| Case {
        name: text(&case["name"]),
        query: text(&case["query"]),
        document: Value::Null,
        answers: None,
        is_unordered: false,
        is_left: false,
    };
    let listed = |list: &str| own[list].as_array().expect("a list").clone();
    listed("cases").iter().map(query).chain(listed("refused").iter().map(refused)).collect()
}

/// The places that a case of our own selects.
fn places(case: &Value) -> impl Iterator<Item = &str> {
    case["nodes"].as_array().expect("a list").iter().map(|place| place.as_str().expect("a place"))
}

fn node<'a>(document: &'a Value, place: &str) -> &'a Value {
    document.pointer(place).unwrap_or_else(|| panic!("there is nothing at {place:?}"))
}

/// Asks the library.
fn each_holds(cases: &[Case]) {
    for case in cases {
        let Case { name, query, .. } = case;
        let path = JsonPath::parse(query);
        if case.answers.is_none() {
            assert!(path.is_err(), "{name}: {query} is no query");
            continue;
        }
        let path = path.unwrap_or_else(|error| panic!("{name}: {query}: {error}"));
        let got: Vec<Value> = path.query(&case.document).all().into_iter().cloned().collect();
        assert!(case.is_answered_by(&got), "{name}: {query} gave {got:?}");
    }
}

#[test]
fn each_case_of_the_compliance_suite_holds() {
    let Some(suite) = suite() else { return };
    each_holds(&suite);
}

#[test]
fn each_case_of_our_own_holds_and_selects_the_very_nodes() {
    each_holds(&own());
    let own: Value = serde_json::from_str(OWN).expect("JSON");
    for case in own["cases"].as_array().expect("a list") {
        let document = &own["documents"][text(&case["document"])];
        let path = JsonPath::parse(&text(&case["query"])).expect("a query");
        let mut got: Vec<*const Value> = path.query(document).all().into_iter().map(std::ptr::from_ref).collect();
        let mut wanted: Vec<*const Value> =
            places(case).map(|place| std::ptr::from_ref(node(document, place))).collect();
        if case["any_order"] == true {
            got.sort_unstable();
            wanted.sort_unstable();
        }
        assert!(got == wanted, "{}: {} selects others of the same value", case["name"], case["query"]);
    }
}

/// The member of a description that holds a document.
const MEMBER: &str = "x:document";
/// Cases of the public suite that no search can ask.
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

/// Asks `/search/jsonpath`: what narrows and reads the descriptions changes no answer. The names of cases that it does
/// not take.
async fn each_holds_in_the_directory(cases: &[Case]) -> Vec<&str> {
    let served = Served::start(open()).await;
    let (mut left, mut stored) = (Vec::new(), None);
    for case in cases {
        let Case { name, query, document, .. } = case;
        if case.answers.is_none() {
            let path = format!("/search/jsonpath?query={}", escaped(query));
            assert_eq!(served.get(&path).await.status(), 400, "{name}: {query} is no query");
            continue;
        }
        let Some(within) = within(query) else {
            left.push(name.as_str());
            continue;
        };
        if stored != Some(document) {
            let mut td = thing("urn:example:one", "Lamp");
            td[MEMBER] = document.clone();
            let put = served.put("urn:example:one", td.to_string()).await.status();
            assert!(put.is_success(), "{name}: {put}");
            stored = Some(document);
        }
        let answer = served.get(&format!("/search/jsonpath?query={}", escaped(&within))).await;
        let (status, said) = (answer.status(), answer.text().await.expect("text"));
        // What a directory does not ask of its regular expressions, as it says.
        let advice = ["write a repetition such as", "is a text in the query itself"];
        if status == 400 && advice.iter().any(|advice| said.contains(advice)) {
            left.push(name.as_str());
            continue;
        }
        assert_eq!(status, 200, "{name}: {query}: {said}");
        let got: Value = serde_json::from_str(&said).expect("JSON");
        assert!(case.is_answered_by(got.as_array().expect("a list")), "{name}: {query} gave {got}");
    }
    left
}

#[tokio::test]
async fn each_case_of_the_compliance_suite_holds_in_the_directory() {
    let Some(suite) = suite() else { return };
    let left = each_holds_in_the_directory(&suite).await;
    println!("left out: {left:?}");
    assert!(left.len() <= LEFT_MAX, "{} are left out", left.len());
}

/// SR-1
#[tokio::test]
async fn what_is_nested_too_deeply_is_refused_and_no_query_is_read_without_a_turn() {
    let served = Served::start(open()).await;
    let turns = served.registry.turns();
    // Not so deeply that it would not end, if it were parsed.
    for (open, close) in [("@[?", "]"), ("length(", ")")] {
        let query = format!("$[?{}@.a{}]", open.repeat(12), close.repeat(12));
        let path = format!("/search/jsonpath?query={}", escaped(&query));
        let held = (turns.take(None).await.expect("a turn"), turns.take(None).await.expect("a turn"));
        let searching = futures::future::join_all((0..8).map(|_| served.get(&path)));
        let others = futures::future::join_all((0..8).map(|_| served.get("/checkpoint")));
        let (searched, others) = tokio::join!(searching, others);
        assert!(searched.iter().all(|answer| answer.status() == 503), "whoever reads it says 400");
        assert!(others.iter().all(|answer| answer.status() == 200));
        drop(held);
        let (status, told) = problem(served.get(&path).await).await;
        assert!(status == 400 && told["detail"].as_str().is_some_and(|why| why.contains("nested")), "{told}");
    }
}

#[tokio::test]
async fn each_case_of_our_own_holds_in_the_directory() {
    let own = own();
    let left = each_holds_in_the_directory(&own).await;
    let refused: Vec<&str> = own.iter().filter(|case| case.is_left).map(|case| case.name.as_str()).collect();
    assert!(!refused.is_empty());
    assert_eq!(left, refused, "a directory takes all others");
}
