use serde_json::json;

use super::*;
use crate::machine::request::{Request, request};

const OWN: &str = "http://127.0.0.1:8080";

fn td(members: Value) -> Map<String, Value> {
    let td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "id": "urn:x:lamp",
        "title": "Lamp",
        "securityDefinitions": { "none": { "scheme": "nosec" } },
        "security": "none",
    });
    let (Value::Object(mut td), Value::Object(members)) = (td, members) else { panic!("objects") };
    td.extend(members);
    td
}

fn planned(members: Value, terms: &Terms) -> Plan {
    plan(&td(members), &Url::parse(&format!("{OWN}/lamp")).expect("an address"), terms)
}

fn keyed() -> Terms {
    Terms { has_secret: true, ..Terms::default() }
}

fn asked(plan: &Plan, tool: &str, arguments: Value) -> Result<Request, String> {
    let tool = plan.tools.iter().find(|one| one.definition.name == tool).expect("a tool");
    request(&tool.call, &arguments, Some("user:secret"))
}

fn lamp() -> Value {
    let forms = |href: &str| json!([{ "href": href }]);
    json!({
        "actions": {
            "dim": { "description": "Dims it", "input": { "type": "object", "properties": { "to": { "type": "integer" } } },
                "forms": forms("actions/dim") },
            "blink": { "input": { "type": "integer" }, "uriVariables": { "times": { "type": "integer" } },
                "forms": [{ "href": "/actions/blink{?times}", "htv:methodName": "PUT" }] },
            "off": { "forms": forms("/actions/off"), "safe": true },
        },
        "properties": {
            "level": { "type": "integer", "unit": "percent", "forms": forms("/level") },
            "serial": { "type": "string", "readOnly": true, "forms": forms("/serial") },
            "pin": { "type": "string", "writeOnly": true, "forms": [{ "href": "/pin", "contentType": "text/plain" }] },
        },
        "events": {
            "hot": { "forms": [{ "href": "/hot", "subprotocol": "sse" }] },
            "cold": { "forms": [{ "href": "ws://127.0.0.1:8080/cold" }] },
        },
    })
}

#[test]
fn each_affordance_is_a_tool() {
    let plan = planned(lamp(), &Terms::default());
    let names: Vec<&str> = plan.tools.iter().map(|one| one.definition.name.as_str()).collect();
    assert_eq!(names, ["dim", "blink", "off", "read_level", "write_level", "read_serial", "write_pin", "next_hot"]);
    assert_eq!(plan.left_out.len(), 1, "{:?}", plan.left_out);
    assert!(plan.left_out[0].0 == "next_cold" && plan.left_out[0].1.contains("for ws"), "{:?}", plan.left_out);
    let dim = &plan.tools[0].definition;
    assert_eq!(
        (dim.description.as_str(), &dim.input_schema["properties"]["to"]["type"]),
        ("Dims it", &json!("integer"))
    );
    assert_eq!(plan.tools[4].definition.input_schema["properties"]["value"]["unit"], "percent");
    assert_eq!(plan.tools[2].definition.rest["annotations"]["readOnlyHint"], true);
    for tool in &plan.tools {
        tool.definition.check().expect("may be shown to models");
    }
}

