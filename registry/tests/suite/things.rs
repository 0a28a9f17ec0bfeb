//! The directory of W3C WoT Discovery over HTTP: what is registered comes back as it was sent.

use std::sync::atomic::Ordering;

use crate::support::{NOW, Rules, Served, TD, anonymous, escaped, open, problem, thing};
use althing_registry::machine::things::{Amount, Quotas};
use althing_registry::tokens::TokenScope;
use althing_store::{Family, Range, Store as _};
use althing_testing::public_vectors;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// What the directory gives, without its registration.
fn without_registration(text: &str) -> String {
    let start = text.rfind(",\"registration\":{").expect("a registration");
    let end = start + text[start..].find('}').expect("its end") + 1;
    format!("{}{}", &text[..start], &text[end..])
}

#[tokio::test]
async fn a_thing_lives_from_creation_to_deletion_and_survives_a_restart() {
    let served = Served::start(open()).await;
    let sent = "{ \"title\": \"Lamp\",\n \"id\":\"urn:example:lamp\", \"@context\": \"https://www.w3.org/2022/wot/td/v1.1\",\
                \"securityDefinitions\": {\"n\": {\"scheme\":\"nosec\"}}, \"security\": \"n\", \"x:float\": 1.0e0 } \n";
    let created = served.put("urn:example:lamp", sent).await;
    assert_eq!(
        (created.status(), &created.headers()["location"]),
        (StatusCode::CREATED, &"/things/urn:example:lamp".parse().expect("a header"))
    );
    let served = served.again().await;
    let got = served.get("/things/urn:example:lamp").await;
    assert_eq!(got.headers()["content-type"], TD);
    let text = got.text().await.expect("text");
    assert_eq!(without_registration(&text), sent);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        value["registration"],
        json!({
            "created": "2023-11-14T22:13:20.000Z", "modified": "2023-11-14T22:13:20.000Z", "retrieved": "2023-11-14T22:13:20.000Z",
        })
    );
    assert_eq!(served.get("/things/urn:example:lamp/submitted").await.text().await.expect("text"), sent);
    let head = served.request(Method::HEAD, "/things/urn:example:lamp").send().await.expect("an answer");
    assert_eq!((head.status(), &head.headers()["content-type"]), (StatusCode::OK, &TD.parse().expect("a header")));
    assert!(head.text().await.expect("nothing").is_empty());
    served.now.store(NOW + 5_000, Ordering::SeqCst);
    let again = served.put("urn:example:lamp", thing("urn:example:lamp", "Light").to_string()).await;
    assert_eq!(again.status(), StatusCode::NO_CONTENT);
    let changed = served.json("/things/urn:example:lamp").await;
    assert_eq!(
        (&changed["title"], &changed["registration"]["created"]),
        (&json!("Light"), &json!("2023-11-14T22:13:20.000Z"))
    );
    assert_eq!(changed["registration"]["modified"], "2023-11-14T22:13:25.000Z");
    assert_eq!(served.delete("urn:example:lamp").await, StatusCode::NO_CONTENT);
    assert_eq!(served.delete("urn:example:lamp").await, StatusCode::NOT_FOUND);
    let served = served.again().await;
    for path in ["/things/urn:example:lamp", "/things/urn:example:lamp/submitted", "/things/urn:none"] {
        assert_eq!(problem(served.get(path).await).await.0, 404, "{path}");
    }
    assert_eq!(served.json("/things").await, json!([]));
}

#[tokio::test]
async fn a_description_without_an_id_gets_one() {
    let served = Served::start(open()).await;
    let sent = anonymous("Lamp").to_string();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let created = served.post(sent.clone()).await;
        assert_eq!(created.status(), StatusCode::CREATED);
        let location = created.headers()["location"].to_str().expect("text").to_owned();
        let id = location.strip_prefix("/things/").expect("the address of a Thing").to_owned();
        assert!(id.starts_with("urn:uuid:") && !ids.contains(&id), "{id}");
        let text = served.get(&location).await.text().await.expect("text");
        assert_eq!(without_registration(&text), sent.replacen('{', &format!("{{\"id\":\"{id}\","), 1));
        assert_eq!(served.get(&format!("{location}/submitted")).await.text().await.expect("text"), sent);
        ids.push(id);
    }
    let with_id = served.post(thing("urn:a", "Lamp").to_string()).await;
    assert!(problem(with_id).await.1["detail"].as_str().expect("text").contains("PUT"));
    // It is changed with or without the id that it has now.
    let title = |title: &str| {
        let mut td = thing(&ids[0], title);
        td["id"] = json!(ids[0]);
        td
    };
    assert_eq!(served.put(&ids[0], title("A").to_string()).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(served.put(&ids[0], anonymous("B").to_string()).await.status(), StatusCode::NO_CONTENT);
    assert_eq!(served.json(&format!("/things/{}", ids[0])).await["id"], json!(ids[0]));
}

