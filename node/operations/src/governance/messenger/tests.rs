use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tests::started;

fn notice(way: ReachSpec) -> Notice {
    Notice { ask: [7; 16], person: "grace".to_owned(), way, attempt: 1, is_escalation: false }
}

/// An address that answers one request with a status line; gives what came.
async fn receiver(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let (mut came, mut buffer) = (Vec::new(), [0; 4_096]);
        while !came.ends_with(b"the end\"}") {
            let read = stream.read(&mut buffer).await.expect("it is readable");
            assert!(read > 0, "it broke off");
            came.extend_from_slice(&buffer[..read]);
        }
        let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.expect("it is writable");
        String::from_utf8(came).expect("text")
    });
    (url, serving)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_an_address_has_the_token_of_the_node_s_secret_and_must_be_taken() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    Secrets::of(folder.path()).set("push", "s3cret").expect("it is stored");
    let messenger = Messenger::new(node.data(), node.calls.clone(), node.host.clone());
    let body = json!({ "id": "07", "last": "the end" });
    let (url, came) = receiver("204 Taken").await;
    let way = ReachSpec::Url { url, secret: Some("push".to_owned()) };
    messenger.send(&notice(way), &body).await.expect("it is taken");
    let came = came.await.expect("no panic");
    assert!(came.starts_with("POST /hook ") && came.contains("Bearer s3cret"), "{came}");
    assert!(came.ends_with(&body.to_string()), "{came}");
    for answer in ["503 Busy", "302 Elsewhere"] {
        let (url, came) = receiver(answer).await;
        let way = ReachSpec::Url { url, secret: None };
        let refused = messenger.send(&notice(way), &body).await.expect_err("it is not taken");
        assert!(matches!(refused, DeliveryError::Status(503 | 302)), "{refused}");
        came.await.expect("no panic");
    }
    let way = ReachSpec::Url { url: "http://127.0.0.1:9/".to_owned(), secret: Some("other".to_owned()) };
    let refused = messenger.send(&notice(way), &body).await.expect_err("there is no such secret");
    assert!(matches!(refused, DeliveryError::NoSecret(ref name) if name == "other"), "{refused}");
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reads_the_message_and_must_end_well() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let messenger = Messenger::new(node.data(), node.calls.clone(), node.host.clone());
    let place = tempfile::TempDir::new().expect("a folder");
    let told = place.path().join("told");
    let script = |script: String| ReachSpec::Command {
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script],
        sandbox: Sandbox { write: vec![place.path().to_owned()], ..Sandbox::default() },
    };
    let body = json!({ "id": "07", "text": "a; rm -rf \"$HOME\" `id`" });
    messenger.send(&notice(script(format!("cat > '{}'", told.display()))), &body).await.expect("it ends well");
    let read: Value = serde_json::from_slice(&std::fs::read(&told).expect("it was written")).expect("JSON");
    assert_eq!(read, body, "no shell reads it");
    messenger.send(&notice(script("exec true".to_owned())), &body).await.expect("it need not read");
    let failed = messenger.send(&notice(script("exit 3".to_owned())), &body).await.expect_err("it fails");
    assert!(matches!(failed, DeliveryError::Command(ErrandError::Exit { .. })), "{failed}");
    assert!(failed.to_string().contains('3'), "{failed}");
    let missing = ReachSpec::Command { command: vec!["/nowhere/tell".to_owned()], sandbox: Sandbox::default() };
    let missing = messenger.send(&notice(missing), &body).await.expect_err("it is not there");
    assert!(matches!(missing, DeliveryError::Command(ErrandError::Job { .. })), "{missing}");
    node.shut_down().await;
}
