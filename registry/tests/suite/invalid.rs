//! What is wrong with a description is told with its field and what to do, as WoT Discovery has it, whatever it is.

use crate::support::{Served, TD, escaped, open, problem, thing};
use reqwest::Response;
use serde_json::{Value, json};

const ID: &str = "urn:a";
const ROOT: &str = "(root)";

/// A description that lacks a member.
fn without(member: &str) -> String {
    let mut td = thing(ID, "Lamp");
    td.as_object_mut().expect("an object").remove(member);
    td.to_string()
}

/// A description with other members.
fn with(members: Value) -> String {
    let mut td = thing(ID, "Lamp");
    td.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
    td.to_string()
}

/// A description with text before its end.
fn and(text: &str) -> String {
    let whole = thing(ID, "Lamp").to_string();
    format!("{},{text}}}", whole.strip_suffix('}').expect("an object"))
}

/// The fields that an answer names, each with a description of what is wrong there.
async fn fields(answer: Response, of: &str) -> Vec<String> {
    let (status, told) = problem(answer).await;
    assert_eq!(status, 400, "{of}: {told}");
    let faults = told["validationErrors"].as_array().unwrap_or_else(|| panic!("{of}: {told}"));
    let text = |fault: &Value, member: &str| fault[member].as_str().unwrap_or_default().to_owned();
    for fault in faults {
        assert!(!text(fault, "field").is_empty() && !text(fault, "description").is_empty(), "{of}: {told}");
    }
    faults.iter().map(|fault| text(fault, "field")).collect()
}

#[tokio::test]
async fn each_kind_of_fault_has_a_field_and_a_description() {
    let served = Served::start(open()).await;
    let form = json!({ "href": "https://lamp.example/on" });
    let on = |members: Value| {
        let mut property = json!({ "forms": [form] });
        property.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        with(json!({ "properties": { "on": property } }))
    };
    let scheme = |scheme: Value| with(json!({ "securityDefinitions": { "nosec": scheme } }));
    let links = json!([{ "rel": "type", "href": "https://a.example" }, { "rel": "type", "href": "https://b.example" }]);
    let nothing = json!({ "type": "string", "readOnly": true, "writeOnly": true });
    let unanswered = json!({ "href": "https://lamp.example/", "response": { "x:y": 1 } });
    for (sent, field) in [
        // What is not even an object.
        (String::new(), ROOT),
        ("{".to_owned(), ROOT),
        ("[]".to_owned(), ROOT),
        ("null".to_owned(), ROOT),
        ("{}".to_owned(), ROOT),
        // Members of the root that are missing.
        (without("title"), ROOT),
        (without("@context"), ROOT),
        (without("security"), ROOT),
        (without("securityDefinitions"), ROOT),
        (without("id"), ROOT),
        // What the schema refuses.
        (with(json!({ "title": 7 })), "/title"),
        (with(json!({ "created": "yesterday" })), "/created"),
        (with(json!({ "version": {} })), "/version"),
        (with(json!({ "security": [] })), "/security"),
        (with(json!({ "properties": { "on": {} } })), "/properties/on"),
        (with(json!({ "properties": { "on": { "forms": [] } } })), "/properties/on/forms"),
        (on(json!({ "type": "number", "minimum": "low" })), "/properties/on/minimum"),
        (on(json!({ "type": "string", "enum": ["a", "a"] })), "/properties/on/enum"),
        (on(json!({ "observable": "yes" })), "/properties/on/observable"),
        // What the rules beyond it refuse.
        (with(json!({ "@context": "https://example.org" })), "/@context"),
        (with(json!({ "security": "none" })), "/security"),
        (scheme(json!({ "scheme": "mystery" })), "/securityDefinitions/nosec/scheme"),
        (scheme(json!({ "scheme": "combo" })), "/securityDefinitions/nosec"),
        (scheme(json!({ "scheme": "oauth2", "flow": "code" })), "/securityDefinitions/nosec"),
        (on(json!({ "forms": [{ "href": "x", "op": "invokeaction" }] })), "/properties/on/forms/0/op"),
        (with(json!({ "actions": { "a": { "forms": [unanswered] } } })), "/actions/a/forms/0/response"),
        (with(json!({ "schemaDefinitions": { "s": nothing } })), "/schemaDefinitions/s"),
        (with(json!({ "links": links })), "/links/1"),
        (with(json!({ "title": "La\u{200b}mp" })), "/title"),
        (and("\"actions\":{\"a\":{\"forms\":[{\"href\":\"x\"}]},\"a\":{\"forms\":[{\"href\":\"x\"}]}}"), "/actions/a"),
        // What is there twice, or in two names.
        (and("\"id\":\"urn:a\""), "/id"),
        (and("\"registration\":{},\"registration\":{}"), "/registration"),
        (and("\"@id\":7"), "/@id"),
        // What the directory asks.
        (with(json!({ "id": "urn:b" })), "/id"),
        (with(json!({ "registration": 7 })), "/registration"),
        (with(json!({ "registration": null })), "/registration"),
        (with(json!({ "registration": { "ttl": "long" } })), "/registration/ttl"),
        (with(json!({ "registration": { "ttl": 0 } })), "/registration/ttl"),
        (with(json!({ "registration": { "expires": "soon" } })), "/registration/expires"),
        (with(json!({ "registration": { "expires": "2001-01-01T00:00:00Z" } })), "/registration"),
    ] {
        let told = fields(served.put(ID, sent.clone()).await, &sent).await;
        assert!(told.iter().any(|one| one == field), "{field}: {told:?}: {sent}");
    }
    let deep = and(&format!("\"x:y\":{}{}", "[".repeat(40), "]".repeat(40)));
    assert_eq!(fields(served.put(ID, deep).await, "too deep").await.len(), 1);
    let posted = served.post(thing(ID, "Lamp").to_string()).await;
    assert_eq!(fields(posted, "with an id").await, ["/id"]);
    let named = served.put("lamp", without("id").replacen('{', "{\"@id\":\"lamp\",", 1)).await;
    assert_eq!(fields(named, "no URI").await, ["/id"]);
}

