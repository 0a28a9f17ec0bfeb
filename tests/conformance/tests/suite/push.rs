//! Push notifications: each event is delivered at least once, in order and signed, to receivers that a client may name.

use std::sync::Arc;

use althing_calls::{Operation, PUSH_CONFIGS, PUSH_OUTBOX};
use althing_conformance::disk::Disk;
use althing_conformance::gateway::Gateway;
use althing_conformance::mesh::{Node, Setup, file, message, store};
use althing_conformance::receiver::{Received, Receiver};
use althing_protocol::{AgentId, PublicKey, digest, hex};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Family, Range, Store};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A node that sends notifications to loopback, where `nets` says so.
async fn node(net: &SimNet, number: u32, nets: &[&str], disk: Arc<dyn Store>) -> (Node, AgentId) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let push = Some(nets.iter().map(|net| net.parse().expect("a net")).collect());
    let node = Node::assemble(net, Setup { push, ..Setup::new(net, number, number * 100) }, disk).await;
    let name = format!("actor{number}");
    let id = node.host_for_anyone(&file(&name, "does as it is told", &format!("acting.{name}"), "do", "play")).await;
    (node, id)
}

const LOOPBACK: &[&str] = &["127.0.0.0/8"];

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default())
}

/// The parameters that send a text and name a receiver.
fn told(text: &str, url: &str) -> Value {
    let authentication = json!({ "scheme": "Bearer", "credentials": "the receiver's secret" });
    let config = json!({ "url": url, "token": "the client's token", "authentication": authentication });
    let mut params = message(text);
    params["configuration"] = json!({ "returnImmediately": true, "taskPushNotificationConfig": config });
    params
}

/// The claims of a notification, whose signature verifies with a key of `keys`.
fn verified(received: &Received, keys: &Value) -> Value {
    let token = &received.headers["x-a2a-notification-signature"];
    let (input, signature) = token.rsplit_once('.').expect("three parts");
    let read = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64url");
    let (header, claims) = input.split_once('.').expect("two parts");
    let [header, claims]: [Value; 2] = [header, claims].map(|part| serde_json::from_slice(&read(part)).expect("JSON"));
    let keys = keys["keys"].as_array().expect("keys");
    let key = keys.iter().find(|key| key["kid"] == header["kid"]).expect("the key is published");
    let x: [u8; 32] = read(key["x"].as_str().expect("a text")).try_into().expect("32 bytes");
    let key = PublicKey::from_bytes(x).expect("a key");
    assert!(key.verifies(input.as_bytes(), &read(signature).try_into().expect("64 bytes")), "the signature");
    assert_eq!(claims["iss"], key.did());
    assert_eq!(claims["request_body_sha256"], hex(&digest(&received.body)));
    claims
}

/// What an event says, in short.
fn short(event: &Value) -> String {
    let state =
        |status: &Value| status["state"].as_str().expect("a state").trim_start_matches("TASK_STATE_").to_owned();
    match event.as_object().expect("an object").iter().next().expect("one member") {
        (kind, value) if kind == "statusUpdate" => state(&value["status"]),
        (kind, value) if kind == "artifactUpdate" => {
            value["artifact"]["parts"][0]["text"].as_str().expect("a text").to_owned()
        }
        (kind, value) => format!("{kind} {}", state(&value["status"])),
    }
}

fn rows(node: &Node, family: Family) -> usize {
    node.store.scan(family, Range::all(1_000)).expect("readable").len()
}

/// Waits until something on a node's disk is as it should be.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.expect("it becomes so");
}

/// P-156: the node of the task sends each event in order, until it is taken, with its signature.
#[tokio::test]
async fn a_receiver_that_fails_twice_gets_every_event_in_order_and_signed() {
    let net = net();
    let (near, here) = node(&net, 1, LOOPBACK, store()).await;
    let (far, there) = node(&net, 2, LOOPBACK, store()).await;
    near.connect(&far).await;
    near.calls.find_hosts(&there).await;
    let gateway = Gateway::start(&near, None).await;
    let keys = gateway.get("/.well-known/jwks.json").await.json();
    for (agent, host) in [(&here, &near), (&there, &far)] {
        let mut receiver = Receiver::start(&["503 Busy", "500 Oops"]).await;
        let sent = near.one(agent, Operation::SendMessage, told("pieces", &receiver.url)).await.expect("a task");
        let task = &sent["task"]["id"];
        let tries = [receiver.next().await, receiver.next().await, receiver.next().await];
        assert_eq!(tries.each_ref().map(|one| one.status), [503, 500, 200]);
        let claims = tries.each_ref().map(|one| verified(one, &keys));
        assert!(claims.iter().all(|one| one["jti"] == claims[0]["jti"] && one["aud"] == *receiver.url));
        assert_eq!((&claims[0]["iss"], &claims[0]["taskId"]), (&json!(host.key.public().did()), task));
        let [.., first] = tries;
        let headers = |name: &str| first.headers[name].as_str();
        assert_eq!(headers("content-type"), "application/a2a+json");
        assert_eq!(headers("x-a2a-notification-token"), "the client's token");
        assert_eq!(headers("authorization"), "Bearer the receiver's secret");
        let mut heard = vec![short(&first.json())];
        while heard.last().is_some_and(|last| last != "COMPLETED") {
            let next = receiver.next().await;
            verified(&next, &keys);
            heard.push(short(&next.json()));
        }
        let mut expected = vec!["WORKING"];
        ["0 ", "1 ", "2 ", "3 ", "4 "].iter().for_each(|piece| expected.extend([*piece, "WORKING"]));
        expected.push("COMPLETED");
        assert_eq!(heard, expected);
        until(|| rows(host, PUSH_OUTBOX) == 0).await;
        assert!(receiver.is_idle(), "what was taken is not sent again");
    }
}

