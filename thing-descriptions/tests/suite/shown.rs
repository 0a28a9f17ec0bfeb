//! Descriptions that others wrote: an odd member spoils nothing beside it, and is named.

use althing_td::{DEPTH_MAX, Description, TD_BYTES_MAX, shown_thing, validate};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A valid description of a fan, with affordances of each kind.
fn fan() -> Value {
    json!({
        "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "ex": "https://fan.example/terms#" }],
        "id": "urn:example:fan", "title": "Fan", "base": "https://fan.example/",
        "securityDefinitions": {
            "open": { "scheme": "nosec" },
            "key": { "scheme": "apikey", "in": "uri", "name": "key" },
            "both": { "scheme": "combo", "allOf": ["open", "key"] },
        },
        "security": ["open"],
        "properties": {
            "speed": {
                "title": "Speed", "type": "object", "unit": "rpm", "readOnly": true,
                "properties": { "now": { "type": "integer", "minimum": 0 } },
                "forms": [{ "href": "speed", "op": ["readproperty"], "response": { "contentType": "text/plain" } }],
            },
            "name": { "type": "string", "maxLength": 20, "forms": [{ "href": "name" }] },
        },
        "actions": {
            "turn": {
                "description": "Turns it.", "safe": false, "uriVariables": { "by": { "type": "number" } },
                "input": { "type": "object", "properties": { "to": { "enum": [1, 2] } }, "required": ["to"] },
                "forms": [{ "href": "turn{?by,key}", "contentType": "application/json", "security": "both" }],
            },
            "stop": { "forms": [{ "href": "stop" }, { "href": "halt", "op": "invokeaction" }] },
        },
        "events": { "hot": { "data": { "type": "number" }, "forms": [{ "href": "hot", "subprotocol": "sse" }] } },
    })
}

/// What is read of a description; and of that, that it is valid.
fn read(td: &Value) -> (Value, Vec<(String, String)>) {
    let shown = shown_thing(td.to_string().as_bytes(), "").unwrap_or_else(|error| panic!("{td} is refused: {error}"));
    assert!(validate(shown.description.bytes()).is_valid(), "{td}");
    (shown.description.value(), shown.notes)
}

/// The fan with another value at these places.
fn fan_with(changes: &[(&str, Value)]) -> Value {
    let mut td = fan();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = td.pointer_mut(parent).expect("a place");
        match parent {
            Value::Array(items) => items[name.parse::<usize>().expect("a number")] = value.clone(),
            parent => parent[name] = value.clone(),
        }
    }
    td
}

/// The pointers of the affordances of a description.
fn affordances(td: &Value) -> Vec<String> {
    let of = |kind: &str| -> Vec<String> {
        let all = td.get(kind).and_then(Value::as_object);
        all.into_iter().flatten().map(|(name, _)| format!("/{kind}/{name}")).collect()
    };
    ["properties", "actions", "events"].into_iter().flat_map(of).collect()
}

#[test]
fn an_odd_affordance_is_left_out_and_named_and_the_others_stay() {
    let form = json!([{ "href": "x" }]);
    for odd in [
        Value::Null,
        json!(7),
        json!([]),
        json!("on"),
        json!({}),
        json!({ "type": "integer" }),
        json!({ "forms": { "href": "x" } }),
        json!({ "forms": null }),
        json!({ "forms": [] }),
        json!({ "forms": [null] }),
        json!({ "forms": [{}] }),
        json!({ "forms": [{ "href": null }] }),
        json!({ "forms": [{ "href": "x", "op": "fly" }] }),
        json!({ "forms": [{ "href": "x", "op": [] }] }),
        json!({ "forms": [{ "href": "x", "op": ["fly", 7] }] }),
        json!({ "forms": [{ "href": "x", "contentType": 7 }] }),
        json!({ "forms": [{ "href": "x", "security": "nobody" }] }),
        json!({ "forms": [{ "href": "x", "security": "key" }] }),
        json!({ "forms": form, "readOnly": true, "writeOnly": true }),
        json!({ "forms": form, "description": "a\u{202e}b" }),
    ] {
        for kind in ["properties", "actions", "events"] {
            if kind != "properties" && odd.get("writeOnly").is_some() {
                continue;
            }
            let td = fan_with(&[(format!("/{kind}/odd").as_str(), odd.clone())]);
            let (read, notes) = read(&td);
            assert_eq!(affordances(&read), affordances(&fan()), "{kind}: {odd}");
            assert_eq!(notes.len(), 1, "{kind}: {odd}: {notes:?}");
            assert_eq!(notes[0].0, format!("/{kind}/odd"), "{odd}");
        }
    }
}

