//! What whoever asks from elsewhere may not name: files of the node's machine; and may not be shown: secrets.

use althing_calls::Principal;
use althing_control::router;
use althing_simnet::{LinkConfig, SimNet};
use althing_simulations::mesh::{Node, file, store};
use axum::Extension;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// A node whose owner's API is served on a socket, for that principal.
struct Served {
    _node: Node,
    folder: TempDir,
}

impl Served {
    async fn to(principal: Principal) -> Served {
        let net = SimNet::new(1, LinkConfig::default());
        let node = Node::start(&net, 1, 100, &[], store()).await;
        let folder = TempDir::new().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("control.sock")).expect("a socket");
        let serving = axum::serve(listener, router(node.shared()).layer(Extension(principal)));
        tokio::spawn(async move { serving.await });
        Served { _node: node, folder }
    }

    /// The whole answer to a POST.
    async fn post(&self, path: &str, body: &Value) -> String {
        let mut connection = UnixStream::connect(self.folder.path().join("control.sock")).await.expect("it listens");
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.0\r\nHost: node\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).await.expect("it reads");
        connection.write_all(body.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.expect("it answers");
        answer
    }
}

/// Each request that may name a folder of the node's machine, with that one.
fn requests(folder: &Value) -> Vec<(&'static str, Value)> {
    let agent = json!({ "file": file("echo", "Says it again", "text.echo", "echo", "text"), "folder": folder });
    let adopted = json!({
        "at": { "command": ["true"] }, "folder": folder, "callers": "this-node", "dry_run": true,
    });
    let published = json!({ "folder": folder, "file": "agent.yaml" });
    vec![
        ("/agents", agent.clone()),
        ("/adding", agent.clone()),
        ("/run", agent.clone()),
        ("/bind", agent),
        ("/adopt", adopted),
        ("/publish", published),
    ]
}

#[tokio::test]
async fn who_asks_from_elsewhere_names_no_file_of_the_machine() {
    let served = Served::to(Principal::Token).await;
    for (path, request) in requests(&json!({ "here": "/srv/echo" })) {
        let answer = served.post(path, &request).await;
        assert!(answer.contains(r#""kind":"refused""#) && answer.contains("hand the files over"), "{path}: {answer}");
        // A run is answered line by line.
        assert!(answer.contains(if path == "/run" { " 200 " } else { " 403 " }), "{path}: {answer}");
    }
    let app = "app: desk\ngroup: team\nagents: {}\n";
    let request = json!({ "apply": { "file": app, "files": {}, "folder": "/srv", "dry_run": true } });
    let answer = served.post("/apps", &request).await;
    assert!(answer.contains(" 403 ") && answer.contains("hand the files over"), "{answer}");
    let sources = json!({
        "file": file("echo", "Says it again", "text.echo", "echo", "text"), "folder": { "upload": {} },
        "sources": ["/srv/agent.yaml"],
    });
    for path in ["/agents", "/adding"] {
        assert!(served.post(path, &sources).await.contains(" 403 "), "{path}");
    }
}

#[tokio::test]
async fn what_is_not_handed_over_is_not_read() {
    let served = Served::to(Principal::Token).await;
    for (file, with) in [("agent.yaml", json!([])), ("/etc/passwd", json!([])), ("a.yaml", json!(["../control.sock"]))]
    {
        let request = json!({ "folder": { "upload": { "a.yaml": "" } }, "file": file, "with": with });
        let answer = served.post("/publish", &request).await;
        assert!(answer.contains(" 422 ") && answer.contains("not among the files"), "{file}: {answer}");
    }
}

#[tokio::test]
async fn a_secret_is_shown_on_the_control_socket_alone() {
    let (elsewhere, here) = (Served::to(Principal::Token).await, Served::to(Principal::Local).await);
    for (path, request) in [("/network-key", json!({})), ("/tokens", json!({ "name": "maria", "scopes": ["read"] }))] {
        let answer = elsewhere.post(path, &request).await;
        assert!(answer.contains(" 403 ") && answer.contains("shows a secret"), "{path}: {answer}");
    }
    let made = here.post("/network-key", &json!({})).await;
    assert!(made.contains(" 200 ") && made.contains(r#""text":"#), "{made}");
}
