//! A Thing as a server of tools, over HTTP on loopback: its state follows what its description does.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_execution::AgentState;
use althing_execution::tools::{Fault, ToolServer};
use althing_td::Place;
use althing_things::{LookError, Seen, Terms, ThingServer, Web, look, plan};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A Thing that answers as it is told, and keeps what it was asked.
struct Lamp {
    url: String,
    td: Arc<Mutex<Value>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Lamp {
    async fn start() -> Lamp {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/lamp", listener.local_addr().expect("bound"));
        let lamp = Lamp { url, td: Arc::new(Mutex::new(td())), asked: Arc::default() };
        let (td, asked) = (lamp.td.clone(), lamp.asked.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 8_192];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let body = match request.split(' ').nth(1).unwrap_or_default() {
                    "/lamp" => td.lock().expect("whole").to_string(),
                    _ => "7".to_owned(),
                };
                asked.lock().expect("whole").push(request);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
                // Whoever asked may be gone.
                let _ = stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await;
            }
        });
        lamp
    }

    fn server(&self, secret: Option<&str>, agreed: Option<String>) -> ThingServer {
        let terms = Terms { has_secret: secret.is_some(), ..Terms::default() };
        let url = self.url.parse().expect("an address");
        ThingServer::new("lamp", Web::default(), url, secret.map(str::to_owned), terms, agreed)
    }

    fn digest(&self) -> String {
        let td = self.td.lock().expect("whole").clone();
        plan(td.as_object().expect("an object"), &self.url.parse().expect("an address"), &Terms::default()).digest
    }
}

fn td() -> Value {
    json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1",
        "title": "Lamp",
        "securityDefinitions": { "none": { "scheme": "nosec" }, "key": { "scheme": "bearer" } },
        "security": "none",
        "properties": { "level": { "type": "integer", "readOnly": true, "forms": [{ "href": "/level" }] } },
        "actions": { "off": { "forms": [{ "href": "/off", "security": "key" }] } },
    })
}

#[tokio::test]
async fn a_secret_is_sent_where_the_form_asks_for_it_and_nowhere_else() {
    let lamp = Lamp::start().await;
    let server = lamp.server(Some("sesame"), Some(lamp.digest()));
    let names: Vec<String> = server.tools().await.expect("tools").into_iter().map(|tool| tool.name).collect();
    assert_eq!((names, server.state()), (vec!["off".to_owned(), "read_level".to_owned()], AgentState::Ready));
    let level = server.call("read_level", json!({})).await.expect("an answer");
    assert_eq!(level["content"][0]["text"], "7");
    server.call("off", json!({})).await.expect("an answer");
    let asked = lamp.asked.lock().expect("whole").clone();
    let with_secret: Vec<&str> =
        asked.iter().filter(|one| one.contains("sesame")).filter_map(|one| one.split(' ').nth(1)).collect();
    assert_eq!(with_secret, ["/off"], "{asked:?}");
}

#[tokio::test]
async fn odd_affordances_spoil_neither_the_other_tools_nor_what_was_agreed_to() {
    let lamp = Lamp::start().await;
    let agreed = lamp.digest();
    {
        let mut td = lamp.td.lock().expect("whole");
        td["properties"]["bare"] = json!({ "type": "integer" });
        td["properties"]["gone"] = json!(null);
        td["actions"]["fly"] = json!({ "forms": [{ "href": "/fly", "op": "fly" }] });
        td["events"] = json!(null);
        td["version"] = json!("1.0");
        td["securityDefinitions"]["new"] = json!({ "scheme": "dpop" });
    }
    let Ok(Seen::Thing(read, notes)) = look(&Web::default(), &lamp.url.parse().expect("an address"), None).await else {
        panic!("a Thing")
    };
    assert_eq!(Value::Object(read), td(), "what is good in it");
    let places: Vec<&str> = notes.iter().map(|(at, _)| at.as_str()).collect();
    let odd =
        ["/securityDefinitions/new", "/properties/bare", "/properties/gone", "/actions/fly", "/events", "/version"];
    assert_eq!(places, odd);
    let server = lamp.server(Some("sesame"), Some(agreed));
    let names: Vec<String> = server.tools().await.expect("tools").into_iter().map(|tool| tool.name).collect();
    assert_eq!((names, server.state()), (vec!["off".to_owned(), "read_level".to_owned()], AgentState::Ready));
    server.stop().await;
}