#[test]
fn an_odd_member_of_an_affordance_is_left_out_and_named_and_the_affordance_stays() {
    for (pointer, odd) in [
        ("/properties/name/type", json!("int")),
        ("/properties/name/unit", Value::Null),
        ("/properties/name/maxLength", json!("20")),
        ("/properties/name/title", json!(7)),
        ("/properties/name/observable", json!("yes")),
        ("/properties/speed/properties/now", Value::Null),
        ("/properties/speed/properties/now/type", json!("int")),
        ("/properties/speed/forms/0/response", json!({})),
        ("/properties/speed/forms/0/scopes", Value::Null),
        ("/actions/turn/description", Value::Null),
        ("/actions/turn/safe", json!("no")),
        ("/actions/turn/output", json!("text")),
        ("/actions/turn/uriVariables/by", json!([])),
        ("/actions/turn/input/properties/to/enum", json!([])),
        ("/actions/stop/forms/1", json!({ "href": "halt", "op": "fly" })),
        ("/actions/stop/forms/1/contentType", Value::Null),
        ("/events/hot/data/type", json!(["number"])),
    ] {
        let (read, notes) = read(&fan_with(&[(pointer, odd.clone())]));
        assert_eq!(affordances(&read), affordances(&fan()), "{pointer}: {odd}");
        assert_eq!(notes.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), [pointer], "{odd}: {notes:?}");
        assert_eq!(read["actions"]["stop"]["forms"][0]["href"], "stop");
        assert!(!read.pointer(pointer).is_some_and(|kept| *kept == odd), "{pointer}: {odd}");
    }
    // Of several operations those that are known.
    let (read, notes) = read(&fan_with(&[("/properties/name/forms/0/op", json!(["readproperty", "fly", null]))]));
    assert_eq!(read["properties"]["name"]["forms"][0]["op"], json!(["readproperty"]), "{notes:?}");
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn an_odd_member_of_a_thing_is_left_out_or_has_a_default() {
    for (pointer, odd) in [
        ("/events", Value::Null),
        ("/events", json!([])),
        ("/events", json!("none")),
        ("/version", json!("1.0")),
        ("/version", Value::Null),
        ("/version", json!({ "model": "1" })),
        ("/links", Value::Null),
        ("/links", json!([{ "rel": "x" }])),
        ("/links", json!([{ "href": "a", "rel": "type" }, { "href": "b", "rel": "type" }])),
        ("/forms", json!([])),
        ("/id", json!(7)),
        ("/id", json!("no uri")),
        ("/base", json!(["https://fan.example/"])),
        ("/description", json!("a\u{202e}b")),
        ("/created", json!("yesterday")),
        ("/uriVariables", json!({ "key": {} })),
        ("/schemaDefinitions", json!([])),
        ("/title", Value::Null),
        ("/title", json!(["Fan"])),
        ("/title", json!("a\u{202e}b")),
        ("/@context", json!("http://www.w3.org/ns/td")),
        ("/@type", Value::Null),
        ("/securityDefinitions/new", json!({ "scheme": "dpop" })),
        ("/securityDefinitions/new", Value::Null),
        ("/securityDefinitions/new", json!({ "scheme": "combo" })),
        ("/securityDefinitions/new", json!({ "scheme": "oauth2", "flow": "code" })),
        ("/security", Value::Null),
        ("/security", json!([])),
    ] {
        let (read, notes) = read(&fan_with(&[(pointer, odd.clone())]));
        let is_events = pointer == "/events";
        let all = affordances(&fan()).into_iter().filter(|one| !is_events || !one.starts_with("/events"));
        assert_eq!(affordances(&read), all.collect::<Vec<_>>(), "{pointer}: {odd}: {notes:?}");
        assert!(notes.iter().any(|(at, _)| at.starts_with(pointer)), "{pointer}: {odd}: {notes:?}");
        let title = if pointer == "/title" { "urn:example:fan" } else { "Fan" };
        assert_eq!(read["title"], title, "{odd}");
    }
    let mut untitled = fan();
    untitled.as_object_mut().expect("an object").retain(|name, _| name != "title" && name != "id");
    assert_eq!(read(&untitled).0["title"], "Untitled");
    assert_eq!(read(&fan_with(&[("/title", json!(3000))])).0["title"], "3000");
}

