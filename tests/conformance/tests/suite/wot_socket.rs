//! The LMOS sub-protocol of WebSocket: what a client asks in the names of the specification, and in those of its SDK, of
//! an agent on the gateway's node and of one on another node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use althing_conformance::gateway::Gateway;
use althing_conformance::mesh::{Node, file, store};
use althing_conformance::world::until;
use althing_discovery::Query;
use althing_gateway::{Access, Scope, User, Users};
use althing_simnet::{LinkConfig, SimNet};
use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

struct Scene {
    gateway: Gateway,
    _nodes: [Node; 2],
}

impl Scene {
    async fn start() -> Scene {
        let net = SimNet::new(1, LinkConfig::default());
        let here = Node::start(&net, 1, 100, &[], store()).await;
        let there = Node::start(&net, 2, 100, &[], store()).await;
        for (node, name) in [(&here, "near"), (&there, "far")] {
            node.host(&file(name, "Acts as it is told", "acting.do", "do", "play")).await;
        }
        here.connect(&there).await;
        until("the agents are found", || here.discovery.find(&Query::default()).0.len() == 2).await;
        Scene { gateway: Gateway::start(&here, None).await, _nodes: [here, there] }
    }

    /// A client that found the WebSocket in the description.
    async fn client(&self, agent: &str) -> Client {
        let td = self.gateway.get(&format!("/things/{agent}")).await.json();
        let form = &td["actions"]["chat"]["forms"][1];
        assert_eq!(form["subprotocol"], "lmosprotocol");
        let mut request = form["href"].as_str().expect("an address").into_client_request().expect("an address");
        request.headers_mut().insert("Sec-WebSocket-Protocol", "lmosprotocol".parse().expect("a header"));
        let stream = TcpStream::connect(&self.gateway.host).await.expect("it listens");
        let (socket, response) = tokio_tungstenite::client_async(request, stream).await.expect("a WebSocket");
        assert_eq!(response.headers()["sec-websocket-protocol"], "lmosprotocol");
        Client { socket, thing: td["id"].as_str().expect("an id").to_owned() }
    }
}

/// A user whose token is taken back.
#[derive(Debug, Default)]
struct Alice(AtomicBool);

impl Users for Alice {
    fn is_used(&self) -> bool {
        true
    }

    fn of_token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<User>> {
        let user = User { name: "alice".to_owned(), scopes: [Scope::Call].into(), agents: [].into() };
        Box::pin(std::future::ready((!self.0.load(Ordering::SeqCst)).then_some(user)))
    }
}

#[tokio::test]
async fn a_socket_ends_soon_after_its_token() {
    let net = SimNet::new(1, LinkConfig::default());
    let here = Node::start(&net, 1, 100, &[], store()).await;
    here.host(&file("near", "Acts as it is told", "acting.do", "do", "play")).await;
    let alice = Arc::new(Alice::default());
    let gateway = Gateway::with(&here, Access { users: vec![alice.clone()], ..Access::default() }).await;
    let mut request = format!("ws://{}/things/near/ws", gateway.host).into_client_request().expect("an address");
    request.headers_mut().insert("Sec-WebSocket-Protocol", "lmosprotocol".parse().expect("a header"));
    request.headers_mut().insert("Authorization", "Bearer hers".parse().expect("a header"));
    let stream = TcpStream::connect(&gateway.host).await.expect("it listens");
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.expect("a WebSocket");
    tokio::time::pause();
    let open = async { while !matches!(socket.next().await, Some(Ok(Message::Close(_))) | None) {} };
    assert!(tokio::time::timeout(Duration::from_secs(42), open).await.is_err(), "it is open while the token is good");
    alice.0.store(true, Ordering::SeqCst);
    let gone = tokio::time::Instant::now();
    let told = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.reason.to_string()),
                Some(Ok(_)) => {}
                _ => return None,
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), told).await.expect("it ends").unwrap_or_default();
    assert!(told.contains("token"), "{told}");
    assert!(gone.elapsed() <= Duration::from_secs(10), "{:?}", gone.elapsed());
}

/// Browsers let any page open a WebSocket, and read what comes.
#[tokio::test]
async fn pages_of_other_servers_on_this_machine_open_no_socket() {
    let scene = Scene::start().await;
    let open = async |origin: Option<String>| {
        let address = format!("ws://{}/things/near/ws", scene.gateway.host);
        let mut request = address.into_client_request().expect("an address");
        request.headers_mut().insert("Sec-WebSocket-Protocol", "lmosprotocol".parse().expect("a header"));
        if let Some(origin) = origin {
            request.headers_mut().insert("Origin", origin.parse().expect("a header"));
        }
        let stream = TcpStream::connect(&scene.gateway.host).await.expect("it listens");
        tokio_tungstenite::client_async(request, stream).await.is_ok()
    };
    for origin in ["http://localhost:3000", "http://127.0.0.1", "null", "https://evil.example"] {
        assert!(!open(Some(origin.to_owned())).await, "{origin}");
    }
    assert!(open(None).await, "a program");
    assert!(open(Some(format!("http://{}", scene.gateway.host))).await, "a page of this gateway");
}