#[tokio::test]
async fn a_merge_patch_changes_a_part() {
    let served = Served::start(open()).await;
    served.have("urn:a", "Lamp").await;
    assert_eq!(
        served.patch("urn:a", &json!({ "title": "Light", "x:y": { "z": 1 } })).await.status(),
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        served.patch("urn:a", &json!({ "x:y": { "z": null, "w": 2 }, "registration": { "ttl": 60 } })).await.status(),
        StatusCode::NO_CONTENT
    );
    let changed = served.json("/things/urn:a").await;
    assert_eq!(
        (&changed["title"], &changed["x:y"], &changed["registration"]["ttl"]),
        (&json!("Light"), &json!({ "w": 2 }), &json!(60))
    );
    for (patch, status) in [
        (json!({ "title": null }), 400),
        (json!({ "security": "none" }), 400),
        (json!({ "id": "urn:b" }), 400),
        (json!([1]), 400),
    ] {
        assert_eq!(problem(served.patch("urn:a", &patch).await).await.0, status, "{patch}");
    }
    assert_eq!(problem(served.patch("urn:none", &json!({})).await).await.0, 404);
    let refused = problem(served.patch("urn:a", &json!({ "title": null })).await).await.1;
    assert!(!refused["validationErrors"].as_array().expect("a list").is_empty(), "{refused}");
    let as_json = served.request(Method::PATCH, "/things/urn:a").header("content-type", "text/plain").body("{}");
    assert_eq!(problem(as_json.send().await.expect("an answer")).await.0, 415);
    // Only what the writer has read is changed.
    let tag = served.get("/things/urn:a").await.headers()["etag"].clone();
    let with = |tag: reqwest::header::HeaderValue| {
        let request =
            served.request(Method::PATCH, "/things/urn:a").header("content-type", "application/merge-patch+json");
        request.header("if-match", tag).body("{\"title\":\"New\"}").send()
    };
    assert_eq!(with(tag.clone()).await.expect("an answer").status(), StatusCode::NO_CONTENT);
    assert_eq!(with(tag).await.expect("an answer").status(), StatusCode::PRECONDITION_FAILED);
}