#[tokio::test]
async fn what_says_that_it_is_a_description_is_no_agent_and_no_server_of_tools() {
    let lamp = Lamp::start().await;
    let shows = async |td: Value| {
        *lamp.td.lock().expect("whole") = td;
        look(&Web::default(), &lamp.url.parse().expect("an address"), None).await
    };
    let seen = shows(json!({ "@context": "https://www.w3.org/2022/wot/td/v1.1", "properties": [] })).await;
    assert!(matches!(seen, Ok(Seen::Thing(..))), "{seen:?}");
    let card = shows(json!({ "name": "a card" })).await.expect_err("no Thing");
    assert!(!card.is_final(), "another guess may be right: {card}");
    assert!(LookError::Invalid(String::new()).is_final());
}

#[tokio::test]
async fn another_description_than_the_agreed_one_is_not_used() {
    let lamp = Lamp::start().await;
    let agreed = lamp.digest();
    lamp.td.lock().expect("whole")["actions"]["off"]["forms"][0]["href"] = json!("/open-door");
    let server = lamp.server(Some("sesame"), Some(agreed));
    assert!(matches!(server.tools().await, Err(Fault::Failed(why)) if why.contains("another description")));
    assert!(matches!(server.state(), AgentState::Suspended { why } if why.contains("adopt --accept lamp")));
    assert!(server.call("off", json!({})).await.is_err());
    assert!(!lamp.asked.lock().expect("whole").iter().any(|asked| asked.contains("open-door")));
}

/// SR-4: whoever has a name that led elsewhere could let it lead to a program of this machine.
#[tokio::test]
async fn a_name_is_followed_only_where_it_led_for_the_description_and_for_each_call() {
    let lamp = Lamp::start().await;
    let named = lamp.url.replace("127.0.0.1", "localhost");
    let server = |url: &str, places: &[Place], terms: Terms| {
        ThingServer::new("lamp", Web::leading_to(places), url.parse().expect("an address"), None, terms, None)
    };
    let near = server(&named, &[Place::ThisMachine], Terms::default());
    assert_eq!(near.call("read_level", json!({})).await.expect("an answer")["content"][0]["text"], "7");
    near.stop().await;
    lamp.asked.lock().expect("whole").clear();

    let far = server(&named, &[Place::PrivateNet, Place::Internet], Terms::default());
    let Err(Fault::Failed(why)) = far.call("read_level", json!({})).await else { panic!("it leads to this machine") };
    assert!(!why.contains("127.0.0.1"), "{why}");
    assert!(matches!(far.state(), AgentState::Unreachable { why } if why.contains("leads to")), "{:?}", far.state());
    far.stop().await;
    assert_eq!(*lamp.asked.lock().expect("whole"), [""; 0], "nobody connected");

    // The same of a name that the owner allowed its forms; the address of the description is digits, which lead nowhere else.
    let origin = named.trim_end_matches("/lamp").to_owned();
    lamp.td.lock().expect("whole")["properties"]["level"]["forms"][0]["href"] = json!(format!("{origin}/level"));
    let terms = Terms { allowed: [origin].into(), ..Terms::default() };
    let allowed = server(&lamp.url, &[Place::Internet], terms);
    assert!(allowed.call("read_level", json!({})).await.is_err());
    allowed.stop().await;
    let asked = lamp.asked.lock().expect("whole").clone();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.starts_with("GET /lamp ")), "{asked:?}");
}

#[tokio::test]
async fn a_thing_that_does_not_answer_says_so_without_its_address() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/lamp", closed.local_addr().expect("bound"));
    drop(closed);
    let url = url.parse().expect("an address");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = ThingServer::new("lamp", Web::default(), url, None, Terms::default(), None);
    let Err(Fault::Failed(why)) = server.tools().await else { panic!("it answers") };
    assert!(!why.contains("127.0.0.1"), "{why}");
    assert!(matches!(server.state(), AgentState::Unreachable { why } if why.contains("nothing listens at")));
    tokio::time::timeout(Duration::from_secs(5), server.stop()).await.expect("it stops");
}