#[tokio::test]
async fn what_nobody_took_is_delivered_after_a_power_cut() {
    let disk = Arc::new(Disk::prompt());
    let mut receiver = Receiver::start(&["503 Busy"; 100]).await;
    let (before, agent) = node(&net(), 1, LOOPBACK, disk.clone()).await;
    let sent = before.one(&agent, Operation::SendMessage, told("hello", &receiver.url)).await.expect("a task");
    let by_id = json!({ "id": sent["task"]["id"] });
    let over = || async {
        before.one(&agent, Operation::GetTask, by_id.clone()).await.expect("a task")["status"]["state"]
            == "TASK_STATE_COMPLETED"
    };
    while !over().await {
        tokio::task::yield_now().await;
    }
    let running = before.one(&agent, Operation::SendMessage, told("stuck", &receiver.url)).await.expect("a task");
    assert_eq!(receiver.next().await.status, 503);
    let left = disk.after_power_cut();
    drop(before);
    let kept = left.scan(PUSH_OUTBOX, Range::all(1_000)).expect("readable");
    assert!(!kept.is_empty(), "the end of the first task is on disk with it");

    receiver.answer(&[]);
    let (after, _) = node(&net(), 1, LOOPBACK, left).await;
    // Its own outbox empties: what it kept was delivered by it, whatever the other one still does.
    until(|| rows(&after, PUSH_OUTBOX) == 0).await;
    let mut ended = std::collections::BTreeMap::new();
    while ended.len() < 2 {
        let event = receiver.next().await.json();
        let (task, status) = match (event.get("task"), event.get("statusUpdate")) {
            (Some(task), _) => (task["id"].clone(), task["status"]["state"].clone()),
            (_, Some(update)) => (update["taskId"].clone(), update["status"]["state"].clone()),
            _ => continue,
        };
        if status != "TASK_STATE_WORKING" {
            ended.insert(task.to_string(), status);
        }
    }
    let of = |sent: &Value| ended[&sent["task"]["id"].to_string()].as_str().map(str::to_owned);
    assert_eq!(of(&sent).as_deref(), Some("TASK_STATE_COMPLETED"));
    assert_eq!(of(&running).as_deref(), Some("TASK_STATE_FAILED"), "the node ended while it ran");
    assert_eq!(rows(&after, PUSH_CONFIGS), 2, "who is told is kept");
}

/// P-156: nothing is sent to addresses that the internet does not route.
#[tokio::test]
async fn no_notification_leads_into_a_private_net() {
    let (node, agent) = node(&net(), 1, &[], store()).await;
    let mut receiver = Receiver::start(&[]).await;
    let port = receiver.url.split(':').nth(2).expect("a port").to_owned();
    let task = node.begin(&agent, "ask").await;
    let hostile = [
        receiver.url.clone(),
        format!("http://localhost:{port}"),
        format!("http://[::1]:{port}"),
        format!("http://0x7f.1:{port}"),
        format!("http://me:secret@192.0.43.7:{port}"),
        "http://169.254.169.254/latest".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "ftp://192.0.43.7/".to_owned(),
        "http://192.0.43.7:22/".to_owned(),
        "no URL".to_owned(),
    ];
    for url in &hostile {
        let create = json!({ "taskId": task, "url": url });
        for (operation, params) in [(Operation::CreatePushConfig, create), (Operation::SendMessage, told("hello", url))]
        {
            let error = node.one(&agent, operation, params).await.expect_err("a refusal");
            assert_eq!(error.reason(), "INVALID_PARAMS", "{url}");
            assert!(!error.message.contains("loopback") && !error.message.contains("private ("), "{}", error.message);
        }
    }
    assert!(receiver.is_idle() && rows(&node, PUSH_CONFIGS) == 0);
    let listed = node.one(&agent, Operation::ListTasks, json!({})).await.expect("a list");
    assert_eq!(listed["totalSize"], 1, "a message that is refused begins no task");
}

