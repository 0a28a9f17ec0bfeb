//! What the directory does with what it has: agents, searches, events, its own description.

use std::time::Duration;

use crate::support::{NOW, Rules, Served, anonymous, escaped, open, problem, thing};
use althing_protocol::object::{self, Authored, Description};
use althing_protocol::registry::{Audience, Mark, Release, Standing, Submission};
use althing_protocol::{AgentId, KeyLog, SecretKey, keylog};
use althing_registry::tokens::TokenScope;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

/// A publisher of one agent.
struct Publisher {
    key: SecretKey,
    log: KeyLog,
    agent: AgentId,
}

impl Publisher {
    fn new() -> Publisher {
        let [key, next, other] = [1, 2, 3].map(|seed| SecretKey::from_seed(&[seed; 32]));
        let inception = keylog::inception(&key, [next.public(), other.public()], NOW - 1_000);
        let log = KeyLog::verify(&[inception.bytes]).expect("an inception");
        let agent = AgentId::new(log.publisher(), "echo").expect("a name");
        Publisher { key, log, agent }
    }

    fn described(&self, version: &str) -> Authored<Description> {
        let td = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
            "@type": "lmos:Agent", "id": self.agent.to_string(), "title": "Echo", "version": { "instance": version },
            "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        });
        let body = Description::new(self.agent.clone(), NOW, NOW, td.to_string().into_bytes());
        object::sign(body, "test", "", &self.key).expect("a good description")
    }

    async fn sends(&self, served: &Served, statement: Vec<u8>, described: Vec<Vec<u8>>) {
        let submission = Submission {
            key_log: self.log.to_bytes().into_iter().map(Into::into).collect(),
            statements: vec![statement.into()],
            descriptions: described.into_iter().map(Into::into).collect(),
        };
        served.registry.submit(&submission).await.expect("it is accepted");
    }

    async fn releases(&self, served: &Served, version: &str, sequence: u64) -> Vec<u8> {
        let described = self.described(version);
        let number = version.parse().expect("a version");
        let mut body = Release::new(self.agent.clone(), number, described.digest(), Audience::public(), NOW);
        body.sequence = sequence;
        let release = object::sign(body, "test", "", &self.key).expect("a good release");
        self.sends(served, release.bytes, vec![described.bytes]).await;
        described.body.td.to_vec()
    }

