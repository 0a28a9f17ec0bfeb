//! What the node reads in a description, and that it keeps all of it.

use althing_td::{Capability, Description};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn parse(rest: &Value) -> Description {
    let mut td = json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "n": { "scheme": "nosec" } },
        "security": "n",
    });
    td.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
    Description::parse(td.to_string().as_bytes()).expect("is valid")
}

#[test]
fn the_bytes_and_unknown_members_survive() {
    let text = b" {\"title\":\"L\\u0061mp\", \"x:new\" : [1.0, {\"y\":null}],\n\"@context\":\"https://www.w3.org/2022/wot/td/v1.1\",\
        \"securityDefinitions\":{\"n\":{\"scheme\":\"nosec\"}},\"security\":\"n\"}\n";
    let read = Description::parse(text).expect("is valid");
    assert_eq!(read.bytes(), text);
    assert_eq!(read.value()["x:new"], json!([1.0, { "y": null }]));
    assert_eq!(read.title(), "Lamp");
    assert_eq!((read.id(), read.description(), read.version()), (None, None, None));
    assert_eq!(read.digest(), <[u8; 32]>::from(Sha256::digest(text)));
}

#[test]
fn capabilities_are_read_leniently() {
    let entries = json!([
        { "id": "a", "name": "A", "description": "Does A.", "version": "1.0.0", "examples": ["x", 7],
          "althing:action": "do", "althing:target": "a", "althing:tags": ["t"] },
        {}, "plain", 7, null, { "id": 7, "tags": "one", "action": "go" },
    ]);
    let description = parse(&json!({ "lmos:capabilities": entries }));
    let read = description.capabilities();
    assert_eq!(read.len(), 4);
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(
        (read[0].version.clone(), read[0].action.clone(), read[0].target.clone()),
        (text("1.0.0"), text("do"), text("a"))
    );
    assert_eq!((read[0].examples.clone(), read[0].tags.clone()), (vec!["x".to_owned()], vec!["t".to_owned()]));
    assert_eq!(read[1], Capability::default());
    assert_eq!(read[2].name, "plain");
    assert_eq!((read[3].id.as_str(), read[3].action.as_deref()), ("", Some("go")));
    assert_eq!(read[3].tags, ["one"]);
}

#[test]
fn the_search_text_has_what_people_search_by() {
    let capability = json!({ "id": "id1", "name": "N", "description": "D", "examples": ["E"], "althing:tags": ["T"] });
    let read = parse(&json!({ "description": "Lights up.", "lmos:capabilities": [capability] }));
    assert_eq!(read.search_text(), "Lamp\nLights up.\nid1\nN\nD\nT\nE");
}

#[test]
fn a_refusal_lists_the_findings() {
    let refused = Description::parse(b"{}").expect_err("is not valid");
    assert!(refused.report().errors().count() >= 3);
    assert!(refused.to_string().contains("error [schema-required] at /: the member \"title\" is missing"), "{refused}");
}