#[tokio::test]
async fn a_registration_ends_when_it_said() {
    let served = Served::start(open()).await;
    let mut td = thing("urn:a", "Lamp");
    td["registration"] = json!({ "ttl": 60 });
    assert_eq!(served.put("urn:a", td.to_string()).await.status(), StatusCode::CREATED);
    let mut other = thing("urn:b", "Lamp");
    other["registration"] = json!({ "expires": "2023-11-14T22:14:00Z" });
    assert_eq!(served.put("urn:b", other.to_string()).await.status(), StatusCode::CREATED);
    let shown = served.json("/things/urn:a").await;
    assert_eq!(shown["registration"]["expires"], "2023-11-14T22:14:20.000Z");
    let entries = served.registry.checkpoint().head.size;
    served.now.store(NOW + 59_000, Ordering::SeqCst);
    assert_eq!(served.json("/things?format=collection").await["total"], 1);
    served.now.store(NOW + 60_000, Ordering::SeqCst);
    assert_eq!(served.json("/things").await, json!([]));
    assert_eq!(problem(served.get("/things/urn:a").await).await.0, 404);
    assert_eq!(served.registry.checkpoint().head.size, entries, "a life that passes needs no entry");
    assert_eq!(served.put("urn:a", thing("urn:a", "Lamp").to_string()).await.status(), StatusCode::CREATED);
    for wrong in [
        json!({ "ttl": 0 }),
        json!({ "ttl": -1 }),
        json!({ "ttl": "1" }),
        json!({ "expires": "soon" }),
        json!({ "expires": "2001-01-01T00:00:00Z" }),
        json!(null),
        json!([]),
    ] {
        let mut td = thing("urn:c", "Lamp");
        td["registration"] = wrong.clone();
        assert_eq!(problem(served.put("urn:c", td.to_string()).await).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_what_it_is() {
    let served = Served::start(open()).await;
    let valid = thing("urn:a", "Lamp").to_string();
    let deep = valid.replacen('{', &format!("{{\"x:deep\":{}1{},", "[".repeat(40), "]".repeat(40)), 1);
    let long = valid.replacen('{', &format!("{{\"x:long\":\"{}\",", "x".repeat(900_000)), 1);
    let longer = valid.replacen('{', &format!("{{\"x:long\":\"{}\",", "x".repeat(1_000_000)), 1);
    for (what, body, status) in [
        ("no JSON", "{", 400),
        ("no object", "[]", 400),
        ("no description", "{}", 400),
        ("too deep", &deep, 400),
        ("another id", &thing("urn:b", "Lamp").to_string(), 400),
        ("no id", &anonymous("Lamp").to_string(), 400),
        ("an id twice", &valid.replacen('{', "{\"id\":\"urn:b\",", 1), 400),
        ("an id twice, written otherwise", &valid.replacen('{', "{\"\\u0069d\":\"urn:b\",", 1), 400),
        ("a registration twice", &valid.replacen('{', "{\"registration\":{},\"registration\":{},", 1), 400),
        ("a scheme twice", &valid.replace("\"nosec\":{", "\"nosec\":{\"scheme\":\"basic\"},\"nosec\":{"), 400),
        ("long, and not too long", &long, 201),
        ("too long", &longer, 413),
    ] {
        let answer = served.put("urn:a", body.to_owned()).await;
        if status == 201 {
            assert_eq!(answer.status().as_u16(), status, "{what}");
            continue;
        }
        let (got, told) = problem(answer).await;
        assert_eq!(got, status, "{what}: {told}");
        assert!(!told["detail"].as_str().expect("text").is_empty(), "{what}");
    }
    let title = |answer| async { problem(answer).await.1["validationErrors"][0]["field"].clone() };
    assert_eq!(title(served.put("urn:a", deep).await).await, json!(format!("/x:deep{}", "/0".repeat(31))));
    for kind in ["text/plain", "application/xml", ""] {
        let request = served.request(Method::PUT, "/things/urn:a").header("content-type", kind).body(valid.clone());
        assert_eq!(problem(request.send().await.expect("an answer")).await.0, 415, "{kind}");
    }
    for id in ["lamp", "urn: a", &format!("urn:{}", "x".repeat(2_000))] {
        assert_eq!(problem(served.put(id, thing(id, "Lamp").to_string()).await).await.0, 400, "{id}");
    }
    for path in [
        "/things?offset=x",
        "/things?limit=0",
        "/things?sort_by=x",
        "/things?sort_order=x",
        "/things?format=x",
        "/things?after=a&sort_by=title",
    ] {
        assert_eq!(problem(served.get(path).await).await.0, 400, "{path}");
    }
    let none = served.request(Method::DELETE, "/things").send().await.expect("an answer");
    assert_eq!(problem(none).await.0, 405);
}

#[tokio::test]
async fn lists_are_paged_sorted_and_whole() {
    let served = Served::start(open()).await;
    for (at, name) in ["delta", "alpha", "echo", "charlie", "bravo"].into_iter().enumerate() {
        served.have(&format!("urn:example:{name}"), &format!("Lamp {}", 9 - at)).await;
    }
    let ids = |list: &Value| -> Vec<String> {
        let one = |td: &Value| td["id"].as_str().expect("an id").trim_start_matches("urn:example:").to_owned();
        list.as_array().expect("a list").iter().map(one).collect()
    };
    let sorted = ["alpha", "bravo", "charlie", "delta", "echo"];
    assert_eq!(ids(&served.json("/things").await), sorted);
    for (query, wanted) in [
        ("sort_order=desc", ["echo", "delta", "charlie", "bravo", "alpha"]),
        ("sort_by=title", ["bravo", "charlie", "echo", "alpha", "delta"]),
        ("sort_by=created", ["delta", "alpha", "echo", "charlie", "bravo"]),
        ("sort_by=modified&sort_order=desc", ["bravo", "charlie", "echo", "alpha", "delta"]),
    ] {
        assert_eq!(ids(&served.json(&format!("/things?{query}")).await), wanted, "{query}");
        // Page by page, by the links that are given.
        for format in ["array", "collection"] {
            let (mut next, mut all) = (Some(format!("/things?limit=2&{query}&format={format}")), Vec::new());
            while let Some(address) = next {
                let answer = served.get(&address).await;
                let links: Vec<String> = answer
                    .headers()
                    .get_all("link")
                    .iter()
                    .map(|link| link.to_str().expect("text").to_owned())
                    .collect();
                assert!(links.iter().any(|link| link.contains("rel=\"canonical\"; etag=")), "{links:?}");
                let link = links.iter().find(|link| link.contains("rel=\"next\""));
                next = link.map(|link| link[1..link.find('>').expect("its end")].to_owned());
                let page: Value = answer.json().await.expect("JSON");
                if format == "collection" {
                    assert_eq!((&page["@type"], &page["total"]), (&json!("ThingCollection"), &json!(5)));
                    assert_eq!(page.get("next").and_then(Value::as_str), next.as_deref());
                    all.extend(ids(&page["members"]));
                } else {
                    all.extend(ids(&page));
                }
            }
            assert_eq!(all, wanted, "{query} {format}");
        }
    }
    assert_eq!(ids(&served.json("/things?offset=3").await), ["delta", "echo"]);
    assert_eq!(ids(&served.json("/things?offset=9").await).len(), 0);
    let head = served.request(Method::HEAD, "/things").send().await.expect("an answer");
    assert_eq!(
        (head.status(), &head.headers()["content-type"]),
        (StatusCode::OK, &"application/ld+json".parse().expect("a header"))
    );
}

#[tokio::test]
async fn each_public_description_comes_back_unchanged() {
    let Some(folder) = public_vectors("td/valid") else { return };
    let served = Served::start(open()).await;
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("a readable folder");
        let (name, sent) = (entry.file_name(), std::fs::read(entry.path()).expect("a readable file"));
        let name = name.to_string_lossy();
        let value: Value = serde_json::from_slice(&sent).expect("JSON");
        let address = match value["id"].as_str().or_else(|| value["@id"].as_str()) {
            Some(id) => {
                let answer = served.put(id, sent.clone()).await;
                assert!(answer.status().is_success(), "{name}: {}", answer.text().await.expect("a reason"));
                format!("/things/{}", escaped(id))
            }
            None => served.post(sent.clone()).await.headers()["location"].to_str().expect("text").to_owned(),
        };
        let submitted = served.get(&format!("{address}/submitted")).await.bytes().await.expect("bytes");
        assert_eq!(submitted, sent, "{name}");
        let text = served.get(&address).await.text().await.expect("text");
        let mut wanted = String::from_utf8(sent).expect("text");
        if value.get("id").or_else(|| value.get("@id")).is_none() {
            let id = address.strip_prefix("/things/").expect("the address of a Thing");
            wanted = wanted.replacen('{', &format!("{{\"id\":\"{id}\","), 1);
        }
        assert_eq!(without_registration(&text), wanted, "{name}");
    }
}

#[tokio::test]
async fn only_holders_of_tokens_write_and_only_what_is_theirs() {
    let served = Served::start(Rules::default()).await;
    let (alice, bob) = (served.token("alice", TokenScope::Write), served.token("bob", TokenScope::Write));
    let (reader, admin) = (served.token("reader", TokenScope::Read), served.token("zed", TokenScope::Admin));
    let put = |token: Option<&str>, title: &str| {
        let request = served.request(Method::PUT, "/things/urn:a").header("content-type", TD);
        let request = request.body(thing("urn:a", title).to_string());
        match token {
            Some(token) => request.bearer_auth(token).send(),
            None => request.send(),
        }
    };
    let nobody = put(None, "Lamp").await.expect("an answer");
    assert_eq!(nobody.headers()["www-authenticate"], "Bearer");
    assert!(problem(nobody).await.1["detail"].as_str().expect("text").contains("token add NAME --scope things:write"));
    assert_eq!(problem(put(Some("wrong"), "Lamp").await.expect("an answer")).await.0, 401);
    let lacking = put(Some(&reader), "Lamp").await.expect("an answer");
    assert_eq!(lacking.headers()["www-authenticate"], "Bearer error=\"insufficient_scope\", scope=\"things:write\"");
    assert_eq!(lacking.status(), StatusCode::FORBIDDEN);
    assert_eq!(put(Some(&alice), "Lamp").await.expect("an answer").status(), StatusCode::CREATED);
    assert_eq!(problem(put(Some(&bob), "Lamp").await.expect("an answer")).await.0, 403);
    assert_eq!(put(Some(&admin), "Lamp").await.expect("an answer").status(), StatusCode::NO_CONTENT);
    assert_eq!(served.get("/things/urn:a").await.status(), StatusCode::OK, "everybody reads");
    served.remove_token("alice");
    assert_eq!(problem(put(Some(&alice), "Lamp").await.expect("an answer")).await.0, 401);
}

#[tokio::test]
async fn a_closed_directory_is_read_with_a_token() {
    let served = Served::start(Rules { is_closed: true, ..open() }).await;
    served.have("urn:a", "Lamp").await;
    let token = served.token("reader", TokenScope::Read);
    for path in ["/things", "/things/urn:a", "/things/urn:a/submitted", "/search/jsonpath?query=$[*]", "/events"] {
        assert_eq!(problem(served.get(path).await).await.0, 401, "{path}");
        let read = served.request(Method::GET, path).bearer_auth(&token).send().await.expect("an answer");
        assert_eq!(read.status(), StatusCode::OK, "{path}");
    }
    let described = served.json("/.well-known/wot").await;
    assert_eq!(described["security"], json!(["token"]), "whoever comes reads how to come in");
}

#[tokio::test]
async fn a_writer_has_a_quota() {
    let each = Amount { things: 2, bytes: 10_000 };
    let quotas = Quotas { all: Amount { things: 3, bytes: 20_000 }, each };
    let served = Served::start(Rules { quotas, ..open() }).await;
    served.have("urn:a", "Lamp").await;
    served.have("urn:b", "Lamp").await;
    let (status, told) = problem(served.put("urn:c", thing("urn:c", "Lamp").to_string()).await).await;
    assert_eq!(status, 403, "{told}");
    assert!(told["detail"].as_str().expect("text").contains("delete some"), "{told}");
    assert_eq!(served.delete("urn:a").await, StatusCode::NO_CONTENT);
    served.have("urn:c", "Lamp").await;
}

/// How many descriptions are on disk.
fn kept(served: &Served) -> usize {
    served.store.scan(Family("things"), Range::all(100)).expect("it reads").len()
}

#[tokio::test]
async fn what_is_gone_is_not_kept() {
    let served = Served::start(open()).await;
    for title in ["A", "B", "C", "D"] {
        served.have("urn:a", title).await;
    }
    assert_eq!(kept(&served), 2, "the newest and the one before it");
    assert_eq!(served.delete("urn:a").await, StatusCode::NO_CONTENT);
    assert_eq!(kept(&served), 0);
    let mut short = thing("urn:b", "Lamp");
    short["registration"] = json!({ "ttl": 1 });
    for _ in 0..2 {
        assert!(served.put("urn:b", short.to_string()).await.status().is_success());
    }
    assert_eq!(kept(&served), 2);
    served.now.store(NOW + 1_000, Ordering::SeqCst);
    served.have("urn:c", "Lamp").await;
    assert_eq!(kept(&served), 1, "what has ended goes with the next entry");
    let served = served.again().await;
    assert_eq!(served.json("/things?format=collection").await["total"], 1);
}

#[tokio::test]
async fn patches_at_one_time_are_all_kept() {
    let served = Served::start(open()).await;
    served.have("urn:a", "Lamp").await;
    let patches: Vec<Value> = (0..6).map(|at| json!({ format!("x:{at}"): at })).collect();
    let answers = futures::future::join_all(patches.iter().map(|patch| served.patch("urn:a", patch))).await;
    assert!(answers.iter().all(|answer| answer.status() == StatusCode::NO_CONTENT));
    let patched = served.json("/things/urn:a").await;
    assert!((0..6).all(|at| patched[format!("x:{at}")] == at), "{patched}");
}