    async fn marks(&self, served: &Served, version: &str, standing: Standing, sequence: u64) {
        let number = version.parse().expect("a version");
        let mut body = Mark::new(self.agent.clone(), number, standing, "why", NOW);
        body.sequence = sequence;
        let mark = object::sign(body, "test", "", &self.key).expect("a good mark");
        self.sends(served, mark.bytes, Vec::new()).await;
    }
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|td| td["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn released_agents_are_things_that_only_their_publisher_changes() {
    let (served, alice) = (Served::start(open()).await, Publisher::new());
    let agent = alice.agent.to_string();
    for id in ["urn:a", "urn:z", "https://example.org/lamp"] {
        served.have(id, "Lamp").await;
    }
    let first = alice.releases(&served, "1.0.0", 1).await;
    let path = format!("/things/{agent}");
    let shown = served.json(&path).await;
    assert_eq!(
        (&shown["version"]["instance"], &shown["registration"]["created"]),
        (&json!("1.0.0"), &json!("2023-11-14T22:13:20.000Z"))
    );
    assert_eq!(served.get(&format!("{path}/submitted")).await.bytes().await.expect("bytes"), first);
    alice.releases(&served, "1.1.0", 2).await;
    assert_eq!(served.json(&path).await["version"]["instance"], "1.1.0");
    // Ids are the order, whoever they belong to, and on every page.
    let sorted = ["https://example.org/lamp", "urn:a", &agent, "urn:z"];
    assert_eq!(ids(&served.json("/things").await), sorted);
    for offset in 0..4 {
        assert_eq!(ids(&served.json(&format!("/things?limit=1&offset={offset}")).await), [sorted[offset]]);
        let after = format!("/things?limit=1&after={}", sorted[offset]);
        assert_eq!(ids(&served.json(&after).await), sorted[offset + 1..].iter().take(1).copied().collect::<Vec<_>>());
    }
    assert_eq!(served.json("/things?format=collection&limit=1").await["total"], 4);
    for answer in [
        served.put(&agent, thing(&agent, "Stolen").to_string()).await,
        served.put("URN:ALTHING:z:x", thing("URN:ALTHING:z:x", "Stolen").to_string()).await,
        served.patch(&agent, &json!({ "title": "Stolen" })).await,
    ] {
        let (status, told) = problem(answer).await;
        assert_eq!(status, 403);
        assert!(told["detail"].as_str().expect("text").contains("althing publish"), "{told}");
    }
    assert_eq!(served.delete(&agent).await, StatusCode::FORBIDDEN);
    alice.marks(&served, "1.1.0", Standing::Yanked, 3).await;
    assert_eq!(served.json(&path).await["version"]["instance"], "1.0.0");
    alice.marks(&served, "1.0.0", Standing::Revoked, 4).await;
    assert_eq!(problem(served.get(&path).await).await.0, 404);
    assert_eq!(ids(&served.json("/things").await).len(), 3);
}

async fn search(served: &Served, query: &str) -> Response {
    served.get(&format!("/search/jsonpath?query={}", escaped(query))).await
}

#[tokio::test]
async fn a_search_selects_in_all_descriptions() {
    let (served, alice) = (Served::start(open()).await, Publisher::new());
    for (id, title) in [("urn:a", "Lamp"), ("urn:b", "Pump"), ("urn:c", "Lamp")] {
        served.have(id, title).await;
    }
    alice.releases(&served, "1.0.0", 1).await;
    let anonymous = served.post(anonymous("Lamp \u{e9}\\").to_string()).await;
    assert_eq!(anonymous.status(), StatusCode::CREATED);
    for (query, wanted) in [
        ("$[?@.title=='Lamp'].id", json!(["urn:a", "urn:c"])),
        ("$[?@.title=='Echo'].version.instance", json!(["1.0.0"])),
        ("$[?@.title=='Nothing']", json!([])),
        ("$[?search(@.title,'^P')].title", json!(["Pump"])),
        ("$[?@.title=='Lamp é\\\\'].title", json!(["Lamp é\\"])),
        ("$[?@.id=='urn:b'].registration.created", json!(["2023-11-14T22:13:20.000Z"])),
        ("$..instance", json!(["1.0.0"])),
        ("$[?@.id < 'urn:b' && !@.version].id", json!(["urn:a"])),
    ] {
        let answer = search(&served, query).await;
        assert_eq!(answer.status(), StatusCode::OK, "{query}");
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.json::<Value>().await.expect("JSON"), wanted, "{query}");
    }
    for (query, says) in [
        ("$[", "RFC 9535"),
        ("$[0]", "/things?offset"),
        ("$[?match(@.title,'(L{9}){9}')]", "out as aaa?"),
        ("$[?match(@.title,@.id)]", "in the query itself"),
        (&format!("$[?@.a=='{}']", "x".repeat(2_000)), "at most"),
    ] {
        let (status, told) = problem(search(&served, query).await).await;
        assert_eq!(status, 400, "{query}");
        assert!(told["detail"].as_str().expect("text").contains(says), "{told}");
    }
    assert_eq!(problem(served.get("/search/jsonpath").await).await.0, 400);
    assert_eq!(problem(served.get("/search/sparql?query=x").await).await.0, 501);
    for at in 0..10 {
        let mut large = thing(&format!("urn:large:{at}"), "Large");
        large["x:text"] = json!("x".repeat(890_000));
        assert_eq!(served.put(&format!("urn:large:{at}"), large.to_string()).await.status(), StatusCode::CREATED);
    }
    let (status, told) = problem(search(&served, "$[?@.title=='Large']").await).await;
    assert_eq!((status, told["detail"].as_str().expect("text").contains("select less")), (422, true), "{told}");
    let ids = search(&served, "$[?@.title=='Large'].id").await.json::<Value>().await.expect("JSON");
    assert_eq!(ids.as_array().map(Vec::len), Some(10));
    let wide = json!({ "x:wide": vec![0; 10_000] });
    assert_eq!(served.patch("urn:a", &wide).await.status(), StatusCode::NO_CONTENT);
    let (status, told) = problem(search(&served, "$..*[?@.x]").await).await;
    assert_eq!((status, told["detail"].as_str().expect("text").contains("urn:a")), (400, true), "{told}");
}

/// Reads events until there are so many; each is its fields.
async fn events(mut answer: Response, count: usize) -> Vec<(u64, String, Value)> {
    assert_eq!(
        (answer.status(), &answer.headers()["content-type"]),
        (StatusCode::OK, &"text/event-stream".parse().expect("a header"))
    );
    let mut text = String::new();
    while text.matches("\n\n").count() < count {
        let more = tokio::time::timeout(Duration::from_secs(30), answer.chunk()).await.expect("it comes soon");
        text.push_str(std::str::from_utf8(&more.expect("it comes").expect("it goes on")).expect("text"));
    }
    let field = |event: &str, name: &str| {
        event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim().to_owned()
    };
    let events = text.split("\n\n").filter(|event| event.contains("data:"));
    let read = |event: &str| {
        let id = field(event, "id").parse().expect("an index");
        (id, field(event, "event"), serde_json::from_str(&field(event, "data")).expect("JSON"))
    };
    events.map(read).collect()
}