#[test]
fn requests_are_those_of_the_forms() {
    let plan = planned(lamp(), &Terms::default());
    let dim = asked(&plan, "dim", json!({ "to": 7 })).expect("a request");
    assert_eq!(
        (dim.method.as_str(), dim.url.as_str(), dim.body.as_slice()),
        ("POST", "http://127.0.0.1:8080/actions/dim", &b"{\"to\":7}"[..])
    );
    let blink = asked(&plan, "blink", json!({ "times": 2, "input": 3 })).expect("a request");
    assert_eq!(
        (blink.method.as_str(), blink.url.as_str(), blink.body.as_slice()),
        ("PUT", "http://127.0.0.1:8080/actions/blink?times=2", &b"3"[..])
    );
    let pin = asked(&plan, "write_pin", json!({ "value": "0000" })).expect("a request");
    assert_eq!((pin.method.as_str(), pin.body.as_slice()), ("PUT", &b"0000"[..]));
    let read = asked(&plan, "read_level", json!({})).expect("a request");
    assert!(read.method == "GET" && read.body.is_empty() && read.secret.is_empty());
    assert_eq!(asked(&plan, "next_hot", json!({ "seconds": 1_000 })).expect("a request").wait_s, Some(WAIT_S.1));
    for (tool, arguments, why) in [
        ("write_level", json!({}), "\"value\" is missing"),
        ("read_level", json!({ "value": 1 }), "no argument \"value\""),
        ("blink", json!({ "input": 1, "times": [1] }), "must be a text"),
    ] {
        let refused = asked(&plan, tool, arguments).expect_err("refused");
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn forms_lead_to_the_origin_of_the_description_or_to_one_that_is_allowed() {
    let hostile = [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:22/",
        "http://127.0.0.1:8080@192.0.2.1/",
        "https://127.0.0.1:8080/level",
        "//192.0.2.1/level",
        "http://{host}/level",
        "http://127.0.0.1:8080.{host}/level",
        "file:///etc/passwd",
        "http://[::ffff:169.254.169.254]/",
        "http://2130706433:8081/",
        "{+anywhere}",
    ];
    for href in hostile {
        let plan = planned(
            json!({ "properties": { "level": { "readOnly": true, "forms": [{ "href": href }] } } }),
            &Terms::default(),
        );
        assert!(plan.tools.is_empty() && plan.left_out.len() == 1, "{href}: {:?}", plan.tools);
    }
    let other = json!({ "properties": { "level": { "readOnly": true, "forms": [
        { "href": "http://192.0.2.1/level" }, { "href": "http://192.0.2.2:81/level" },
    ] } } });
    let refused = planned(other.clone(), &Terms::default());
    assert!(refused.left_out[0].1.contains("--allow http://192.0.2.1"), "{:?}", refused.left_out);
    let terms = Terms { allowed: BTreeSet::from(["http://192.0.2.2:81".to_owned()]), ..Terms::default() };
    assert_eq!(
        asked(&planned(other, &terms), "read_level", json!({})).expect("a request").url.as_str(),
        "http://192.0.2.2:81/level"
    );
    // `base` is a form's address too.
    let based = json!({ "base": "http://192.0.2.9/", "properties": { "level": { "readOnly": true, "forms": [{ "href": "level" }] } } });
    assert!(planned(based, &Terms::default()).tools.is_empty());
}

#[test]
fn credentials_are_sent_as_the_security_says() {
    let with = |scheme: Value| {
        json!({
            "securityDefinitions": { "key": scheme }, "security": ["key"],
            "properties": { "level": { "readOnly": true, "forms": [{ "href": "/level" }] } },
        })
    };
    let sent = |scheme: Value| asked(&planned(with(scheme), &keyed()), "read_level", json!({})).expect("a request");
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    assert_eq!(sent(json!({ "scheme": "basic" })).secret, header("authorization", "Basic dXNlcjpzZWNyZXQ="));
    assert_eq!(sent(json!({ "scheme": "bearer" })).secret, header("authorization", "Bearer user:secret"));
    let key = json!({ "scheme": "apikey", "in": "header", "name": "X-Key" });
    assert_eq!(sent(key).secret, header("X-Key", "user:secret"));
    assert_eq!(sent(json!({ "scheme": "apikey", "name": "k" })).url.query(), Some("k=user%3Asecret"));
    assert!(sent(json!({ "scheme": "nosec" })).secret.is_empty());
    for scheme in [
        json!({ "scheme": "oauth2", "flow": "client", "token": "https://a.example/" }),
        json!({ "scheme": "digest" }),
        json!({ "scheme": "apikey", "in": "header", "name": "Host" }),
        json!({ "scheme": "apikey", "in": "body", "name": "/key" }),
    ] {
        assert!(planned(with(scheme.clone()), &keyed()).tools.is_empty(), "{scheme}");
    }
    let without = planned(with(json!({ "scheme": "bearer" })), &Terms::default());
    assert!(without.left_out[0].1.contains("althing secret set"), "{:?}", without.left_out);
    let mut clear = with(json!({ "scheme": "bearer" }));
    clear["base"] = json!("http://192.0.2.1/");
    let terms = Terms { allowed: BTreeSet::from(["http://192.0.2.1".to_owned()]), has_secret: true };
    assert!(planned(clear, &terms).left_out[0].1.contains("in the clear"));
}

#[test]
fn a_form_sets_no_header_of_the_connection() {
    let with = |name: &str| {
        json!({ "properties": { "level": { "readOnly": true, "forms": [
            { "href": "/level", "htv:headers": [{ "htv:fieldName": name, "htv:fieldValue": "1" }] },
        ] } } })
    };
    let plan = planned(with("X-Unit"), &Terms::default());
    assert!(
        asked(&plan, "read_level", json!({}))
            .expect("a request")
            .headers
            .contains(&("X-Unit".to_owned(), "1".to_owned()))
    );
    for name in ["Host", "cookie", "Transfer-Encoding", "Authorization"] {
        assert!(planned(with(name), &Terms::default()).tools.is_empty(), "{name}");
    }
}

#[test]
fn only_what_is_agreed_to_changes_the_digest() {
    let digest = |members: Value| planned(members, &Terms::default()).digest;
    let mut changed = lamp();
    changed["modified"] = json!("2026-01-01T00:00:00Z");
    changed["links"] = json!([{ "href": "https://a.example/" }]);
    assert_eq!(digest(changed), digest(lamp()));
    for place in ["/actions/dim/description", "/actions/dim/input", "/properties/level/forms", "/events/hot"] {
        let mut changed = lamp();
        *changed.pointer_mut(place).expect("a member") = json!("another");
        assert_ne!(digest(changed), digest(lamp()), "{place}");
    }
}

#[test]
fn names_are_those_that_models_and_contracts_can_write() {
    let forms = json!([{ "href": "/a" }]);
    let long = "x".repeat(200);
    let mut actions = json!({ "saref:Toggle": { "forms": forms }, "saref.Toggle": { "forms": forms } });
    actions[&long] = json!({ "forms": forms });
    let plan = planned(json!({ "actions": actions }), &Terms::default());
    let names: Vec<&str> = plan.tools.iter().map(|one| one.definition.name.as_str()).collect();
    assert_eq!((names.len(), names[0]), (2, "saref_Toggle"), "{names:?}");
    assert!(
        names[1].len() == NAME_CHARS_MAX && plan.left_out[0].1.contains("another of its tools"),
        "{:?}",
        plan.left_out
    );
    let many: Map<String, Value> = (0..300).map(|n| (format!("a{n}"), json!({ "forms": forms }))).collect();
    let plan = planned(json!({ "actions": many }), &Terms::default());
    assert_eq!((plan.tools.len(), plan.left_out.len()), (TOOLS_MAX, 300 - TOOLS_MAX));
}