#[test]
fn what_is_asked_of_a_form_by_a_scheme_that_cannot_be_read_is_never_passed_over() {
    for (pointer, odd) in [
        ("/security", json!("nobody")),
        ("/security", json!(["open", "nobody"])),
        ("/security", json!({ "scheme": "basic" })),
        ("/securityDefinitions/open", json!({ "scheme": "dpop" })),
        ("/securityDefinitions/open", Value::Null),
    ] {
        let (read, notes) = read(&fan_with(&[(pointer, odd.clone())]));
        let kept = affordances(&read);
        assert!(kept.iter().all(|one| one == "/actions/turn"), "{pointer}: {odd}: {kept:?}");
        assert!(notes.iter().any(|(at, _)| at == "/properties/name"), "{notes:?}");
    }
    let twice = fan().to_string().replace("\"open\":{", "\"open\":{\"scheme\":\"basic\"},\"open\":{");
    let shown = shown_thing(twice.as_bytes(), "").expect("a Thing");
    assert_eq!(affordances(&shown.description.value()), [""; 0], "readers differ on what it asks for");
}

#[test]
fn what_is_there_twice_or_nested_too_deeply_spoils_nothing_else() {
    let text = fan().to_string();
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for (odd, kept) in [
        (format!("\"x\":{},\"actions\":{{", deep(DEPTH_MAX)), 5),
        (format!("\"actions\":{{\"deep\":{{\"forms\":{}}},", deep(50_000)), 5),
        ("\"actions\":{\"stop\":{\"forms\":[{\"href\":\"open\"}]},".to_owned(), 4),
    ] {
        let text = text.replace("\"actions\":{", &odd);
        let shown = shown_thing(text.as_bytes(), "").expect("a Thing");
        let left = affordances(&shown.description.value());
        assert!(left.len() == kept && left.contains(&"/actions/turn".to_owned()), "{left:?}");
        assert_eq!(shown.notes.len(), 1, "{:?}", shown.notes);
    }
}

#[test]
fn a_valid_description_is_read_as_it_came() {
    let text = serde_json::to_string_pretty(&fan()).expect("JSON");
    let shown = shown_thing(text.as_bytes(), "").expect("a Thing");
    assert_eq!((shown.description.bytes(), shown.notes.len()), (text.as_bytes(), 0));
    assert_eq!(shown.description, Description::parse(text.as_bytes()).expect("valid"));
}

#[test]
fn a_description_without_its_context_is_known_by_its_forms() {
    let actions = json!({ "on": { "forms": [{ "href": "https://192.0.2.1/on" }] } });
    let without = |context: Option<Value>| {
        let mut td = json!({ "title": "Lamp", "actions": actions });
        if let Some(context) = context {
            td["@context"] = context;
        }
        shown_thing(td.to_string().as_bytes(), "application/json")
    };
    for context in [None, Some(json!(null)), Some(json!({ "ex": "https://example.org/" }))] {
        let shown = without(context.clone()).unwrap_or_else(|error| panic!("{context:?}: {error}"));
        let note = ("/@context".to_owned(), "it is missing, and is read as TD 1.1".to_owned());
        assert!(shown.notes.contains(&note), "{context:?}: {:?}", shown.notes);
        assert!(shown.description.value()["actions"]["on"].is_object(), "{context:?}");
    }
    for other in [json!("https://webthings.io/schemas"), json!(["https://example.org/"]), json!(7)] {
        assert!(without(Some(other.clone())).is_err(), "{other}");
    }
    let formless = json!({ "title": "Lamp", "actions": { "on": { "forms": [] }, "off": { "forms": [{}] } } });
    assert!(shown_thing(formless.to_string().as_bytes(), "").is_err());
}

