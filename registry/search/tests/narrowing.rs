//! What a query selects something in has what the query needs: random descriptions and random queries.

use althing_search::{Looks, Need, Terms, looks, need, terms};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Map, Value, json};
use serde_json_path::JsonPath;

/// Few names and values, so that queries meet them; those of a registration too.
const NAMES: [&str; 8] = ["a", "b", "title", "@type", "it's", "registration", "ttl", "created"];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("x")),
        Just(json!("y \"z\" \\ é")),
        Just(json!("2023-11-14T22:13:20.000Z")),
        Just(json!(1)),
        Just(json!(1.0)),
        Just(json!(-0.0)),
        Just(json!(60)),
        Just(json!(9_007_199_254_740_993_u64)),
        Just(json!(true)),
        Just(json!(null)),
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value, 0..5)
        .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn description() -> impl Strategy<Value = Value> {
    let nested = scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array), members(inner)]
    });
    members(nested)
}

/// As a directory gives it: its own registration, whatever was sent.
fn shown(sent: &Value) -> Value {
    let mut shown = sent.as_object().cloned().unwrap_or_else(Map::new);
    let registration =
        json!({ "created": "2023-11-14T22:13:20.000Z", "ttl": 60, "retrieved": "2024-01-01T00:00:00.000Z" });
    shown.insert("registration".to_owned(), registration);
    Value::Object(shown)
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{escaped}'")
}

fn literal() -> impl Strategy<Value = String> {
    let written = scalar().prop_map(|value| match value {
        Value::String(text) => quoted(&text),
        other => other.to_string(),
    });
    prop_oneof![written, Just("1e0".to_owned()), Just("-0".to_owned()), Just("\"\\u0078\"".to_owned())]
}

fn singular() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        4 => name().prop_map(|name| format!("[{}]", quoted(name))),
        2 => prop::sample::select(&["a", "b", "title"][..]).prop_map(|name| format!(".{name}")),
        1 => Just("[0]".to_owned()),
        1 => Just(" [-1 ]".to_owned()),
    ];
    prop::collection::vec(segment, 0..3).prop_map(|segments| format!("@{}", segments.concat()))
}

fn segments(filter: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let selector = prop_oneof![
        4 => name().prop_map(quoted),
        1 => Just("0".to_owned()),
        1 => Just("::-1".to_owned()),
        2 => Just("*".to_owned()),
        3 => filter.prop_map(|filter| format!("?{filter}")),
    ];
    let bracket = prop::collection::vec(selector, 1..3).prop_map(|selectors| format!("[{}]", selectors.join(" , ")));
    let segment = prop_oneof![
        4 => bracket.clone(),
        2 => prop::sample::select(&[".a", ".title", ".*", "..b", "..ttl", "..*"][..]).prop_map(str::to_owned),
        1 => bracket.prop_map(|bracket| format!("..{bracket}")),
    ];
    prop::collection::vec(segment, 0..3).prop_map(|segments| segments.concat())
}

fn filter() -> BoxedStrategy<String> {
    let sign = || prop::sample::select(&["==", "!=", "<", "<=", ">", ">=", " == "][..]);
    let compared = prop_oneof![
        3 => (singular(), sign(), literal()).prop_map(|(left, sign, right)| format!("{left}{sign}{right}")),
        1 => (literal(), sign(), singular()).prop_map(|(left, sign, right)| format!("{left}{sign}{right}")),
        1 => (singular(), sign(), singular()).prop_map(|(left, sign, right)| format!("{left}{sign}{right}")),
        1 => singular().prop_map(|path| format!("search({path}, 'x|y')")),
        1 => singular().prop_map(|path| format!("length({path}) >= 1")),
        1 => singular().prop_map(|path| format!("count({path}.*) == 1")),
        2 => singular(),
    ];
    compared
        .prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} && {other})")),
                (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}||{other})")),
                inner.clone().prop_map(|one| format!("!({one})")),
                segments(inner.boxed()).prop_map(|segments| format!("@{segments}")),
            ]
        })
        .boxed()
}

fn query() -> impl Strategy<Value = String> {
    let first = prop_oneof![
        4 => filter().prop_map(|filter| format!("$[?{filter}]")),
        1 => Just("$[*]".to_owned()),
        1 => Just("$.*".to_owned()),
        1 => Just("$..a".to_owned()),
        1 => filter().prop_map(|filter| format!("$..[?{filter}]")),
    ];
    (first, segments(filter())).prop_map(|(first, rest)| format!("{first}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn what_is_selected_has_what_is_needed(sent in description(), query in query()) {
        let Ok(path) = JsonPath::parse(&query) else { return Ok(()) };
        let list = Value::Array(vec![shown(&sent)]);
        let needed = need(&query);
        if !path.query(&list).is_empty() {
            prop_assert!(needed.may_hold(&terms(&sent)), "{query} needs {needed:?} of {sent}");
            prop_assert!(needed.may_hold(&Terms::Any));
        }
    }

    #[test]
    fn a_query_selects_the_same_in_what_it_looks_at(sent in description(), query in query()) {
        let (Ok(path), Some(Looks { members, is_whole })) = (JsonPath::parse(&query), looks(&query)) else { return Ok(()) };
        let whole = shown(&sent);
        let mut part = whole.as_object().cloned().unwrap_or_default();
        part.retain(|name, _| members.contains(name));
        let (list, less) = (Value::Array(vec![whole.clone()]), Value::Array(vec![Value::Object(part)]));
        let (all, some) = (path.query(&list).all(), path.query(&less).all());
        if is_whole {
            prop_assert!(all.iter().all(|selected| **selected == whole));
            prop_assert_eq!(all.len(), some.len());
        } else {
            prop_assert_eq!(all, some);
        }
    }
}

#[test]
fn most_of_such_queries_are_valid_and_many_are_narrowed() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut valid, mut narrowed) = (0, 0);
    for _ in 0..1_000 {
        let query = query().new_tree(&mut runner).expect("a query").current();
        if JsonPath::parse(&query).is_ok() {
            valid += 1;
            narrowed += u32::from(need(&query) != Need::Nothing);
        }
    }
    assert!(valid > 900 && narrowed > 300, "{valid} valid, {narrowed} narrowed");
}