struct Client {
    socket: WebSocketStream<TcpStream>,
    thing: String,
}

impl Client {
    async fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).await.expect("it is open");
    }

    async fn next(&mut self) -> Value {
        loop {
            match self.socket.next().await.expect("it is open").expect("a message") {
                Message::Text(text) => return serde_json::from_str(&text).expect("JSON"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// In the names of the specification.
    async fn ask(&mut self, kind: &str, members: &Value) -> Value {
        let mut message =
            json!({ "thingID": self.thing, "messageID": "m-1", "messageType": kind, "correlationID": "c-1" });
        message.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        self.send(&message).await;
        let answer = self.next().await;
        assert_eq!((&answer["thingID"], &answer["correlationID"]), (&json!(self.thing), &json!("c-1")), "{answer}");
        assert!(answer["messageID"].as_str().is_some_and(|id| id != "m-1"), "{answer}");
        answer
    }
}

fn says(text: &str) -> Value {
    json!({ "action": "chat", "input": { "messages": [{ "role": "user", "content": text }] } })
}

#[tokio::test]
async fn actions_and_properties_are_served_by_the_specifications_names() {
    let scene = Scene::start().await;
    for agent in ["near", "far"] {
        let mut client = scene.client(agent).await;
        let nothing = client.ask("queryAction", &json!({ "action": "chat" })).await;
        assert_eq!((&nothing["messageType"], &nothing["status"]), (&json!("error"), &json!("404")));
        let done = client.ask("invokeAction", &says("hello")).await;
        assert_eq!(
            (&done["messageType"], &done["status"], &done["action"]),
            (&json!("actionStatus"), &json!("completed"), &json!("chat"))
        );
        assert_eq!(done["output"]["messages"][0]["content"], "hello");
        let queried = client.ask("queryAction", &json!({ "action": "chat" })).await;
        assert_eq!((&queried["status"], &queried["output"]["status"]), (&json!("completed"), &json!("completed")));
        let over = client.ask("cancelAction", &json!({ "action": "chat" })).await;
        assert_eq!((&over["messageType"], &over["status"]), (&json!("error"), &json!("409")));
        let read = client.ask("readProperty", &json!({ "name": "status" })).await;
        assert_eq!(
            (&read["messageType"], &read["name"], &read["value"]["local"]),
            (&json!("propertyReading"), &json!("status"), &json!(agent == "near"))
        );
        assert!(read["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{read}");
        let all = client.ask("readAllProperties", &json!({})).await;
        assert_eq!((&all["messageType"], &all["data"]["tasks"]["total"]), (&json!("propertyReadings"), &json!(1)));
        let one = client.ask("readMultipleProperties", &json!({ "properties": ["status"] })).await;
        assert_eq!(one["data"].as_object().map(serde_json::Map::len), Some(1));
    }
}

/// As the SDK for Kotlin asks: other names, and the correlation is the id of the request.
#[tokio::test]
async fn the_names_of_the_sdk_are_answered_in_the_same() {
    let scene = Scene::start().await;
    for agent in ["near", "far"] {
        let mut client = scene.client(agent).await;
        let thing = client.thing.clone();
        let mut asked = json!({ "thingId": thing, "messageId": "k-1", "messageType": "invokeAction" });
        asked.as_object_mut().expect("an object").extend(says("hello").as_object().expect("an object").clone());
        client.send(&asked).await;
        let done = client.next().await;
        assert_eq!(
            (&done["thingId"], &done["correlationId"], &done["status"]),
            (&json!(thing), &json!("k-1"), &json!("completed"))
        );
        client
            .send(&json!({ "thingId": thing, "messageId": "k-2", "messageType": "readProperty", "property": "status" }))
            .await;
        let read = client.next().await;
        assert_eq!((&read["property"], &read["data"]["available"]), (&json!("status"), &json!(true)));
        client.send(&json!({ "thingId": thing, "messageId": "k-3", "messageType": "subscribeevent", "event": "agentEvent" })).await;
        let subscribed = client.next().await;
        assert_eq!(
            (&subscribed["messageType"], &subscribed["correlationId"]),
            (&json!("acknowledgement"), &json!("k-3"))
        );
        // What another consumer invokes by HTTP is told here.
        let input = says("pieces")["input"].clone();
        scene.gateway.post(&format!("/things/{agent}/actions/chat"), &input).await;
        let mut told = client.next().await;
        assert_eq!(
            (&told["messageType"], &told["event"], &told["data"]["type"]),
            (&json!("event"), &json!("agentEvent"), &json!("task"))
        );
        while !told["data"]["payload"].as_str().is_some_and(|payload| payload.contains("TASK_STATE_COMPLETED")) {
            told = client.next().await;
        }
        client.send(&json!({ "thingId": thing, "messageId": "k-4", "messageType": "unsubscribeEvent", "event": "agentEvent" })).await;
        let gone = client.next().await;
        assert_eq!((&gone["messageType"], &gone["message"]), (&json!("acknowledgement"), &json!("unsubscribed")));
    }
}

#[tokio::test]
async fn a_running_action_can_be_cancelled_on_its_connection() {
    let scene = Scene::start().await;
    for agent in ["near", "far"] {
        let mut client = scene.client(agent).await;
        let mut asked = json!({ "thingID": client.thing, "messageID": "m-0", "messageType": "invokeAction" });
        asked.as_object_mut().expect("an object").extend(says("stuck").as_object().expect("an object").clone());
        client.send(&asked).await;
        let mut pending = client.ask("queryAction", &json!({ "action": "chat" })).await;
        while pending["messageType"] == "error" {
            pending = client.ask("queryAction", &json!({ "action": "chat" })).await;
        }
        assert_eq!(pending["status"], "pending");
        client.send(&json!({ "thingID": client.thing, "messageID": "m-9", "messageType": "cancelAction", "action": "chat" })).await;
        let both = [client.next().await, client.next().await];
        let of =
            |correlation: &str| both.iter().find(|answer| answer["correlationID"] == correlation).expect("an answer");
        assert_eq!((&of("m-9")["messageType"], &of("m-9")["status"]), (&json!("actionStatus"), &json!("failed")));
        assert_eq!((&of("m-0")["messageType"], &of("m-0")["status"]), (&json!("error"), &json!("409")));
    }
}

#[tokio::test]
async fn what_cannot_be_served_is_an_error_and_the_connection_stays() {
    let scene = Scene::start().await;
    let mut client = scene.client("near").await;
    for text in ["", "{", "[]", "{\"messageType\":\"readProperty\"}"] {
        client.socket.send(Message::text(text)).await.expect("it is open");
        let refused = client.next().await;
        assert_eq!((&refused["messageType"], &refused["status"]), (&json!("error"), &json!("400")), "{text}");
    }
    client.socket.send(Message::binary(vec![1, 2, 3])).await.expect("it is open");
    assert_eq!(client.next().await["status"], "400");
    for (kind, members, status) in [
        ("invokeAction", json!({ "action": "explode" }), "404"),
        ("invokeAction", json!({ "action": "chat" }), "400"),
        ("invokeAction", json!({ "action": "chat", "input": { "messages": [] } }), "400"),
        ("readProperty", json!({ "name": "nothing" }), "404"),
        ("readMultipleProperties", json!({ "properties": ["status", "nothing"] }), "404"),
        ("writeProperty", json!({ "name": "status", "data": 1 }), "409"),
        ("observeProperty", json!({ "name": "status" }), "409"),
        ("subscribeEvent", json!({ "event": "nothing" }), "404"),
        ("somethingElse", json!({}), "400"),
        ("readProperty", json!({ "thingID": "urn:other", "name": "status" }), "404"),
    ] {
        let mut message = json!({ "thingID": client.thing, "messageID": "m-1", "messageType": kind });
        message.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        client.send(&message).await;
        let refused = client.next().await;
        assert_eq!(
            (&refused["messageType"], &refused["status"]),
            (&json!("error"), &json!(status)),
            "{kind}: {refused}"
        );
        assert!(refused["instance"].as_str().is_some_and(|at| at.starts_with("urn:uuid:")), "{refused}");
    }
    assert_eq!(client.ask("readProperty", &json!({ "name": "status" })).await["messageType"], "propertyReading");
    // More than a message may have ends the connection, and only that.
    let large = "x".repeat(2 << 20);
    let _ = client.socket.send(Message::text(large)).await;
    while let Some(Ok(message)) = client.socket.next().await {
        assert!(!message.is_text(), "{message}");
    }
    assert_eq!(
        scene.client("near").await.ask("readProperty", &json!({ "name": "status" })).await["messageType"],
        "propertyReading"
    );
}