#[test]
fn what_is_no_description_is_refused() {
    let card = json!({ "name": "A card", "title": "Card", "actions": {} }).to_string();
    assert!(shown_thing(card.as_bytes(), "application/json").is_err());
    for media_type in ["application/td+json", "Application/TD+JSON; charset=utf-8"] {
        let shown = shown_thing(card.as_bytes(), media_type).expect("its media type says so");
        assert_eq!(shown.description.title(), "Card");
        for text in ["", "{", "[]", "7", "null", "{} {}"] {
            assert!(shown_thing(text.as_bytes(), media_type).is_err(), "{text}");
        }
    }
    assert!(shown_thing(&vec![b' '; TD_BYTES_MAX + 1], "application/td+json").is_err());
}

#[test]
fn notes_and_work_have_a_bound() {
    let many: serde_json::Map<String, Value> =
        (0..4_000).map(|n| (format!("odd{n}"), json!({ "forms": [{}] }))).collect();
    let mut td = fan();
    td["events"] = many.into();
    let (read, notes) = read(&td);
    assert_eq!(affordances(&read).len(), 4);
    assert!(notes.len() == 33 && notes[32].1.contains("more"), "{notes:?}");
    assert!(notes.iter().all(|(at, how)| at.chars().count() <= 160 && how.chars().count() <= 160));
}

/// Any JSON value, at most a few levels deep, of the words of a description and others.
fn json_value() -> impl Strategy<Value = Value> {
    let word = "(forms|href|op|type|properties|items|oneOf|security|open|integer|object|x|.{0,4})";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let members = proptest::collection::btree_map(word, inner.clone(), 0..4);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_stands_in_one_affordance_all_others_are_still_there(
        which in any::<prop::sample::Index>(),
        member in any::<prop::sample::Index>(),
        other in proptest::option::weighted(0.3, "(unit|enum|output|titles|observable|oneOf|items|@type|[a-z]{1,4})"),
        value in json_value(),
    ) {
        let all = affordances(&fan());
        let at = which.get(&all);
        let td = fan();
        let named = td.pointer(at).and_then(Value::as_object).expect("an affordance");
        let named: Vec<&String> = named.keys().collect();
        let name = other.unwrap_or_else(|| (*member.get(&named)).clone());
        let td = fan_with(&[(format!("{at}/{name}").as_str(), value)]);
        let (read, notes) = read(&td);
        for one in all.iter().filter(|one| *one != at) {
            prop_assert_eq!(read.pointer(one), td.pointer(one), "{} of {}: {:?}", name, at, &notes);
        }
        prop_assert!(notes.iter().all(|(place, _)| place == "/" || place.starts_with(at.as_str())), "{:?}", &notes);
        prop_assert_eq!(notes.is_empty(), validate(td.to_string().as_bytes()).is_valid());
    }

    #[test]
    fn whatever_stands_in_a_description_it_is_read_without_panicking(
        path in proptest::collection::vec(any::<prop::sample::Index>(), 1..6),
        value in json_value(),
    ) {
        let (mut td, mut pointer) = (fan(), String::new());
        for step in path {
            let token = match td.pointer(&pointer) {
                Some(Value::Object(members)) if !members.is_empty() => {
                    step.get(&members.keys().collect::<Vec<_>>()).to_string()
                }
                Some(Value::Array(items)) if !items.is_empty() => step.index(items.len()).to_string(),
                _ => break,
            };
            pointer = format!("{pointer}/{token}");
        }
        *td.pointer_mut(&pointer).expect("a place in it") = value;
        if let Ok(shown) = shown_thing(td.to_string().as_bytes(), "application/td+json") {
            prop_assert!(validate(shown.description.bytes()).is_valid());
            prop_assert!(shown.notes.len() <= 33);
        }
    }
}