#[tokio::test]
async fn events_are_told_when_they_happen_and_again_from_any_id() {
    let (served, alice) = (Served::start(open()).await, Publisher::new());
    served.have("urn:old", "Before").await;
    let live = served.get("/events").await;
    served.have("urn:a", "Lamp").await;
    let patch = json!({ "title": "Light", "x:y": 1 });
    assert!(served.patch("urn:a", &patch).await.status().is_success());
    assert_eq!(served.delete("urn:a").await, StatusCode::NO_CONTENT);
    let name = |name: &str| name.to_owned();
    let all = [
        (1, name("thing_created"), json!({ "id": "urn:a" })),
        (2, name("thing_updated"), json!({ "id": "urn:a" })),
        (3, name("thing_deleted"), json!({ "id": "urn:a" })),
    ];
    assert_eq!(events(live, 3).await, all);
    let served = served.again().await;
    let from = |path: &str, last: &str| served.request(reqwest::Method::GET, path).header("last-event-id", last).send();
    assert_eq!(events(from("/events", "0").await.expect("an answer"), 3).await, all);
    assert_eq!(events(from("/events/thing_updated", "0").await.expect("an answer"), 1).await, all[1..2]);
    assert_eq!(events(from("/events/thing_deleted?unnamed", "0").await.expect("an answer"), 1).await[0].1, "");
    // What is gone is told by its id alone; what is there as a whole, and its last change as a patch.
    served.have("urn:b", "Lamp").await;
    assert!(served.patch("urn:b", &patch).await.status().is_success());
    alice.releases(&served, "1.0.0", 1).await;
    let told = events(from("/events?diff=true", "0").await.expect("an answer"), 6).await;
    assert_eq!(told[0].2, json!({ "id": "urn:a" }));
    assert_eq!((&told[3].2["id"], &told[3].2["title"]), (&json!("urn:b"), &json!("Lamp")));
    assert_eq!(told[4].2, json!({ "id": "urn:b", "title": "Light", "x:y": 1 }));
    assert_eq!((told[5].1.as_str(), &told[5].2["version"]["instance"]), ("thing_created", &json!("1.0.0")));
    alice.marks(&served, "1.0.0", Standing::Revoked, 2).await;
    let last = told[5].0.to_string();
    let told = events(from("/events", &last).await.expect("an answer"), 1).await;
    assert_eq!((told[0].1.as_str(), &told[0].2), ("thing_deleted", &json!({ "id": alice.agent.to_string() })));
    let whole = events(served.get("/events?from=0&diff").await, 8).await;
    assert_eq!((whole[0].0, &whole[0].2["title"], whole.len()), (0, &json!("Before"), 8));
    assert_eq!(problem(from("/events", "x").await.expect("an answer")).await.0, 400);
    assert_eq!(problem(served.get("/events?from=x").await).await.0, 400);
    assert_eq!(problem(served.get("/events/thing_lost").await).await.0, 404);
}

#[tokio::test]
async fn who_waits_for_an_event_is_told_nothing_once_its_token_is_taken_back() {
    let served = Served::start(Rules { is_closed: true, ..open() }).await;
    let token = served.token("reader", TokenScope::Read);
    let request = served.request(reqwest::Method::GET, "/events").bearer_auth(token);
    let mut answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(30), answer.chunk()).await.expect("it comes soon");
        next.expect("it is read").map(|bytes| String::from_utf8(bytes.to_vec()).expect("text"))
    };
    served.have("urn:a", "Lamp").await;
    let mut told = String::new();
    while !told.contains("urn:a") {
        told += &next().await.expect("it goes on");
    }
    // By now it is asked for the next one.
    served.remove_token("reader");
    served.have("urn:b", "Pump").await;
    while let Some(more) = next().await {
        told += &more;
    }
    assert!(!told.contains("urn:b"), "{told}");
}

#[tokio::test]
async fn the_directory_describes_itself_by_a_valid_description() {
    let served = Served::start(open()).await;
    let answer = served.get("/.well-known/wot").await;
    assert_eq!(answer.headers()["content-type"], crate::support::TD);
    let text = answer.text().await.expect("text");
    let report = althing_td::validate(text.as_bytes());
    assert!(report.findings.is_empty(), "{report}");
    let td: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&td["@type"], &td["base"]), (&json!("ThingDirectory"), &json!(format!("{}/", served.url))));
    assert_eq!(td["id"], json!(served.registry.note_key().key().did()));
    for action in [
        "createThing",
        "createAnonymousThing",
        "retrieveThing",
        "updateThing",
        "partiallyUpdateThing",
        "deleteThing",
        "searchJSONPath",
    ] {
        assert!(td["actions"][action].is_object(), "{action}");
    }
    // It may be registered in another directory.
    let other = Served::start(open()).await;
    let id = td["id"].as_str().expect("an id");
    assert_eq!(other.put(id, text).await.status(), StatusCode::CREATED);
}