#[tokio::test]
async fn a_patch_names_the_field_of_what_it_makes() {
    let served = Served::start(open()).await;
    served.have(ID, "Lamp").await;
    for (patch, field) in [
        ("", ROOT),
        ("[]", ROOT),
        ("7", ROOT),
        ("{\"title\":null}", ROOT),
        ("{\"title\":7}", "/title"),
        ("{\"id\":\"urn:b\"}", "/id"),
        ("{\"registration\":{\"ttl\":0}}", "/registration/ttl"),
        ("{\"title\":\"a\",\"title\":\"b\"}", "/title"),
    ] {
        let request = served.request(reqwest::Method::PATCH, "/things/urn:a");
        let request = request.header("content-type", "application/merge-patch+json").body(patch);
        let told = fields(request.send().await.expect("an answer"), patch).await;
        assert!(told.iter().any(|one| one == field), "{field}: {told:?}: {patch}");
    }
}

#[tokio::test]
async fn an_id_is_read_by_the_name_that_json_ld_has_for_it() {
    let served = Served::start(open()).await;
    let lamp = |id: &str, title: &str| {
        let mut td = thing(id, title);
        let id = td.as_object_mut().expect("an object").remove("id").expect("it is there");
        td["@id"] = id;
        td.to_string()
    };
    assert_eq!(served.put("urn:b", lamp("urn:b", "Lamp")).await.status(), 201);
    let shown = served.get("/things/urn:b").await.text().await.expect("text");
    assert!(
        shown.starts_with(lamp("urn:b", "Lamp").trim_end_matches('}')),
        "as it was sent, with no other id: {shown}"
    );
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON").get("id"), None);
    assert_eq!(served.put("urn:b", lamp("urn:b", "Light")).await.status(), 204);
    assert_eq!(served.patch("urn:b", &json!({ "title": "Sun" })).await.status(), 204);
    assert_eq!(served.json("/things").await[0]["@id"], "urn:b");
    // A search finds it by what is given, before and after it is in the index.
    served.stop_indexing();
    for (query, found) in [("$[?@['@id']=='urn:b'].title", json!(["Sun"])), ("$[?@.id=='urn:b'].title", json!([]))] {
        assert_eq!(served.json(&format!("/search/jsonpath?query={}", escaped(query))).await, found, "{query}");
    }
    let refused = served.put("urn:c", lamp("urn:b", "Lamp")).await;
    assert!(problem(refused).await.1["detail"].as_str().expect("text").contains("has the id \"urn:b\""));
    let posted = served.post(lamp("urn:d", "Lamp")).await;
    assert!(problem(posted).await.1["detail"].as_str().expect("text").contains("urn:d"));
    // Nothing is said of an id that nobody wrote.
    let told = problem(served.put("urn:c", without("id")).await).await.1;
    assert!(told["detail"].as_str().expect("text").contains("has no id: write \"id\": \"urn:c\""), "{told}");
}

#[tokio::test]
async fn an_address_whose_slashes_a_proxy_decoded_leads_to_its_thing() {
    const LAMP: &str = "https://lamps.example/floor/1";
    let served = Served::start(open()).await;
    let put = async |path: &str, id: &str| {
        let request = served.request(reqwest::Method::PUT, path).header("content-type", TD);
        request.body(thing(id, "Lamp").to_string()).send().await.expect("an answer")
    };
    // As it comes, decoded, and with the slashes merged.
    let ways = [escaped(LAMP), LAMP.to_owned(), LAMP.replace("//", "/")].map(|path| format!("/things/{path}"));
    let ways = ways.each_ref().map(String::as_str);
    for way in ways {
        let created = put(way, LAMP).await;
        assert_eq!((created.status().as_u16(), created.headers().get("location").is_some()), (201, true), "{way}");
        for other in ways {
            assert_eq!(served.json(other).await["id"], LAMP, "{other}");
            let sent = served.get(&format!("{other}/submitted")).await.text().await.expect("text");
            assert_eq!(sent, thing(LAMP, "Lamp").to_string(), "{other}");
            let patch =
                served.request(reqwest::Method::PATCH, other).header("content-type", "application/merge-patch+json");
            assert_eq!(patch.body("{}").send().await.expect("an answer").status(), 204, "{other}");
            assert_eq!(put(other, LAMP).await.status(), 204, "{other}");
        }
        let deleted = served.request(reqwest::Method::DELETE, way).send().await.expect("an answer");
        assert_eq!(deleted.status(), 204, "{way}");
        assert_eq!(served.json("/things").await, json!([]), "it is deleted by the same address: {way}");
    }
    for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
        let missing = served.request(method, ways[2]).send().await.expect("an answer");
        let (status, told) = problem(missing).await;
        assert!(status == 404 && told["detail"].as_str().expect("text").contains("%2F"), "{told}");
    }
    // Others' ids are others'.
    assert_eq!(problem(put(ways[2], "https://lamps.example/floor/2").await).await.0, 400);
    assert_eq!(problem(served.get("/nothing/here").await).await.0, 404);
}
