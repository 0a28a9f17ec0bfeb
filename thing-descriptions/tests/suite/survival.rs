//! What anyone may write: changed descriptions never panic, unknown members survive, and no text takes long.

use std::sync::OnceLock;

use althing_td::{Description, FINDINGS_MAX, TD_BYTES_MAX, no_duplicates, validate};
use althing_testing::public_vectors;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A valid description with much of what TD 1.1 has.
fn rich() -> Value {
    json!({
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1#" }],
        "id": "urn:example:lamp", "title": "Lamp", "base": "https://lamp.example/{?key}",
        "securityDefinitions": {
            "key_sc": { "scheme": "apikey", "in": "uri", "name": "key" },
            "code_sc": { "scheme": "oauth2", "flow": "client", "token": "https://a.example/t" },
            "both_sc": { "scheme": "combo", "allOf": ["key_sc", "code_sc"] },
        },
        "security": ["both_sc"],
        "lmos:capabilities": [{ "id": "light", "name": "Light", "description": "Gives light.", "examples": [{ "q": "Dim" }] }],
        "properties": { "on": {
            "type": "object", "properties": { "x": { "type": "array", "items": { "enum": [1, 2] } } },
            "forms": [{ "href": "on", "op": ["readproperty"], "response": { "contentType": "text/plain" } }],
        } },
        "actions": { "dim": { "input": { "type": "integer" }, "forms": [{ "href": "dim" }] } },
        "events": { "hot": { "data": { "oneOf": [{ "type": "number" }] }, "forms": [{ "href": "hot" }] } },
        "links": [{ "href": "https://a.example/tm", "rel": "type" }],
    })
}

/// [`rich`] and, where they are beside the checkout, some of the public ones.
fn valid() -> &'static [Vec<u8>] {
    static TEXTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let mut texts = vec![rich().to_string().into_bytes()];
        if let Some(folder) = public_vectors("td/valid") {
            let entries = std::fs::read_dir(folder).expect("a readable folder");
            let mut paths: Vec<_> = entries.map(|e| e.expect("a readable folder").path()).collect();
            paths.sort();
            let read = paths.into_iter().map(|path| std::fs::read(path).expect("a readable file"));
            texts.extend(read.filter(|bytes| bytes.len() < 8_000).take(40));
        }
        texts
    })
}