/// P-156: redirects are not followed, and 410 deletes the configuration.
#[tokio::test]
async fn a_redirect_is_not_followed_and_a_receiver_that_is_gone_is_told_nothing_more() {
    let (node, agent) = node(&net(), 1, LOOPBACK, store()).await;
    let mut other = Receiver::start(&[]).await;
    let to_other = format!("307 Elsewhere\r\nlocation: {}", other.url);
    let mut receiver = Receiver::start(&[&to_other, "410 Gone"]).await;
    node.one(&agent, Operation::SendMessage, told("hello", &receiver.url)).await.expect("a task");
    assert_eq!(receiver.next().await.status, 307);
    assert_eq!(receiver.next().await.status, 410);
    until(|| rows(&node, PUSH_CONFIGS) == 0 && rows(&node, PUSH_OUTBOX) == 0).await;
    assert!(other.is_idle(), "a notification is for whom the client named");
}

#[tokio::test]
async fn the_operations_are_the_same_in_both_http_bindings() {
    let net = net();
    let (near, here) = node(&net, 1, LOOPBACK, store()).await;
    let (far, there) = node(&net, 2, LOOPBACK, store()).await;
    near.connect(&far).await;
    let mut receiver = Receiver::start(&[]).await;
    let gateway = Gateway::start(&near, None).await;
    for agent in [&here, &there] {
        near.calls.find_hosts(agent).await;
        let task = near.begin(agent, "ask").await.as_str().expect("an id").to_owned();
        let rpc = async |method: &str, params: Value| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let request = gateway.request("POST", &format!("/a2a/{agent}")).header("a2a-version", "1.0").json(&body);
            gateway.send(request).await.json()
        };
        let rest = async |method: &str, path: &str, body: Option<Value>| {
            let path = format!("/a2a/{agent}/tasks/{task}/pushNotificationConfigs{path}");
            let mut request = gateway.request(method, &path).header("a2a-version", "1.0");
            if let Some(body) = body {
                request = request.json(&body);
            }
            gateway.send(request).await
        };
        let (url, id) = (&receiver.url, "mine");
        let made = rpc("CreateTaskPushNotificationConfig", json!({ "taskId": task, "id": id, "url": url })).await;
        assert_eq!(made["result"], json!({ "taskId": task, "id": id, "url": url }));
        assert_eq!(rest("GET", "/mine", None).await.json(), made["result"]);
        let second = rest("POST", "", Some(json!({ "url": url, "token": "t" }))).await.json();
        assert_eq!(second, json!({ "taskId": task, "id": task, "url": url, "token": "t" }), "its id is the task's");
        let both = rpc("ListTaskPushNotificationConfigs", json!({ "taskId": task })).await;
        assert_eq!(both["result"]["configs"].as_array().map(Vec::len), Some(2), "{both}");
        let page = rest("GET", "?pageSize=1", None).await.json();
        let token = page["nextPageToken"].as_str().expect("there is more");
        let rest_of_it = rest("GET", &format!("?pageSize=1&pageToken={token}"), None).await.json();
        assert_eq!(rest_of_it.get("nextPageToken"), None);
        assert_ne!(page["configs"][0]["id"], rest_of_it["configs"][0]["id"]);
        assert_eq!(rest("DELETE", &format!("/{task}"), None).await.json(), json!({}));
        let gone = rpc("DeleteTaskPushNotificationConfig", json!({ "taskId": task, "id": task })).await;
        assert_eq!(gone["result"], json!({}), "deleting it again is no error");
        let none = rest("GET", &format!("/{task}"), None).await;
        assert_eq!((none.status, &none.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
        let of_none = rpc("GetTaskPushNotificationConfig", json!({ "taskId": "none", "id": id })).await;
        assert_eq!(of_none["error"]["code"], -32_001, "{of_none}");
        let cancelled = near.one(agent, Operation::CancelTask, json!({ "id": task })).await.expect("it ends");
        assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
        assert_eq!(short(&receiver.next().await.json()), "CANCELED");
        let card = gateway.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).await.json();
        assert_eq!(card["capabilities"]["pushNotifications"], true);
    }
}

#[tokio::test]
async fn a_node_that_sends_none_says_so() {
    let node = Node::start(&net(), 1, 100, &[], store()).await;
    let agent = node.host(&file("actor", "does as it is told", "acting.do", "do", "play")).await;
    let task = node.begin(&agent, "ask").await;
    let create = json!({ "taskId": task, "url": "https://hooks.example/" });
    for (operation, params) in [
        (Operation::CreatePushConfig, create),
        (Operation::ListPushConfigs, json!({ "taskId": task })),
        (Operation::SendMessage, told("hello", "https://hooks.example/")),
    ] {
        let error = node.one(&agent, operation, params).await.expect_err("a refusal");
        assert_eq!(error.reason(), "PUSH_NOTIFICATION_NOT_SUPPORTED", "{operation:?}");
    }
    let gateway = Gateway::start(&node, None).await;
    let card = gateway.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).await.json();
    assert_eq!(card["capabilities"].get("pushNotifications"), None);
}