/// Any JSON value, at most a few levels deep.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = proptest::collection::btree_map(".{0,8}", inner.clone(), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn read(bytes: &[u8]) {
    let _ = no_duplicates(bytes);
    match Description::parse(bytes) {
        Ok(description) => {
            assert_eq!(description.bytes(), bytes);
            let _ = (description.capabilities(), description.search_text(), description.digest());
        }
        Err(e) => assert!(!e.report().is_valid() && e.report().findings.len() <= FINDINGS_MAX + 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_description_with_bytes_changed_is_read_without_panicking(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = which.get(valid()).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read(&bytes);
    }

    #[test]
    fn a_valid_description_with_a_member_replaced_is_read_without_panicking(
        path in proptest::collection::vec(any::<prop::sample::Index>(), 1..7),
        replacement in json_value(),
    ) {
        let mut td = rich();
        let mut pointer = String::new();
        for step in path {
            let token = match td.pointer(&pointer) {
                Some(Value::Object(members)) if !members.is_empty() => step.get(&members.keys().collect::<Vec<_>>()).to_string(),
                Some(Value::Array(items)) if !items.is_empty() => step.index(items.len()).to_string(),
                _ => break,
            };
            pointer = format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"));
        }
        *td.pointer_mut(&pointer).expect("a place in it") = replacement;
        read(td.to_string().as_bytes());
    }

    #[test]
    fn unknown_members_survive(name in "x:[a-z]{1,12}", value in json_value(), spaces in " {0,5}") {
        let mut td = rich();
        td[&name] = value.clone();
        td["actions"]["dim"][&name] = value.clone();
        let text = format!("{spaces}{}{spaces}\n", serde_json::to_string_pretty(&td).expect("is JSON"));
        let description = Description::parse(text.as_bytes());
        prop_assert!(description.is_ok(), "{:?}", description);
        if let Ok(description) = description {
            prop_assert_eq!(description.bytes(), text.as_bytes());
            prop_assert_eq!(description.value(), td.clone());
            prop_assert_eq!(&description.value()["actions"]["dim"][&name], &value);
        }
    }
}

/// A text just below the limit: `unit` again and again between `head` and `tail`.
fn filled(head: &str, unit: impl Fn(usize) -> String, tail: &str) -> String {
    let mut text = head.to_owned();
    for n in 0.. {
        let next = unit(n);
        if text.len() + next.len() + tail.len() + 4 > TD_BYTES_MAX {
            break;
        }
        text.push_str(&next);
        text.push(',');
    }
    text.pop();
    text.push_str(tail);
    text
}

/// Texts of the greatest length that break one rule everywhere, or make one check as long as it can be.
fn greatest() -> Vec<(&'static str, String)> {
    let start = r#"{"@context":"https://www.w3.org/2022/wot/td/v1.1","title":"x","security":"a_sc","#;
    let uri = r#""securityDefinitions":{"a_sc":{"scheme":"apikey","in":"uri","name":"k"},"#;
    let head = |rest: &str| format!("{start}{rest}");
    let combos = format!(
        "{start}{uri}\"c\":{{\"scheme\":\"combo\",\"allOf\":[{}\"a_sc\"]}}}},\"forms\":[",
        "\"c\",".repeat(50_000)
    );
    let nest = |n: usize| format!("{}{{}}{}", "{\"items\":".repeat(n), "}".repeat(n));
    let one_of = |n: usize| format!("{}{{}}{}", "{\"oneOf\":[".repeat(n), "]}".repeat(n));
    vec![
        ("names", filled(&head("\"security\":["), |_| "\"\"".to_owned(), "]}")),
        ("operations", filled(&head("\"forms\":[{\"href\":\"\",\"op\":["), |_| "\"x\"".to_owned(), "]}]}")),
        ("forms", filled(&head("\"forms\":["), |_| "{}".to_owned(), "]}")),
        ("combos", filled(&combos, |_| "{\"href\":\"\",\"security\":\"c\"}".to_owned(), "]}")),
        ("links", filled(&head("\"links\":["), |_| "{\"rel\":\"type\"}".to_owned(), "]}")),
        ("members", filled(&head("\"x\":{"), |n| format!("\"{n}\":0"), "}}")),
        ("repeated members", filled(&head("\"x\":{"), |_| "\"a\":0".to_owned(), "}}")),
        ("enum", filled(&head("\"properties\":{\"p\":{\"enum\":["), |n| n.to_string(), "]}}}")),
        ("enum of objects", filled(&head("\"properties\":{\"p\":{\"enum\":["), |n| format!("{{\"a\":{n}}}"), "]}}}")),
        ("properties", filled(&head("\"properties\":{"), |n| format!("\"{n}\":{{}}"), "}}")),
        ("deep items", filled(&head("\"properties\":{"), |n| format!("\"{n}\":{}", nest(28)), "}}")),
        ("deep oneOf", filled(&head("\"properties\":{"), |n| format!("\"{n}\":{}", one_of(14)), "}}")),
        (
            "deep wrong oneOf",
            filled(&head("\"properties\":{"), |n| format!("\"{n}\":{}", one_of(14).replace("{}", "1")), "}}"),
        ),
        ("languages", filled(&head("\"titles\":{"), |n| format!("\"a-{n}-aaaaaaaaaaaa\":\"\""), "}}")),
        (
            "long pattern",
            head(&format!("\"links\":[{{\"href\":\"a\",\"rel\":\"icon\",\"sizes\":\"{}\"}}]}}", "1".repeat(900_000))),
        ),
        ("long language", head(&format!("\"titles\":{{\"a{}\":\"\"}}}}", "-aaaaa".repeat(150_000)))),
        ("examples", filled(&head("\"lmos:capabilities\":[{\"examples\":["), |_| "[\"\"]".to_owned(), "]}]}")),
    ]
}

#[test]
fn the_greatest_texts_have_reports_of_bounded_size() {
    for (name, text) in greatest() {
        let report = validate(text.as_bytes());
        assert!(report.findings.len() <= FINDINGS_MAX + 1, "{name}");
        let written: usize = report.findings.iter().map(|f| f.message.len() + f.remedy.len()).sum();
        assert!(written < 100_000, "{name}: {written}");
        read(text.as_bytes());
    }
}
